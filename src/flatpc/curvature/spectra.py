"""Eigenvalues, spectral density and estimated traces of the Hessian of the negative log-likelihood.

Only Hessian-vector products are used; no matrix of the size of the Hessian is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, LinearOperator, eigsh

from flatpc._messages import Message, Option
from flatpc._options import choice, number, seed_number, whole_number, wrong
from flatpc._typing import Array
from flatpc.curvature.operators import HessianOperator, operator
from flatpc.errors import OptionError

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

_BASIS_BYTES = 1 << 28


@dataclass(frozen=True)
class Eigenvalues:
    """Some eigenvalues of the Hessian of the negative log-likelihood."""

    values: Array
    """`[k]`: largest first; with `which="smallest"`, smallest first."""
    vectors: Array
    """`[P, k]`: of length 1, in the order of the parameters."""
    residuals: Array
    """`[k]`: ‖A v - λ v‖. Some eigenvalue of A is that close to λ."""
    converged: bool
    """Whether Lanczos found all of them to the tolerance asked for."""
    n_products: int
    """Hessian-vector products that it took."""


def eigenvalues(
    circuit: Circuit,
    X: Any,
    k: int = 15,
    *,
    which: str = "largest",
    space: str = "weights",
    include_inputs: bool = False,
    reduction: str = "sum",
    tolerance: float = 1e-10,
    max_iterations: int | None = None,
    engine: str = "auto",
    missing: str = "raise",
    progress: bool = False,
    seed: int = 0,
) -> Eigenvalues:
    """The `k` largest (or smallest) eigenvalues of the Hessian of the negative log-likelihood, by Lanczos iteration.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> coin = fp.Input(variable=0, family=fp.Bernoulli(), width=2)
    >>> c = fp.Circuit([coin, fp.Sum(children=(0,))], {0: {"p": [0.2, 0.8]}, 1: [[0.5, 0.5]]})
    >>> fp.curvature.eigenvalues(c, [[1]], k=1).values.round(6).tolist()  # p pᵀ / s² has one
    [2.72]

    Parameters
    ----------
    circuit
        Any circuit.
    X
        Rows for it.
    k
        Number of eigenvalues.
    which
        `"largest"` or `"smallest"`, by value and not by size.
    space
        `"weights"`, `"logits"` or `"simplex"`.
    include_inputs
        Count the probabilities of Bernoulli and Categorical inputs as weights too.
    reduction
        `"sum"`: of the Hessian of the rows' summed negative log-likelihood. `"mean"`: of their mean's.
    tolerance
        Relative accuracy of the eigenvalues.
    max_iterations
        Largest number of restarts of the Lanczos iteration; by default ten per parameter.
    engine
        Engine of the Hessian-vector products: `"auto"`, `"numba"` or `"torch"`.
    missing
        `"raise"`, or `"marginalize"` to integrate missing values (NaN) out.
    progress
        Whether to show a bar that counts products.
    seed
        Random seed of the start.

    Returns
    -------
    Eigenvalues
        `values`, `vectors`, `residuals`, `converged`, `n_products`; fewer than `k` if not all were found.

    Raises
    ------
    OptionError
        For an option out of its range, or a Hessian with entries that float64 can't hold.
    DataError
        For rows that are not the circuit's.
    """
    choice("which", which, ("largest", "smallest"))
    seed, tolerance = seed_number(seed), number("tolerance", tolerance, 0.0)
    max_iterations = None if max_iterations is None else whole_number("max_iterations", max_iterations, 1)
    A = _operator(circuit, X, space, include_inputs, reduction, engine, missing, progress)
    n = A.shape[0]
    k = whole_number("k", k, 1, n, why="as the Hessian has no more eigenvalues")
    with A.hessian._counted("Lanczos iteration", None):
        values, vectors, converged = _lanczos(A, k, which, tolerance, max_iterations, seed)
        order = np.argsort(-values if which == "largest" else values)
        values, vectors = values[order], vectors[:, order]
        n_products = A.n_products
        residuals = np.linalg.norm(A @ vectors - vectors * values, axis=0) if len(values) else np.empty(0)
    return Eigenvalues(A.unscaled(values), vectors, A.unscaled(residuals), converged, n_products)


def _lanczos(
    A: _Scaled, k: int, which: str, tolerance: float, max_iterations: int | None, seed: int
) -> tuple[Array, Array, bool]:
    n = A.shape[0]
    if k > n // 2 or n < 40:  # so small that the matrix itself is less work
        values, vectors = np.linalg.eigh(A.matrix())
        chosen = slice(n - k, n) if which == "largest" else slice(0, k)
        return values[chosen], vectors[:, chosen], True
    start = np.random.default_rng(seed).standard_normal(n)
    if not A.scale_by(A @ start):  # what makes 0 of a random vector is 0
        return np.zeros(k), np.eye(n, k), True
    try:
        end, basis = "LA" if which == "largest" else "SA", min(n, max(2 * k + 1, 20))
        values, vectors = eigsh(A, k, which=end, tol=tolerance, v0=start, maxiter=max_iterations, ncv=basis)
    except ArpackNoConvergence as stopped:
        return stopped.eigenvalues, stopped.eigenvectors, False
    except ArpackError:  # it gave up, as it may where almost all eigenvalues are equal
        return np.empty(0), np.empty((n, 0)), False
    return values, vectors, True


@dataclass(frozen=True)
class SpectralDensity:
    """The distribution of all eigenvalues, smoothed."""

    grid: Array
    """`[n_grid]`: eigenvalues, from below the smallest to above the largest that was found."""
    density: Array
    """Integrates to 1 over the grid, up to what the broadening carries beyond its ends."""
    nodes: Array
    """`[vectors, steps]`: where the quadrature puts mass, before broadening; NaN where Lanczos ended early."""
    weights: Array
    """`[vectors, steps]`: how much; each row sums to 1."""


def spectral_density(
    circuit: Circuit,
    X: Any,
    *,
    n_vectors: int = 8,
    n_steps: int = 60,
    n_grid: int = 400,
    width: float | None = None,
    space: str = "weights",
    include_inputs: bool = False,
    reduction: str = "sum",
    engine: str = "auto",
    missing: str = "raise",
    progress: bool = False,
    seed: int = 0,
) -> SpectralDensity:
    """The density of eigenvalues of the Hessian of the negative log-likelihood, by stochastic Lanczos quadrature.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> X = np.random.default_rng(0).integers(0, 2, size=(50, 4))
    >>> found = fp.curvature.spectral_density(fp.structures.hclt(X, n_latents=3), X, n_steps=20)
    >>> abs(float(np.trapezoid(found.density, found.grid)) - 1) < 1e-3
    True

    From each of `n_vectors` random starts, `n_steps` of Lanczos give a quadrature rule of `n_steps` nodes for `vᵀ f(A) v`; the
    rules' mean is broadened by Gaussians of standard deviation `width`. Moments of the rules up to `2 n_steps - 1` are exact for
    the given starts.

    Parameters
    ----------
    circuit
        Any circuit.
    X
        Rows for it.
    n_vectors
        Number of random starts.
    n_steps
        Number of Lanczos steps from each.
    n_grid
        Number of points of the grid.
    width
        Standard deviation of the broadening; by default 1/100 of the range found.
    space, include_inputs, reduction, engine, missing, progress
        As for `eigenvalues`.
    seed
        Random seed of the starts.

    Returns
    -------
    SpectralDensity
        `grid`, `density`, and the quadrature's `nodes` and `weights`.

    Raises
    ------
    OptionError, DataError
        As `eigenvalues` does.
    """
    n_vectors, n_steps = whole_number("n_vectors", n_vectors, 1), whole_number("n_steps", n_steps, 1)
    n_grid, seed = whole_number("n_grid", n_grid, 1), seed_number(seed)
    width = None if width is None else number("width", width, 0.0, above=True)
    A = _operator(circuit, X, space, include_inputs, reduction, engine, missing, progress)
    steps = min(n_steps, A.shape[0])
    starts = np.random.default_rng(seed).standard_normal((n_vectors, A.shape[0]))
    A.scale_by(A @ starts[0])
    nodes, weights = np.full((n_vectors, steps), np.nan), np.zeros((n_vectors, steps))
    together = max(1, min(n_vectors, _BASIS_BYTES // (8 * starts[0].size * steps)))
    with A.hessian._counted("Lanczos quadrature", n_vectors * steps):
        for first in range(0, n_vectors, together):
            some = slice(first, first + together)
            nodes[some], weights[some] = _quadratures(A, starts[some], steps)
    low, high = float(np.nanmin(nodes)), float(np.nanmax(nodes))
    if width is None:
        width = max((high - low) / 100, 1e-12 * max(abs(low), abs(high), 1.0))
    else:
        width = max(float(A.scaled(np.float64(width))), np.finfo(np.float64).tiny)
    grid = np.linspace(low - 5 * width, high + 5 * width, n_grid)
    density = np.zeros(n_grid)
    with np.errstate(over="ignore"):
        for node, weight in zip(nodes[weights > 0], weights[weights > 0], strict=True):
            density += weight * np.exp(-0.5 * ((grid - node) / width) ** 2)
        density /= n_vectors * width * np.sqrt(2 * np.pi)
    return SpectralDensity(A.unscaled(grid), A.scaled(density), A.unscaled(nodes), weights)


def _quadratures(A: LinearOperator, starts: Array, steps: int) -> tuple[Array, Array]:
    """Nodes and weights `[starts, steps]` from Lanczos with full reorthogonalisation, all starts in step with each other.

    Each has a basis and a matrix of its own; only products with A are taken together. One may end early: NaN and 0 follow.
    """
    runs = [_Lanczos(start, steps) for start in starts]
    going = runs
    while going:
        products = np.asarray(A @ np.stack([run.basis[run.size] for run in going], axis=1))
        going = [run for run, product in zip(going, products.T, strict=True) if run.advance(product.copy())]
    nodes, weights = np.full((len(starts), steps), np.nan), np.zeros((len(starts), steps))
    for v, run in enumerate(runs):
        nodes[v, : run.size], weights[v, : run.size] = run.rule()
    return nodes, weights


class _Lanczos:
    """One run: an orthogonal basis, and the tridiagonal matrix that A is in it."""

    def __init__(self, start: Array, steps: int) -> None:
        self.basis = np.empty((steps, len(start)))
        self.basis[0] = start / np.linalg.norm(start)
        self.size = 0
        self._diagonal, self._off = np.zeros(steps), np.zeros(steps)

    def advance(self, r: Array) -> bool:
        """Take up A times the last vector of the basis; whether there is one more."""
        j = self.size
        self._diagonal[j] = self.basis[j] @ r
        self.size = size = j + 1
        for _ in range(2):  # once leaves rounding errors that grow; twice is enough
            r -= self.basis[:size].T @ (self.basis[:size] @ r)
        self._off[j] = np.linalg.norm(r)
        if size == len(self.basis) or self._off[j] <= 1e-12 * max(abs(self._diagonal[:size]).max(), self._off[:size].max()):
            return False
        self.basis[size] = r / self._off[j]
        return True

    def rule(self) -> tuple[Array, Array]:
        """Nodes and weights of Gauss quadrature."""
        off = self._off[: self.size - 1]
        values, vectors = np.linalg.eigh(np.diag(self._diagonal[: self.size]) + np.diag(off, 1) + np.diag(off, -1))
        return values, vectors[0] ** 2


@dataclass(frozen=True)
class TraceEstimate:
    """An estimated trace."""

    value: float
    """The estimate."""
    standard_error: float
    """Of the estimate, from the spread of its terms."""
    n_products: int
    """Hessian-vector products that it took."""


def hutchinson(H: HessianOperator, n_products: int, *, seed: int = 0) -> TraceEstimate:
    """Hutchinson's estimate of the trace of H: the mean of `zᵀ H z` over random signs z.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> X = np.random.default_rng(0).integers(0, 2, size=(50, 4))
    >>> H = fp.curvature.operator(fp.structures.hclt(X, n_latents=3), X)
    >>> found = fp.curvature.hutchinson(H, 300)
    >>> bool(abs(found.value - np.trace(H.matrix())) < 4 * found.standard_error)
    True

    The error falls as 1/√n. It is a baseline: `flatpc.curvature.trace` is exact and costs less than one product.

    Parameters
    ----------
    H
        What `operator` returns; its space and reduction are the estimate's.
    n_products
        Number of Hessian-vector products, at least 2.
    seed
        Random seed of the signs.

    Returns
    -------
    TraceEstimate
        `value`, `standard_error`, `n_products`.

    Raises
    ------
    OptionError
        For too few products, or a Hessian with entries that float64 can't hold.
    """
    n_products, seed = whole_number("n_products", n_products, 2), seed_number(seed)
    _check_operator(H)
    A = _Scaled(H)
    Z = np.random.default_rng(seed).choice([-1.0, 1.0], (A.shape[0], n_products))
    products = A @ Z
    A.scale_by(products)
    each = np.einsum("ij,ij->j", Z, A.scaled(products))
    return A.estimate(each.mean(), each.std(ddof=1) / np.sqrt(n_products), n_products)


def hutch_pp(H: HessianOperator, n_products: int, *, seed: int = 0) -> TraceEstimate:
    """Hutch++ (Meyer, Musco, Musco and Woodruff, 2021): the trace on a random subspace exactly, the rest by Hutchinson.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> X = np.random.default_rng(0).integers(0, 2, size=(50, 4))
    >>> H = fp.curvature.operator(fp.structures.hclt(X, n_latents=3), X)
    >>> found = fp.curvature.hutch_pp(H, 300)  # so many that the subspace is the whole
    >>> bool(np.isclose(found.value, np.trace(H.matrix())))
    True

    A third of the products each goes to finding the subspace, to the trace on it, and to the rest. The error falls as 1/n where
    Hutchinson's falls as 1/√n, if the spectrum has one sign.

    Parameters
    ----------
    H
        What `operator` returns; its space and reduction are the estimate's.
    n_products
        Number of Hessian-vector products, at least 6.
    seed
        Random seed of the signs.

    Returns
    -------
    TraceEstimate
        `value`, `standard_error`, `n_products`.

    Raises
    ------
    OptionError
        For too few products, or a Hessian with entries that float64 can't hold.
    """
    m, seed = whole_number("n_products", n_products, 6) // 3, seed_number(seed)
    _check_operator(H)
    A = _Scaled(H)
    rng = np.random.default_rng(seed)
    n = A.shape[0]
    Q, _ = np.linalg.qr(A @ rng.choice([-1.0, 1.0], (n, m)))
    G = rng.choice([-1.0, 1.0], (n, m))
    G -= Q @ (Q.T @ G)
    rest, found = A @ G, A @ Q
    A.scale_by(np.concatenate([rest, found], axis=1))
    each, on_subspace = np.einsum("ij,ij->j", G, A.scaled(rest)), np.einsum("ij,ij->", Q, A.scaled(found))
    return A.estimate(on_subspace + each.mean(), each.std(ddof=1) / np.sqrt(m), 3 * m)


def _check_operator(H: Any) -> None:
    if not isinstance(H, LinearOperator) or H.shape[0] != H.shape[1]:
        raise wrong("H", H, "give what flatpc.curvature.operator returns.")


class _Scaled(LinearOperator):  # type: ignore[misc]
    """A Hessian, counting products, and divided by a power of two, so that squares of its entries are within float64's range."""

    def __init__(self, hessian: HessianOperator) -> None:
        super().__init__(np.float64, hessian.shape)
        self.hessian = hessian
        self.n_products = 0
        self._exponent = 0

    def scale_by(self, products: Array) -> bool:
        """From now on divide by about what made these numbers of numbers around 1; False if they are all zero."""
        largest = abs(products).max(initial=0.0)
        self._exponent = int(np.frexp(largest)[1])
        return bool(largest > 0)

    def scaled(self, numbers: Any) -> Array:
        """In the unit of products."""
        with np.errstate(over="ignore"):
            return np.asarray(np.ldexp(numbers, -self._exponent))

    def unscaled(self, numbers: Any) -> Array:
        """From the unit of products."""
        with np.errstate(over="ignore"):
            return np.asarray(np.ldexp(numbers, self._exponent))

    def estimate(self, value: float, standard_error: float, n_products: int) -> TraceEstimate:
        return TraceEstimate(float(self.unscaled(value)), float(self.unscaled(standard_error)), n_products)

    def _checked(self, numbers: Array) -> Array:
        if not np.isfinite(numbers).all():
            if not isinstance(self.hessian, HessianOperator):
                raise OptionError("H times a vector has entries that are not finite; give an operator that float64 can hold.")
            theta = self.hessian.layout.values
            given, logits = Option("space", self.hessian.space), Option("space", "logits")
            raise OptionError(
                Message(
                    f"The Hessian in {given} has entries that float64 can't hold, as happens where weights are tiny (the "
                    f"smallest is {theta[theta > 0].min(initial=1.0):.3g}); choose {logits}, where all are finite.",
                    given,
                    logits,
                )
            )
        return self.scaled(numbers)

    def _matvec(self, vector: Any) -> Array:
        self.n_products += 1
        return self._checked(np.asarray(self.hessian.matvec(vector)))

    def _matmat(self, matrix: Any) -> Array:
        self.n_products += matrix.shape[1]
        return self._checked(np.asarray(self.hessian.matmat(matrix)))

    def matrix(self) -> Array:
        """All of it, which also finds the unit."""
        self.n_products += self.shape[0]
        found = self._checked(self.hessian.matrix())
        self.scale_by(found)
        return self.scaled(found)

    def _adjoint(self) -> _Scaled:
        return self


def _operator(
    circuit: Circuit, X: Any, space: str, include_inputs: bool, reduction: str, engine: str, missing: str, progress: bool
) -> _Scaled:
    options: Any = {"reduction": reduction, "engine": engine, "missing": missing, "progress": progress}
    return _Scaled(operator(circuit, X, space=space, include_inputs=include_inputs, **options))
