"""Whether a fit is at an optimum, and how much a refit would win: at optima, at saddles, and far away."""

import numpy as np
import pytest
from scipy.linalg import eigh, null_space

import flatpc as fp
from flatpc.curvature import posterior_solvers
from flatpc.curvature.lowest import lowest_curvature
from flatpc.learning.updating import _log_posterior
from tests.curvature.test_posterior import STRUCTURES, hidden, refit


def saddle():
    """A hidden tree whose latents tell nothing apart, at rest: what EM reaches if it starts with units that are all the same."""
    circuit, X = hidden()
    same = {}
    for i, node in enumerate(circuit.nodes):
        if isinstance(node, fp.Input):
            same[i] = {"p": np.full(node.width, X[:, node.variable].mean())}
        elif isinstance(node, fp.Sum):
            same[i] = np.full(circuit.weight_shape(i), 1 / circuit.weight_shape(i)[1])
    return refit(circuit.with_parameters(same), X), X


def dense(around):
    """All λ of A x = λ C x, on the directions that change anything, by matrices."""
    identity = np.eye(around.size)
    A = around.hessian_matrix() + around.information(identity, prior=True)
    C = around.information(identity, prior=False)
    stay = np.zeros((0, around.size))
    for entries in around.layout.units():
        row = np.zeros(around.size)
        row[entries] = around.moving_weights[entries]
        stay = np.concatenate([stay, row[None]])
    Q = null_space(stay)
    return eigh(Q.T @ (A + A.T) @ Q / 2, Q.T @ (C + C.T) @ Q / 2, eigvals_only=True)


@pytest.mark.parametrize("make", [hidden, saddle], ids=["optimum", "saddle"])
def test_lanczos_finds_the_lowest_curvature(make):
    circuit, X = make()
    around = fp.curvature.laplace(circuit, X).log_posterior
    values = dense(around)
    assert values[-1] < 1 + 1e-9  # no more is known than with complete data
    found = lowest_curvature(around)
    assert found.value == pytest.approx(values[0], abs=max(1e-6, found.residual))
    assert found.is_negative == (values[0] < 0) == (make is saddle)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_a_saddle_is_no_optimum(structure):
    circuit, X = saddle()
    found = fp.curvature.laplace(circuit, X, structure=structure)
    assert found.gap < 1e-9  # the slope is 0
    assert not found.is_optimum
    if structure in ("full", "operator"):
        assert found.damping == fp.curvature.laplace(circuit, X).damping > 0
    assert np.isfinite(found.log_prob(X[:5]).error).all()


@pytest.mark.parametrize("structure", STRUCTURES)
def test_an_optimum_is_one(structure):
    for n_latents, seed in ((2, 0), (2, 1), (3, 2)):
        circuit, X = hidden(n_latents, seed)
        polished = fp.fit(circuit, X, method="newton", epochs=10, regularizer=fp.learning.Laplace(1.0), progress=False).circuit
        found = fp.curvature.laplace(polished, X, pseudocount=1.0, structure=structure)
        if dense(found.log_posterior)[0] > 0:
            assert found.is_optimum, (n_latents, seed, found)


def test_the_operator_solves_with_the_damping_that_it_reports(monkeypatch):
    rough = fp.structures.hclt(hidden()[1], 3, seed=5, init="random")
    X = hidden()[1]
    found = fp.curvature.laplace(rough, X, structure="operator")
    around = found.log_posterior
    g = found.gradients(X[:4])
    x = found.solve(g)
    by_information = around.centred(around.information(x, prior=False))
    back = around.products(x, found.damping) if np.isfinite(found.damping) else by_information
    np.testing.assert_allclose(back, around.centred(g), atol=2e-3 * abs(g).max())
    # Where Lanczos has missed negative curvature, that is said, and no other damping is taken.
    circuit, X = saddle()
    monkeypatch.setattr(posterior_solvers, "lowest_curvature", lambda around: fp.curvature.lowest.Lowest(0.0, 0.0))
    blind = fp.curvature.laplace(circuit, X, structure="operator")
    assert blind.damping == 0
    with pytest.warns(UserWarning, match="without positive curvature"):
        errors = blind.errors(np.random.default_rng(0).standard_normal((3, blind.size)))
    assert np.isfinite(errors).all()
    assert (errors > 0).all()


