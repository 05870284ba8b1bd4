"""Posteriors of circuits with multivariate Gaussian inputs: against differences, torch, closed forms and refits."""

import numpy as np
import pytest
import torch

import flatpc as fp
from flatpc.curvature.free_inputs import bends
from flatpc.curvature.log_posterior import LogPosterior
from flatpc.curvature.posterior_solvers import _unit_blocks
from flatpc.families.differences import derivatives
from tests.curvature.test_free_inputs import by_torch

RNG = np.random.default_rng(3)
ROOT = RNG.normal(size=(2, 3, 3))
COVARIANCE = ROOT @ ROOT.swapaxes(1, 2) + 0.5 * np.eye(3)
MEAN = RNG.normal(size=(2, 3))
X = MEAN[0] + RNG.normal(size=(9, 3)) @ ROOT[0].T
X[0, 1] = X[1, :2] = X[2, [0, 2]] = np.nan
LOADINGS = RNG.normal(size=(2, 3, 1))
FULL = {"mean": MEAN, "covariance": COVARIANCE}
FAMILIES = {
    "full": (fp.MultivariateGaussian(3), FULL, X),
    "floors": (fp.MultivariateGaussian(3, min_variance=(0.1, 0.2, 0.3)), FULL, X),
    "low rank": (fp.MultivariateGaussian(3, rank=1), {"mean": MEAN, "loadings": LOADINGS, "noise": np.full((2, 3), 0.7)}, X),
    "mapped": (fp.families.MappedGaussian(3, transforms=(fp.families.Log(), None, None)), FULL, np.abs(X) + 0.1),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_derivatives_in_closed_form_are_those_of_differences(name):
    family, units, rows = FAMILIES[name]
    first, second = derivatives(family, units, rows)
    np.testing.assert_allclose(family.scores(units, rows), first, rtol=1e-6, atol=1e-7 * abs(first).max())
    flow = np.random.default_rng(0).uniform(size=(len(rows), 2))
    found, wanted = bends(family, units, rows, flow), np.einsum("nk,nkqr->kqr", flow, second)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6 * abs(wanted).max())


@pytest.mark.parametrize("name", ["full", "low rank"])
def test_information_is_what_rows_tell_on_average(name):
    """Σ s sᵀ over 200,000 rows drawn with seed 0, to 3% of the largest; and -Σ c, which has less noise, to 1%."""
    family, units, _ = FAMILIES[name]
    rows = family.sample(units, np.zeros(200_000, np.int64), np.random.default_rng(0))
    found = family.information(units)[0]
    score = family.scores(units, rows)[:, 0]
    np.testing.assert_allclose(score.T @ score / len(rows), found, atol=0.03 * abs(found).max())
    flow = np.stack([np.ones(len(rows)), np.zeros(len(rows))], axis=1) / len(rows)
    np.testing.assert_allclose(-family.bends(units, rows, flow)[0], found, atol=0.01 * abs(found).max())


def mixed():
    """Inputs over three, two and one of the same variables, in one sum."""
    nodes = [
        fp.Input(variables=(0, 1, 2), family=fp.MultivariateGaussian(3), width=2), fp.Input(0, fp.Gaussian(), 2),
        fp.Input(variables=(2, 1), family=fp.MultivariateGaussian(2), width=2), fp.Product((1, 2)), fp.Sum((0, 3)),
    ]  # fmt: skip
    given = {
        0: FULL,
        1: {"mean": [0.0, 1.0], "variance": [1.0, 2.0]},
        2: {"mean": MEAN[:, 1:], "covariance": COVARIANCE[:, 1:, 1:]},
        4: [[0.2, 0.3, 0.4, 0.1]],
    }
    return fp.Circuit(nodes, given)


def test_inputs_over_some_of_the_same_variables():
    """Hessian and gradient are those of automatic differentiation, with unknown entries; blocks are parts of it."""
    circuit = mixed()
    around = LogPosterior(circuit, X, alpha=0.5)
    assert around.size == 4 + 2 * 9 + 2 * 2 + 2 * 5
    loss, zero = by_torch(around, X), torch.zeros(around.size, dtype=torch.float64)
    wanted = torch.autograd.functional.hessian(loss, zero).numpy()
    np.testing.assert_allclose(around.hessian_matrix(), wanted, rtol=1e-9, atol=1e-9 * abs(wanted).max())
    slope = torch.autograd.functional.jacobian(loss, zero).numpy()
    np.testing.assert_allclose(-around.gradients(X).sum(axis=0), slope, rtol=1e-9, atol=1e-9)
    A = wanted + around.information(np.eye(around.size), prior=True)
    for part, found in _unit_blocks(around):
        k, n = found.shape[:2]
        mine = A[part, part].reshape(k, n, k, n)[np.arange(k), :, np.arange(k), :]
        np.testing.assert_allclose(found, mine, rtol=1e-8, atol=1e-8 * abs(wanted).max())


