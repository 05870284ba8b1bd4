"""Where each node's parameters lie in the flat arrays that kernels use, and nowhere else is that known.

A Sum's weights lie row by row, one row for each unit, padded to whole vectors; those of one unit lie without padding. A
Mixture's and an Input's units run fastest. All functions give views, so that what is written to them is in the flat array; a
flat array may have further axes in front.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flatpc._typing import Ints
from flatpc.circuit.nodes import Mixture

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit
    from flatpc.engine.numba.program import Program


def weight_view(circuit: Circuit, program: Program, flat: NDArray[Any], i: int) -> NDArray[Any]:
    """`[..., units, edges]`: the weights of node i, which owns them."""
    offset, shape = program.weight_blocks[i]
    block = flat[..., offset : offset + math.prod(shape)].reshape(*flat.shape[:-1], *shape)
    units, edges = circuit.weight_shape(i)
    if isinstance(circuit.nodes[i], Mixture):
        return block[..., :units].swapaxes(-1, -2)
    return (block[..., None, :] if len(shape) == 1 else block)[..., :edges]


def weight_views(circuit: Circuit, program: Program, flat: NDArray[Any]) -> dict[int, NDArray[Any]]:
    """Owner -> `[..., units, edges]`."""
    return {i: weight_view(circuit, program, flat, i) for i in program.weight_blocks}


def weight_places(circuit: Circuit, program: Program) -> Ints:
    """For each owner: where its weights start, units, the step from one to the next, edges, the step from one to the next."""
    places = []
    for view in weight_views(circuit, program, np.arange(program.n_weights)).values():
        (units, edges), (from_unit, from_edge) = view.shape, (step // view.itemsize for step in view.strides)
        places.append((int(view[0, 0]), units, from_unit, edges, from_edge))
    return np.array(places, np.int64).reshape(-1, 5)


@dataclass(frozen=True)
class InputBlocks:
    """The rows of numbers (of a table, parameters or statistics) of inputs of equal shape, one input right after the other."""

    start: int
    n_nodes: int
    rows: int
    stride: int
    width: int

    def view(self, flat: NDArray[Any]) -> NDArray[Any]:
        """`[..., nodes, rows, units]`."""
        block = flat[..., self.start : self.start + self.n_nodes * self.rows * self.stride]
        return block.reshape(*flat.shape[:-1], self.n_nodes, self.rows, self.stride)[..., : self.width]

    def places(self) -> list[tuple[int, int, int, int, int]]:
        """For each input: where it starts, units, the step from one to the next, rows, the step from one to the next."""
        starts = self.start + self.rows * self.stride * np.arange(self.n_nodes)
        return [(int(start), self.width, 1, self.rows, self.stride) for start in starts]

    def followed_by(self, other: InputBlocks) -> InputBlocks | None:
        """Both, if the other is of the same shape and lies right behind."""
        end = self.start + self.n_nodes * self.rows * self.stride
        alike = (self.rows, self.stride, self.width) == (other.rows, other.stride, other.width)
        return replace(self, n_nodes=self.n_nodes + other.n_nodes) if alike and other.start == end else None


def input_block(circuit: Circuit, program: Program, i: int) -> InputBlocks:
    """Where the numbers of input i are, which owns them."""
    start, (rows, stride) = program.input_blocks[i]
    return InputBlocks(start, 1, rows, stride, circuit.widths[i])


def input_view(circuit: Circuit, program: Program, flat: NDArray[Any], i: int) -> NDArray[Any]:
    """`[..., rows, units]`: the rows of numbers of input i, which owns them."""
    return input_block(circuit, program, i).view(flat)[..., 0, :, :]


def input_views(circuit: Circuit, program: Program, flat: NDArray[Any]) -> dict[int, NDArray[Any]]:
    """Owner -> `[..., rows, units]`."""
    return {i: input_view(circuit, program, flat, i) for i in program.input_blocks}
