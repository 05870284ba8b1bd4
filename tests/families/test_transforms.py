"""Monotone maps: their inverses, slopes, and what they make of columns."""

import numpy as np
import pytest
from scipy import stats

import flatpc as fp
from flatpc.errors import OptionError
from flatpc.families.transforms import fit_power, fit_quantiles

MAPS = [
    fp.families.Log(shift=-1.5, scale=2.0),
    *(fp.families.YeoJohnson(power, shift=0.5, scale=3.0) for power in (0.0, 0.4, 1.0, 1.7, 2.0)),
    fp.families.Quantiles((-1.0, 0.0, 0.25, 3.0), (-1.0, -0.5, 1.0, 2.0)),
]


def values(n=200):
    x = 3 * np.random.default_rng(0).standard_normal(n)
    return np.sort(np.append(x, [0.5, -1.0, 0.0, 0.25, 3.0]))


@pytest.mark.parametrize("t", MAPS)
def test_inverse_and_slope(t):
    x = values()
    x = x[x > t.low + 1e-3]
    z = t.forward(x)
    assert (np.diff(z) > 0).all()
    np.testing.assert_allclose(t.inverse(z), x, rtol=1e-9, atol=1e-9)
    h = 1e-6
    np.testing.assert_allclose(t.log_slope(x), np.log((t.forward(x + h) - t.forward(x - h)) / (2 * h)), atol=2e-5)


@pytest.mark.parametrize("t", MAPS)
def test_all_numbers_are_reached(t):
    z = np.array([-8.0, 0.0, 8.0])
    np.testing.assert_allclose(t.forward(t.inverse(z)), z, atol=1e-9)


@pytest.mark.parametrize("t", MAPS)
def test_rescaled_is_the_same_map_of_other_units(t):
    x = np.array([0.1, 1.0, 7.0])
    moved = t.rescaled(-4.0, 2.5)
    np.testing.assert_allclose(moved.forward(-4 + 2.5 * x), t.forward(x), atol=1e-12)
    np.testing.assert_allclose(moved.log_slope(-4 + 2.5 * x), t.log_slope(x) - np.log(2.5), atol=1e-12)


def test_the_power_is_scipys():
    x = np.random.default_rng(1).gamma(2.0, size=2000)
    found = fit_power(x)
    u = (x - found.shift) / found.scale
    assert found.power == pytest.approx(stats.yeojohnson_normmax(u), abs=0.03)
    np.testing.assert_allclose(found.forward(x), stats.yeojohnson(u, found.power), atol=1e-9)


def test_quantiles_become_normal():
    x = np.exp(np.random.default_rng(2).standard_normal(4000)) ** 2
    t = fit_quantiles(x[:2000], 24)
    assert stats.kstest(t.forward(x[2000:]), "norm").pvalue > 1e-3
    assert len(t.x) == 24
    repeated = fit_quantiles(np.repeat([1.0, 2.0, 5.0], 100), 24)
    assert repeated.x == (1.0, 2.0, 5.0)
    assert np.isfinite(fit_quantiles(np.ones(50), 24).log_slope(np.array([1.0]))).all()


def test_quantiles_of_weighted_values_are_those_of_repeated_ones():
    rng = np.random.default_rng(0)
    x, times = rng.normal(size=300), rng.integers(0, 4, 300)
    weighted, repeated = fit_quantiles(x, 24, times.astype(float)), fit_quantiles(np.repeat(x, times), 24)
    np.testing.assert_allclose([weighted.x, weighted.z], [repeated.x, repeated.z], rtol=1e-12)
    # Of fractions, nearly.
    tenths = fit_quantiles(np.repeat(x, 10), 24, np.full(3000, 0.1))
    np.testing.assert_allclose(tenths.x, fit_quantiles(x, 24).x, atol=0.05)


def test_wrong_options():
    with pytest.raises(OptionError, match="power"):
        fp.families.YeoJohnson(-0.5)
    with pytest.raises(OptionError, match="scale"):
        fp.families.Log(scale=0.0)
    with pytest.raises(OptionError, match="as many"):
        fp.families.Quantiles((0.0, 1.0, 2.0), (0.0, 1.0))
    with pytest.raises(OptionError, match="all numbers"):
        fp.Transformed(fp.Gamma())
    with pytest.raises(OptionError, match="all numbers"):
        fp.Transformed(fp.Poisson())
    with pytest.raises(OptionError, match="transform"):
        fp.Transformed(fp.Gaussian(), "log")
