"""The Hessian as something that multiplies vectors: about two forward-backward passes per product, and no matrix."""

from __future__ import annotations

from collections.abc import Iterator
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
        v = np.asarray(vector, np.float64).ravel()
        if self.space == "weights":
            out = self._source.product(v)
        elif self.space == "simplex":
            out = spaces.project(self.layout, self._source.product(spaces.project(self.layout, v)))
        else:
            out = spaces.product_in_logits(self.layout, self.layout.values, self.gradient, self._source.product, v)
        if self._bar is not None:
            self._bar()
        return np.asarray(out)

    def _matmat(self, matrix: Any) -> Array:
        with self.bar("Hessian-vector products", matrix.shape[1]):
            return np.stack([self._matvec(column) for column in matrix.T], axis=1) if matrix.shape[1] else np.zeros(matrix.shape)

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

    def product(self, vector: Array) -> Array:
        return np.asarray(sum(self._passes.product(block, vector) for block in self._blocks()))


class _Autograd:
    """Products on the torch engine."""

    def __init__(self, layout: Layout, rows: Array) -> None:
        from flatpc.curvature.autograd import Autograd

        self._autograd, self._rows = Autograd(layout), rows

    def gradient(self) -> Array:
        return self._autograd.gradient(self._rows)

    def product(self, vector: Array) -> Array:
        return self._autograd.product(self._rows, vector)
