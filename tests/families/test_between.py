"""Probabilities and moments of normal distributions inside intervals, in closed form."""

import mpmath
import numpy as np
import pytest
from scipy import integrate, stats

import flatpc as fp
from flatpc.errors import OptionError

UNITS = {"mean": np.array([0.0, 3.0, -40.0]), "variance": np.array([1.0, 1e6, 0.25])}
STARTS = np.array([-np.inf, -1.0, 0.2, 5.0, 30.0, 2.0, -np.inf, -3.0])
ENDS = np.array([-0.5, 1.0, 0.2 + 1e-5, np.inf, 31.0, 2.0 + 1e-9, np.inf, 4.0])


def test_logarithms_of_probabilities_are_those_of_many_digits():
    found = fp.Gaussian().log_between(UNITS, STARTS, ENDS)
    with mpmath.workdps(60):
        root = mpmath.sqrt(2)
        for k, (mean, variance) in enumerate(zip(UNITS["mean"], UNITS["variance"], strict=True)):
            scale = mpmath.sqrt(mpmath.mpf(variance))
            for n, (start, end) in enumerate(zip(STARTS, ENDS, strict=True)):
                a, b = ((mpmath.mpf(float(x)) - mpmath.mpf(float(mean))) / scale for x in (start, end))
                if a > 0:
                    inside = (mpmath.erfc(a / root) - mpmath.erfc(b / root)) / 2
                else:
                    inside = (mpmath.erfc(-b / root) - mpmath.erfc(-a / root)) / 2
                wanted = float(mpmath.log(inside))
                assert found[n, k] == pytest.approx(wanted, rel=1e-9, abs=1e-9), (start, end, mean)


@pytest.mark.parametrize(("start", "end"), [(-1.0, 1.0), (0.5, 3.0), (2.0, 2.5), (-0.3, -0.29), (-np.inf, 0.5), (1.0, np.inf)])
def test_statistics_are_the_moments_of_the_cut_distribution(start, end):
    mean, scale = 0.4, 1.3
    unit = {"mean": np.array([mean]), "variance": np.array([scale**2])}
    found = fp.Gaussian().statistics_between(unit, np.array([start]), np.array([end]), np.array([[2.0]]))
    cut = stats.norm(mean, scale)

    def moment(power):
        low, high = max(start, mean - 12 * scale), min(end, mean + 12 * scale)
        return integrate.quad(lambda y: (y - mean) ** power * cut.pdf(y), low, high, epsabs=1e-15, epsrel=1e-13)[0]

    assert found["count"][0] == 2.0
    assert found["deviation"][0] == pytest.approx(2 * moment(1) / moment(0), rel=1e-9, abs=1e-10)
    assert found["squares"][0] == pytest.approx(2 * moment(2) / moment(0), rel=1e-9)


def test_narrow_intervals_have_the_moments_of_their_middle():
    unit = {"mean": np.array([0.0]), "variance": np.array([1.0])}
    for width in (0.9e-4, 1.1e-4):  # on either side of where the formula changes
        found = fp.Gaussian().statistics_between(unit, np.array([0.7]), np.array([0.7 + width]), np.array([[1.0]]))
        middle = 0.7 + width / 2
        assert found["deviation"][0] == pytest.approx(middle * (1 - width**2 / 12), rel=1e-10)
        assert found["squares"][0] == pytest.approx(middle**2 * (1 - width**2 / 6) + width**2 / 12, rel=1e-10)


@pytest.mark.parametrize("near", [499.0, 501.0, 1e5, 1e9, 1e15])
@pytest.mark.parametrize("width", [1e-7, 1e-3, 0.25, 10.0, np.inf])
@pytest.mark.parametrize("side", [1.0, -1.0])
def test_far_out_the_moments_are_those_of_many_digits(near, width, side):
    """The mean and the variance of y = a + t, where t > 0 has the density exp(-a t - t²/2), in units of 1/a."""
    start, end = sorted([side * near, side * (near + width)])
    far = abs(end) if side > 0 else abs(start)
    unit = {"mean": np.array([0.0]), "variance": np.array([1.0])}
    found = fp.Gaussian().statistics_between(unit, np.array([start]), np.array([end]), np.array([[1.0]]))
    with mpmath.workdps(60):
        a = mpmath.mpf(near)
        most = min(a * (mpmath.mpf(float(far)) - a), 100)
        cuts = [most * k / 8 for k in range(9)]
        zero, one, two = (mpmath.quad(lambda s, k=k: s**k * mpmath.exp(-s - (s / a) ** 2 / 2), cuts) for k in range(3))
        first = float(a + one / zero / a) if most > 0 else near
        second = float(a**2 + 2 * one / zero + two / zero / a**2) if most > 0 else near**2
    assert found["deviation"][0] == pytest.approx(side * first, rel=2e-10)
    assert found["squares"][0] == pytest.approx(second, rel=2e-10)


def test_em_learns_from_a_rounded_value_that_is_far_out():
    rows = np.array([[0.0], [1.0], [1e15]])
    start = fp.Circuit([fp.Input(0, fp.Discretized(fp.Gaussian(), 0.25))], {0: {"mean": [0.0], "variance": [1.0]}})
    learnt = fp.fit(start, rows, epochs=1, batch_size=None, method=fp.EM(step_size=1.0), progress=False).circuit.parameters[0]
    assert learnt["mean"][0] == pytest.approx(rows.mean(), rel=1e-12)
    assert learnt["variance"][0] == pytest.approx(rows.var(), rel=1e-12)


def test_bounds_are_values_in_order_of_families_that_know_intervals():
    for wrong in ({"low": 0.5}, {"low": 3.0, "high": 1.0}, {"high": np.nan}):
        with pytest.raises(OptionError, match="Discretized"):
            fp.Discretized(fp.Gaussian(), 1.0, **wrong)
    with pytest.raises(OptionError, match="log_between"):
        fp.Discretized(fp.Gamma(), 1.0, high=3.0)
