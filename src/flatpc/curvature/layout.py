"""The order of parameters in a vector: nodes in order, each array raveled.

    θ = [weights of the first Sum or Mixture, row by row; weights of the next; ...]

Tied nodes share one place. An edge that a mask removes keeps its place: its row and column of the Hessian are zero. With
`include_inputs` the probabilities of Bernoulli and Categorical inputs are parameters too, as tables `[width, categories]`; a
Bernoulli is the categorical `[p(0), p(1)]`, with two numbers that move independently.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from flatpc._options import choice
from flatpc._typing import Array, Ints
from flatpc.circuit.nodes import Input, Mixture, Sum
from flatpc.curvature.wide_numbers import Wide
from flatpc.engine.numba.views import input_view, weight_view
from flatpc.errors import TiedParametersError

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit
    from flatpc.engine.numba.program import Program

SPACES = ("weights", "logits", "simplex")
REDUCTIONS = ("sum", "mean")


@dataclass(frozen=True)
class Layout:
    """Where each node's parameters are in the vector."""

    circuit: Circuit
    include_inputs: bool = False

    @cached_property
    def shapes(self) -> dict[int, tuple[int, int]]:
        """Owning node -> shape of its array; units in rows, each row on the simplex."""
        c = self.circuit
        out: dict[int, tuple[int, int]] = {}
        for i, node in enumerate(c.nodes):
            if c.owners[i] != i:
                continue
            if isinstance(node, Sum | Mixture):
                out[i] = c.weight_shape(i)
            elif self.include_inputs and isinstance(node, Input) and node.family.is_free_table:
                out[i] = node.width, node.family.n_categories or 0
        return out

    @cached_property
    def size(self) -> int:
        """Length of the vector."""
        return sum(rows * columns for rows, columns in self.shapes.values())

    @cached_property
    def starts(self) -> Ints:
        """Where each node's part of the vector starts, and at last where the vector ends."""
        return np.cumsum([0] + [rows * columns for rows, columns in self.shapes.values()])

    def vector(self, arrays: Mapping[int, Any]) -> Array:
        """Arrays by node as one vector; a node left out is zero."""
        parts = [
            np.asarray(arrays[i], np.float64).ravel() if i in arrays else np.zeros(a * b) for i, (a, b) in self.shapes.items()
        ]
        return np.concatenate(parts) if parts else np.empty(0)

    def arrays(self, vector: Array) -> dict[int, Array]:
        """A vector as arrays by node."""
        parts = zip(self.shapes.items(), self.starts[:-1], self.starts[1:], strict=True)
        return {i: vector[start:end].reshape(shape) for (i, shape), start, end in parts}

    @cached_property
    def values(self) -> Array:
        """The circuit's parameters as a vector."""
        return self.vector(self.tables(self.circuit.parameters))

    def tables(self, parameters: Mapping[int, Any]) -> dict[int, Array]:
        """Parameters, as a circuit has them, as arrays by node."""
        return {i: table_of(self.circuit, i, parameters[i]) for i in self.shapes}

    @cached_property
    def exists(self) -> NDArray[np.bool_]:
        """Which entries are parameters, and not edges that a mask removes."""
        masks = {i: _mask(self.circuit, i, shape) for i, shape in self.shapes.items()}
        return self.vector(masks) > 0

    @cached_property
    def row(self) -> Ints:
        """For each entry which unit, of all units with parameters, it belongs to."""
        columns = np.array([b for a, b in self.shapes.values() for _ in range(a)], np.int64)
        return np.repeat(np.arange(len(columns)), columns)

    @cached_property
    def _row_starts(self) -> Ints:
        return np.flatnonzero(np.diff(self.row, prepend=-1))

    def units(self) -> Iterator[slice]:
        """Each unit's part of the vector."""
        ends = np.append(self._row_starts, self.size)
        return (slice(int(a), int(b)) for a, b in pairwise(ends))

    @overload
    def row_sums(self, vector: Array) -> Array: ...

    @overload
    def row_sums(self, vector: Wide) -> Wide: ...

    def row_sums(self, vector: Array | Wide) -> Array | Wide:
        """`[..., P]`: for each entry the sum over its unit's entries."""
        starts = self._row_starts
        if len(starts) == 0:
            return vector
        sums = vector.sum_of_segments(starts) if isinstance(vector, Wide) else np.add.reduceat(vector, starts, axis=-1)
        return sums[..., self.row]

    @overload
    def existing(self, vector: Array) -> Array: ...

    @overload
    def existing(self, vector: Wide) -> Wide: ...

    def existing(self, vector: Array | Wide) -> Array | Wide:
        """`[..., P]`: 0 in place of entries that a mask removes."""
        if isinstance(vector, Wide):
            return vector * self.exists.astype(np.float64)
        return np.where(self.exists, vector, 0.0)

    @cached_property
    def edges(self) -> Array:
        """For each entry how many edges its unit has, those that a mask removes left out."""
        return self.row_sums(self.exists.astype(np.float64))

    @cached_property
    def tied(self) -> int | None:
        """A node that shares parameters of this layout with an earlier node, if there is one."""
        owners = self.circuit.owners
        return next((i for i, owner in enumerate(owners) if owner != i and owner in self.shapes), None)

    def refuse_ties(self, what: str) -> None:
        """Raise if parameters are tied: then log p is no longer the logarithm of something linear in each of them."""
        if self.tied is not None:
            raise TiedParametersError(
                f"Node {self.tied} shares the parameters of node {self.circuit.owners[self.tied]}. The {what} is a sum of "
                f"squared gradients only where every parameter occurs once; with tied parameters that identity is false. "
                f"Use flatpc.curvature.operator or flatpc.curvature.hessian, which are exact for tied parameters too."
            )