@pytest.mark.parametrize(("n_latents", "epochs"), [(2, 4), (4, 8), (2, 60), (4, 40)])
def test_far_from_an_optimum_no_more_is_said_to_be_won_than_there_is(n_latents, epochs):
    """Weights near 0, learnt without a prior, under one. The truth is a refit with the prior."""
    rng = np.random.default_rng(0)
    latent = rng.integers(0, 2, (60, 1))
    X = (rng.random((60, 6)) < np.where(latent == 0, 0.05, 0.9)).astype(float)
    options = {"batch_size": None, "method": fp.EM(step_size=1.0), "dtype": "float64", "progress": False}
    plain = fp.fit(fp.structures.hclt(X, n_latents, seed=0), X, epochs=epochs, **options).circuit
    found = fp.curvature.laplace(plain, X, pseudocount=1.0)
    around = found.log_posterior
    s = around.slope
    quadratic = float(s @ found.solve(s[None])[0]) / 2
    fitted = fp.fit(plain, X, epochs=2000, regularizer=fp.learning.Laplace(1.0), **options).circuit
    won = _log_posterior(fitted, X, around.alpha) - _log_posterior(plain, X, around.alpha)
    assert abs(np.log(quadratic / won)) > 0.5
    assert found.gap == pytest.approx(won, rel=0.05)  # weights of exactly 0 stay 0 here, and not in a refit
    assert not found.is_optimum
    # Without a matrix as with it, numbers that nothing is known of are held still.
    other = fp.curvature.laplace(plain, X, pseudocount=1.0, structure="operator")
    assert (other.damping, other.gap) == (found.damping, pytest.approx(found.gap, rel=1e-4))
    np.testing.assert_allclose(other.log_prob(X[:8]).error, found.log_prob(X[:8]).error, rtol=1e-3)


def test_what_em_wins_is_the_least_and_what_is_left_of_the_likelihood_the_most():
    """A coin, whose refit is in closed form; a prior that the fit had not."""
    for p in (1e-12, 1e-4, 0.2, 0.5):
        coin = fp.Circuit([fp.Input(0, fp.Bernoulli())], {0: {"p": [p]}})
        X = [[1.0]] * 5 + [[0.0]] * 15
        found = fp.curvature.laplace(coin, X, prior=0.5)
        best = 5.5 / 21
        won = 5.5 * np.log(best / p) + 15.5 * np.log((1 - best) / (1 - p))
        assert found.gap == pytest.approx(won, rel=0.25)
        if p < 0.1:
            assert found.gap == pytest.approx(won, rel=1e-9)  # EM's step is the refit
        most = -(5 * np.log(p) + 15 * np.log1p(-p)) - 0.5 * (np.log(2 * p) + np.log(2 * (1 - p)))
        assert found.gap <= most + 1e-9


def test_near_an_optimum_the_gap_is_what_a_newton_step_wins():
    circuit, X = hidden()
    near = fp.curvature.laplace(circuit, X).log_posterior.circuit_at
    for size in (1e-2, 1e-3):
        moved = near(size * np.random.default_rng(1).standard_normal(fp.curvature.laplace(circuit, X).size))
        found = fp.curvature.laplace(moved, X)
        s = found.log_posterior.slope
        newton = float(s @ found.solve(s[None])[0]) / 2
        won = _log_posterior(refit(moved, X), X, found.log_posterior.alpha) - _log_posterior(moved, X, found.log_posterior.alpha)
        assert found.gap == pytest.approx(newton, rel=10 * size)
        assert found.gap == pytest.approx(won, rel=30 * size, abs=1e-8)
