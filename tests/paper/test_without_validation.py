"""Our default without validation rows: twenty cells that are named here, all of them won, and some of them run again."""

import os
from pathlib import Path

import numpy as np
import pytest

import flatpc as fp
from flatpc.datasets import DEBD
from flatpc.paper.cells import Cell, Result
from flatpc.paper.results import read_table
from flatpc.paper.tables import table
from flatpc.paper.verify import compare
from flatpc.paper.without_validation import CONTENDERS, PLACES, Settings, as_markdown, cross_validated, entries
from flatpc.search import work

RESULTS = Path(__file__).parents[2] / "results"
CELLS = [
    ("accidents", 0.01), ("ad", 0.05), ("baudio", 0.1), ("bbc", 0.01), ("bnetflix", 0.05), ("book", 0.1), ("c20ng", 0.01),
    ("cr52", 0.05), ("cwebkb", 0.1), ("dna", 0.01), ("jester", 0.05), ("kdd", 0.1), ("kosarek", 0.01), ("msnbc", 0.05),
    ("msweb", 0.1), ("nltcs", 0.01), ("plants", 0.05), ("pumsb_star", 0.1), ("tmovie", 0.01), ("tretail", 0.05),
]  # fmt: skip
NAME = "without-validation"


@pytest.fixture(scope="module")
def committed():
    return read_table(RESULTS / f"{NAME}.csv", NAME)


def test_the_cells_are_every_data_set_once_with_the_fractions_in_turn():
    assert list(PLACES) == CELLS
    assert {name for name, _ in PLACES} == set(DEBD)
    cells = table(NAME).cells()
    assert len(cells) == 60
    assert {(cell.dataset, cell.fraction) for cell in cells} == set(CELLS)
    assert {cell.trial for cell in cells} == {5}
    # The rows are others than those of the other experiments.
    assert 5 not in table("never-lose").trials
    assert Settings().effort == "normal"


def test_the_default_has_won_all_twenty(committed):
    """`tests/paper/test_summary.py` checks that each row has the key of its cell and settings."""
    assert {row.cell for row in committed} == set(table(NAME).cells())
    found = entries(committed)
    assert [(entry.dataset, entry.fraction) for entry in found] == CELLS
    for entry in found:
        assert entry.margin > 0, entry


@pytest.mark.skipif(not os.environ.get("FLATPC_DATA"), reason="FLATPC_DATA does not name the folder of the data sets")
@pytest.mark.parametrize("method", CONTENDERS)
def test_a_cell_run_again_gives_what_is_committed(method, committed, monkeypatch):
    """The smallest one, at its real effort."""
    monkeypatch.setitem(work.EFFORTS, "normal", 30.0)
    row = next(row for row in committed if (row.cell.dataset, row.cell.method) == ("nltcs", method))
    assert compare(row, table(NAME)).passes


def test_the_smoothing_is_the_one_that_left_out_rows_like_best():
    rows = (np.cumsum(np.random.default_rng(0).random((47, 5)) < 0.2, axis=1) % 2).astype(float)
    plans = Settings().plans("chow_liu")
    best, nll = cross_validated(rows, plans, 10, seed=0)
    order = np.random.default_rng(0).permutation(47)
    total = np.zeros(len(plans))
    for fold in range(10):
        judges = order[fold::10]
        others = np.delete(rows, judges, axis=0)
        for i, plan in enumerate(plans):
            total[i] -= fp.structures.chow_liu(others, family="bernoulli", **plan.options).log_prob(rows[judges]).sum()
    assert (best, nll) == (plans[int(np.argmin(total))], pytest.approx(total.min() / 47, rel=1e-9))


def test_the_table():
    def results(default):
        nll = {"factorized": 9.0, "chow_liu": 8.0, "default": default}
        cells = ((Cell(NAME, "nltcs", 0.01, 5, method, "text"), value) for method, value in nll.items())
        return [Result(cell, "", "", 1.0, {"test_nll": value, "rows": 161.0}) for cell, value in cells]

    won = as_markdown(entries(results(7.5)))
    assert "| nltcs 1% | 161 | 9.000 | 8.000 | 7.500 | 0.500 |" in won
    assert "in 1 of 1 cells" in won
    lost = as_markdown(entries(results(8.25)))
    assert "| −0.250 |" in lost
    assert "in 0 of 1 cells" in lost
    # A cell with a contender missing is none.
    assert "flatpc reproduce without-validation" in as_markdown(entries(results(7.5)[:2]))
