"""Each family against scipy.stats, closed forms and numerical maximisation, in float64."""

import math

import numpy as np
import pytest
from scipy import integrate, optimize, stats

import flatpc as fp
from flatpc.engine.contract import get_engine
from flatpc.errors import OptionError, ParameterError, SupportError

# One case for each family: parameters of three units, and scipy's frozen distribution of each unit.
BERNOULLI = (fp.Bernoulli(), {"p": np.array([0.2, 0.5, 0.999])}, [stats.bernoulli(p) for p in (0.2, 0.5, 0.999)])
_ROWS = [[0.1, 0.2, 0.3, 0.4], [0.25, 0.25, 0.25, 0.25], [0.0, 0.9, 0.1, 0.0]]
CATEGORICAL = (
    fp.Categorical(4),
    {"p": np.array(_ROWS)},
    [stats.rv_discrete(values=(np.arange(4), row)) for row in _ROWS],
)
GAUSSIAN = (
    fp.Gaussian(),
    {"mean": np.array([-1.0, 0.0, 1e6]), "variance": np.array([0.25, 1.0, 9.0])},
    [stats.norm(m, s) for m, s in ((-1.0, 0.5), (0.0, 1.0), (1e6, 3.0))],
)
BINOMIAL = (fp.Binomial(7), {"p": np.array([0.05, 0.5, 0.9])}, [stats.binom(7, p) for p in (0.05, 0.5, 0.9)])
POISSON = (fp.Poisson(), {"rate": np.array([0.3, 4.5, 40.2])}, [stats.poisson(r) for r in (0.3, 4.5, 40.2)])
INDICATOR = (
    fp.Indicator(3),
    {"value": np.array([0.0, 2.0, 1.0])},
    [stats.rv_discrete(values=(np.arange(3), row)) for row in ([1, 0, 0], [0, 0, 1], [0, 1, 0])],
)
ALL = [BERNOULLI, CATEGORICAL, GAUSSIAN, BINOMIAL, POISSON, INDICATOR]
FINITE = [BERNOULLI, CATEGORICAL, BINOMIAL, INDICATOR]
LEARNABLE = [BERNOULLI, CATEGORICAL, GAUSSIAN, BINOMIAL, POISSON]


def ids(cases):
    return [type(case[0]).__name__ for case in cases]


def each(cases):
    return pytest.mark.parametrize(("family", "parameters", "reference"), cases, ids=ids(cases))


def values_of(family):
    """Values to try: all of a finite family, a wide range of the others."""
    if family.n_categories is not None:
        return np.arange(family.n_categories, dtype=np.float64)
    if isinstance(family, fp.Poisson):
        return np.array([0.0, 1.0, 3.0, 50.0, 1000.0])
    return np.array([-3.0, 0.0, 0.7, 1e6 - 2, 1e6])


def log_probability(distribution, x):
    with np.errstate(divide="ignore"):
        return (
            distribution.logpdf(x)
            if isinstance(getattr(distribution, "dist", None), type(stats.norm))
            else distribution.logpmf(x)
        )


# ---- densities ------------------------------------------------------------------------------------------------------


@each(ALL)
def test_log_density_is_scipys(family, parameters, reference):
    x = values_of(family)
    expected = np.stack([log_probability(r, x) for r in reference], axis=1)
    np.testing.assert_allclose(family.log_density(parameters, x), expected, rtol=1e-12, atol=1e-13)


@each(ALL)
def test_missing_values_have_density_one(family, parameters, reference):
    x = np.array([np.nan, values_of(family)[1], np.nan])
    log_density = family.log_density(parameters, x)
    np.testing.assert_array_equal(log_density[[0, 2]], 0.0)
    np.testing.assert_array_equal(log_density[1], family.log_density(parameters, x[1:2])[0])


@each(FINITE)
def test_finite_families_sum_to_one(family, parameters, reference):
    total = np.exp(family.log_density(parameters, values_of(family))).sum(axis=0)
    np.testing.assert_allclose(total, 1.0, rtol=0, atol=1e-13)


def test_poisson_sums_to_one():
    family, parameters, _ = POISSON
    total = np.exp(family.log_density(parameters, np.arange(400.0))).sum(axis=0)
    np.testing.assert_allclose(total, 1.0, rtol=0, atol=1e-13)


