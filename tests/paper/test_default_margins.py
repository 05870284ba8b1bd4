"""The default beside simple densities, on results that are written down here."""

import pytest

from flatpc.paper.cells import Cell, Result
from flatpc.paper.comparison import Comparison
from flatpc.paper.default_margins import default_margins, loses, margins, trials_in_words
from flatpc.paper.tables import TABLES


def result(method, trial, nll, dataset="spiral", fraction=0.05):
    cell = Cell("table1", dataset, fraction, trial, method, "ours")
    return Result(cell, cell.key(TABLES["table1"].settings["ours"]), "0", 1.0, {"test_nll": nll}, "")


def compared(*results):
    return Comparison(TABLES["table1"], results, "ours")


def test_margins_are_paired_by_trial():
    found = compared(*[result("default", t, 2.0 + t) for t in range(3)], *[result("kde", t, 2.5 + t) for t in (0, 1)])
    assert margins(found, "spiral", 0.05, "kde") == pytest.approx([0.5, 0.5])
    assert margins(found, "spiral", 0.05, "normal") == []
    assert trials_in_words(found) == "1 of 40 cells, 3 of 5 trials each"


@pytest.mark.parametrize(
    ("found", "lost"), [([], False), ([-0.1], True), ([0.1], False), ([-0.1, -0.11, -0.09], True), ([-0.3, 0.2, -0.1], False)]
)
def test_a_cell_is_lost_beyond_two_standard_errors(found, lost):
    assert loses(found) == lost


def test_lost_cells_have_names():
    head, rows = default_margins(compared(result("default", 0, 2.0), result("kde", 0, 1.5), result("normal", 0, 2.8)))
    by = {row[0]: row[1:] for row in rows}
    assert head[2] == "5%"
    assert by["a kernel density"][1] == "−0.50"
    assert by["a kernel density"][-1] == "spiral 5%"
    assert by["N(0, I)"][-1] == "none"
    assert by["one Gaussian"][1] == "not run"
    assert default_margins(compared(result("kde", 0, 1.5)))[1] == []
