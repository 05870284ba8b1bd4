"""Probabilities and moments of normal and logistic distributions inside intervals."""

import itertools

import mpmath
import numpy as np
import pytest
from scipy import integrate, special, stats

import flatpc as fp
from flatpc.errors import OptionError, ParameterError

UNITS = {"mean": np.array([0.0, 3.0, -40.0]), "variance": np.array([1.0, 1e6, 0.25])}
NODES, WEIGHTS = np.polynomial.legendre.leggauss(4)
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


# ---- logistic ---------------------------------------------------------------------------------------------------------------

LOGISTICS = {"location": np.array([0.0, 3.0, -40.0]), "scale": np.array([1.0, 1e3, 0.05])}
FAR = (np.array([-np.inf, -900.0, 900.0, 5.0, -1.0]), np.array([-800.0, -899.0, np.inf, 5.0 + 1e-9, 1.0]))


def test_logarithms_of_logistic_probabilities_are_those_of_many_digits():
    starts, ends = np.concatenate([STARTS, FAR[0]]), np.concatenate([ENDS, FAR[1]])
    found = fp.Logistic().log_between(LOGISTICS, starts, ends)
    with mpmath.workdps(800):  # differences of numbers that are nearly 1 need them
        for k, (location, scale) in enumerate(zip(LOGISTICS["location"], LOGISTICS["scale"], strict=True)):
            for n, (start, end) in enumerate(zip(starts, ends, strict=True)):
                a, b = ((mpmath.mpf(float(x)) - mpmath.mpf(float(location))) / mpmath.mpf(float(scale)) for x in (start, end))
                upper, lower = (1 / (1 + mpmath.exp(z)) for z in (-b, -a))
                if any(abs(z) > 1500 for z in (a, b) if not mpmath.isinf(z)):
                    continue  # more digits than that
                wanted = float(mpmath.log(upper - lower))
                assert found[n, k] == pytest.approx(wanted, rel=1e-9, abs=1e-9), (start, end, location)
    assert fp.Logistic().log_between(LOGISTICS, np.array([2.0]), np.array([2.0]))[0].tolist() == [-np.inf] * 3


INTERVALS = [(-1.0, 1.0), (0.5, 3.0), (2.0, 2.5), (-0.3, -0.29), (-np.inf, 0.5), (1.0, np.inf), (-np.inf, np.inf), (30.0, 31.0),
             (-90.0, -60.0), (40.0, np.inf), (-np.inf, -45.0)]  # fmt: skip


@pytest.mark.parametrize(("start", "end"), INTERVALS)
def test_logistic_statistics_are_the_moments_of_the_cut_distribution(start, end):
    location, scale = 0.4, 1.3
    unit = {"location": np.array([location]), "scale": np.array([scale])}
    found = fp.Logistic().statistics_between(unit, np.array([start]), np.array([end]), np.array([[2.0]]))
    a, b = (start - location) / scale, (end - location) / scale
    low, high = (a, min(b, a + 60.0)) if a > 25 else (max(a, b - 60.0), b) if b < -25 else (max(a, -60.0), min(b, 60.0))
    top = min(abs(low), abs(high)) if low * high > 0 else 0.0

    def mean(f):
        density = lambda z: np.exp(top - abs(z)) / (1 + np.exp(-abs(z))) ** 2  # noqa: E731
        parts = [low, 0.0, high] if low < 0 < high else [low, high]
        whole, wanted = (
            sum(integrate.quad(g, *ends, epsabs=1e-14, epsrel=1e-12, limit=500)[0] for ends in itertools.pairwise(parts))
            for g in (density, lambda z: f(z) * density(z))
        )
        return wanted / whole

    assert found["count"][0] == 2.0
    assert found["weight"][0] == pytest.approx(2 * mean(lambda z: np.tanh(z / 2) / z if z else 0.5), rel=1e-8)
    assert found["deviation"][0] == pytest.approx(2 * scale * mean(lambda z: np.tanh(z / 2)), rel=1e-8, abs=1e-9)
    assert found["squares"][0] == pytest.approx(2 * scale**2 * mean(lambda z: z * np.tanh(z / 2)), rel=1e-8)
    # In closed form: the mean of tanh(z/2) is σ(a) + σ(b) - 1.
    closed = special.expit(a) + special.expit(b) - 1
    assert found["deviation"][0] == pytest.approx(2 * scale * closed, rel=1e-8, abs=1e-9)


