"""Derivatives beyond float64's range on the way: right, or infinite where they are in truth; never NaN."""

import numpy as np
import pytest

import flatpc as fp
from flatpc.curvature.wide_numbers import Wide, concatenate, zeros
from flatpc.errors import OptionError
from tests.curvature.cases import assert_close

SPACES = ("weights", "logits", "simplex")
TINY = [1e-100, 1e-160, 1e-200, 1e-300, 1e-310, 5e-324]


def _coin(e):
    """The second unit has weight e and all of the row 1: the gradient in e is 1/e."""
    nodes = [fp.Input(0, fp.Bernoulli(), 2), fp.Sum((0,))]
    return fp.Circuit(nodes, {0: {"p": [0.0, 1.0]}, 1: [[1 - e, e]]}), np.ones((2, 1))


@pytest.mark.parametrize("e", TINY)
@pytest.mark.parametrize("engine", ["numba", "torch"])
def test_logits_of_tiny_weights(e, engine):
    """Log p = log θ_2 = z_2 - log Σ exp z, whose Hessian, negated, is diag θ - θ θᵀ: next to 0, since θ is next to a corner."""
    circuit, X = _coin(e)
    expected = 2 * np.array([[e * (1 - e), -e * (1 - e)], [-e * (1 - e), e * (1 - e)]])
    found = fp.curvature.hessian(circuit, X, space="logits", method="columns", engine=engine)
    assert abs(found - expected).max() <= 1e-15
    operator = fp.curvature.operator(circuit, X, space="logits", engine=engine)
    assert abs(operator @ np.eye(2) - expected).max() <= 1e-15
    assert abs(fp.curvature.trace(circuit, X, space="logits")).max() <= 1e-15
    assert abs(fp.curvature.diagonal(circuit, X, space="logits")[1]).max() <= 1e-15
    penalty = fp.curvature.penalty(circuit, X, space="logits")
    assert abs(penalty.value) <= 1e-15
    assert abs(penalty.gradient[1]).max() <= 1e-15
    assert fp.curvature.eigenvalues(circuit, X, 2, space="logits").values == pytest.approx([0, 0], abs=1e-15)


@pytest.mark.parametrize("e", TINY)
def test_weights_of_which_the_square_overflows(e):
    """By hand: g = (0, 1/e) at both rows."""
    circuit, X = _coin(e)
    with np.errstate(over="ignore"):
        square = np.float64(1) / e / e
    assert_same(fp.curvature.trace(circuit, X), [square, square])
    assert_same(fp.curvature.hessian(circuit, X), [[0, 0], [0, 2 * square]])
    assert_same(fp.curvature.diagonal(circuit, X)[1], [[0, 2 * square]])
    assert_same(fp.curvature.hessian(circuit, X, space="simplex"), np.array([[1, -1], [-1, 1]]) * square / 2)
    assert_same(fp.curvature.penalty(circuit, X).value, 2 * square)
    with np.errstate(over="ignore"):
        cube = np.float64(-4) / e / e / e
    assert_same(fp.curvature.penalty(circuit, X).gradient[1], [[0, cube]])
    assert_same(fp.curvature.breakdown(circuit, X).by_node[1], 2 * square)
    assert_same(fp.curvature.likelihood_hessian(circuit, X[0]), np.zeros((2, 2)))


def assert_same(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-12)


ESTIMATES = {
    "eigenvalues": lambda circuit, X, **options: fp.curvature.eigenvalues(circuit, X, 1, **options),
    "spectral_density": fp.curvature.spectral_density,
    "hutchinson": lambda circuit, X, **options: fp.curvature.hutchinson(fp.curvature.operator(circuit, X, **options), 5),
    "hutch_pp": lambda circuit, X, **options: fp.curvature.hutch_pp(fp.curvature.operator(circuit, X, **options), 6),
}


@pytest.mark.parametrize("space", ["weights", "simplex"])
@pytest.mark.parametrize("name", ESTIMATES)
def test_spectra_of_what_float64_cannot_hold(name, space):
    with pytest.raises(OptionError, match=r"float64 can't hold.*1e-160.*space='logits'"):
        ESTIMATES[name](*_coin(1e-160), space=space)


def test_spectra_of_large_numbers():
    """1e200 has no square in float64, but an eigenvalue it can be."""
    circuit, X = _coin(1e-100)
    found = fp.curvature.eigenvalues(circuit, X, 2)
    assert_same(found.values, [2e200, 0])
    assert_same(found.residuals, [0, 0])
    assert_same(fp.curvature.hutchinson(fp.curvature.operator(circuit, X), 4).value, 2e200)
    density = fp.curvature.spectral_density(circuit, X)
    assert np.trapezoid(density.density, density.grid) == pytest.approx(1, abs=1e-4)


def _flat(width):
    """All units of an input are the same: in logits log p doesn't depend on the weights."""
    nodes = [fp.Input(0, fp.Bernoulli(), width), fp.Sum((0,))]
    return fp.Circuit(nodes, {0: {"p": np.full(width, 0.5)}, 1: np.full((1, width), 1 / width)}), np.ones((2, 1))