def test_gaussian_integrates_to_one():
    family = fp.Gaussian()
    parameters = {"mean": np.array([0.5]), "variance": np.array([2.0])}
    total, _ = integrate.quad(lambda x: np.exp(family.log_density(parameters, np.array([x]))[0, 0]), -np.inf, np.inf)
    assert total == pytest.approx(1.0, abs=1e-10)


def test_probabilities_of_zero_give_minus_infinity():
    assert fp.Bernoulli().log_density({"p": np.array([0.0, 1.0])}, np.array([1.0, 0.0])).tolist() == [[-np.inf, 0], [0, -np.inf]]
    assert fp.Binomial(2).log_density({"p": np.array([0.0, 1.0])}, np.array([0.0, 2.0])).tolist() == [[0, -np.inf], [-np.inf, 0]]


@pytest.mark.parametrize("deviations", [1e6, 1e150])
def test_gaussian_outliers(deviations):
    log_density = fp.Gaussian().log_density({"mean": np.array([0.0]), "variance": np.array([1.0])}, np.array([deviations]))
    np.testing.assert_allclose(log_density[0, 0], -(deviations**2) / 2 - np.log(2 * np.pi) / 2, rtol=1e-15)


def test_gaussian_beyond_float64_is_minus_infinity():
    log_density = fp.Gaussian().log_density({"mean": np.array([0.0]), "variance": np.array([1.0])}, np.array([1e300]))
    assert log_density[0, 0] == -np.inf


def test_gaussian_with_an_enormous_variance():
    log_density = fp.Gaussian().log_density({"mean": np.array([0.0]), "variance": np.array([1e308])}, np.array([0.0]))
    np.testing.assert_allclose(log_density[0, 0], -0.5 * (np.log(2 * np.pi) + 308 * np.log(10)), rtol=1e-14)


# ---- moments --------------------------------------------------------------------------------------------------------


