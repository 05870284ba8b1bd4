"""The M-step of one sum: its equations, its optimum, and numbers worked out by hand.

A sum over indicators has as flows the counts of its values, whatever its weights, so `fit` shows the M-step alone.
"""

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import brentq, minimize

import flatpc as fp
from flatpc.engine.numba._kernels.update import cubic_root, exact_multiplier

UPDATES = ("quadratic", "cubic")
MULTIPLIERS = ("renormalize", "exact")


def new_weights(counts, start=None, inputs=False, step_size=1.0, pseudocount=0.0, **sharpness):
    """Weights after one step on data in which value c occurs counts[c] times."""
    n = len(counts)
    X = np.repeat(np.arange(n), counts)[:, None]
    options = {
        "epochs": 1,
        "batch_size": None,
        "method": fp.EM(step_size=step_size),
        "regularizer": fp.learning.Laplace(pseudocount),
        "dtype": "float64",
        "progress": False,
    }
    options["sharpness"] = fp.Sharpness(inputs=inputs, **sharpness) if sharpness else None
    start = np.full(n, 1 / n) if start is None else np.asarray(start)
    if inputs:
        circuit = fp.Circuit([fp.Input(0, fp.Categorical(n))], {0: {"p": start[None]}})
        return fp.fit(circuit, X, **options).circuit.parameters[0]["p"][0]
    nodes = [fp.Input(0, fp.Indicator(n), n), fp.Sum((0,))]
    circuit = fp.Circuit(nodes, {0: {"value": np.arange(n)}, 1: start[None]})
    return fp.fit(circuit, X, **options).circuit.parameters[1][0]


@pytest.mark.parametrize("inputs", [False, True])
def test_worked_by_hand(inputs):
    # Quadratic, μ = 4: F = 2 gives (2 + √(4 + 32)) / 2 = 4, F = 9 gives (9 + √(81 + 144)) / 2 = 12, F = 0 gives 0.
    np.testing.assert_allclose(new_weights([2, 9, 0], inputs=inputs, mu=4.0), [1 / 4, 3 / 4, 0], rtol=1e-15)
    # Cubic, μ = 36: F = 18 gives 36, as 36³ - 18·36² = 2·36·18²; F = 4 gives 12, as 12³ - 4·12² = 2·36·4².
    np.testing.assert_allclose(new_weights([18, 4], inputs=inputs, mu=36.0, update="cubic"), [3 / 4, 1 / 4], rtol=1e-15)
    # With a quarter of a step from (1/2, 1/2).
    np.testing.assert_allclose(new_weights([2, 9], inputs=inputs, mu=4.0, step_size=0.25), [7 / 16, 9 / 16], rtol=1e-15)
    # Plain, and with three pseudocounts spread over three edges.
    np.testing.assert_allclose(new_weights([1, 3, 0], inputs=inputs, mu=0.0), [1 / 4, 3 / 4, 0], rtol=1e-15)
    smoothed = new_weights([1, 3, 0], inputs=inputs, pseudocount=3.0, mu=0.0)
    np.testing.assert_allclose(smoothed, [2 / 7, 4 / 7, 1 / 7], rtol=1e-15)


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("multiplier", MULTIPLIERS)
def test_mu_0_is_plain_to_the_bit(update, multiplier):
    rng = np.random.default_rng(0)
    for counts in rng.integers(0, 50, (20, 7)):
        start = rng.dirichlet(np.ones(7))
        for inputs in (False, True):
            plain = new_weights(counts, start, inputs=inputs, step_size=0.3, mu=0.0)
            np.testing.assert_array_equal(
                new_weights(counts, start, inputs=inputs, step_size=0.3, mu=0.0, update=update, multiplier=multiplier), plain
            )
        np.testing.assert_array_equal(
            new_weights(counts, start, step_size=0.3), new_weights(counts, start, step_size=0.3, mu=0.0)
        )


def test_the_cubic_root_solves_its_equation_over_12_decades():
    """In exact arithmetic, relative to the largest term."""
    rng = np.random.default_rng(1)
    cases = np.concatenate(
        [10 ** rng.uniform(-6, 6, (3000, 3)), [[a, b, c] for a in (1e-6, 1e6) for b in (1e-6, 1e6) for c in (1e-6, 1e6)]]
    )
    for f, mu, lam in cases:
        theta = Fraction(cubic_root(f, mu, lam))
        terms = Fraction(lam) * theta**3, Fraction(f) * theta**2, 2 * Fraction(mu) * Fraction(f) ** 2
        assert theta > 0
        assert abs(terms[0] - terms[1] - terms[2]) <= max(terms) * Fraction(1, 10**14)


def test_an_edge_without_flow_stays_dead():
    assert cubic_root(0.0, 1.0, 1.0) == 0.0


@pytest.mark.parametrize("update", UPDATES)
def test_the_exact_multiplier_over_12_decades(update):
    """Against scipy's root finder on the logarithm of λ."""
    rng = np.random.default_rng(2)
    cubic = update == "cubic"
    for _ in range(200):
        flow = 10 ** rng.uniform(-6, 6, rng.integers(1, 30))
        mu = 10 ** rng.uniform(-6, 6)

        def mass(log_lam, flow=flow, mu=mu):
            return np.log(solve(flow, mu, np.exp(log_lam), cubic).sum())

        low = np.log(flow.sum())
        expected = np.exp(brentq(mass, low - 1e-9, low + 60, xtol=1e-14, rtol=1e-15))
        found = exact_multiplier(flow, mu, cubic)
        assert found == pytest.approx(expected, rel=1e-11)
        assert solve(flow, mu, found, cubic).sum() == pytest.approx(1, abs=1e-12)


