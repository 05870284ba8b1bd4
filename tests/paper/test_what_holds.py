"""What the docs promise of the committed results."""

from pathlib import Path

import pytest

from flatpc.paper.baselines import off_the_papers
from flatpc.paper.default_margins import default_margins
from flatpc.paper.report import compare
from flatpc.paper.tables import FRACTIONS
from flatpc.paper.verdicts import Verdict, decide

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture(scope="module")
def by_protocol():
    return {name: {c.protocol: c for c in found} for name, found in compare(RESULTS, kept=True).items()}


@pytest.mark.parametrize("table", ["table1", "table2"])
@pytest.mark.parametrize("protocol", ["text", "code", "ours"])
def test_every_cell_has_been_run_under_every_protocol(by_protocol, table, protocol):
    assert by_protocol[table][protocol].missing() == []


@pytest.mark.parametrize("fraction", FRACTIONS[1:])
def test_plain_models_of_the_authors_code_are_as_good_as_in_the_paper(by_protocol, fraction):
    assert abs(off_the_papers(by_protocol["table1"]["code"], fraction)) < 15


@pytest.mark.parametrize("table", ["table1", "table2"])
@pytest.mark.parametrize("fraction", FRACTIONS)
def test_what_we_recommend_is_nowhere_worse_than_plain(by_protocol, table, fraction):
    assert decide(by_protocol[table]["ours"].mean_gain(fraction, "nll")) is not Verdict.REFUTED


def test_the_default_is_lost_to_no_simple_density(by_protocol):
    _, rows = default_margins(by_protocol["table1"]["ours"])
    assert len(rows) == 4
    for name, *margins, lost in rows:
        assert lost == "none", name
        assert sum(map(float, (margin.replace("−", "-") for margin in margins))) > 0, name
