"""Spectrum and estimators against dense matrices and the exact trace."""

import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator

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
    dense = np.linalg.eigvalsh(fp.curvature.hessian(circuit, X, space=space))
    largest = fp.curvature.eigenvalues(circuit, X, k=6, space=space)
    assert largest.converged
    assert_close(largest.values, dense[::-1][:6], 1e-8)
    assert (largest.residuals <= 1e-8 * abs(dense).max()).all()
    smallest = fp.curvature.eigenvalues(circuit, X, k=3, which="smallest", space=space)
    assert abs(smallest.values - dense[:3]).max() <= 1e-8 * abs(dense).max()
    assert largest.n_products < len(dense) + 100


def test_all_eigenvalues_and_vectors(problem):
    circuit, X = problem
    H = fp.curvature.hessian(circuit, X)
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
    H = fp.curvature.hessian(circuit, X)
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
    H = fp.curvature.hessian(circuit, X)
    H /= np.linalg.norm(H, 2)
    starts = np.random.default_rng(0).standard_normal((3, len(H)))
    for v, nodes, weights in zip(starts, *_quadratures(H, starts, 5), strict=True):
        for k in range(10):
            assert weights @ nodes**k == pytest.approx(v @ np.linalg.matrix_power(H, k) @ v / (v @ v), rel=1e-10)


class Known(LinearOperator):
    """A matrix in the place of a Hessian over one row, so that hundreds of estimates cost little."""

    def __init__(self, A):
        super().__init__(np.float64, A.shape)
        self._A = A

    def _matvec(self, vector):
        return self._A @ vector

    def _matmat(self, matrix):
        return self._A @ matrix


def _with_spectrum(values):
    """A matrix with these eigenvalues, in a random basis: random signs are exact for a diagonal one."""
    Q, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((len(values), len(values))))
    return (Q * values) @ Q.T


def _matrix(problem, name):
    if name == "circuit":
        circuit, X = problem
        return fp.curvature.hessian(circuit, X)
    return _with_spectrum(1.0 / np.arange(1, 201) ** {"1/i": 1, "1/i²": 2}[name])


PRODUCTS = np.array([12, 24, 48, 96])
SEEDS = 200


def _errors(A, estimate):
    """`[products, seeds]`: value minus trace."""
    H = Known(A)
    return np.array([[estimate(H, int(n), seed=seed).value for seed in range(SEEDS)] for n in PRODUCTS]) - np.trace(A)


def _rate(errors):
    """The exponent of the root mean square error in the number of products.

    The logarithm of each mean has a standard deviation of 1/√(2 · 200) = 0.05, and so the exponent, fitted to four of them over a
    range of 8, has 0.03.
    """
    return np.polyfit(np.log(PRODUCTS), np.log(np.sqrt((errors**2).mean(axis=1))), 1)[0]


@pytest.mark.parametrize("name", ["circuit", "1/i", "1/i²"])
def test_hutchinsons_error_falls_with_the_square_root(problem, name):
    """And is the stated one: with random signs, 2 (‖A‖² - Σ A_ii²) / n is its square's mean; and it has no bias."""
    A = _matrix(problem, name)
    errors = _errors(A, fp.curvature.hutchinson)
    assert _rate(errors) == pytest.approx(-0.5, abs=0.1)
    stated = np.sqrt(2 * ((A**2).sum() - (np.diag(A) ** 2).sum()) / PRODUCTS)
    np.testing.assert_allclose(np.sqrt((errors**2).mean(axis=1)), stated, rtol=0.2)  # four standard deviations
    assert (abs(errors.mean(axis=1)) < 4 * stated / np.sqrt(SEEDS)).all()


@pytest.mark.parametrize(("name", "rate"), [("1/i", -1.0), ("1/i²", -2.0), ("circuit", -2.0)])
def test_hutch_pps_error_falls_with_the_number(problem, name, rate):
    """As 1/n at least; eigenvalues 1/i are as bad as it gets, and leave no more than that; with 1/i² it is 1/n².

    What is left of A outside a subspace of n/3 dimensions, Σ λ² over all but the largest, gives the exponent.
    """
    errors = _errors(_matrix(problem, name), fp.curvature.hutch_pp)
    assert _rate(errors) < rate + 0.1
    if name != "circuit":  # its spectrum has an end, after which nothing is left at all
        assert _rate(errors) > rate - 0.2
    assert (abs(errors.mean(axis=1)) < 4 * errors.std(axis=1) / np.sqrt(SEEDS)).all()


@pytest.mark.parametrize("estimate", [fp.curvature.hutchinson, fp.curvature.hutch_pp])
def test_estimates_from_the_circuit_are_those_from_its_matrix(problem, estimate):
    """So that what is said of matrices above holds for circuits, whose products are taken several at a time."""
    circuit, X = problem
    found = estimate(fp.curvature.operator(circuit, X), 60, seed=3)
    expected = estimate(Known(_matrix(problem, "circuit")), 60, seed=3)
    assert found.value == pytest.approx(expected.value, rel=1e-9)
    assert found.standard_error == pytest.approx(expected.standard_error, rel=1e-6, abs=1e-9)
    assert found.n_products == expected.n_products


def test_standard_errors_are_honest(problem):
    circuit, X = problem
    exact = fp.curvature.trace(circuit, X).sum()
    H = fp.curvature.operator(circuit, X)
    for estimate in (fp.curvature.hutchinson, fp.curvature.hutch_pp):
        found = [estimate(H, 60, seed=seed) for seed in range(40)]
        assert np.mean([abs(f.value - exact) < 2 * f.standard_error for f in found]) > 0.8


def test_hutch_pp_is_exact_for_low_rank():
    """A flat mixture of two has a Hessian of rank one per row."""
    X = np.random.default_rng(0).integers(0, 2, (2, 3)).astype(float)
    nodes = [fp.Input(v, fp.Bernoulli(), 9) for v in range(3)] + [fp.Product((0, 1, 2)), fp.Sum((3,))]
    circuit = fp.Circuit(nodes).randomize(0)
    found = fp.curvature.hutch_pp(fp.curvature.operator(circuit, X), 12)
    assert found.value == pytest.approx(fp.curvature.trace(circuit, X).sum(), rel=1e-10)


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
