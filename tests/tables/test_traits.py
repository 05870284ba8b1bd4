"""Traits of numbers, families that suit them, and columns that are alike."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import flatpc as fp
from flatpc.families import Beta, Categorical, Discretized, Gaussian, Hurdle, LogNormal, NegativeBinomial, Poisson, StudentT
from flatpc.tables import Columns
from flatpc.tables.alike import common_values
from flatpc.tables.reading import RawColumn, read_raw
from flatpc.tables.suiting import _Trial, _Values, finite_is_likelier, suitable_counts, suitable_numbers
from flatpc.tables.traits import Traits, _least_gap


def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("step", [0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 0.005, 1 / 3, 0.0392])
def test_the_step_of_rounded_numbers_is_found(step):
    x = step * np.round(rng().normal(0, 5, 400)) + 1.0
    traits = Traits.of(x)
    assert traits.resolution == pytest.approx(step, rel=1e-6)
    assert (1.0 - traits.origin) / step == pytest.approx(round((1.0 - traits.origin) / step), abs=1e-6)
    assert traits.on_grid(x)
    assert not traits.on_grid(x + step / 3)


def test_numbers_that_hardly_repeat_have_no_step():
    assert Traits.of(rng().normal(size=400)).resolution == 0
    assert Traits.of(np.round(rng().normal(size=400), 6)).resolution == 0


def test_a_few_odd_values_dont_hide_the_step():
    x = np.round(rng().normal(0, 5, 400))
    x[:5] = [0.123, 1.456, 2.789, 3.21, 0.5]
    traits = Traits.of(x)
    assert traits.resolution == 1
    assert not traits.on_grid(x)
    assert not any(isinstance(family, Discretized) for family in suitable_numbers(x, traits))


def test_zeros_caps_and_codes_stand_out():
    x = np.exp(rng().normal(size=1000))
    zeros = np.where(rng().random(1000) < 0.3, 0.0, x)
    assert Traits.of(zeros).atoms == (0.0,)
    capped = np.minimum(x, 3.0)
    assert Traits.of(capped).atoms == (3.0,)
    assert Traits.of(capped).bounds == (0.0, 3.0)
    coded = np.where(rng().random(1000) < 0.02, -999.0, x)
    assert Traits.of(coded).atoms == (-999.0,)
    assert Traits.of(coded).bounds == (-np.inf, np.inf)
    assert Traits.of(x).atoms == ()


def test_common_values_of_rounded_numbers_dont_stand_out():
    assert Traits.of(np.round(rng().normal(0, 3, 2000))).atoms == ()
    assert Traits.of(rng().poisson(4.0, 2000).astype(float)).atoms == ()
    assert Traits.of(np.round(rng().exponential(2, 2000))).atoms == ()


CAPPED = {
    "ages from 18": (lambda g: np.maximum(g.normal(35, 12, 2000).round(), 18), (18.0,), (18.0, np.inf)),
    "ages to 90": (lambda g: np.minimum(g.normal(70, 14, 2000).round(), 90), (90.0,), (0.0, 90.0)),
    "incomes to 100": (lambda g: np.minimum(np.exp(g.normal(3.5, 0.7, 2000)).round(), 100), (100.0,), (0.0, 100.0)),
    "scores to 50": (lambda g: np.minimum(g.normal(40, 8, 2000).round(), 50), (50.0,), (0.0, 50.0)),
    "decimals to 50": (lambda g: np.minimum(g.normal(40, 8, 2000), 50), (50.0,), (0.0, 50.0)),
    "tenths": (lambda g: np.clip(g.normal(5, 2, 2000).round(1), 2, 8), (2.0, 8.0), (2.0, 8.0)),
    "whole numbers": (lambda g: np.clip(g.normal(50, 25, 2000).round(), 10, 90), (10.0, 90.0), (10.0, 90.0)),
    "below zero": (lambda g: np.clip(g.normal(0, 9, 2000).round(), -12, 12), (-12.0, 12.0), (-12.0, 12.0)),
    "more zeros": (lambda g: np.where(g.random(2000) < 0.2, 0, g.poisson(5, 2000)), (0.0,), (0.0, np.inf)),
}


@pytest.mark.parametrize(("draw", "atoms", "bounds"), CAPPED.values(), ids=CAPPED)
def test_caps_stand_out(draw, atoms, bounds):
    for seed in range(10):
        traits = Traits.of(draw(np.random.default_rng(seed)).astype(float))
        assert (traits.atoms, traits.bounds) == (atoms, bounds)


RARELY_CAPPED = {
    "ages from 18": (lambda g: np.maximum(g.normal(43, 18, 100), 18), (18.0,)),
    "ages to 90": (lambda g: np.minimum(g.normal(68, 18, 100), 90), (90.0,)),
    "prices": (lambda g: np.minimum(np.exp(g.normal(12, 0.6, 5000)), 550_000), (550_000.0,)),
    "scores": (lambda g: np.clip(g.normal(55, 25, 5000), 0, 100), (0.0, 100.0)),
    "rounded scores": (lambda g: np.clip(g.normal(55, 25, 5000).round(), 0, 100), (0.0, 100.0)),
    "rare zeros": (lambda g: np.maximum(g.normal(2, 1, 5000), 0), ()),
}


@pytest.mark.parametrize(("draw", "atoms"), RARELY_CAPPED.values(), ids=RARELY_CAPPED)
def test_rare_caps_stand_out_where_they_tell_a_bound(draw, atoms):
    for seed in range(10):
        x = draw(np.random.default_rng(seed))
        if min(np.sum(x == atom) for atom in atoms or (0.0,)) >= 6:
            traits = Traits.of(x)
            assert traits.atoms == atoms
            assert set(atoms) <= set(traits.bounds)


SMOOTH = {
    "geometric .3": lambda g, n: g.geometric(0.3, n),
    "geometric .5": lambda g, n: g.geometric(0.5, n),
    "geometric .7": lambda g, n: g.geometric(0.7, n),
    "Poisson .5": lambda g, n: g.poisson(0.5, n),
    "Poisson 3": lambda g, n: g.poisson(3.0, n),
    "exponential": lambda g, n: g.exponential(3.0, n).round(),
    "exponential, down": lambda g, n: np.floor(g.exponential(3.0, n)),
    "Zipf 1.5": lambda g, n: g.zipf(1.5, n),
    "Zipf 2": lambda g, n: g.zipf(2.0, n),
    "Zipf 3": lambda g, n: g.zipf(3.0, n),
    "uniform": lambda g, n: g.integers(0, 30, n),
    "normal": lambda g, n: g.normal(0, 3, n).round(),
    "half normal": lambda g, n: abs(g.normal(0, 5, n)).round(),
    "half normal, tenths": lambda g, n: abs(g.normal(0, 5, n)).round(1),
    "negative binomial 1": lambda g, n: g.negative_binomial(1, 0.1, n),
    "negative binomial 3": lambda g, n: g.negative_binomial(3, 0.3, n),
}


@pytest.mark.parametrize("n", [300, 2000, 20_000])
@pytest.mark.parametrize("draw", SMOOTH.values(), ids=SMOOTH)
def test_an_end_that_a_smooth_decay_leads_to_is_no_cap(draw, n):
    """None of ten tables."""
    assert [Traits.of(draw(np.random.default_rng(seed), n).astype(float)).atoms for seed in range(10)] == [()] * 10


def test_where_round_numbers_are_frequent_a_round_end_is_no_cap():
    g = rng()
    heaped = np.where(g.random(5000) < 0.4, 5 * g.integers(4, 14, 5000), g.integers(20, 66, 5000))
    assert Traits.of(heaped.astype(float)).atoms == ()


@pytest.mark.parametrize("seed", range(2))
def test_a_model_of_clipped_ages_keeps_the_cap(seed):
    g = np.random.default_rng(seed)
    age = np.maximum(g.normal(35, 12, 2000).round(), 18)
    frame = pd.DataFrame({"age": age, "paid": age * g.normal(2.0, 0.2, 2000)})
    drawn = fp.CircuitDensity(effort=2, verbose=False).fit(frame).sample(20_000, random_state=0)["age"].to_numpy()
    share = (age == 18).mean()
    assert drawn.min() == 18
    assert abs((drawn == 18).mean() - share) < 4 * np.sqrt(share * (1 - share) / 2000)


def test_bounds():
    assert Traits.of(rng().normal(size=300)).bounds == (-np.inf, np.inf)
    assert Traits.of(rng().exponential(size=300)).bounds == (0.0, np.inf)
    assert Traits.of(rng().beta(2, 2, size=300)).bounds == (0.0, 1.0)


def test_one_unit_is_fitted_by_maximum_likelihood():
    x = rng().gamma(2.0, 3.0, 400)
    shape, scale = stats.lognorm.fit(x, floc=0)[0::2]
    found = _Trial.of(LogNormal(), _Values(x)).log_likelihood
    assert found == pytest.approx(stats.lognorm.logpdf(x, shape, 0, scale).mean(), abs=1e-6)
    assert _Trial.of(Gaussian(), _Values(x)).log_likelihood == pytest.approx(
        stats.norm.logpdf(x, x.mean(), x.std()).mean(), abs=1e-9
    )


def test_families_allow_values_that_they_are_not_tried_on():
    skewed = np.exp(rng().normal(size=4_000))
    assert LogNormal in kinds(suitable_numbers(skewed, Traits.of(skewed)))
    skewed[1] = 0.0  # one of many
    for family in suitable_numbers(skewed, Traits.of(skewed)):
        assert not family.outside(skewed).any(), family
    shares = rng().beta(0.5, 0.5, 4_000)
    traits = Traits.of(shares)
    assert Beta in kinds(suitable_numbers(shares, traits))
    shares[1] = traits.bounds[1]
    for family in suitable_numbers(shares, traits):
        assert not family.outside(shares).any(), family


def kinds(families):
    return [type(family) for family in families]


def test_families_of_numbers_suit_their_shape():
    skewed = np.exp(rng().normal(size=600))
    assert kinds(suitable_numbers(skewed, Traits.of(skewed)))[:2] == [Gaussian, LogNormal]
    heavy = rng().standard_t(2, 600)
    assert kinds(suitable_numbers(heavy, Traits.of(heavy)))[:2] == [Gaussian, StudentT]
    normal = rng().normal(size=600)
    assert suitable_numbers(normal, Traits.of(normal)) == (Gaussian(),)
    shares = rng().beta(0.5, 0.5, 600)
    assert Beta in kinds(suitable_numbers(shares, Traits.of(shares)))
    rounded = np.round(rng().normal(size=600), 1)
    assert suitable_numbers(rounded, Traits.of(rounded)) == (Gaussian(), Discretized(Gaussian(), 0.1))
    zeros = np.where(rng().random(600) < 0.3, 0.0, skewed)
    assert Hurdle((0.0,), LogNormal()) in suitable_numbers(zeros, Traits.of(zeros))


def test_families_of_counts_go_by_likelihood():
    wide = rng().negative_binomial(1, 0.05, 600).astype(float)
    assert suitable_counts(wide, Traits.of(wide))[0] == NegativeBinomial()
    narrow = rng().binomial(20, 0.5, 600).astype(float)
    found = suitable_counts(narrow, Traits.of(narrow))
    assert found[0] == Poisson()
    assert "Binomial" in [kind.__name__ for kind in kinds(found)]
    ends = rng().choice([0.0, 1.0, 15.0, 16.0], 600)
    assert suitable_counts(ends, Traits.of(ends))[1] == Categorical(17)
    assert finite_is_likelier(ends, 0, 16)
    assert not finite_is_likelier(rng().poisson(40.0, 200).astype(float), 0, 80)


def test_columns_that_are_alike_have_the_same_values():
    g = rng()
    pixels = np.column_stack([g.choice([0, 1, 15, 16], 300) for _ in range(10)] + [np.zeros(300), g.integers(0, 2, 300)])
    columns = Columns.learn(pixels.astype(float))
    assert {column.categories for column in columns.columns} == {tuple(range(17))}
    rows = columns.encode(np.full((1, 12), 9.0))
    np.testing.assert_array_equal(rows, np.full((1, 12), 9.0))
    # The user's word counts more.
    assert Columns.learn(pixels, {"x0": "count"}).kinds["x0"] == "count"


def test_columns_that_differ_stay_apart():
    g = rng()
    table = np.column_stack([g.integers(0, 3 + j, 300) for j in range(12)])
    assert common_values(read_raw(table).columns) == {}
    counts = [RawColumn(f"c{j}", "integer", np.append(g.poisson(30.0, 300), [0.0, 90.0])) for j in range(9)]
    assert common_values(counts) == {}


def test_a_number_next_to_zero_is_no_step():
    """2 over the least positive number is beyond float64."""
    assert _least_gap(np.array([0.0, 1.1125369292536007e-308, 2.0])) == 0.0
    assert _least_gap(np.array([0.0, 0.5, 2.0])) == 0.5
