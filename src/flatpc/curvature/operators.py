"""The Hessian as something that multiplies vectors: about two forward-backward passes per product, and no matrix.

Products with several vectors share their passes: `H @ V` is quicker than its columns one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from flatpc._extras import need
from flatpc._options import choice, flag
from flatpc._typing import Array
from flatpc.circuit.rows import check_circuit, read_rows
from flatpc.curvature import spaces
from flatpc.curvature.layout import Layout, check_space, share_of_sum
from flatpc.curvature.over_sources import OfSource
from flatpc.curvature.wide_numbers import Wide
from flatpc.curvature.wide_passes import WidePasses
from flatpc.engine.contract import ENGINES
from flatpc.errors import OptionError
from flatpc.tables.sources import as_source

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit
    from flatpc.curvature.passes import HardRows

Count = Callable[[int], None]
"""Told how many products have been computed."""


def operator(
    circuit: Circuit,
    X: Any,
    *,
    space: str = "weights",
    include_inputs: bool = False,
    reduction: str = "sum",
    engine: str = "auto",
    missing: str = "raise",
    progress: bool = False,
) -> HessianOperator:
    """The Hessian of the negative log-likelihood as a SciPy `LinearOperator` of shape `[P, P]`.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> coin = fp.Input(variable=0, family=fp.Bernoulli(), width=2)
    >>> c = fp.Circuit([coin, fp.Sum(children=(0,))], {0: {"p": [0.2, 0.8]}, 1: [[0.5, 0.5]]})
    >>> H = fp.curvature.operator(c, [[1]])
    >>> (H @ np.array([1.0, 0.0])).round(6).tolist()  # (0.2, 0.8) · 0.2 / 0.5²
    [0.16, 0.64]

    Parameters come in the order of the nodes, each node's weights `[units, edges]` row by row; tied ones come once. With
    `include_inputs` the tables `[units, values]` of Bernoulli and Categorical inputs have their places among them; a row of a
    Bernoulli's is `[p(0), p(1)]`. An edge that a mask removes is a row and a column of zeros.

    It is exact for any circuit, with tied parameters or without.

    Parameters
    ----------
    circuit
        Any circuit.
    X
        Rows for it, or a source of rows, which is read once for each product.
    space
        `"weights"`, `"logits"`, or `"simplex"`: the Hessian in the weights between two projections on normalised directions.
    include_inputs
        Count the probabilities of Bernoulli and Categorical inputs as weights too.
    reduction
        `"sum"`: of the rows' negative log-likelihoods. `"mean"`: of their mean.
    engine
        `"auto"` or `"numba"`: tangent passes over distinct sub-rows. `"torch"`: automatic differentiation, twice backward.
    missing
        `"raise"`, or `"marginalize"` to integrate missing values (NaN) out.
    progress
        Whether to show a bar while products are computed.

    Returns
    -------
    HessianOperator
        `H @ v`, `H @ V`, `H.matrix()`; `H.gradient` is the gradient in the weights.

    Raises
    ------
    OptionError
        For an unknown space, reduction or engine; and by `H @ v` for a vector that is not finite.
    DataError
        For rows that are not the circuit's.
    """
    check_space(space)
    choice("engine", engine, ("auto", *ENGINES))
    flag("include_inputs", include_inputs)
    flag("progress", progress)
    layout = Layout(check_circuit(circuit), include_inputs)
    blocks = as_source(X)
    if blocks is not None:
        blocks = blocks.counted()
        share = share_of_sum(reduction, blocks.n_rows or 0)
        return HessianOperator(layout, OfSource(layout, blocks, engine, missing), space, share, progress)
    rows = read_rows(circuit, X, missing)
    share = share_of_sum(reduction, len(rows))
    return HessianOperator(layout, products_of(layout, rows, engine), space, share, progress)


def products_of(layout: Layout, rows: Array, engine: str) -> Any:
    """What multiplies vectors by the Hessian of Σ log p(x) over the rows, in the weights."""
    return _Autograd(layout, rows) if engine == "torch" else _Native(layout, rows)


def weighted_operator(layout: Layout, rows: Array, weights: Array | None) -> HessianOperator:
    """The Hessian in logits of the negative log-likelihood of rows that have been read, each as often as it counts."""
    return HessianOperator(layout, _Native(layout, rows, weights), "logits", 1.0, False)


class HessianOperator(LinearOperator):  # type: ignore[misc]
    """What `operator` returns: a symmetric SciPy `LinearOperator` of shape `[P, P]`.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> coin = fp.Input(variable=0, family=fp.Bernoulli(), width=2)
    >>> c = fp.Circuit([coin, fp.Sum(children=(0,))], {0: {"p": [0.2, 0.8]}, 1: [[0.5, 0.5]]})
    >>> H = fp.curvature.operator(c, [[1]])
    >>> H.gradient.round(6).tolist(), H.matrix().round(6).tolist()
    ([-0.4, -1.6], [[0.16, 0.64], [0.64, 2.56]])
    >>> H.in_log_weights(np.eye(2)).round(6).tolist()
    [[-0.04, -0.16], [-0.16, -0.64]]

    Parameters
    ----------
    layout
        The order of the parameters.
    source
        What multiplies vectors by the Hessian of the log-likelihood in the weights.
    space
        `"weights"`, `"logits"` or `"simplex"`.
    share
        Share of the sum over rows: 1, or one over their number for the mean.
    progress
        Whether to show a bar.
    """

    def __init__(self, layout: Layout, source: Any, space: str, share: float, progress: bool) -> None:
        super().__init__(np.float64, (layout.size, layout.size))
        self.layout = layout
        self.space = space
        self._factor = -share
        self._source = source
        self._progress = progress
        self._bar: Any = None

    @cached_property
    def gradient(self) -> Array:
        """`[P]`: the gradient of the negative log-likelihood in the weights, whatever the space."""
        return self._factor * self._gradient(None)

    @cached_property
    def flows(self) -> Array:
        """`[P]`: the gradient of Σ log p(x) times the weights, whatever the space and the reduction."""
        return self._gradient(self.layout.values)

    def in_log_weights(self, vectors: Array) -> Array:
        """`θ ∇² (θ v)` of Σ log p(x), θ being the weights and ∇² its second derivatives in them.

        Parameters
        ----------
        vectors
            `[D, P]`: relative changes of weights.

        Returns
        -------
        array
            `[D, P]`.
        """
        theta = self.layout.values
        with np.errstate(over="ignore", invalid="ignore"):
            found = np.asarray(self._source.products(vectors, theta, self._count))
        out_of_range = ~np.isfinite(found).all(axis=1)
        if out_of_range.any():
            passes, rows, counts = self._wide
            found[out_of_range] = (passes.products(rows, Wide.of(vectors[out_of_range]) * theta, counts) * theta).to_float()
        return found

    def _gradient(self, scale: Array | None) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            found: Array = self._source.gradient(scale)
        if np.isfinite(found).all():
            return found
        passes, rows, counts = self._wide
        wide = passes.gradient(rows, counts)
        return (wide if scale is None else wide * scale).to_float()

    @property
    def _scale(self) -> Array | None:
        """What vectors are multiplied by before and after the Hessian in the weights is."""
        return self.layout.values if self.space == "logits" else None

    def _matvec(self, vector: Any) -> Array:
        return np.ravel(self._products(np.asarray(vector, np.float64).reshape(1, -1)))

    def _matmat(self, matrix: Any) -> Array:
        with self._counted("Hessian-vector products", matrix.shape[1]):
            return self._products(np.ascontiguousarray(np.asarray(matrix, np.float64).T)).T

    def _products(self, vectors: Array) -> Array:
        """Of vectors `[D, P]`; all but the last step is about Σ log p(x)."""
        if not np.isfinite(vectors).all():
            bad = vectors[~np.isfinite(vectors)][0]
            raise OptionError(f"The Hessian can't be multiplied by a vector that holds {bad}; give finite numbers.")
        with np.errstate(over="ignore", invalid="ignore"):
            found = spaces.product_in(self.space, self.layout, self.layout.values, lambda: self.flows, self._in_weights, vectors)
        out_of_range = ~np.isfinite(found).all(axis=1)
        if out_of_range.any():
            found[out_of_range] = self._in_wide(Wide.of(vectors[out_of_range])).to_float()
        return self._factor * found

    def _in_weights(self, vectors: Array) -> Array:
        return np.asarray(self._source.products(vectors, self._scale, self._count))

    @cached_property
    def _wide(self) -> tuple[WidePasses, Array, Array]:
        """Passes without float64's limits, distinct rows, and how often each is there."""
        if self._source.weights is not None:
            return WidePasses(self.layout), self._source.rows, self._source.weights
        rows, counts = np.unique(self._source.rows, axis=0, return_counts=True)
        return WidePasses(self.layout), rows, counts.astype(np.float64)

    def _in_wide(self, vectors: Wide) -> Wide:
        passes, rows, counts = self._wide
        theta = passes.theta

        def product(vectors: Wide) -> Wide:
            if self.space != "logits":
                return passes.products(rows, vectors, counts)
            return theta * passes.products(rows, theta * vectors, counts)

        return spaces.product_in(self.space, self.layout, theta, lambda: theta * passes.gradient(rows, counts), product, vectors)

    def matrix(self) -> Array:
        """The Hessian itself, symmetric to the last bit; infinite where float64 can't hold it.

        Its columns are products with unit vectors, several at a time, and of each column only the part from its own node on is
        computed; a space other than the weights is changed to at the end.

        Returns
        -------
        array
            `[P, P]`.
        """
        with self._counted("Columns of the Hessian", self.shape[0]), np.errstate(over="ignore", invalid="ignore"):
            H = self._source.matrix(self._scale, self._count)
            H = spaces.matrix_in(self.space, self.layout, self.layout.values, lambda: self.flows, H)
        if np.isfinite(H).all():
            return np.asarray(self._factor * (H / 2 + H.T / 2))
        wide = self._in_wide(Wide.of(np.eye(len(H))))
        return ((wide + wide.swapaxes(0, 1)) * (0.5 * self._factor)).to_float()

    def _count(self, n: int) -> None:
        for _ in range(n if self._bar is not None else 0):
            self._bar()

    def _adjoint(self) -> HessianOperator:
        return self

    @contextmanager
    def _counted(self, what: str, total: int | None) -> Iterator[None]:
        """Count products on a progress bar, if progress is wanted and no bar is there already."""
        if not self._progress or self._bar is not None:
            yield
            return
        from rich.progress import Progress

        with Progress(transient=True) as shown:
            task = shown.add_task(what, total=total)
            self._bar = lambda: shown.advance(task)
            try:
                yield
            finally:
                self._bar = None