@each(ALL)
def test_mean_and_variance_are_scipys(family, parameters, reference):
    np.testing.assert_allclose(family.mean(parameters), [r.mean() for r in reference], rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(family.variance(parameters), [r.var() for r in reference], rtol=1e-11, atol=1e-12)


@each(ALL)
def test_nothing_is_more_probable_than_the_mode(family, parameters, reference):
    mode = family.mode(parameters)
    candidates = np.concatenate([values_of(family), np.arange(100.0) if family.n_categories is None else []])
    for k, distribution in enumerate(reference):
        assert log_probability(distribution, mode[k]) >= log_probability(distribution, candidates).max() - 1e-12


def test_mode_of_certain_binomials():
    assert fp.Binomial(5).mode({"p": np.array([0.0, 1.0])}).tolist() == [0.0, 5.0]


# ---- learning -------------------------------------------------------------------------------------------------------


def weighted_rows(family, seed=0, n=60):
    """Rows with some missing, and a weight of each for each of three units."""
    rng = np.random.default_rng(seed)
    if isinstance(family, fp.Gaussian):
        x = rng.normal(1e6, 2.0, n)
    elif isinstance(family, fp.Poisson):
        x = rng.poisson(3.0, n).astype(float)
    else:
        x = rng.integers(0, family.n_categories, n).astype(float)
    x[rng.random(n) < 0.2] = np.nan
    return x, rng.exponential(size=(n, 3))


@each([BERNOULLI, BINOMIAL, POISSON])
def test_update_maximises_the_weighted_likelihood(family, parameters, reference):
    """One number per unit: bounded numerical maximisation finds the same one."""
    x, flow = weighted_rows(family)
    new = family.update(parameters, family.statistics(parameters, x, flow))
    (name,) = family.names
    upper = 1 - 1e-9 if name == "p" else 100.0
    for k in range(3):
        found = optimize.minimize_scalar(
            lambda t, k=k: -(flow[:, k] * family.log_density({name: np.array([t])}, x)[:, 0]).sum(),
            bounds=(1e-9, upper),
            method="bounded",
            options={"xatol": 1e-12},
        )
        assert new[name][k] == pytest.approx(found.x, abs=1e-6)


def test_categorical_update_is_weighted_frequency():
    family, parameters, _ = CATEGORICAL
    x, flow = weighted_rows(family)
    new = family.update(parameters, family.statistics(parameters, x, flow))["p"]
    for k in range(3):
        counts = np.bincount(x[~np.isnan(x)].astype(int), weights=flow[~np.isnan(x), k], minlength=4)
        np.testing.assert_allclose(new[k], counts / counts.sum(), rtol=1e-13)


def test_gaussian_update_is_weighted_mean_and_variance():
    family, parameters, _ = GAUSSIAN
    x, flow = weighted_rows(family)
    new = family.update(parameters, family.statistics(parameters, x, flow))
    seen = ~np.isnan(x)
    mean = np.array([np.average(x[seen], weights=flow[seen, k]) for k in range(3)])
    variance = [np.average((x[seen] - mean[k]) ** 2, weights=flow[seen, k]) for k in range(3)]
    np.testing.assert_allclose(new["mean"], mean, rtol=1e-13)
    # Units 0 and 1 start a million away, so that squares of 10^12 cancel down to 4: eleven digits of sixteen are lost.
    np.testing.assert_allclose(new["variance"], variance, rtol=1e-3)
    np.testing.assert_allclose(new["variance"][2], variance[2], rtol=1e-10)


@each(LEARNABLE)
def test_statistics_add_up(family, parameters, reference):
    x, flow = weighted_rows(family)
    whole = family.statistics(parameters, x, flow)
    first, second = family.statistics(parameters, x[:25], flow[:25]), family.statistics(parameters, x[25:], flow[25:])
    for name in whole:
        np.testing.assert_allclose(first[name] + second[name], whole[name], rtol=1e-12)


@each(ALL)
def test_a_unit_without_flow_keeps_its_parameters(family, parameters, reference):
    x, flow = weighted_rows(family)
    flow[:, 1] = 0.0
    new = family.update(parameters, family.statistics(parameters, x, flow))
    for name in family.names:
        np.testing.assert_array_equal(new[name][1], parameters[name][1])


@each([BERNOULLI, CATEGORICAL])
def test_pseudocount_is_spread_over_the_values(family, parameters, reference):
    n = family.n_categories
    x, flow = np.zeros(6), np.ones((6, 3))
    new = family.update(parameters, family.statistics(parameters, x, flow), pseudocount=2.0)["p"]
    of_value_1 = new if isinstance(family, fp.Bernoulli) else new[:, 1]
    np.testing.assert_allclose(of_value_1, (2 / n) / (6 + 2), rtol=1e-14)


def test_bounds_hold():
    bounded = fp.Gaussian(min_variance=0.5, max_variance=2.0)
    parameters = {"mean": np.zeros(2), "variance": np.ones(2)}
    x, flow = np.array([0.0, 6.0, 3.0, 3.0]), np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    new = bounded.update(parameters, bounded.statistics(parameters, x, flow))  # variances 9 and 0
    np.testing.assert_allclose(new["mean"], 3.0, rtol=1e-15)
    np.testing.assert_array_equal(new["variance"], [2.0, 0.5])


def test_bounded_variances_start_as_in_einsum_networks():
    start = fp.Gaussian(max_variance=10.0).initialize(1000, np.random.default_rng(0), "exponential")
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(start["mean"], rng.standard_normal(1000))
    np.testing.assert_allclose(start["variance"], 1e-4 + (10 - 1e-4) / (1 + np.exp(-rng.standard_normal(1000))), rtol=1e-14)


@pytest.mark.parametrize("most", [0.5, 1e-4, math.inf, math.nan, -1.0])
def test_a_bound_is_above_the_floor(most):
    with pytest.raises(OptionError, match="max_variance"):
        fp.Gaussian(min_variance=0.5, max_variance=most)


def test_floors_hold():
    gaussian = fp.Gaussian(min_variance=0.5)
    parameters = {"mean": np.zeros(1), "variance": np.ones(1)}
    same = gaussian.update(parameters, gaussian.statistics(parameters, np.full(4, 2.0), np.ones((4, 1))))
    assert same["mean"][0] == pytest.approx(2.0, abs=1e-15)
    assert same["variance"][0] == 0.5
    poisson = fp.Poisson(min_rate=0.01)
    rate = {"rate": np.ones(1)}
    assert poisson.update(rate, poisson.statistics(rate, np.zeros(4), np.ones((4, 1))))["rate"][0] == 0.01


# ---- sampling: level 1e-4 for each test, seed fixed -------------------------------------------------------------------

LEVEL = 1e-4


@each([BERNOULLI, CATEGORICAL, BINOMIAL, POISSON])
def test_samples_have_the_right_frequencies(family, parameters, reference):
    rng = np.random.default_rng(11)
    n = 20_000
    for k, distribution in enumerate(reference):
        drawn = family.sample(parameters, np.full(n, k), rng)
        values = np.arange(0, drawn.max() + 2)
        expected = distribution.pmf(values) * n
        observed = np.bincount(drawn.astype(int), minlength=len(values)).astype(float)
        assert (observed[expected == 0] == 0).all()
        # Rare values are counted together, so that the chi-square approximation holds.
        common = expected >= 10
        observed = np.append(observed[common], n - observed[common].sum())
        expected = np.append(expected[common], n - expected[common].sum())
        keep = expected > 1e-9
        assert stats.chisquare(observed[keep], expected[keep] * observed[keep].sum() / expected[keep].sum()).pvalue > LEVEL


def test_gaussian_samples_have_the_right_distribution():
    family, parameters, reference = GAUSSIAN
    rng = np.random.default_rng(12)
    for k, distribution in enumerate(reference):
        drawn = family.sample(parameters, np.full(5000, k), rng)
        assert stats.kstest(drawn, distribution.cdf).pvalue > LEVEL


def test_indicator_samples_its_value():
    family, parameters, _ = INDICATOR
    units = np.array([0, 1, 2, 1])
    assert family.sample(parameters, units, np.random.default_rng(0)).tolist() == [0, 2, 1, 2]


@each(ALL)
def test_each_sample_is_of_its_own_unit(family, parameters, reference):
    units = np.tile([0, 1, 2], 3000)
    drawn = family.sample(parameters, units, np.random.default_rng(1))
    for k, distribution in enumerate(reference):
        error = drawn[units == k].mean() - distribution.mean()
        assert abs(error) <= 5 * distribution.std() / np.sqrt(3000) + 1e-9


def test_values_of_probability_zero_are_never_drawn():
    family = fp.Categorical(3)
    drawn = family.sample({"p": np.array([[0.0, 1.0, 0.0]])}, np.zeros(10_000, int), np.random.default_rng(0))
    assert set(drawn) == {1.0}


# ---- bounds ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "bad", "allowed"),
    [
        (fp.Bernoulli(), 2.0, "0 and 1"),
        (fp.Bernoulli(), 0.5, "0 and 1"),
        (fp.Bernoulli(), -1.0, "0 and 1"),
        (fp.Categorical(4), 4.0, "the whole numbers 0 to 3"),
        (fp.Categorical(4), 1.5, "the whole numbers 0 to 3"),
        (fp.Indicator(3), 3.0, "the whole numbers 0 to 2"),
        (fp.Binomial(7), 8.0, "the whole numbers 0 to 7"),
        (fp.Binomial(7), -1.0, "the whole numbers 0 to 7"),
        (fp.Binomial(7), 0.1, "the whole numbers 0 to 7"),
        (fp.Poisson(), -1.0, "the whole numbers 0, 1, 2, ..."),
        (fp.Poisson(), 2.5, "the whole numbers 0, 1, 2, ..."),
        (fp.Poisson(), np.inf, "the whole numbers 0, 1, 2, ..."),
        (fp.Gaussian(), np.inf, "finite numbers"),
        (fp.Gaussian(), -np.inf, "finite numbers"),
    ],
)
def test_values_outside_the_support_are_named(family, bad, allowed):
    with pytest.raises(SupportError) as caught:
        family.check(np.array([0.0, np.nan, bad, bad]), "Column 'age'")
    message = str(caught.value)
    assert f"Column 'age' has the value {bad:g} in row 2" in message
    assert f"allows only {allowed}." in message