def test_one_gaussian_has_the_textbook_errors():
    """Var of log N at x is (q + q²/2 - q + d/2) / N with q = (x - m)ᵀ S⁻¹ (x - m): of the mean q, of S the rest."""
    rows = np.random.default_rng(0).normal(size=(500, 3)) @ ROOT[0].T
    mean, covariance = rows.mean(axis=0), np.cov(rows.T, bias=True)
    family = fp.MultivariateGaussian(3)
    units = {"mean": mean[None], "covariance": covariance[None]}
    circuit = fp.Circuit([fp.Input(variables=(0, 1, 2), family=family)], {0: units})
    q = np.einsum("ni,ij,nj->n", rows[:20] - mean, np.linalg.inv(covariance), rows[:20] - mean)
    for structure in ("full", "block", "operator"):
        post = fp.curvature.laplace(circuit, rows, structure=structure)
        assert post.is_optimum
        np.testing.assert_allclose(post.log_prob(rows[:20]).error ** 2 * 500, q + (q**2 - 2 * q + 3) / 2, rtol=1e-5)


def mixture(family, rows, epochs):
    nodes = [fp.Input(variables=(0, 1), family=family, width=2), fp.Sum((0,))]
    start = fp.Circuit(nodes, {0: {"mean": [[0.0, 0.0], [6.0, 0.0]], "covariance": [np.eye(2), np.eye(2)]}, 1: [[0.5, 0.5]]})
    options = {"batch_size": None, "epochs": epochs, "dtype": "float64", "progress": False}
    return fp.fit(start, rows, method=fp.EM(step_size=1.0), regularizer=fp.learning.Laplace(1.0, on="sums"), **options).circuit


def two_clusters(n, seed):
    rng = np.random.default_rng(seed)
    away = np.where(rng.random(n) < 0.4, 6.0, 0.0)
    return rng.normal(size=(n, 2)) @ np.array([[1.0, 0.0], [0.8, 0.6]]).T + np.stack([away, np.zeros(n)], axis=1)


def test_errors_are_those_of_bootstrap_refits():
    """300 rows of seed 0, 80 refits of seeds 1000 on; the median over 30 rows of the ratio is within 15%."""
    rows, asked = two_clusters(300, 0), two_clusters(30, 1)
    fitted = mixture(fp.MultivariateGaussian(2), rows, 40)
    post = fp.curvature.laplace(fitted, rows, pseudocount=1.0)
    assert post.is_optimum
    again = []
    for b in range(80):
        drawn = rows[np.random.default_rng(1000 + b).integers(0, 300, 300)]
        again.append(mixture(fp.MultivariateGaussian(2), drawn, 40).log_prob(asked))
    assert 0.85 < np.median(post.log_prob(asked).error / np.std(again, axis=0, ddof=1)) < 1.15


def test_pooled_covariances_are_a_prior():
    """EM's fixed point with pooled rows is an optimum of the posterior, which is surer than without them."""
    rows = two_clusters(60, 0)
    fitted = mixture(fp.MultivariateGaussian(2, pooled=30.0), rows, 300)
    post = fp.curvature.laplace(fitted, rows, pseudocount=1.0)
    assert post.damping == 0
    assert post.gap < 1e-10
    alone = fp.MultivariateGaussian(2)
    same = fp.Circuit([fp.Input(variables=(0, 1), family=alone, width=2), fp.Sum((0,))], dict(fitted.parameters))
    other = fp.curvature.laplace(same, rows, pseudocount=1.0)
    assert other.gap > 0.1
    assert (post.log_prob(rows).error < other.log_prob(rows).error).all()


def test_a_covariance_at_its_floor_stays_and_means_move():
    family = fp.MultivariateGaussian(2, min_variance=0.5)
    units = {"mean": np.zeros((1, 2)), "covariance": np.diag([0.5, 2.0])[None]}
    circuit = fp.Circuit([fp.Input(variables=(0, 1), family=family)], {0: units})
    rows = np.random.default_rng(0).normal(size=(50, 2)) * [0.1, np.sqrt(2.0)]
    drawn = fp.curvature.laplace(circuit, rows).draw(2)
    assert (drawn[0].parameters[0]["covariance"] == units["covariance"]).all()
    assert (drawn[0].parameters[0]["mean"] != 0).all()


def test_the_default_density_has_error_bars():
    """Numbers that depend on one another through a covariance of full rank: a multivariate Gaussian is chosen."""
    rows = np.exp(np.random.default_rng(0).normal(size=(400, 5)) @ np.random.default_rng(1).normal(size=(5, 5)).T / 2)
    density = fp.CircuitDensity(random_state=0, effort=2, verbose=False).fit(rows)
    assert any(isinstance(node, fp.Input) and node.family.n_variables > 1 for node in density.circuit_.nodes)
    with pytest.warns(UserWarning, match="are guesses"):
        value, error = density.score_samples(rows[:10], return_std=True)
    np.testing.assert_allclose(value, density.score_samples(rows[:10]))
    assert (error > 0).all()
    assert np.isfinite(error).all()
