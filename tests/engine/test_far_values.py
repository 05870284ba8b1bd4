"""Values far beyond where a density lives, for every family: what the family itself says, on both engines."""

import mpmath
import numpy as np
import pytest
from scipy.special import logsumexp

import flatpc as fp
from flatpc.families import asking
from tests.families import test_built_in, test_mapped_gaussian, test_multivariate, test_outside

SIZES = np.concatenate([np.logspace(0, 40, 401), [3.24e10, 1.23e20]])
SUITES = {
    f"{module.__name__.removeprefix('tests.families.test_')}.{name.removeprefix('Test')}": suite
    for module in (test_built_in, test_mapped_gaussian, test_multivariate, test_outside)
    for name, suite in vars(module).items()
    if isinstance(suite, type) and issubclass(suite, fp.testing.FamilySuite | fp.testing.MultivariateFamilySuite)
}


def mixture(suite):
    """The units of a suite, mixed by unequal weights."""
    family, parameters = suite.family, suite()._p
    width = len(next(iter(parameters.values())))
    weights = np.arange(1.0, width + 1) / np.arange(1.0, width + 1).sum()
    place = {"variable": 0} if family.n_variables == 1 else {"variables": tuple(range(family.n_variables))}
    return fp.Circuit([fp.Input(family=family, width=width, **place), fp.Sum((0,))], {0: parameters, 1: [weights]}), weights


def far_values(family):
    """Both signs, as far as the family allows them; `[N]`, or `[N, d]` with every other row far out in one variable alone."""
    x = np.concatenate([SIZES, -SIZES])
    x = np.unique(np.round(x) if family.discrete else x)
    if family.n_variables > 1:
        x = x[:, None] * np.linspace(1.0, 0.5, family.n_variables)
        x[::2, 1:] = 0.5
    return x[~asking.outside(family, x)]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", SUITES)
def test_both_engines_say_what_the_family_says(name, dtype):
    suite = SUITES[name]
    circuit, weights = mixture(suite)
    x = far_values(suite.family)
    truth = logsumexp(suite.family.log_density(circuit.parameters[0], x), axis=1, b=weights)
    assert np.isfinite(truth).all()
    for engine in ("numba", "torch"):
        found = circuit.log_prob(x.reshape(len(x), -1), engine=engine, dtype=dtype)
        np.testing.assert_allclose(found, truth, rtol=1e-10 if dtype == "float64" else 1e-5, atol=1e-10, err_msg=engine)


@pytest.mark.parametrize("x", [1e6, 1e13, 1e16, 1.23e20, -1e40])
def test_a_rounded_gaussian_far_out(x):
    """Where numbers are further apart than the resolution, too: the mass lies at the end next to the mean."""
    with mpmath.workdps(200):
        ends = abs(mpmath.mpf(x)) + mpmath.mpf(0.25) * np.array([-1, 1])
        truth = mpmath.log(mpmath.erfc(ends[0] / mpmath.sqrt(2)) - mpmath.erfc(ends[1] / mpmath.sqrt(2))) - mpmath.log(2)
    circuit = fp.Circuit([fp.Input(0, fp.Discretized(fp.Gaussian(), 0.5))], {0: {"mean": [0.0], "variance": [1.0]}})
    for engine in ("numba", "torch"):
        np.testing.assert_allclose(circuit.log_prob([[x]], engine=engine), [float(truth)], rtol=1e-14)