@each(ALL)
def test_values_of_the_support_and_missing_ones_pass(family, parameters, reference):
    family.check(np.append(values_of(family), np.nan), "Column 'x0'")


@pytest.mark.parametrize(
    ("family", "parameters", "message"),
    [
        (fp.Bernoulli(), {"p": [-0.1]}, "p holds -0.1"),
        (fp.Bernoulli(), {"p": [np.nan]}, "p holds nan"),
        (fp.Categorical(2), {"p": [[0.5, 0.6]]}, "unit 0 sum to 1.1, not 1"),
        (fp.Categorical(2), {"p": [[1.5, -0.5]]}, "p holds 1.5"),
        (fp.Binomial(3), {"p": [1.1]}, "p holds 1.1"),
        (fp.Gaussian(), {"mean": [np.nan], "variance": [1.0]}, "every mean"),
        (fp.Gaussian(), {"mean": [0.0], "variance": [0.0]}, "every variance"),
        (fp.Gaussian(), {"mean": [0.0], "variance": [np.inf]}, "every variance"),
        (fp.Poisson(), {"rate": [0.0]}, "every rate"),
        (fp.Poisson(), {"rate": [np.nan]}, "every rate"),
        (fp.Indicator(2), {"value": [2.0]}, "whole numbers from 0 to 1"),
        (fp.Indicator(2), {"value": [0.5]}, "whole numbers from 0 to 1"),
        (fp.Indicator(2), {"value": [np.nan]}, "whole numbers from 0 to 1"),
    ],
)
def test_bad_parameters_are_refused(family, parameters, message):
    with pytest.raises(ParameterError, match=message) as caught:
        family.check_parameters({name: np.array(value) for name, value in parameters.items()}, "Node 3")
    assert str(caught.value).startswith("Node 3")


