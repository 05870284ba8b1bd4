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