def test_a_mixture_of_one_is_a_logistic():
    x, flow = np.array([0.3, -20.0, np.nan, 4.0]), np.arange(12.0).reshape(4, 3)
    one = {"shares": np.ones((3, 1)), **{name: value[:, None] for name, value in LOGISTICS.items()}}
    family, other = fp.LogisticMixture(1), fp.Logistic()
    np.testing.assert_allclose(family.log_density(one, x), other.log_density(LOGISTICS, x), rtol=1e-14)
    np.testing.assert_allclose(family.log_between(one, STARTS, ENDS), other.log_between(LOGISTICS, STARTS, ENDS), rtol=1e-14)
    for name, value in other.statistics(LOGISTICS, x, flow).items():
        np.testing.assert_allclose(family.statistics(one, x, flow)[name][:, 0], value, rtol=1e-12)
    q = np.array([0.0, 0.1, 0.9, 1.0])
    np.testing.assert_allclose(family.quantile(one, q), other.quantile(LOGISTICS, q), rtol=1e-12)


def test_pixels_are_learnt_as_discretized_mixtures_of_logistics():
    """Two greys and clipped ends: EM finds them, and probabilities of all pixels add up to 1."""
    rng = np.random.default_rng(0)
    x = np.clip(np.round(np.where(rng.random(3000) < 0.4, rng.logistic(60, 5, 3000), rng.logistic(260, 12, 3000))), 0, 255)
    family = fp.Discretized(fp.LogisticMixture(2), 1.0, low=0.0, high=255.0)
    start = family.initialize_from(x, 1, rng, "uniform")
    for _ in range(150):
        start = family.update(start, family.statistics(start, x, np.ones((len(x), 1))))
    order = np.argsort(start["location"][0])
    np.testing.assert_allclose(start["location"][0, order], [60, 260], atol=2.0)
    np.testing.assert_allclose(start["scale"][0, order], [5, 12], rtol=0.1)
    np.testing.assert_allclose(start["shares"][0, order], [0.4, 0.6], atol=0.03)
    assert np.exp(family.log_density(start, np.arange(256.0))).sum() == pytest.approx(1.0, abs=1e-12)


def test_bad_options_of_a_mixture_are_named():
    for wrong, name in (({"n": 0}, "n"), ({"n": 1.5}, "n"), ({"min_scale": 0.0}, "min_scale")):
        with pytest.raises(OptionError, match=rf"LogisticMixture\(?:? ?{name}"):
            fp.LogisticMixture(**wrong)
    unit = {"shares": np.array([[0.5, 0.6]]), "location": np.zeros((1, 2)), "scale": np.ones((1, 2))}
    with pytest.raises(ParameterError, match=r"shares of unit 0 sum to 1\.1"):
        fp.LogisticMixture(2).check_parameters(unit, "Node 0")


EDGES = (-1.0, 0.0, 0.5, 4.0)


@pytest.mark.parametrize("family", [fp.Histogram(EDGES), fp.PiecewiseLinear(EDGES)], ids=["flat", "linear"])
def test_pieces_have_their_integrals_inside_intervals(family):
    units = family.initialize(3, np.random.default_rng(0), "uniform")
    start = np.array([-1.0, -0.7, -0.2, 0.1, -np.inf, 0.3, 2.0, -0.5, 0.5, 5.0])
    end = np.array([4.0, -0.6, 0.1, 0.2, 0.0, np.inf, 3.9, 3.0, 0.5 + 1e-9, 6.0])
    inside = np.exp(family.log_between(units, start, end))
    flow = np.random.default_rng(1).random((len(start) - 1, 3))
    counts = family.statistics_between(units, start[:-1], end[:-1], flow)["counts"]
    wanted = np.zeros_like(counts)
    for n, (low, high) in enumerate(zip(np.maximum(start, -1.0), np.minimum(end, 4.0), strict=True)):
        edges = np.unique([low, *[edge for edge in family.edges if low < edge < high], max(low, high)])
        for k in range(3):
            unit, mass, parts = {"p": units["p"][k : k + 1]}, 0.0, np.zeros(counts.shape[1])
            for a, b in itertools.pairwise(edges if low < high else []):
                for x, weight in zip((a + b) / 2 + (b - a) / 2 * NODES, (b - a) / 2 * WEIGHTS, strict=True):
                    density = weight * np.exp(family.log_density(unit, np.array([x]))[0, 0])
                    mass += density
                    parts += family.statistics(unit, np.array([x]), np.array([[density]]))["counts"][0]
            assert inside[n, k] == pytest.approx(mass, rel=1e-6 if high - low < 1e-6 else 1e-12, abs=1e-15)
            if mass > 0:
                wanted[k] += flow[n, k] * parts / mass
    np.testing.assert_allclose(counts, wanted, rtol=1e-8)
