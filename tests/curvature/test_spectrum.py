"""Spectrum and estimators against dense matrices and the exact trace."""

import numpy as np
import pytest

import flatpc as fp
from flatpc.errors import OptionError
from tests.curvature.cases import assert_close


@pytest.fixture(scope="module")
def problem():
    X = np.random.default_rng(0).integers(0, 2, (60, 6)).astype(float)
    circuit = fp.structures.hclt(X, n_latents=5, seed=1)
    return circuit, X


@pytest.mark.parametrize("space", ["weights", "logits", "simplex"])
def test_eigenvalues(problem, space):
    circuit, X = problem
    dense = np.linalg.eigvalsh(-fp.curvature.hessian(circuit, X, space=space) / len(X))
    largest = fp.curvature.eigenvalues(circuit, X, k=6, space=space)
    assert largest.converged
    assert_close(largest.values, dense[::-1][:6], 1e-8)
    assert (largest.residuals <= 1e-8 * abs(dense).max()).all()
    smallest = fp.curvature.eigenvalues(circuit, X, k=3, which="smallest", space=space)
    assert abs(smallest.values - dense[:3]).max() <= 1e-8 * abs(dense).max()
    assert largest.n_products < len(dense) + 100


def test_all_eigenvalues_and_vectors(problem):
    circuit, X = problem
    H = -fp.curvature.hessian(circuit, X) / len(X)
    found = fp.curvature.eigenvalues(circuit, X, k=len(H))
    assert_close(found.vectors * found.values @ found.vectors.T, H, 1e-8)


def test_giving_up_is_said(problem):
    circuit, X = problem
    found = fp.curvature.eigenvalues(circuit, X, k=10, which="smallest", space="logits", max_iterations=1)
    assert not found.converged
    assert len(found.values) < 10


def test_spectral_density(problem):
    """Its moments are those of the matrix, up to the sampling of its random starts."""
    circuit, X = problem
    H = -fp.curvature.hessian(circuit, X) / len(X)
    found = fp.curvature.spectral_density(circuit, X, n_vectors=40, n_steps=30, n_grid=4000)
    assert np.trapezoid(found.density, found.grid) == pytest.approx(1.0, abs=1e-3)
    values = np.linalg.eigvalsh(H)
    mean = np.nansum(found.nodes * found.weights) / 40
    spread = np.sqrt(2 * (values**2).sum()) / len(values) / np.sqrt(40)
    assert abs(mean - values.mean()) < 4 * spread
    assert found.nodes[found.weights > 1e-12].max() <= values.max() * (1 + 1e-9)
    assert np.nanmax(found.nodes) == pytest.approx(values.max(), rel=1e-9)


def test_quadrature_is_exact_for_its_start(problem):
    """Gauss: with m nodes, vᵀ A^k v is exact for k < 2m."""
    from flatpc.curvature.spectra import _quadratures

    circuit, X = problem
    H = -fp.curvature.hessian(circuit, X) / len(X)
    H /= np.linalg.norm(H, 2)
    starts = np.random.default_rng(0).standard_normal((3, len(H)))
    for v, nodes, weights in zip(starts, *_quadratures(H, starts, 5), strict=True):
        for k in range(10):
            assert weights @ nodes**k == pytest.approx(v @ np.linalg.matrix_power(H, k) @ v / (v @ v), rel=1e-10)


def _error(problem, estimate, n, n_seeds):
    circuit, X = problem
    exact = fp.curvature.trace(circuit, X).mean()
    H = fp.curvature.operator(circuit, X)
    return np.sqrt(np.mean([(estimate(H, n, seed).value - exact) ** 2 for seed in range(n_seeds)]))


def test_hutchinson_has_its_stated_rate(problem):
    """Its variance for random signs is 2 (‖A‖² - Σ A_ii²) / n."""
    circuit, X = problem
    A = fp.curvature.hessian(circuit, X) / len(X)
    for n in (10, 90):
        stated = np.sqrt(2 * ((A**2).sum() - (np.diag(A) ** 2).sum()) / n)
        assert _error(problem, fp.curvature.hutchinson, n, 80) == pytest.approx(stated, rel=0.25)  # three standard errors


def test_hutch_pp_beats_hutchinsons_rate(problem):
    """Nine times the products leave much less than a third of the error."""
    assert _error(problem, fp.curvature.hutch_pp, 108, 20) < 0.2 * _error(problem, fp.curvature.hutch_pp, 12, 20)


def test_standard_errors_are_honest(problem):
    circuit, X = problem
    exact = fp.curvature.trace(circuit, X).mean()
    H = fp.curvature.operator(circuit, X)
    for estimate in (fp.curvature.hutchinson, fp.curvature.hutch_pp):
        found = [estimate(H, 60, seed) for seed in range(40)]
        assert np.mean([abs(f.value - exact) < 2 * f.standard_error for f in found]) > 0.8


def test_hutch_pp_is_exact_for_low_rank():
    """A flat mixture of two has a Hessian of rank one per row."""
    X = np.random.default_rng(0).integers(0, 2, (2, 3)).astype(float)
    nodes = [fp.Input(v, fp.Bernoulli(), 9) for v in range(3)] + [fp.Product((0, 1, 2)), fp.Sum((3,))]
    circuit = fp.Circuit(nodes).randomize(0)
    found = fp.curvature.hutch_pp(fp.curvature.operator(circuit, X), 12)
    assert found.value == pytest.approx(fp.curvature.trace(circuit, X).mean(), rel=1e-10)


def test_options_are_checked(problem):
    circuit, X = problem
    with pytest.raises(OptionError, match="k=0"):
        fp.curvature.eigenvalues(circuit, X, k=0)
    with pytest.raises(OptionError, match="which='middle'"):
        fp.curvature.eigenvalues(circuit, X, which="middle")
    with pytest.raises(OptionError, match="n_steps=0"):
        fp.curvature.spectral_density(circuit, X, n_steps=0)
    H = fp.curvature.operator(circuit, X)
    with pytest.raises(OptionError, match="n_products=1"):
        fp.curvature.hutchinson(H, 1)
    with pytest.raises(OptionError, match="n_products=5"):
        fp.curvature.hutch_pp(H, 5)