class _Native:
    """Products on the numba engine; values and adjoints are kept if all rows fit into one block.

    `scale [P]`, if there is one, multiplies vectors before and after the Hessian does. Unsettled rows are added in wide numbers.
    `weights [N]`, if there are any, count rows more or less than once.
    """

    def __init__(self, layout: Layout, rows: Array, weights: Array | None = None) -> None:
        from flatpc.curvature.passes import Passes
        from flatpc.engine.numba.evaluator import Evaluator
        from flatpc.engine.numba.evidence import Evidence

        self.rows, self.weights = rows, weights
        self._passes = Passes(Evaluator(layout.circuit, "float64"), layout.include_inputs, leaves=False)
        self._evidence = Evidence(self._passes.program, rows)
        self._kept: Any = None

    def _blocks(self) -> Iterator[Any]:
        if self._kept is not None:
            yield self._kept
            return
        n = 0
        for block in self._passes.blocks(self._evidence, np.arange(len(self._evidence)), self.weights, shared=True):
            n += 1
            last = block
            yield block
        self._kept = last if n == 1 else None

    def gradient(self, scale: Array | None) -> Array:
        from flatpc.curvature.passes import HardRows

        out, hard = np.zeros(self._passes.layout.size), HardRows()
        for block in self._blocks():
            out += self._passes.gradient(block)
            hard.add(block)
        return self._complete(out, hard, scale, lambda wide, X, counts: wide.gradient(X, counts))

    def products(self, vectors: Array, scale: Array | None, count: Count) -> Array:
        from flatpc.curvature.passes import HardRows

        scaled = vectors if scale is None else vectors * scale
        out, hard = np.zeros(vectors.shape), HardRows()
        for b, block in enumerate(self._blocks()):
            hard.add(block)
            n = self._passes.directions_at_once(block)
            for start in range(0, len(vectors), n):
                some = slice(start, start + n)
                out[some] += self._passes.products(block, scaled[some])
                if b == 0:
                    count(len(vectors[some]))
        return self._complete(out, hard, scale, lambda wide, X, counts: wide.products(X, _scaled(vectors, scale), counts))

    def matrix(self, scale: Array | None, count: Count) -> Array:
        from flatpc.curvature.passes import HardRows

        layout = self._passes.layout
        out, hard = np.zeros((layout.size, layout.size)), HardRows()
        for b, block in enumerate(self._blocks()):
            hard.add(block)
            n = self._passes.directions_at_once(block)
            for start in range(0, layout.size, n):
                unit = np.eye(min(n, layout.size - start), layout.size, start)
                first = int(layout.starts[np.searchsorted(layout.starts, start, "right") - 1])
                found = self._passes.products(block, unit if scale is None else unit * scale, first)[:, first:]
                out[start : start + n, first:] += found
                if b == 0:
                    count(len(unit))
        identity = np.eye(layout.size)
        out = self._complete(out, hard, scale, lambda wide, X, counts: wide.products(X, _scaled(identity, scale), counts))
        # Row i has entries from its own node's first parameter on: all of the upper triangle.
        return np.triu(out) + np.triu(out, 1).T

    def _complete(self, found: Array, hard: HardRows, scale: Array | None, ask: Callable[..., Wide]) -> Array:
        """Scale what the settled rows gave, and add what the others do."""
        found = found if scale is None else found * scale
        if not hard:
            return found
        more = ask(self._passes.wide(), hard.X, hard.counts)
        return np.asarray(found + (more if scale is None else more * scale).to_float())


def _scaled(vectors: Array, scale: Array | None) -> Wide:
    return Wide.of(vectors) if scale is None else Wide.of(vectors) * scale


class _Autograd:
    """Products on the torch engine, one by one."""

    def __init__(self, layout: Layout, rows: Array) -> None:
        need("torch", "torch", "Products by automatic differentiation")
        from flatpc.curvature.autograd import Autograd

        self._autograd, self.rows, self.weights = Autograd(layout), rows, None

    def gradient(self, scale: Array | None) -> Array:
        found = self._autograd.gradient(self.rows)
        return found if scale is None else found * scale

    def products(self, vectors: Array, scale: Array | None, count: Count) -> Array:
        out = np.empty(vectors.shape)
        for d, vector in enumerate(vectors):
            out[d] = self._autograd.product(self.rows, vector if scale is None else vector * scale)
            count(1)
        return out if scale is None else out * scale

    def matrix(self, scale: Array | None, count: Count) -> Array:
        return self.products(np.eye(self._autograd.layout.size), scale, count)
