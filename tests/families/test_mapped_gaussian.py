"""Multivariate Gaussians behind monotone maps: the suite of families, log-normals of scipy, other units, and files."""

from typing import ClassVar

import numpy as np
import pytest
from scipy import optimize, stats

import flatpc as fp
from flatpc.errors import OptionError
from flatpc.families import Log, MappedGaussian, YeoJohnson
from flatpc.search.scaling import Scaling, in_users_units

COVARIANCE = [[[0.5, 0.2, 0.1], [0.2, 0.4, -0.1], [0.1, -0.1, 0.6]], [[0.3, 0.0, 0.1], [0.0, 0.5, 0.2], [0.1, 0.2, 0.4]]]


class TestMappedGaussian(fp.testing.MultivariateFamilySuite):
    family = MappedGaussian(3, transforms=(Log(-1.0), None, YeoJohnson(0.5, 0.2, 1.5)))
    parameters: ClassVar = {"mean": [[0.5, -0.2, 1.5], [0.0, 1.0, 2.5]], "covariance": COVARIANCE}
    wrong_values: ClassVar = [np.inf]
    tolerance = 1e-7  # integrals by Gauss-Legendre meet a corner of the power


def test_logarithms_make_a_log_normal():
    p = {"mean": np.array([[0.3, -0.5]]), "covariance": np.array([[[0.4, 0.1], [0.1, 0.2]]])}
    family = MappedGaussian(2, transforms=(Log(), Log()))
    x = np.exp(np.random.default_rng(0).normal(size=(50, 2)))
    wanted = stats.multivariate_normal(p["mean"][0], p["covariance"][0]).logpdf(np.log(x)) - np.log(x).sum(axis=1)
    np.testing.assert_allclose(family.log_density(p, x)[:, 0], wanted, rtol=1e-12)
    np.testing.assert_allclose(family.mean(p)[0], np.exp(p["mean"][0] + [0.2, 0.1]), rtol=1e-10)
    # The mode of a log-normal is exp(m - S 1).
    np.testing.assert_allclose(family.mode(p)[0], np.exp(p["mean"][0] - p["covariance"][0].sum(axis=1)), rtol=1e-6)


@pytest.mark.parametrize("power", [0.2, 0.7, 1.6])
def test_modes_are_those_of_an_optimiser(power):
    p = {"mean": np.array([[0.4, 0.8]]), "covariance": np.array([[[0.5, 0.3], [0.3, 0.6]]])}
    family = MappedGaussian(2, transforms=(YeoJohnson(power), YeoJohnson(1.5 - power / 2)))
    found = optimize.minimize(lambda x: -family.log_density(p, x[None])[0, 0], [0.5, 0.5], method="Nelder-Mead", tol=1e-10)
    assert family.log_density(p, family.mode(p))[0, 0] == pytest.approx(-found.fun, abs=1e-8)


def test_without_maps_it_is_the_multivariate_gaussian():
    plain, mapped = fp.MultivariateGaussian(3), MappedGaussian(3)
    p = {name: np.array(value) for name, value in TestMappedGaussian.parameters.items()}
    x = np.random.default_rng(0).normal(size=(20, 3))
    x[::3, 1] = np.nan
    np.testing.assert_array_equal(mapped.log_density(p, x), plain.log_density(p, x))
    for a, b in zip(mapped.moments_given(p, x), plain.moments_given(p, x), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_mixture_behind_a_front_is_one_in_the_users_units():
    rng = np.random.default_rng(0)
    rows = np.exp(rng.normal(size=(200, 2)) @ [[1.0, 0.5], [0.0, 0.4]]) * [1.0, 50.0]
    families = [fp.Gaussian(), fp.Gaussian()]
    scaling = Scaling.learn(rows, families, None, {0: Log(), 1: YeoJohnson(0.3, 0.0, 40.0)})
    inside = fp.structures.mixture(scaling.apply(rows), 3)
    outside = in_users_units(inside, scaling)
    assert isinstance(outside.nodes[0].family, MappedGaussian)
    np.testing.assert_allclose(outside.log_prob(rows), inside.log_prob(scaling.apply(rows)) - scaling.log_volume(rows), atol=1e-9)


def test_files_keep_maps(tmp_path):
    family = MappedGaussian(2, transforms=(Log(), None))
    circuit = fp.Circuit([fp.Input(variables=(0, 1), family=family)], {0: {"mean": [[0.0, 1.0]], "covariance": [np.eye(2)]}})
    circuit.save(tmp_path / "pair")
    again = fp.load(tmp_path / "pair")
    assert again.families_of_variables == circuit.families_of_variables
    np.testing.assert_array_equal(again.log_prob([[1.5, 0.0]]), circuit.log_prob([[1.5, 0.0]]))


def test_what_is_no_map_is_refused():
    with pytest.raises(OptionError, match="one, or None, for each of 3"):
        MappedGaussian(3, transforms=(Log(),))
    with pytest.raises(OptionError, match="transforms"):
        MappedGaussian(2, transforms=(Log(), 7))


def test_ranges_and_conditionals_are_those_of_drawn_rows():
    family = MappedGaussian(2, transforms=(Log(), YeoJohnson(0.4)))
    p = {"mean": np.array([[0.3, 0.5]]), "covariance": np.array([[[0.4, 0.2], [0.2, 0.5]]])}
    circuit = fp.Circuit([fp.Input(variables=(0, 1), family=family)], {0: p})
    drawn = circuit.sample(40_000, seed=0)
    inside = (drawn[:, 0] <= 1.5) & (drawn[:, 1] >= 0.2)
    found = np.exp(fp.queries.event_log_prob(circuit, events={0: (-3.0, 1.5), 1: (0.2, np.inf)})[0])
    assert found == pytest.approx(inside.mean(), abs=4.5 * np.sqrt(0.25 / len(drawn)))
    given = fp.queries.sample_given_events(circuit, 500, events={0: (0.5, 1.5)}, seed=0)
    assert ((given[:, 0] >= 0.5) & (given[:, 0] <= 1.5)).all()
    near = abs(drawn[:, 0] - 1.2) < 0.05
    one = fp.queries.conditional(circuit, [[1.2, np.nan]], variable=1)
    assert one.quantile(0.5)[0] == pytest.approx(np.median(drawn[near, 1]), abs=0.1)
    assert one.mean()[0] == pytest.approx(drawn[near, 1].mean(), abs=0.1)
    grid = np.linspace(-2, 8, 501)
    log = [one.log_density(np.array([x]))[0] for x in grid]
    assert np.trapezoid(np.exp(log), grid) == pytest.approx(1.0, abs=1e-3)
    assert one.mode()[0] == pytest.approx(grid[np.argmax(log)], abs=0.02)


@pytest.mark.parametrize("transforms", [None, 0, "log", fp.families.Log(), (None,), (fp.families.Log(), 1.0)])
def test_maps_are_given_for_each_variable(transforms):
    with pytest.raises(OptionError, match="transforms="):
        fp.families.MappedGaussian(2, transforms=transforms)
