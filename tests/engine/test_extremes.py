"""Rows, weights and counts at the edge of what numbers can hold: the right answer, and never NaN."""

import mpmath
import numpy as np
import pytest

import flatpc as fp


def gaussian(means, weights):
    parameters = {0: {"mean": means, "variance": [1.0] * len(means)}, 1: [weights]}
    return fp.Circuit([fp.Input(0, fp.Gaussian(), len(means)), fp.Sum((0,), 1)], parameters)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("engine", ["numba", "torch"])
@pytest.mark.parametrize("far", [50.0, 1e3, 1e6])
def test_a_weight_of_zero_has_no_flow_whatever_lies_below_it(engine, dtype, far):
    flows = gaussian([0.0, far], [1.0, 0.0]).flows([[far]], engine=engine, dtype=dtype)
    np.testing.assert_array_equal(flows.sums[1], [[1.0, 0.0]])


def test_learning_goes_on_after_weights_have_become_zero():
    """EM on one cluster leaves weights of 0; rows 60 standard deviations away then have flows, and a later fit takes them."""
    rng = np.random.default_rng(0)
    X = rng.normal(0, 1, (300, 2))
    start = fp.structures.rat_spn(2, depth=0, n_repetitions=1, n_sums=4, n_inputs=4, family="gaussian", seed=0)
    learnt = fp.fit(start, X, epochs=200, batch_size=None, method=fp.EM(step_size=1.0), progress=False).circuit
    away = np.full((3, 2), 60.0)
    flows = learnt.flows(away)
    for values in flows.sums.values():
        assert np.isfinite(values).all()
        assert (values <= len(away) + 1e-9).all()
    again = fp.fit(learnt, np.concatenate([X, away]), epochs=5, batch_size=None, method=fp.EM(step_size=1.0), progress=False)
    assert np.isfinite(again.history["train_nll"]).all()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("small", [1e-30, 1e-37, 1e-60, 1e-300])
