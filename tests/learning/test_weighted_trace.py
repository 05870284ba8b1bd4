"""The weighted trace as a penalty: a unit's optimum against scipy's, smoothing to first order, and what the trace adds up to."""

import numpy as np
import pytest
from scipy.optimize import minimize

import flatpc as fp
from flatpc.errors import OptionError


@pytest.mark.parametrize("mu", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("share", [1.0, 0.25])
def test_a_unit_is_at_the_optimum_of_likelihood_and_penalty(mu, share):
    n = np.array([[3.0, 10.0, 0.4, 25.0], [1e-3, 1e3, 7.0, 2.0]])
    found = fp.learning.WeightedTrace(mu).solve(share * n, np.full((2, 4), 0.25), share)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
    for row, theta in zip(n, found, strict=True):

        def objective(z, row=row):
            log_theta = z - np.logaddexp.reduce(z)
            return -(row * log_theta).sum() + mu / row.sum() * (row * np.exp(-log_theta)).sum()

        best = minimize(objective, np.log(theta) + 0.1, tol=1e-14, options={"gtol": 1e-10})
        assert objective(np.log(theta)) <= best.fun + 1e-9
        np.testing.assert_allclose(theta, np.exp(best.x - np.logaddexp.reduce(best.x)), atol=1e-5)


def test_to_first_order_it_is_smoothing():
    n = np.array([[5.0, 12.0, 33.0]])
    for mu in (1e-2, 1e-3):
        found = fp.learning.WeightedTrace(mu).solve(n, np.ones((1, 3)) / 3, 1.0)
        np.testing.assert_allclose(found, (n + mu) / (n.sum() + 3 * mu), atol=0.1 * mu**2)
    assert np.array_equal(fp.learning.WeightedTrace(0.0).solve(n, n, 1.0).round(15), (n / n.sum()).round(15))


def test_of_certain_responsibilities_the_trace_is_the_number_of_free_parameters():
    """Whatever the weights are: a penalty on it can't tell them apart. With latents it is less, by what is uncertain."""
    rng = np.random.default_rng(0)
    for p in ([0.5, 0.5, 0.5], [0.05, 0.3, 0.9]):
        X = (rng.random((300, 3)) < p).astype(float)
        coins = fp.structures.factorized(X, smoothing=0.0)
        assert fp.curvature.weighted_trace(coins, X, reduction="sum") == pytest.approx(3.0, rel=1e-9)
    X = (rng.random((300, 4)) < np.where(rng.random((300, 1)) < 0.5, 0.3, 0.6)).astype(float)
    options = {"batch_size": None, "epochs": 300, "dtype": "float64", "progress": False}
    tree = fp.fit(fp.structures.hclt(X, 2), X, method=fp.EM(1.0), **options).circuit
    assert 0 < fp.curvature.weighted_trace(tree, X, reduction="sum") < tree.n_free_parameters


def test_it_learns_in_batches_and_smooths():
    rng = np.random.default_rng(0)
    X = (rng.random((60, 6)) < np.where(rng.random((60, 1)) < 0.5, 0.2, 0.7)).astype(float)
    start = fp.structures.hclt(X, 4, seed=0)
    options = {"epochs": 30, "batch_size": 20, "progress": False, "n_threads": 1}
    plain = fp.fit(start, X, **options).circuit
    penalised = fp.fit(start, X, regularizer="weighted-trace", **options).circuit
    root = max(i for i, node in enumerate(start.nodes) if isinstance(node, fp.Sum))
    assert penalised.parameters[root].min() > plain.parameters[root].min()
    assert plain.log_prob(X).mean() > penalised.log_prob(X).mean()


def test_mistakes_are_named():
    for mu in (-1.0, "1", np.nan):
        with pytest.raises(OptionError, match="mu"):
            fp.learning.WeightedTrace(mu)
