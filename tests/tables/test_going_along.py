"""Whole numbers that go along with other numbers are rounded ones; others are counts."""

import numpy as np
import polars as pl
import pytest

import flatpc as fp
from flatpc.tables.going_along import rounded_numbers
from flatpc.tables.reading import read_raw


def bills(n=400, seed=0):
    rng = np.random.default_rng(seed)
    months = rng.integers(0, 73, n)
    return pl.DataFrame({"months": months, "paid": np.round(months * rng.normal(20, 3, n), 2), "calls": rng.poisson(4, n)})


def test_months_go_along_with_what_was_paid():
    columns = fp.tables.Columns.learn(bills())
    assert columns.kinds == {"months": "continuous", "paid": "continuous", "calls": "count"}
    assert columns.columns[0].why == "whole numbers that go along with paid"
    assert fp.tables.kinds(bills(), overrides={"months": "count"})["months"] == "count"


def test_counts_may_go_along_with_each_other():
    rng = np.random.default_rng(1)
    first = rng.integers(0, 100, 300)
    table = pl.DataFrame({"first": first, "second": np.maximum(first + rng.integers(-3, 4, 300), 0)})
    assert rounded_numbers(read_raw(table).columns) == {"first": "second", "second": "first"}


@pytest.mark.parametrize("seed", range(5))
def test_what_goes_along_with_nothing_is_a_count(seed):
    rng = np.random.default_rng(seed)
    table = pl.DataFrame({"months": rng.integers(0, 73, 200), "paid": rng.normal(size=200)})
    assert rounded_numbers(read_raw(table).columns) == {}


def test_what_a_count_knows_better_outweighs_a_correlation():
    """Most of these are small, a few are large: a Gaussian would lose more than a third of the variance explained gains."""
    rng = np.random.default_rng(0)
    visits = rng.negative_binomial(0.4, 0.01, 2000)
    table = pl.DataFrame({"visits": visits, "miles": np.log1p(visits) + rng.normal(0, 1.5, 2000)})
    assert np.corrcoef(table["visits"].rank(), table["miles"].rank())[0, 1] > 0.65
    assert rounded_numbers(read_raw(table).columns) == {}


def test_few_values_gaps_and_columns_without_values():
    table = bills().with_columns(few=pl.col("months") // 10, gone=pl.lit(None, dtype=pl.Float64))
    assert set(rounded_numbers(read_raw(table).columns)) == {"months"}
    gaps = bills().with_columns(months=pl.when(pl.Series(np.arange(400) % 3 > 0)).then("months"))
    assert set(rounded_numbers(read_raw(gaps).columns)) == {"months"}
    assert rounded_numbers(read_raw(bills(40)).columns) == {}


def test_a_model_of_them_answers_in_whole_numbers():
    table = bills(600)
    density = fp.CircuitDensity(effort=1, verbose=False).fit(table)
    assert density.kinds_["months"] == "continuous"
    drawn = density.sample(4000, random_state=0)
    assert drawn.schema == table.schema
    assert drawn["months"].min() >= 0
    assert np.corrcoef(drawn["months"], drawn["paid"])[0, 1] > 0.9
    # Ends belong to a range: each stands for all that is rounded to it.
    each = [density.probability({"months": month}) for month in range(30, 41)]
    assert density.probability({"months": (30, 40)}) == pytest.approx(sum(each), abs=1e-12)
    assert density.probability({"months": (29.2, 40.9)}) == pytest.approx(sum(each), abs=1e-12)
    assert sum(each) == pytest.approx(drawn["months"].is_between(30, 40).mean(), abs=4.5 * np.sqrt(0.15 * 0.85 / 4000) + 0.01)
    total = density.probability({"months": (None, 29)}) + sum(each) + density.probability({"months": (41, None)})
    assert total == pytest.approx(1.0, abs=1e-12)
    given = density.sample(300, given={"months": (30, 32)}, random_state=0)["months"]
    assert set(given) == {30, 31, 32}
