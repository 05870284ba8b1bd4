"""What more rows are worth: the splits, what is measured, and what the page says."""

from pathlib import Path

import numpy as np
import pytest

from flatpc.paper.cells import Cell, Result
from flatpc.paper.more_rows import METHODS, SIZES, TABLE, TRIALS, Settings, as_markdown, missing, run_cell, split
from flatpc.paper.results import read_table

RESULTS = Path(__file__).parents[2] / "results"


def test_the_same_rows_are_tested_on_and_fewer_are_part_of_more():
    few, many = (split("sklearn/wine", size, seed=1) for size in (50, 1_000))
    np.testing.assert_array_equal(few.test, many.test)
    np.testing.assert_array_equal(few.train, many.train[:50])
    assert (len(few.train), len(few.valid), len(many.train), len(many.test)) == (50, 0, 160, 18)
    assert not np.array_equal(few.test, split("sklearn/wine", 50, seed=2).test)


def test_all_rows_but_a_tenth():
    reason = missing(Cell("more-rows", TABLE, 1.0, 0, METHODS[0], "text"))
    if reason:
        pytest.skip(reason)
    data = split(TABLE, SIZES[-1], seed=0)
    assert (len(data.train), len(data.test)) == (SIZES[-1], 5_394)


def test_a_cell_of_a_small_table():
    found = run_cell(Cell("more-rows", "sklearn/wine", 1.0, 0, "rows=100", "text"), Settings(effort=0.5))
    assert found["rows"] == 100
    assert 15 < found["bounded_nll"] < 30
    assert found["parameters"] > 10


def test_the_page_shows_seeds_that_have_all_sizes():
    def run(trial: int, size: int, nll: float) -> Result:
        cell = Cell("more-rows", TABLE, 1.0, trial, f"rows={size}", "text")
        return Result(cell, f"{trial}{size}", "0", 1.0, {"test_nll": nll, "bounded_nll": nll + 1})

    whole = [run(0, size, nll) for size, nll in zip(SIZES, (3.0, 2.0, 1.0), strict=True)]
    assert "Not run yet" in as_markdown(whole[:2])
    page = as_markdown([*whole, run(1, SIZES[0], 9.0)])
    assert "one seed" in page
    assert "| 3,200 | −4.00 | −3.00 |" in page
    assert "Both scores rise" in page
    worse = as_markdown([*whole[:2], run(0, SIZES[2], 2.5)])
    assert "do not rise from 12,000 to 48,546 rows" in worse


def test_in_the_committed_runs_more_rows_are_better():
    runs = read_table(RESULTS / "more-rows.csv", "more-rows")
    for score, least in {"test_nll": 0.5, "bounded_nll": 1.0}.items():
        nlls = np.full((len(TRIALS), len(SIZES)), np.nan)
        for run in runs:
            nlls[run.cell.trial, SIZES.index(int(run.metrics["rows"]))] = run.metrics[score]
        assert (np.diff(nlls.mean(axis=0)) < 0).all()
        assert (nlls[:, -1] < nlls[:, 0] - least).all()
        assert nlls[:, -1].mean() < nlls[:, 0].mean() - 1
