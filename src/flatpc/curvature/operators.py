"""The Hessian as something that multiplies vectors: about two forward-backward passes per product, and no matrix.

Products with several vectors share their passes: `H @ V` is quicker than its columns one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from flatpc.circuit.rows import read_rows
from flatpc.curvature import spaces
from flatpc.curvature.layout import Layout, check_space
from flatpc.errors import OptionError

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

Array = NDArray[np.float64]
Count = Callable[[int], None]
"""Told how many products have been computed."""


def operator(
    circuit: Circuit,
    X: Any,
    *,
    space: str = "weights",
    include_inputs: bool = False,
    engine: str = "auto",
    missing: str = "raise",
    progress: bool = False,
) -> HessianOperator:
    """The Hessian of Σ log p(x) as a SciPy `LinearOperator` of shape `[P, P]`.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> coin = fp.Input(variable=0, family=fp.Bernoulli(), width=2)
    >>> c = fp.Circuit([coin, fp.Sum(children=(0,))], {0: {"p": [0.2, 0.8]}, 1: [[0.5, 0.5]]})
    >>> H = fp.curvature.operator(c, [[1]])
    >>> (H @ np.array([1.0, 0.0])).round(6).tolist()                    # -(0.2, 0.8) · 0.2 / 0.5²
    [-0.16, -0.64]

    The order of parameters is that of `flatpc.curvature.layout.Layout`: nodes in order, each array raveled, edges that a mask
    removes being zero rows and columns. It is exact for any circuit, tied parameters included.

    Parameters
    ----------
    space
        `"weights"`, `"logits"`, or `"simplex"`: the Hessian in the weights between two projections on normalised directions.
    engine
        `"numba"`: tangent passes over distinct sub-rows. `"torch"`: automatic differentiation, twice backward.
    progress
        Show a bar while products are computed.
    """
    check_space(space)
    if engine not in ("auto", "numba", "torch"):
        raise OptionError(f"engine={engine!r}; choose 'numba' or 'torch'.")
    rows = read_rows(circuit, X, missing)
    layout = Layout(circuit, include_inputs)
    source: Any = _Autograd(layout, rows) if engine == "torch" else _Native(layout, rows)
    return HessianOperator(layout, source, space, len(rows), progress)


class HessianOperator(LinearOperator):  # type: ignore[misc]
    """What `operator` returns; symmetric."""

    def __init__(self, layout: Layout, source: Any, space: str, n_rows: int, progress: bool) -> None:
        super().__init__(np.float64, (layout.size, layout.size))
        self.layout = layout
        self.space = space
        self.n_rows = n_rows
        self._source = source
        self._progress = progress
        self._bar: Any = None

    @cached_property
    def gradient(self) -> Array:
        """`[P]`: the gradient of Σ log p(x) in the weights, whatever the space."""
        return np.asarray(self._source.gradient())

    def _matvec(self, vector: Any) -> Array:
        return np.ravel(self._products(np.asarray(vector, np.float64).reshape(1, -1)))

    def _matmat(self, matrix: Any) -> Array:
        with self.bar("Hessian-vector products", matrix.shape[1]):
            return self._products(np.ascontiguousarray(np.asarray(matrix, np.float64).T)).T

    def _products(self, vectors: Array) -> Array:
        """Of vectors `[D, P]`."""
        values = self.layout.values
        return spaces.product_in(self.space, self.layout, values, lambda: self.gradient, self._in_weights, vectors)

    def _in_weights(self, vectors: Array) -> Array:
        return np.asarray(self._source.products(vectors, self._count))

    def matrix(self) -> Array:
        """`[P, P]`: the Hessian itself, symmetric to the last bit.

        Its columns are products with unit vectors, several at a time, and of each column only the part from its own node on is
        computed; a space other than the weights is changed to at the end.
        """
        with self.bar("Columns of the Hessian", self.shape[0]):
            H = self._source.matrix(self._count)
        if self.space != "weights":
            layout, values = self.layout, self.layout.values
            # What the change of space makes of H times unit vectors is what it makes of H, from one side.
            one_side = spaces.gradient_in(self.space, layout, values, H).T
            H = spaces.product_in(self.space, layout, values, lambda: self.gradient, lambda _: one_side, np.eye(len(H)))
        return np.asarray((H + H.T) / 2)

    def _count(self, n: int) -> None:
        for _ in range(n if self._bar is not None else 0):
            self._bar()

    def _adjoint(self) -> HessianOperator:
        return self

    @contextmanager
    def bar(self, what: str, total: int | None) -> Iterator[None]:
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
    """Products on the numba engine; values and adjoints are kept if all rows fit into one block."""

    def __init__(self, layout: Layout, rows: Array) -> None:
        from flatpc.curvature.passes import Passes
        from flatpc.engine.evaluator import Evaluator
        from flatpc.engine.evidence import Evidence

        self._passes = Passes(Evaluator(layout.circuit, "float64"), layout.include_inputs, leaves=False)
        self._evidence = Evidence(self._passes.program, rows)
        self._kept: Any = None

    def _blocks(self) -> Iterator[Any]:
        if self._kept is not None:
            yield self._kept
            return
        n = 0
        for block in self._passes.blocks(self._evidence, np.arange(len(self._evidence)), None, shared=True):
            n += 1
            last = block
            yield block
        self._kept = last if n == 1 else None

    def gradient(self) -> Array:
        return np.asarray(sum(self._passes.gradient(block) for block in self._blocks()))

    def products(self, vectors: Array, count: Count) -> Array:
        out = np.zeros(vectors.shape)
        for b, block in enumerate(self._blocks()):
            n = self._passes.directions_at_once(block)
            for start in range(0, len(vectors), n):
                some = slice(start, start + n)
                out[some] += self._passes.products(block, vectors[some])
                if b == 0:
                    count(len(vectors[some]))
        return out

    def matrix(self, count: Count) -> Array:
        layout = self._passes.layout
        out = np.zeros((layout.size, layout.size))
        for b, block in enumerate(self._blocks()):
            n = self._passes.directions_at_once(block)
            for start in range(0, layout.size, n):
                unit = np.eye(min(n, layout.size - start), layout.size, start)
                first = int(layout.starts[np.searchsorted(layout.starts, start, "right") - 1])
                found = self._passes.products(block, unit, first)[:, first:]
                out[start : start + n, first:] += found
                if b == 0:
                    count(len(unit))
        # Row i has entries from its own node's first parameter on: all of the upper triangle.
        return np.triu(out) + np.triu(out, 1).T


class _Autograd:
    """Products on the torch engine, one by one."""

    def __init__(self, layout: Layout, rows: Array) -> None:
        from flatpc.curvature.autograd import Autograd

        self._autograd, self._rows = Autograd(layout), rows

    def gradient(self) -> Array:
        return self._autograd.gradient(self._rows)

    def products(self, vectors: Array, count: Count) -> Array:
        out = np.empty(vectors.shape)
        for d, vector in enumerate(vectors):
            out[d] = self._autograd.product(self._rows, vector)
            count(1)
        return out

    def matrix(self, count: Count) -> Array:
        return self.products(np.eye(self._autograd.layout.size), count)
