"""Layers of sums, and the mean flow per edge in each, the natural unit of μ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flatpc._typing import Array
from flatpc.circuit.nodes import Sum
from flatpc.engine.flat import Program, weight_places

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit


class Layers:
    """Sums and mixtures by height above the inputs; tied ones belong to the layer of the first."""

    def __init__(self, circuit: Circuit, program: Program) -> None:
        height = np.zeros(program.n_steps, np.int64)
        height[program.task] = np.repeat(np.arange(len(program.task_ptr) - 1), np.diff(program.task_ptr))
        self._n_steps = program.n_steps
        self._ptr, self._step = program.owners.weight_ptr, program.owners.weight_step
        self._start = weight_places(circuit, program)[:, 0]
        first = height[self._step[self._ptr[:-1]]]
        _, self._layer = np.unique(first, return_inverse=True)
        size = np.array([_size(circuit, i) for i in program.weight_blocks], np.float64).reshape(-1, 2)
        self._edges, self._units = np.bincount(self._layer, size[:, 0]), np.bincount(self._layer, size[:, 1])
        self.n_layers = len(self._edges)

    def mean_flow(self, gradient: NDArray[Any], weights: NDArray[Any]) -> tuple[Array, Array]:
        """`[layers]` each: the mean flow θ · ∂ Σ log p / ∂θ of a layer's edges, and of its units."""
        if len(self._start) == 0:
            return np.empty(0), np.empty(0)
        flow = np.bincount(self._layer, np.add.reduceat(gradient * weights, self._start, dtype=np.float64))
        return flow / self._edges, flow / self._units

    def per_step(self, per_layer: Array) -> Array:
        """`[steps]`: every step's entry, 0 where it has no weights."""
        out = np.zeros(self._n_steps)
        out[self._step] = np.repeat(per_layer[self._layer], np.diff(self._ptr))
        return out


def _size(circuit: Circuit, i: int) -> tuple[int, int]:
    """Edges and units of a node."""
    node = circuit.nodes[i]
    rows, columns = circuit.weight_shape(i)
    mask = node.mask if isinstance(node, Sum) else None
    return rows * columns if mask is None else int(mask.sum()), rows