@each(ALL)
@pytest.mark.parametrize("scheme", ["exponential", "uniform", "dirichlet"])
def test_initial_parameters_are_good(family, parameters, reference, scheme):
    drawn = family.initialize(5, np.random.default_rng(0), scheme)
    family.check_parameters(drawn, "Node 0")
    assert {name: array.shape for name, array in drawn.items()} == family.parameter_shapes(5)


# ---- by name --------------------------------------------------------------------------------------------------------


def test_families_by_name():
    assert fp.family("categorical", n=3) == fp.Categorical(3)
    assert fp.family("gaussian", min_variance=0.5) == fp.Gaussian(0.5)
    assert fp.family(fp.Poisson()) == fp.Poisson()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fp.family("normal"), "family='normal'; choose one of 'bernoulli'"),
        (lambda: fp.family("bernoulli", n=3), "no option 'n'"),
        (lambda: fp.Categorical(0), r"Categorical\(n=0\); give a whole number of at least 1"),
        (lambda: fp.Categorical(2.5), "whole number"),
        (lambda: fp.Indicator(0), r"Indicator\(n=0\); give a whole number of at least 1"),
        (lambda: fp.Binomial(0), r"n=0\); give a whole number of at least 1, the number of trials"),
        (lambda: fp.Gaussian(0.0), "positive"),
        (lambda: fp.Gaussian(np.nan), "positive"),
        (lambda: fp.Gaussian(np.inf), "finite"),
        (lambda: fp.Poisson(-1.0), "positive"),
    ],
)
def test_options_out_of_range(make, message):
    with pytest.raises(OptionError, match=message):
        make()


def test_counts_beyond_all_factorials_have_density_zero_not_nan():
    log_density = fp.Poisson().log_density({"rate": np.array([0.5, 20.0])}, np.array([1e308, 3.0]))
    assert np.isneginf(log_density[0]).all()
    assert np.isfinite(log_density[1]).all()
    circuit = fp.Circuit([fp.Input(0, fp.Poisson(), 2), fp.Sum((0,))], {0: {"rate": [0.5, 20.0]}, 1: [[0.5, 0.5]]})
    for engine in ("numba", "torch"):
        assert np.isneginf(circuit.log_prob([[1e308]], engine=engine)).all()
        assert not any(np.isnan(value).any() for value in get_engine(engine).unit_values(circuit, np.array([[1e308]])))
