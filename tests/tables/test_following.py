"""Rare atoms of numbers that follow from others are no states of their own; all other atoms are."""

import numpy as np
import polars as pl
import pytest

import flatpc as fp
from flatpc.tables.following import following, unexplained
from flatpc.tables.reading import read_raw


def colours(n=600, seed=0, dark=0.05):
    """Three colours, of which one is at times 0, and their brightness."""
    rng = np.random.default_rng(seed)
    red, green, blue = rng.gamma(3, 20, (3, n))
    red = np.where(rng.random(n) < dark, 0.0, red)
    return pl.DataFrame({"red": red, "green": green, "blue": blue, "light": (red + green + blue) / 3})


def found(table):
    return set(following(read_raw(table).columns))


def atoms(table, **how):
    return {column.name: column.traits.atoms for column in fp.tables.Columns.learn(table, **how).columns}


@pytest.mark.parametrize("seed", range(5))
def test_a_colour_follows_from_the_others_and_brightness(seed):
    table = colours(seed=seed)
    assert found(table) == {"red"}
    assert set(atoms(table).values()) == {()}
    columns = fp.tables.Columns.learn(table)
    assert {column.why for column in columns.columns} == {"numbers", "numbers that follow from others"}
    assert columns.columns[0].why == "numbers that follow from others"
    assert columns.columns[0].traits.bounds == (0.0, np.inf)
    assert atoms(table, kinds={"red": "continuous"})["red"] == (0.0,)


@pytest.mark.parametrize("seed", range(5))
def test_without_brightness_its_zeros_stand_out(seed):
    table = colours(seed=seed).drop("light")
    assert found(table) == set()
    assert atoms(table) == {"red": (0.0,), "green": (), "blue": ()}


def test_frequent_zeros_stand_out_though_they_follow():
    assert found(colours(dark=0.3)) == set()
    assert atoms(colours(dark=0.3))["red"] == (0.0,)


def test_a_code_stands_out_though_the_rest_follows():
    table = colours(dark=0.0)
    coded = np.where(np.random.default_rng(1).random(len(table)) < 0.05, 250.0, table["red"].to_numpy())
    assert found(table.with_columns(red=pl.Series(coded))) == set()


def test_a_code_stands_out_though_it_follows():
    table = colours(dark=0.05).with_columns(red=pl.when(pl.col("red") == 0).then(-999.0).otherwise("red"))
    inches = table.with_columns(inches=pl.col("red") / 2.54)
    assert found(inches) == set()
    assert atoms(inches)["red"] == (-999.0,)


@pytest.mark.parametrize("size", [1e-200, 1e160, 1e300])
def test_huge_and_tiny_numbers_raise_no_warning(size):
    table = colours()
    assert found(table.with_columns(pl.all() * size)) == {"red"}
    spoilt = table.with_columns(green=pl.when(pl.Series(np.arange(600) == 3)).then(size).otherwise("green"))
    found(spoilt)
    rng = np.random.default_rng(0)
    tiny = np.where(np.arange(600) == 7, size, 1e-60 * rng.normal(size=600))
    found(table.with_columns(tiny=pl.Series(tiny)))


def test_errors_of_regressions_are_those_of_least_squares():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(300, 4)) @ rng.normal(size=(4, 4)) + 5
    learnt, judges = x[:150], x[150:]
    for j in range(4):
        others = np.delete(np.arange(4), j)
        ones = np.ones((150, 1))
        fitted = np.linalg.lstsq(np.hstack([learnt[:, others], ones]), learnt[:, j], rcond=None)[0]
        errors = judges[:, j] - np.hstack([judges[:, others], ones]) @ fitted
        # The ridge moves them by 1e-9 of a variance, over the least eigenvalue.
        np.testing.assert_allclose(unexplained(learnt, judges)[:, j], errors**2 / learnt[:, j].var(), rtol=1e-5, atol=1e-8)


def test_gaps_constants_texts_and_few_rows():
    table = colours().with_columns(same=pl.lit(1.5), name=pl.Series(["a", "b"] * 300), gone=pl.lit(None, dtype=pl.Float64))
    assert found(table.drop("gone")) == {"red"}
    assert found(table) == set()  # no row is whole
    gaps = colours().with_columns(green=pl.when(pl.Series(np.arange(600) % 3 > 0)).then("green"))
    assert found(gaps) == {"red"}
    assert found(colours(40)) == set()
    assert found(colours().select("red")) == set()
    infinite = colours().with_columns(green=pl.when(pl.Series(np.arange(600) == 3)).then(np.inf).otherwise("green"))
    assert found(infinite) == set()


def test_rows_that_weigh_nothing_are_not_looked_at():
    table = colours()
    spoilt = table.with_columns(light=pl.when(pl.Series(np.arange(600) < 200)).then(0.5).otherwise("light"))
    assert atoms(spoilt)["red"] == (0.0,)
    assert atoms(spoilt, sample_weight=np.where(np.arange(600) < 200, 0.0, 1.0))["red"] == ()


def test_a_model_keeps_to_their_bounds_and_to_what_they_follow_from():
    table = colours(800)
    density = fp.CircuitDensity(effort=2, verbose=False, random_state=0).fit(table[:600])
    drawn = density.sample(1000, random_state=0)
    assert (drawn["red"] >= 0).all()
    off = drawn["light"] - (drawn["red"] + drawn["green"] + drawn["blue"]) / 3
    assert off.abs().quantile(0.9) < 0.05 * table["light"].std()
