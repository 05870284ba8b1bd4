"""Uses of a model of a table: the grid, measures on small tables, rivals at work, and what the page says."""

from pathlib import Path

import numpy as np
import pytest

from flatpc.datasets import PACKAGED, Column, TableSplits, load_packaged
from flatpc.paper.cells import Cell, Result
from flatpc.paper.results import read_table
from flatpc.paper.tables import table
from flatpc.paper.uses import rivals
from flatpc.paper.uses.cells import CLASSES, METHODS, Settings, gaps, missing, run_cell
from flatpc.paper.uses.measures import imputed, indistinguishable, odd_rows_found
from flatpc.paper.uses.page import USES, as_markdown, found, verdict

RESULTS = Path(__file__).parents[2] / "results"


def test_the_grid():
    declared = table("uses")
    assert len(declared.cells()) == len(CLASSES) * 3 * len(METHODS)
    assert set(CLASSES) <= set(PACKAGED)
    assert set(METHODS) == {method for use in USES for method in use.methods}
    assert set(declared.compared) == {use.metric for use in USES}


def test_classes_are_columns_with_categories():
    for name, target in CLASSES.items():
        if not missing(Cell("uses", name, 1.0, 0, "boosting", "text")):
            [column] = [column for column in load_packaged(name).columns if column.name == target]
            assert column.n_values >= 2


def test_what_a_package_is_missing_for_is_said(monkeypatch):
    monkeypatch.setattr("flatpc.paper.uses.cells.PACKAGES", {"copula": "no_such_package"})
    assert "no_such_package" in missing(Cell("uses", "sklearn/wine", 1.0, 0, "copula", "text"))
    assert missing(Cell("uses", "sklearn/wine", 1.0, 0, "boosting", "text")) == ""


def test_gaps_are_a_fifth_and_leave_something():
    data = load_packaged("sklearn/wine")
    hidden = gaps(data, 0)
    assert hidden.mean() == pytest.approx(0.2, abs=0.05)
    assert not hidden.all(axis=1).any()
    np.testing.assert_array_equal(hidden, gaps(data, 0))
    assert not np.array_equal(hidden, gaps(data, 1))


@pytest.mark.parametrize("method", [m for m in METHODS if m not in ("samples", "copula")])
def test_every_method_of_a_small_table(method):
    found = run_cell(Cell("uses", "sklearn/wine", 1.0, 0, method, "text"), Settings(effort=0.5))
    data = load_packaged("sklearn/wine")
    usual = imputed(data, rivals.column_means(data, np.where(gaps(data, 0), np.nan, data.test), 0), gaps(data, 0))
    for name, value in found.items():
        assert np.isfinite(value)
        if name == "number_error" and method != "column-means":
            assert value < usual["number_error"]
        if name == "wrong":
            assert value < 0.15
        if name == "found":
            assert value > 0.55


@pytest.mark.parametrize("method", ["samples", "copula"])
def test_made_up_rows(method):
    cell = Cell("uses", "sklearn/wine", 1.0, 0, method, "text")
    if missing(cell):
        pytest.skip(missing(cell))
    found = run_cell(cell, Settings(effort=0.5))
    assert 0.3 < found["told_apart"] < 0.9
    assert 0.6 < found["quality"] < 1.0


def mixed(n, seed):
    rng = np.random.default_rng(seed)
    c = rng.integers(0, 3, n).astype(float)
    return np.stack([c, 4 * c + rng.normal(size=n), rng.normal(size=n)], axis=1)


@pytest.fixture
def data():
    columns = (Column("c", ("a", "b", "d")), Column("x"), Column("y"))
    return TableSplits("t", mixed(200, 0), mixed(60, 1), mixed(100, 2), columns=columns)


def test_rows_go_to_numbers_and_back(data):
    numbers = rivals.Numbers(data)
    assert numbers.of(data.test).shape == (100, 5)
    np.testing.assert_allclose(numbers.back(numbers.of(data.test)), data.test, atol=1e-12)
    gone = data.test.copy()
    gone[:, 0] = np.nan
    assert np.isnan(numbers.of(gone)[:, :3]).all()
    assert not np.isnan(numbers.of(gone)[:, 3:]).any()


