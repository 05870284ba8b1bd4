"""Parameters as the flat arrays that kernels use, and back.

Weights have the engine's dtype; input tables, which are small, stay in float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flatpc._typing import Array
from flatpc.circuit.nodes import Input, Sum
from flatpc.engine.numba.program import Program
from flatpc.engine.numba.views import input_views, weight_view, weight_views
from flatpc.families import packing
from flatpc.families.base import Statistics

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

Flat = NDArray[Any]

SMALLEST_FLOAT32 = 2.0**-120
"""A positive weight never becomes zero by conversion to float32."""


def aligned(size: int, dtype: str) -> Flat:
    """An empty array that starts at a cache line: vectors that straddle two lines take twice the time."""
    whole = np.empty(size + 64, dtype)
    start = -whole.ctypes.data % 64 // whole.itemsize
    return whole[start : start + size]


def pack_weights(circuit: Circuit, program: Program, dtype: str) -> Flat:
    """All weights in one array."""
    out = aligned(program.n_weights, dtype)
    out[:] = 0
    for i in program.weight_blocks:
        weights: Any = circuit.parameters[i]
        if dtype == "float32":
            weights = np.where((weights > 0) & (weights < SMALLEST_FLOAT32), SMALLEST_FLOAT32, weights)
        weight_view(circuit, program, out, i)[...] = weights
    return out


def pack_masks(circuit: Circuit, program: Program) -> NDArray[np.uint8]:
    """1 where an edge exists; empty if no node has a mask."""
    if not any(isinstance(node, Sum) and node.mask is not None for node in circuit.nodes):
        return np.empty(0, np.uint8)
    out = np.zeros(program.n_weights, np.uint8)
    for i in program.weight_blocks:
        node = circuit.nodes[i]
        mask = node.mask if isinstance(node, Sum) else None
        weight_view(circuit, program, out, i)[...] = 1 if mask is None else mask
    return out


def unpack_weights(circuit: Circuit, program: Program, flat: Flat) -> dict[int, Array]:
    """Owning node -> array of the shape of its weights, in float64."""
    views = weight_views(circuit, program, flat)
    return {i: np.array(view, np.float64, order="C") for i, view in views.items()}


def pack_inputs(circuit: Circuit, program: Program) -> Array:
    """Tables and parameters of all inputs in one array."""
    out = np.zeros(program.n_inputs)
    for i, block, node in _input_blocks(circuit, program, out):
        parameters = circuit.parameters[i]
        assert isinstance(parameters, dict)
        packing.write(node.family, parameters, block)
    return out


def unpack_inputs(circuit: Circuit, program: Program, flat: Array) -> dict[int, dict[str, Array]]:
    """Owning Input -> its family's parameters."""
    out: dict[int, dict[str, Array]] = {}
    for i, block, node in _input_blocks(circuit, program, flat):
        parameters = circuit.parameters[i]
        assert isinstance(parameters, dict)
        out[i] = packing.unpack(node.family, block) if node.family.learnable else dict(parameters)
    return out


def unpack_statistics(circuit: Circuit, program: Program, flat: Array) -> dict[int, Statistics]:
    """Owning Input -> its family's sufficient statistics."""
    out: dict[int, Statistics] = {}
    for i, block, node in _input_blocks(circuit, program, flat):
        out[i] = packing.unpack_statistics(node.family, block)
    return out


def _input_blocks(circuit: Circuit, program: Program, flat: Array) -> Iterator[tuple[int, Array, Input]]:
    for i, block in input_views(circuit, program, flat).items():
        node = circuit.nodes[i]
        assert isinstance(node, Input)
        yield i, block, node
