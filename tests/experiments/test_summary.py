"""The committed results: what the paper claims of its method, and what the docs say about it."""

import math
import runpy
from pathlib import Path

import pytest

from flatpc.data import DEBD
from flatpc.experiments import full_data, never_lose_table
from flatpc.experiments.claims import CLAIMS, Claim
from flatpc.experiments.never_lose import CONTENDERS
from flatpc.experiments.report import compare
from flatpc.experiments.results import Results
from flatpc.experiments.summary import summary, verdict
from flatpc.experiments.tables import FRACTIONS, TABLES

PROJECT = Path(__file__).parents[2]
RESULTS = PROJECT / "results"


@pytest.fixture(scope="module")
def found():
    return compare(RESULTS)


@pytest.mark.parametrize("table", ["table1", "table2"])
@pytest.mark.parametrize("quantity", ["nll", "dof", "sharpness"])
def test_one_percent_of_the_rows(found, table, quantity):
    """With the fewest rows the regularised model has the better NLL, overfits less and is less sharp, on average."""
    comparison = found[table][0]
    ours, _, ran = comparison.wins(0.01, quantity)
    assert ran == len(TABLES[table].datasets)
    assert comparison.mean_gain(0.01, quantity).value > 0
    assert ours > ran / 2


@pytest.mark.parametrize("table", ["table1", "table2"])
def test_sharpness_falls_at_every_fraction(found, table):
    """On average, also by logarithms (in percent, one data set that rises tenfold may outweigh ten that fall), and on most."""
    for comparison in found[table]:
        for fraction in FRACTIONS:
            ours, _, ran = comparison.wins(fraction, "sharpness")
            assert ran >= (8 if table == "table1" else 12) or comparison.protocol != "text"
            for quantity in ("sharpness", "log_sharpness"):
                assert ran == 0 or comparison.mean_gain(fraction, quantity).value > 0
            assert ran == 0 or ours > ran / 2


def test_the_docs_have_the_results(found):
    expected = runpy.run_path(str(PROJECT / "docs" / "write_results.py"))["texts"]()
    for name, text in expected.items():
        assert (PROJECT / "docs" / name).read_text() == text, "run: python docs/write_results.py"
    assert all(claim.text in expected["results-summary.md"] for claim in CLAIMS)


def test_results_are_whole(found):
    """No run failed, none is there twice, and each has the key that its configuration has now."""
    for name in TABLES:
        results = Results(RESULTS, name).all()
        for key, result in results.items():
            assert not result.error, result.cell
            assert key == result.cell.key(TABLES[name].settings[result.cell.protocol])
            assert all(math.isfinite(value) for value in result.metrics.values()), result.cell
        assert len({result.cell for result in results.values()}) == len(results)


class Pretended:
    def __init__(self, protocol, value):
        self.protocol, self.value = protocol, value

    def mean_gain(self, fraction, quantity):
        from flatpc.experiments.comparison import Mean

        return None if self.value is None else Mean(self.value, 0.0, 1)


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (1.0, -1.0, "confirmed"),
        (-1.0, 1.0, "only under the authors' protocol"),
        (-1.0, -1.0, "not confirmed"),
        (-1.0, None, "not confirmed under `text`; `code` is not run"),
        (None, 1.0, "under the authors' protocol; `text` is not run"),
        (None, None, "not run"),
    ],
)
def test_verdicts(text, code, said):
    claim = Claim("table1", "is better", "nll", (0.01,))
    assert verdict(claim, {"table1": [Pretended("text", text), Pretended("code", code)]}) == said


def test_a_summary_of_nothing(tmp_path):
    assert "not run" in summary(compare(tmp_path))


@pytest.fixture(scope="module")
def cells():
    return never_lose_table.standings(Results(RESULTS, "never-lose").all().values())


def test_the_default_does_not_lose(cells):
    assert never_lose_table.count(cells) == (100, 100)


def test_every_contender_was_run_everywhere(cells):
    for cell in cells:
        assert tuple(cell.ours) == CONTENDERS


def test_a_regulariser_alone_is_worth_little(cells):
    """As the docs say; the default is worth more at every fraction."""
    default = never_lose_table.contribution(cells, "default")
    for name in ("sharpness", "laplace"):
        gains = never_lose_table.contribution(cells, name)
        for fraction in FRACTIONS:
            assert abs(gains[fraction].value) < 1
            assert fraction > 0.1 or gains[fraction].value > 0
            assert gains[fraction].value < default[fraction].value / 5


def test_where_a_rival_does_better(cells):
    """On ad with many rows, by Adam; elsewhere by next to nothing."""
    found = {(cell.dataset, cell.fraction): percent for cell, _, percent in never_lose_table.beaten(cells)}
    for fraction in (0.5, 1.0):
        assert found.pop(("ad", fraction)) > 1
    assert all(percent < 0.2 for percent in found.values())
    ad = {cell.fraction: cell.gain("adam", "plain") for cell in cells if cell.dataset == "ad"}
    assert ad[0.5] > 10
    assert ad[1.0] > 10


def test_with_all_rows_the_default_is_better_than_what_was_published():
    found = full_data.entries(Results(RESULTS, "full-data").all().values())
    assert [entry.dataset for entry in found] == sorted(DEBD)
    ours = sum(entry.ours for entry in found) / len(found)
    best = max(sum(entry.others[i] for entry in found) / len(found) for i in range(3))
    assert best == pytest.approx(-53.58, abs=0.005)
    assert ours > best