@pytest.mark.parametrize("width", [2, 64])
def test_a_hessian_of_zero(width):
    """For more than 40 parameters ARPACK is asked, which knows no zero matrix."""
    circuit, X = _flat(width)
    for space in ("logits", "simplex"):
        found = fp.curvature.eigenvalues(circuit, X, 2, space=space)
        assert found.values == pytest.approx([0, 0], abs=1e-15)
        assert found.vectors.shape == (width, 2)
        assert_close(found.vectors.T @ found.vectors, np.eye(2), 1e-12)
        density = fp.curvature.spectral_density(circuit, X, space=space, n_vectors=2, n_steps=3)
        assert not np.isnan(density.density).any()
    impossible = fp.Circuit(circuit.nodes, {0: {"p": np.zeros(width)}, 1: circuit.parameters[1]})
    found = fp.curvature.eigenvalues(impossible, X, 2)
    assert found.values.tolist() == [0, 0]
    assert found.converged
    assert fp.curvature.landscape(circuit, X, directions="eigenvectors", dimensions=1, n_steps=3).train.tolist() == pytest.approx(
        [np.log(2)] * 3
    )


def test_second_derivatives_of_a_likelihood_of_zero():
    """P = (θ_1 a_1 + θ_2 a_2)(φ_1 b_1 + φ_2 b_2) is 0 at a = b = (0, 1), θ = φ = (1, 0); its mixed derivative is a bᵀ."""
    nodes = [fp.Input(0, fp.Bernoulli(), 2), fp.Sum((0,)), fp.Input(1, fp.Bernoulli(), 2), fp.Sum((2,)), fp.Product((1, 3))]
    coin = {"p": [0.0, 1.0]}
    circuit = fp.Circuit(nodes, {0: coin, 2: coin, 1: [[1.0, 0.0]], 3: [[1.0, 0.0]]})
    assert circuit.log_prob([[1, 1]]) == -np.inf
    expected = np.zeros((4, 4))
    expected[1, 3] = expected[3, 1] = 1.0
    assert fp.curvature.likelihood_hessian(circuit, [1, 1]).tolist() == expected.tolist()


def test_vectors_that_are_no_numbers_are_refused():
    circuit, X = _coin(0.5)
    for bad in (np.nan, np.inf):
        with pytest.raises(OptionError, match="finite"):
            fp.curvature.operator(circuit, X) @ np.array([1.0, bad])


def test_wide_numbers():
    """Against Python's whole numbers, which have no limits either."""
    rng = np.random.default_rng(0)
    exponents = rng.integers(-5000, 5000, (2, 20))
    whole = [[int(m) for m in row] for row in rng.integers(-(2**50), 2**50, (2, 20))]
    shift = 12_000  # so that all are whole
    a, b = (Wide.of(np.array(m, float)) for m in whole)
    a, b = Wide(a.mantissa, a.exponent + exponents[0]), Wide(b.mantissa, b.exponent + exponents[1])
    x, y = ([m << (int(e) + shift) for m, e in zip(*pair, strict=True)] for pair in zip(whole, exponents, strict=True))

    def near(found, expected, scale, unit):
        for m, e, truth, size in zip(np.ravel(found.mantissa), np.ravel(found.exponent), expected, scale, strict=True):
            number = int(m * 2**60) << int(e - 60 + unit) if e - 60 + unit >= 0 else int(m * 2**60) >> int(60 - e - unit)
            assert abs(number - truth) * 2**50 <= abs(size)

    near(a * b, [p * q for p, q in zip(x, y, strict=True)], [p * q for p, q in zip(x, y, strict=True)], 2 * shift)
    near(a + b, [p + q for p, q in zip(x, y, strict=True)], [abs(p) + abs(q) for p, q in zip(x, y, strict=True)], shift)
    near(a - b, [p - q for p, q in zip(x, y, strict=True)], [abs(p) + abs(q) for p, q in zip(x, y, strict=True)], shift)
    near(a.sum(0), [sum(x)], [sum(map(abs, x))], shift)
    segments = a.sum_of_segments(np.array([0, 3, 4, 11]))
    parts = [x[0:3], x[3:4], x[4:11], x[11:]]
    near(segments, [sum(p) for p in parts], [sum(map(abs, p)) for p in parts], shift)
    near((a * b) / b, x, x, shift)


def test_wide_numbers_at_the_ends():
    assert Wide.exp(np.array([-np.inf, 0.0, -5000.0])).to_float().tolist() == [0.0, 1.0, 0.0]
    assert (Wide.exp(np.array([-5000.0])) * Wide.exp(np.array([5000.0]))).to_float() == pytest.approx([1.0], rel=1e-12)
    large = Wide.of([1e300, -1e300])
    assert (large * large * large).to_float().tolist() == [np.inf, -np.inf]
    assert (large - large).to_float().tolist() == [0.0, 0.0]
    assert concatenate([zeros((2,)), Wide.of([5e-324])], 0).to_float().tolist() == [0.0, 0.0, 5e-324]
