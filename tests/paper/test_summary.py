"""The committed results: what the paper claims of its method, and what the docs say about it."""

import math
import runpy
from dataclasses import replace
from pathlib import Path

import pytest

from flatpc.datasets import DEBD
from flatpc.paper import full_data, never_lose_table
from flatpc.paper.cells import Cell, Result
from flatpc.paper.claims import CLAIMS
from flatpc.paper.comparison import Comparison
from flatpc.paper.cost import table_cost
from flatpc.paper.never_lose import CONTENDERS
from flatpc.paper.report import compare
from flatpc.paper.results import Results, read_table
from flatpc.paper.summary import summary
from flatpc.paper.tables import FRACTIONS, TABLES

PROJECT = Path(__file__).parents[2]
RESULTS = PROJECT / "results"


@pytest.fixture(scope="module")
def found():
    return compare(RESULTS, kept=True)


@pytest.mark.parametrize(("table", "protocol"), [("table1", "code"), ("table2", "code")])
def test_with_the_fewest_rows_every_claim_holds(found, table, protocol):
    """With 1% of the rows the regularised model has the better NLL, overfits less and is less sharp."""
    (ours,) = (comparison for comparison in found[table] if comparison.protocol == protocol)
    claims = [claim for claim in CLAIMS if claim.table == table and claim.fractions == (0.01,)]
    assert len(claims) == 3
    for claim in claims:
        assert claim.verdict(ours) == "confirmed", claim


def test_the_sharpness_of_table_2_with_all_rows_is_undecided(found):
    """As long as its mean is within two standard errors of nothing."""
    for comparison in found["table2"]:
        mean = comparison.mean_gain(1.0, "sharpness")
        (claim,) = (c for c in CLAIMS if c.table == "table2" and c.text == "is less sharp at every fraction")
        if mean is not None and 0 < mean.value < 2 * mean.error:
            assert claim.verdict(comparison) in ("undecided", "refuted")


def test_the_docs_have_the_results(found):
    written = runpy.run_path(str(PROJECT / "docs" / "write_results.py"))
    expected = written["texts"]()
    for name, text in expected.items():
        assert (PROJECT / "docs" / name).read_text() == text, "run: python docs/write_results.py"
    for page, blocks in written["blocks"]().items():
        assert (PROJECT / page).read_text() == written["filled"](page, blocks), "run: python docs/write_results.py"
    assert all(claim.text in expected["results-summary.md"] for claim in CLAIMS)


def test_results_are_whole(found):
    """Of the committed rows none is there twice, and each has the key that its configuration has now."""
    for name in TABLES:
        results = read_table(RESULTS / f"{name}.csv", name)
        for result in results:
            assert result.key == result.cell.key(TABLES[name].settings[result.cell.protocol])
            assert all(math.isfinite(value) for value in result.metrics.values()), result.cell
        assert len({result.cell for result in results}) == len(results)


def test_a_summary_of_nothing(tmp_path):
    assert "not run" in summary(compare(tmp_path))


@pytest.fixture(scope="module")
def cells():
    return never_lose_table.standings(Results(RESULTS, "never-lose").kept())


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
    found = full_data.entries(Results(RESULTS, "full-data").kept())
    assert [entry.dataset for entry in found] == sorted(DEBD)
    ours = sum(entry.ours for entry in found) / len(found)
    best = max(sum(entry.others[i] for entry in found) / len(found) for i in range(3))
    assert best == pytest.approx(-53.58, abs=0.005)
    assert ours > best


def test_what_a_whole_table_takes():
    """Two trials of two models of one data set at 1%: the rest by these, and with more rows in proportion."""
    table = replace(TABLES["table1"], datasets=("spiral",))
    runs = [
        Result(Cell("table1", "spiral", 0.01, trial, method, "text"), f"{trial}{method}", "0", seconds, {"valid_nll": 1.0})
        for trial in (0, 1)
        for method, seconds in (("plain", 36.0), ("mu=0.1", 108.0))
    ]
    cost = table_cost(Comparison(table, runs))
    assert (cost.ran, cost.whole, cost.spent) == (4, 5 * 5 * 2, pytest.approx(0.08))
    usual = 0.02  # hours of a run at 1%
    assert cost.hours == pytest.approx(0.08 + 6 * usual + 10 * usual * (5 + 10 + 50 + 100))
    assert table_cost(Comparison(table, [])) is None