@pytest.mark.parametrize("fill", [rivals.neighbours, rivals.chained, rivals.forests])
def test_imputers_use_what_columns_tell_of_each_other(data, fill):
    hidden = np.zeros(data.test.shape, bool)
    hidden[:, 0] = True
    rows = np.where(hidden, np.nan, data.test)
    assert imputed(data, fill(data, rows, 0), hidden)["category_error"] < 0.15
    assert imputed(data, rivals.column_means(data, rows, 0), hidden)["category_error"] > 0.5
    np.testing.assert_allclose(fill(data, rows, 0)[:, 1:], data.test[:, 1:], atol=1e-12)


def test_equal_rows_can_not_be_told_apart_and_others_can(data):
    same = indistinguishable(data, mixed(100, 5), 0)["told_apart"]
    other = indistinguishable(data, mixed(100, 5)[:, [0, 2, 1]], 0)["told_apart"]
    assert same == pytest.approx(0.5, abs=0.12)
    assert other > 0.8


def test_rows_of_other_classes_are_odd(data):
    usual, test, odd = rivals.of_largest_class(data, 0)
    assert len(np.unique(usual[:, 0])) == 1
    assert (odd == (test[:, 0] != usual[0, 0])).all()
    for score in (rivals.isolation_forest, rivals.outlier_factor):
        assert odd_rows_found(score(data, 0, usual, test, 0), odd)["found"] > 0.8


def result(method, trial, **metrics):
    cell = Cell("uses", "sklearn/wine", 1.0, trial, method, "text")
    return Result(cell, cell.key(Settings()), "0", 1.0, metrics, "")


def test_the_page():
    assert "Not run yet" in as_markdown({})
    several = [result("default", s, wrong=0.1 + 0.01 * s) for s in range(3)]
    several += [result("boosting", s, wrong=0.2 + 0.012 * s) for s in range(3)]
    page = as_markdown(found(several))
    assert "| sklearn/wine | **0.110** | – | 0.212 |" in page
    assert "default against boosting: won 1, tied 0, lost 0." in page
    lost = as_markdown(found([result(r.cell.method, r.cell.trial, wrong=-r.metrics["wrong"]) for r in several]))
    assert "lost 1 (sklearn/wine)" in lost
    one = found([r for r in several if r.cell.trial == 0])["sklearn/wine"]
    assert verdict(USES[2], one["default"], one["boosting"]) == ""


def test_committed_rows_are_of_the_grid():
    rows = read_table(RESULTS / "uses.csv", "uses")
    known = {cell.key(table("uses").settings["text"]) for cell in table("uses").cells()}
    assert {row.key for row in rows} <= known


def test_an_area_below_a_half_is_chance():
    [use] = [use for use in USES if use.metric == "told_apart"]
    chance, more = ({seed: {"told_apart": x} for seed, x in enumerate(xs)} for xs in ((0.3, 0.4, 0.2), (0.5, 0.5, 0.5)))
    assert verdict(use, chance, more) == "tied"
    worse = {seed: {"told_apart": x} for seed, x in enumerate((0.7, 0.72, 0.71))}
    assert verdict(use, chance, worse) == "won"


def test_published_rows_stand_beside_ours():
    numbers = {"told_apart": 0.6, "quality": 0.95}
    runs = [Result(Cell("uses", "keel/magic", 1.0, 0, "samples", "text"), "k", "0", 1.0, numbers)]
    page = as_markdown(found(runs))
    assert "| magic | samples | 0.950 | 0.800 |" in page
    assert "| magic | TabPC | 0.987 | 0.860 |" in page  # (0.9902 + 0.9830) / 2, 0.8602
    assert "not been run yet" in as_markdown(
        found([Result(Cell("uses", "sklearn/wine", 1.0, 0, "samples", "text"), "k", "0", 1.0, numbers)])
    )
