"""Whole numbers are categories, counts or rounded numbers by likelihood, where that is clear; otherwise by their range."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats

import flatpc as fp
from flatpc.search.suiting import choose_family
from flatpc.tables import Columns, kinds
from flatpc.tables.suiting import log_densities, logs_of_shares
from tests.peak_memory import GIB, peak_memory

SEEDS = range(6)


def kind_of(x, groups=None):
    return Columns.learn(pl.DataFrame({"x": np.asarray(x, float)}), groups=groups).columns[0]


KINDS = [
    (lambda g: np.repeat(np.arange(6), g.permutation([22, 21, 10, 4, 2, 1])), "categorical"),
    (lambda g: g.permutation(np.repeat(np.arange(6), [22, 21, 10, 4, 2, 1])), "count"),
    (lambda g: g.poisson(2.0, 3000).clip(0, 9), "categorical"),  # of so many rows, a probability each is as likely
    (lambda g: g.choice(8, 300, p=[0.3, 0.02, 0.2, 0.01, 0.25, 0.02, 0.15, 0.05]), "categorical"),
    (lambda g: g.choice([10, 20, 50, 100], 300), "categorical"),
    (lambda g: g.permutation(np.repeat(np.arange(-5, 5), [1, 2, 4, 7, 9, 9, 7, 4, 2, 1])), "continuous"),
    (lambda g: g.normal(500, 5, 400).round(), "continuous"),  # in the range of counts, had one been 0
    (lambda g: np.abs(g.normal(0, 60, 400)).round(), "count"),
    (lambda g: np.append(g.negative_binomial(2, 0.01, 400), 0), "count"),
    (lambda g: 2 + g.negative_binomial(1, 0.05, 400), "continuous"),
    (lambda g: g.choice([7, 11, 12, 30, 31, 60, 61, 100, 101, 102, 104], 2000), "count"),  # a probability each
    (lambda g: -g.poisson(20, 300), "continuous"),
    (lambda g: 100_000 + g.poisson(20, 300), "continuous"),
    (lambda g: g.permutation(300), "count"),
    (lambda g: g.choice(g.choice(np.arange(10_000, 99_999), 40, replace=False), 400), "categorical"),  # codes of towns
    (lambda g: g.choice(np.append(g.choice(np.arange(9, 990), 20, replace=False), 0), 400), "categorical"),
    (lambda g: g.choice(np.arange(300, 340), 400), "continuous"),
    (lambda g: np.round(np.exp(g.normal(5, 0.5, 2000)), -1) * 5 + (g.random(2000) < 0.1), "continuous"),  # amounts, mostly of 50
    (lambda g: np.minimum(g.zipf(1.5, 5000), 10_000) + 1.0, "continuous"),
]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("draw", "kind"), KINDS, ids=[f"{place}-{kind}" for place, (_, kind) in enumerate(KINDS)])
def test_kinds_by_likelihood(draw, kind, seed):
    column = kind_of(draw(np.random.default_rng(seed)))
    assert column.kind == kind


def test_the_reason_is_given():
    g = np.random.default_rng(0)
    assert kind_of(np.repeat(np.arange(6), [22, 21, 10, 4, 2, 1])).why == "whole numbers from 0 to 5, likelier as counts"
    assert kind_of(g.normal(500, 5, 400).round()).why == "numbers"
    towns = kind_of(g.choice([1067, 4103, 10115, 20095, 24103, 39104, 44137, 50667, 60311, 80331, 99084], 300))
    assert towns.why == "whole numbers from 1067 to 99084, likelier as categories"
    assert kind_of(g.poisson(9.0, 300)).why == "whole numbers from 1 to 17"
    assert kinds(pl.DataFrame({"x": g.poisson(2.0, 300)}), overrides={"x": "categorical"}) == {"x": "categorical"}


@pytest.mark.parametrize("seed", SEEDS)
def test_what_repeats_within_groups_tells_nothing(seed):
    """Each group has a code of its own, in ten rows: by rows a probability each is likelier, by groups it is not."""
    g = np.random.default_rng(seed)
    groups = np.repeat(np.arange(20), 40)
    codes = g.choice(np.arange(2, 60), 20, replace=False).astype(float)[groups]
    assert kind_of(codes).kind == "count"
    assert kind_of(codes, groups).kind == "continuous"
    assert kind_of(100 * codes + groups).kind == "categorical"
    assert kind_of(100 * codes + groups, groups).kind == "continuous"
    # A group to each row is none.
    x = g.choice([7, 11, 12, 30, 31, 60, 61, 100, 101, 102, 104], 2000).astype(float)
    assert kind_of(x, g.permutation(2000)).kind == kind_of(x).kind == "count"


def test_rows_of_weight_zero_take_their_groups_along():
    g = np.random.default_rng(0)
    x, groups = g.poisson(2.0, 300).astype(float), np.repeat(np.arange(60), 5)
    weights = (np.arange(300) % 2).astype(float)
    table = pl.DataFrame({"x": x})
    some = Columns.learn(table.filter(pl.Series(weights > 0)), groups=groups[weights > 0])
    assert Columns.learn(table, sample_weight=weights, groups=groups).columns == some.columns
    with pytest.raises(fp.errors.DataError, match="groups"):
        Columns.learn(table, groups=groups[:7])


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_shares_among_all_other_rows(grouped, weighted):
    g = np.random.default_rng(0)
    codes, groups = g.integers(0, 5, 40), g.integers(0, 9, 40)
    weights = g.integers(1, 4, 40).astype(float)
    found = logs_of_shares(codes, 6, weights if weighted else None, groups if grouped else None)
    counted = weights if weighted else np.ones(40)
    for i in range(40):
        others = groups != groups[i] if grouped else np.arange(40) != i
        share = (counted[others & (codes == codes[i])].sum() + 1 / 6) / (counted[others].sum() + 1)
        assert found[i] == pytest.approx(np.log(share), abs=1e-12)


def test_log_densities_of_the_unit_that_fits_best():
    x, weights = np.array([0.0, 1, 2, 5]), np.array([4.0, 3, 2, 1])
    mean = (x @ weights) / weights.sum()
    np.testing.assert_allclose(log_densities(fp.Poisson(), x, weights), stats.poisson.logpmf(x, mean), atol=1e-9)


def families(column):
    return [type(family).__name__ for family in column.suitable]


def test_categories_in_order_have_a_family_of_their_own():
    g = np.random.default_rng(0)
    grades = np.array(["poor", "fair", "good"])[g.integers(0, 3, 200)]
    frame = pd.DataFrame({
        "ordered": pd.Categorical(grades, ["poor", "fair", "good"], ordered=True),
        "unordered": pd.Categorical(grades, ["poor", "fair", "good"]),
        "text": grades,
        "whole": g.choice([1, 2, 4], 200, p=[0.5, 0.1, 0.4]),
        "two": g.integers(0, 2, 200),
        "visits": g.poisson(1.0, 200),
    })  # fmt: skip
    found = {column.name: column for column in Columns.learn(frame).columns}
    assert families(found["ordered"]) == families(found["whole"]) == ["Categorical", "Ordinal"]
    assert [families(found[name]) for name in ("unordered", "text", "two")] == [[], [], []]
    assert "Ordinal" in families(found["visits"])
    # One unit is as the values are; values that were not seen have a little.
    cuts = found["whole"].suitable[1]
    shares = cuts.table({"location": np.zeros(1), "scale": np.ones(1)})[0]
    seen = np.bincount(frame["whole"] - 1, minlength=4) / 200
    np.testing.assert_allclose(shares, (seen + 0.0025) / 1.01, atol=1e-12)
    many = Columns.learn(pd.DataFrame({"x": pd.Categorical(np.arange(300) % 280, range(280), ordered=True)})).columns[0]
    assert families(many) == []


def test_counts_may_have_more_zeros_than_their_families_say():
    g = np.random.default_rng(0)
    inflated = np.where(g.random(500) < 0.5, 0, g.poisson(6, 500))
    assert families(kind_of(inflated))[0] == "Hurdle"
    assert "Hurdle" not in families(kind_of(g.poisson(6, 500)))


GROUPS = """
import numpy as np
from flatpc.tables.whole_numbers import likelier_kind
n, g = 1_000_000, np.random.default_rng(0)
x = g.choice(np.arange(5, 250), n, p=g.dirichlet(np.full(245, 0.5))).astype(float)
assert likelier_kind(x, "continuous", np.arange(n)) == likelier_kind(x, "continuous")
"""


def test_many_groups_take_no_more_memory():
    """Each of a million has one row; a table of groups by values would take 2 GiB."""
    assert peak_memory(GROUPS) < 0.5 * GIB


@pytest.mark.parametrize("size", [1e15, 1e100, 1e300])
def test_huge_numbers_give_no_warnings(size):
    g = np.random.default_rng(0)
    for most in (9, 40):
        assert kind_of(g.integers(1, most, 200) * size).kind in ("categorical", "continuous")


def hours_of_work(seed):
    """Of half the people 40, and 99 where that is unknown."""
    g = np.random.default_rng(seed)
    x = np.where(g.random(12_000) < 0.5, 40.0, g.normal(40, 12, 12_000).round().clip(1, 80))
    x[g.random(12_000) < 0.05] = 99.0
    return x


@pytest.mark.parametrize("seed", SEEDS)
def test_counts_keep_their_caps_and_codes(seed):
    """Of so many rows, a probability each is as likely as what the values come from, and either may be chosen."""
    x = hours_of_work(seed)
    column = kind_of(x)
    assert (column.kind, column.traits.atoms) == ("count", (40.0, 99.0))
    rounded = fp.Discretized(fp.Gaussian(), 1.0, low=0.0)
    theirs = fp.Hurdle((40.0, 99.0), rounded)
    assert {theirs, fp.Hurdle((40.0, 99.0), fp.NegativeBinomial())} <= set(column.suitable)
    assert isinstance(choose_family(x[:3_000], column.suitable, 0), fp.Hurdle)
    chosen = choose_family(x, column.suitable, 0)
    assert isinstance(chosen, fp.Hurdle | fp.Categorical)
    # Judged by as many other rows. Of families within a margin of 0.01 nats, and one standard error, the first is taken.
    found, best = (learnt(family, x, hours_of_work(seed + 100)) for family in (chosen, theirs))
    assert found > best - 0.025
    assert learnt(rounded, x, hours_of_work(seed + 100)) < best - 1


def learnt(family, x, others):
    """Log-likelihood of a value of `others` by one unit that has learnt from `x`."""
    parameters = family.initialize_from(x, 1, np.random.default_rng(0), "uniform")
    for _ in range(50):
        parameters = family.update(parameters, family.statistics(parameters, x, np.ones((len(x), 1))), 0.5)
    return family.log_density(parameters, others).mean()