def test_tiny_weights_count_for_what_they_are(dtype, small):
    circuit = fp.Circuit([fp.Input(0, fp.Indicator(2), 2), fp.Sum((0,), 1)], {0: {"value": [0.0, 1.0]}, 1: [[1 - small, small]]})
    np.testing.assert_allclose(circuit.log_prob([[1.0]], dtype=dtype), [np.log(small)], rtol=1e-6)
    flows = circuit.flows([[1.0]], dtype=dtype)
    np.testing.assert_allclose(flows.sums[1], [[0.0, 1.0]], rtol=1e-6)
    scalars = [fp.Input(0, fp.Indicator(2)), fp.Input(0, fp.Indicator(2)), fp.Sum((0, 1), 1)]
    apart = fp.Circuit(scalars, {0: {"value": [0.0]}, 1: {"value": [1.0]}, 2: [[1 - small, small]]})
    np.testing.assert_allclose(apart.flows([[1.0], [1.0]], dtype=dtype).sums[2], [[0.0, 2.0]], rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("engine", ["numba", "torch"])
@pytest.mark.parametrize("small", [1e-300, 1e-310, 5e-324])
def test_weights_that_have_no_inverse_have_flows(engine, dtype, small):
    """Both of two edges with such a weight, which split the row by what lies below them; their products underflow."""
    p = {v: {"p": [q]} for v, q in enumerate([0.25, 0.5, 0.0])}
    circuit = fp.Circuit([fp.Input(0, fp.Bernoulli()) for _ in p] + [fp.Sum((0, 1, 2))], {**p, 3: [[small, small, 1.0]]})
    together = fp.Circuit([fp.Input(0, fp.Bernoulli(), 3), fp.Sum((0,))], {0: {"p": [0.25, 0.5, 0.0]}, 1: [[small, small, 1.0]]})
    for i, made in ((3, circuit), (1, together)):
        found = made.flows([[1.0], [1.0]], engine=engine, dtype=dtype)
        np.testing.assert_allclose(found.log_prob, 2 * [np.log(small) + np.log(0.75)], rtol=1e-12)
        np.testing.assert_allclose(found.sums[i], [[2 / 3, 4 / 3, 0.0]], rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("small", [1e-300, 5e-324])
def test_em_uses_weights_that_have_no_inverse(dtype, small):
    """One of three rows is explained by the tiny weight alone, so that EM makes a third of it."""
    start = fp.Circuit([fp.Input(0, fp.Indicator(2), 2), fp.Sum((0,))], {0: {"value": [0.0, 1.0]}, 1: [[1.0, small]]})
    options = {"epochs": 1, "batch_size": None, "method": fp.EM(step_size=1.0), "dtype": dtype, "progress": False}
    learnt = fp.fit(start, [[0.0], [1.0], [0.0]], **options).circuit
    np.testing.assert_allclose(learnt.parameters[1], [[2 / 3, 1 / 3]], rtol=1e-12)


def torn(variance):
    """Two units, each at one of two variables and as far from the other as its twin is; and one that doesn't count."""
    inputs = [fp.Input(v, fp.Gaussian(1e-300), 3) for v in range(2)]
    parameters = {v: {"mean": [v, 1.0 - v, 0.0], "variance": 3 * [variance]} for v in range(2)}
    return fp.Circuit([*inputs, fp.Product((0, 1)), fp.Sum((2,))], {**parameters, 3: [[0.3, 0.7, 0.0]]})


def torn_apart(variance):
    """The same of scalars."""
    inputs = [fp.Input(v, fp.Gaussian(1e-300)) for _ in range(3) for v in range(2)]
    means = [0.0, 1.0, 1.0, 0.0, 0.0, 0.0]
    parameters = {i: {"mean": [mean], "variance": [variance]} for i, mean in enumerate(means)}
    products = [fp.Product((2 * k, 2 * k + 1)) for k in range(3)]
    return fp.Circuit([*inputs, *products, fp.Sum((6, 7, 8))], {**parameters, 9: [[0.3, 0.7, 0.0]]})


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("engine", ["numba", "torch"])
@pytest.mark.parametrize("variance", [1.0, 1e-4, 1e-20, 1e-100, 1e-300])
@pytest.mark.parametrize("make", [torn, torn_apart])
def test_flows_of_rows_that_float64_has_no_density_for(engine, dtype, variance, make):
    """The logarithms are near -1 / variance, and the two units' are the same: the weights decide."""
    circuit = make(variance)
    found = circuit.flows([[0.0, 0.0]], engine=engine, dtype=dtype)
    np.testing.assert_allclose(found.log_prob, [-0.5 / variance - np.log(2 * np.pi) - np.log(variance)], rtol=1e-6)
    np.testing.assert_allclose(found.sums[len(circuit.nodes) - 1], [[0.3, 0.7, 0.0]], rtol=1e-6)
    for name, expected in (("count", [0.3, 0.3, 0.7, 0.7, 0.0, 0.0]), ("deviation", [0.0, -0.3, -0.7, 0.0, 0.0, 0.0])):
        counted = np.stack([statistics[name] for statistics in found.inputs.values()]).T.ravel()
        np.testing.assert_allclose(counted, expected, rtol=1e-6)


@pytest.mark.parametrize("variance", [1.0, 1e-300])
def test_means_given_rows_that_float64_has_no_density_for(variance):
    inputs, parameters = [fp.Input(2, fp.Gaussian(1e-300), 3)], {2: {"mean": [0.0, 1.0, 5.0], "variance": 3 * [1e-4]}}
    two = torn(variance)
    nodes = [*two.nodes[:2], *inputs, fp.Product((0, 1, 2)), fp.Sum((3,))]
    circuit = fp.Circuit(nodes, {0: two.parameters[0], 1: two.parameters[1], **parameters, 4: [[0.3, 0.7, 0.0]]})
    np.testing.assert_allclose(circuit.expectation([[0.0, 0.0, np.nan]]), [[0.0, 0.0, 0.7]], rtol=1e-9)
    np.testing.assert_allclose(circuit.variance([[0.0, 0.0, np.nan]]), [[0.0, 0.0, 1e-4 + 0.21]], rtol=1e-9)


@pytest.mark.parametrize("engine", ["numba", "torch"])
@pytest.mark.parametrize("x", [1e3, 3.6e9, 1e12, 1e100, 1e153])
def test_one_gaussian_is_finite_as_far_as_its_square_is(engine, x):
    expected = -0.5 * (x * x + np.log(2 * np.pi))
    np.testing.assert_allclose(gaussian([0.0], [1.0]).log_prob([[x]], engine=engine), [expected], rtol=1e-12)
    np.testing.assert_allclose(gaussian([0.0, 1.0], [0.5, 0.5]).log_prob([[x]], engine=engine), [expected], rtol=3e-3)


@pytest.mark.parametrize("engine", ["numba", "torch"])
@pytest.mark.parametrize(
    ("count", "rate"),
    [(99_999, 1e5), (100_001, 1e5), (100_001, 3.0), (10**15, 1e15), (10**15 + 10**8, 1e15), (7, 1e15), (10**12, 1e-3)],
)
def test_poisson_of_large_counts(engine, count, rate):
    circuit = fp.Circuit([fp.Input(0, fp.Poisson(), 1), fp.Sum((0,), 1)], {0: {"rate": [rate]}, 1: [[1.0]]})
    with mpmath.workdps(60):
        exact = count * mpmath.log(mpmath.mpf(rate)) - mpmath.mpf(rate) - mpmath.loggamma(count + 1)
    np.testing.assert_allclose(circuit.log_prob([[float(count)]], engine=engine), [float(exact)], rtol=1e-10, atol=1e-7)


def test_em_on_huge_numbers():
    """The likelihood climbs with every step, as it does for the same numbers in a smaller unit."""
    x = 1 + 0.1 * np.random.default_rng(0).normal(size=(100, 1))
    start = fp.structures.rat_spn(1, depth=0, n_repetitions=1, n_sums=2, n_inputs=2, family="gaussian")
    options = {"epochs": 5, "batch_size": None, "method": fp.EM(step_size=1.0), "progress": False}
    huge = fp.fit(start.randomize(0, X=1e150 * x), 1e150 * x, **options).history["train_nll"]
    assert (np.diff(huge) < 1e-9).all()
    small = fp.fit(start.randomize(0, X=100 * x), 100 * x, **options).history["train_nll"]
    np.testing.assert_allclose(huge - 148 * np.log(10), small, atol=1e-6)