def table_of(circuit: Circuit, i: int, parameters: Any) -> Array:
    """A node's parameters, as a circuit has them, as one array whose rows lie on the simplex."""
    node = circuit.nodes[i]
    if isinstance(node, Input):
        assert isinstance(parameters, dict)
        return node.family.table(parameters)
    assert isinstance(parameters, np.ndarray)
    return parameters


def parameters_of(circuit: Circuit, arrays: Mapping[int, Array]) -> dict[int, Any]:
    """Arrays by node, as `table_of` makes them, as parameters for `circuit.with_parameters`."""
    out: dict[int, Any] = {}
    for i, array in arrays.items():
        node = circuit.nodes[i]
        if isinstance(node, Input):
            out[i] = node.family.from_table(array)
        else:
            out[i] = array
    return out


def _mask(circuit: Circuit, i: int, shape: tuple[int, int]) -> Any:
    node = circuit.nodes[i]
    return node.mask if isinstance(node, Sum) and node.mask is not None else np.ones(shape)


def check_space(space: str, allowed: tuple[str, ...] = SPACES) -> str:
    """`space` if it is one of those allowed."""
    return choice("space", space, allowed)


def share_of_sum(reduction: str, n_rows: int, allowed: tuple[str, ...] = REDUCTIONS) -> float:
    """What a sum over rows is multiplied by: 1, or for `"mean"` one over their number."""
    return 1 / n_rows if choice("reduction", reduction, allowed) == "mean" else 1.0


class FlatIndex:
    """Where each entry of a layout's vector lies in the flat arrays of the numba engine; masked edges lie nowhere."""

    def __init__(self, layout: Layout, program: Program) -> None:
        n_weights, n_inputs = program.n_weights, program.n_inputs
        weights, tables = np.arange(n_weights)[None], n_weights + np.arange(n_inputs)[None]
        parts = []
        for i, (_, columns) in layout.shapes.items():
            node = layout.circuit.nodes[i]
            if i in program.weight_blocks:
                view = weight_view(layout.circuit, program, weights, i)
            else:
                view = input_view(layout.circuit, program, tables, i)[:, :columns].swapaxes(1, 2)
            mask = node.mask if isinstance(node, Sum) else None
            parts.append(np.ravel(view if mask is None else np.where(mask, view, n_weights + n_inputs)))
        self._to_vector = np.concatenate(parts) if parts else np.empty(0, np.intp)
        self._all_weights = bool((self._to_vector < n_weights).all())
        to_flat = np.full(n_weights + n_inputs + 1, layout.size)
        to_flat[self._to_vector] = np.arange(layout.size)
        self._to_weights, self._to_tables = to_flat[:n_weights], to_flat[n_weights:-1]

    def spread(self, vectors: Array, dtype: Any = np.float64) -> tuple[Any, Array]:
        """Vectors `[D, P]` as flat weights and flat tables `[D, ...]`, zero wherever there is no parameter."""
        padded = _with_a_zero(vectors)
        weights, tables = padded.take(self._to_weights, axis=1), padded.take(self._to_tables, axis=1)
        return weights.astype(dtype, copy=False), tables

    def collect(self, weights: Any, tables: Array) -> Array:
        """Flat weights and flat tables as vectors, zero where a mask removes the edge."""
        if self._all_weights:
            return np.asarray(weights.take(self._to_vector, axis=1), np.float64)
        return _with_a_zero(weights, tables).take(self._to_vector, axis=1)


def _with_a_zero(*parts: Any) -> Array:
    """Rows `[D, ...]` beside each other, each with a zero at its end."""
    return np.concatenate([*parts, np.zeros((len(parts[0]), 1))], axis=1, dtype=np.float64)
