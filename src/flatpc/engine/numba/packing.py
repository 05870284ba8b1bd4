"""Parameters as the flat arrays that kernels use, and back.

Weights have the engine's dtype; input tables, which are small, stay in float64.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flatpc.circuit.nodes import Input, Mixture, Sum
from flatpc.engine.numba.program import Program
from flatpc.families import packing
from flatpc.families.base import Statistics

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

Array = NDArray[np.float64]
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
        _write(circuit, program, out, i, weights)
    return out


def pack_masks(circuit: Circuit, program: Program) -> NDArray[np.uint8]:
    """1 where an edge exists; empty if no node has a mask."""
    if not any(isinstance(node, Sum) and node.mask is not None for node in circuit.nodes):
        return np.empty(0, np.uint8)
    out = np.zeros(program.n_weights, np.uint8)
    for i in program.weight_blocks:
        node = circuit.nodes[i]
        mask = node.mask if isinstance(node, Sum) else None
        _write(circuit, program, out, i, np.ones(circuit.weight_shape(i)) if mask is None else mask)
    return out


def unpack_weights(circuit: Circuit, program: Program, flat: Flat) -> dict[int, Array]:
    """Owning node -> array of the shape of its weights, in float64."""
    out: dict[int, Array] = {}
    for i, (offset, shape) in program.weight_blocks.items():
        block = flat[offset : offset + int(np.prod(shape))].reshape(shape)
        rows, columns = circuit.weight_shape(i)
        if isinstance(circuit.nodes[i], Mixture):
            block = block[:, :rows].T
        elif len(shape) == 1:
            block = block[None]
        out[i] = np.array(block[:, :columns], np.float64, order="C")
    return out


def _write(circuit: Circuit, program: Program, flat: Flat, i: int, weights: Any) -> None:
    offset, shape = program.weight_blocks[i]
    block = flat[offset : offset + int(np.prod(shape))].reshape(shape)
    if isinstance(circuit.nodes[i], Mixture):
        block[:, : weights.shape[0]] = weights.T
    elif len(shape) == 1:
        block[:] = weights[0]
    else:
        block[:, : weights.shape[1]] = weights


def pack_inputs(circuit: Circuit, program: Program) -> Array:
    """Tables and parameters of all inputs in one array."""
    out = np.zeros(program.n_inputs)
    for i, (offset, shape) in program.input_blocks.items():
        node, parameters = circuit.nodes[i], circuit.parameters[i]
        assert isinstance(node, Input)
        assert isinstance(parameters, dict)
        block = out[offset : offset + shape[0] * shape[1]].reshape(shape)
        packing.write(node.family, parameters, block[:, : node.width])
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


def _input_blocks(circuit: Circuit, program: Program, flat: Mapping[int, Any] | Array) -> Any:
    for i, (offset, shape) in program.input_blocks.items():
        node = circuit.nodes[i]
        assert isinstance(node, Input)
        yield i, flat[offset : offset + shape[0] * shape[1]].reshape(shape)[:, : node.width], node  # type: ignore[index]
