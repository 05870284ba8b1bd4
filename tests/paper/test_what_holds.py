"""What the docs promise of the committed results."""

from pathlib import Path

import pytest

from flatpc.paper import people_page
from flatpc.paper.baselines import off_the_papers
from flatpc.paper.default_margins import default_margins
from flatpc.paper.people import TABLES, TRIALS
from flatpc.paper.report import compare
from flatpc.paper.results import read_table
from flatpc.paper.tables import FRACTIONS
from flatpc.paper.verdicts import Verdict, decide

RESULTS = Path(__file__).parents[2] / "results"
CLASSIC = ("independent", "mixture", "kde", "learnspn")


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


# ---- people's tables -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tables():
    return people_page.found(read_table(RESULTS / "tables.csv", "tables"))


def bounded(measured, rival):
    return people_page.pair(measured.get("default", {}), measured.get(rival, {}), "bounded")


@pytest.mark.parametrize("rival", CLASSIC)
def test_the_default_is_lost_to_no_classic_rival_on_any_table(tables, rival):
    pairs = {name: found for name, measured in tables.items() if (found := bounded(measured, rival)) is not None}
    assert len(pairs) == len(TABLES)
    assert [name for name, found in pairs.items() if found.verdict == "lost"] == []


@pytest.mark.parametrize("method", ["default", *people_page.RIVALS])
def test_every_table_was_run_three_times(tables, method):
    assert [name for name, measured in tables.items() if set(measured.get(method, {})) != set(TRIALS)] == []
    assert len(tables) == len(TABLES)


def test_nothing_is_lost_in_the_plain_score_but_to_spikes(tables):
    for name, measured in tables.items():
        for rival in CLASSIC:
            if people_page.pair(measured["default"], measured[rival], "plain").verdict == "lost":
                found = people_page.without_spikes(measured, rival)
                assert found is not None, (name, rival)
                assert (found.seeds, found.verdict) in ((3, "won"), (3, "tied")), (name, rival)


def test_at_most_three_tables_are_lost_to_the_flow(tables):
    lost = [name for name, measured in tables.items() if bounded(measured, "flow").verdict == "lost"]
    assert len(lost) <= 3


def test_no_value_drawn_from_the_default_is_outside_of_its_column(tables):
    for name, measured in tables.items():
        counted = [found["outside"] for found in measured["default"].values() if "outside" in found]
        assert len(counted) >= 2, name
        assert set(counted) == {0.0}, name


def test_it_wins_on_half_of_the_tables_and_more(tables):
    won = [name for name, measured in tables.items() if all(bounded(measured, rival).verdict == "won" for rival in CLASSIC)]
    assert len(won) >= len(TABLES) / 2


@pytest.mark.parametrize("name", people_page.published())
def test_it_is_ahead_of_all_that_runs_here_on_published_tables(tables, name):
    measured = tables[f"mixed/{name}"]
    ours = people_page.mean_score(measured["default"], "bounded")
    assert ours > max(people_page.mean_score(measured[rival], "bounded") for rival in people_page.RIVALS if rival in measured)
    if name in people_page.DISCRETE:
        assert ours > max(people_page.published()[name].values())