def solve(flow, mu, lam, cubic):
    """The quadratic's root by its formula; the cubic's, θ = (F/λ) t with t³ - t² = 2μλ²/F, by bisection: slow and sure."""
    if not cubic:
        return (flow + np.sqrt(flow**2 + 4 * lam * mu * flow)) / (2 * lam)
    r = 2 * mu * lam**2 / flow
    low, high = np.ones_like(r), 2 + 2 * np.cbrt(r)
    for _ in range(200):
        middle = (low + high) / 2
        below = middle**2 * (middle - 1) < r
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return flow / lam * high


def objective(theta, counts, mu, update):
    """Σ F log θ - μ Σ F/θ, or - μ Σ F²/θ²."""
    F, t = counts[counts > 0], theta[..., counts > 0]
    with np.errstate(divide="ignore", over="ignore"):
        penalty = (F / t).sum(-1) if update == "quadratic" else ((F / t) ** 2).sum(-1)
        return (F * np.log(t)).sum(-1) - mu * penalty


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("inputs", [False, True])
@pytest.mark.parametrize("mu", [1e-3, 0.1, 1.0, 30.0])
def test_the_exact_m_step_is_optimal(update, inputs, mu):
    rng = np.random.default_rng(3)
    counts = np.array([1, 17, 3, 0, 60])
    theta = new_weights(counts, inputs=inputs, mu=mu, update=update, multiplier="exact")
    assert theta.sum() == pytest.approx(1, abs=1e-12)
    ours = objective(theta, counts, mu, update)
    slack = 1e-8 * abs(ours)
    points = np.concatenate([rng.dirichlet(np.ones(5), 5000), rng.dirichlet(100 * theta + 1e-3, 5000)])
    assert (objective(points, counts, mu, update) <= ours + slack).all()
    alive = counts > 0

    def loss(logits):
        t = np.zeros(5)
        t[alive] = np.exp(logits - logits.max())
        t[alive] /= t[alive].sum()
        return -objective(t, counts, mu, update)

    best = minimize(loss, np.log(theta[alive]) + 0.1 * rng.standard_normal(4), method="Nelder-Mead", options={
        "xatol": 1e-12, "fatol": 1e-14, "maxiter": 20000, "maxfev": 20000,
    })  # fmt: skip
    assert -best.fun <= ours + slack
    assert -best.fun == pytest.approx(ours, rel=1e-8)


def test_the_limits_of_the_quadratic():
    """F ≫ μ: Laplace's rule, F + μ per edge; F ≪ μ: proportional to √F."""
    np.testing.assert_allclose(new_weights([3000, 5000], mu=0.1), np.array([3000.1, 5000.1]) / 8000.2, rtol=1e-9)
    np.testing.assert_allclose(new_weights([1, 4], mu=1e8), [1 / 3, 2 / 3], rtol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("sharpness", [None, fp.Sharpness(mu=1e-30), fp.Sharpness(mu=0.1, update="cubic")])
def test_units_that_hardly_anything_flows_through_keep_their_weights(dtype, sharpness):
    """Flow so small that its reciprocal is infinite: the unit stays as it is, and nothing becomes NaN."""
    least = np.finfo(dtype).smallest_subnormal
    first = {"float32": 1e-30, "float64": 1e-200}[dtype]
    nodes = [
        fp.Input(0, fp.Bernoulli(), 2), fp.Sum((0,), 2), fp.Input(1, fp.Bernoulli(), 2), fp.Product((1, 2)), fp.Sum((3,)),
    ]  # fmt: skip
    W = np.array([[0.25, 0.75], [0.5, 0.5]])
    rare = float(least) / first * 4
    circuit = fp.Circuit(nodes, {0: {"p": [0.2, 0.3]}, 1: W, 2: {"p": [0.5, first]}, 4: [[1 - rare, rare]]})
    X = np.array([[0, 1], [1, 1]], float)
    result = fp.fit(
        circuit, X, epochs=3, batch_size=None, method=fp.EM(step_size=1.0), sharpness=sharpness, dtype=dtype, progress=False
    ).circuit
    for i in (0, 2):
        assert np.isfinite(result.parameters[i]["p"]).all()
    np.testing.assert_allclose(result.parameters[1].sum(axis=1), 1, rtol=1e-6)
    if sharpness is None:  # the penalised equations lift small flows
        np.testing.assert_allclose(result.parameters[1][1], W[1], rtol=1e-6)


def test_rows_far_from_every_component():
    """Log-likelihoods of -500 and less leave hardly any flow for most units of a hidden tree over Gaussians."""
    train = fp.datasets.load("gaussian_mixture", seed=5).train[40:200]
    start = fp.structures.hclt(train, 32, family="gaussian").randomize(5, X=train)
    result = fp.fit(start, train, epochs=2, batch_size=None, method=fp.EM(step_size=1.0), progress=False)
    assert np.isfinite(result.circuit.log_prob(train)).all()
