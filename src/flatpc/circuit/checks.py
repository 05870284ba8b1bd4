"""Checks of a circuit's root, of the masks of its sums, and of nodes that share parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from flatpc.circuit.nodes import Input, Product, Sum
from flatpc.circuit.scopes import describe
from flatpc.errors import StructureError

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit


def check_root(circuit: Circuit) -> None:
    """Raise unless the root is one unit over all variables."""
    if circuit.widths[-1] != 1:
        raise StructureError(
            f"The last node is the root and must have width 1, not {circuit.widths[-1]}; add a Sum of width 1 on top."
        )
    scope = circuit.scopes[-1]
    if scope != (1 << scope.bit_length()) - 1:
        absent = ((1 << scope.bit_length()) - 1) & ~scope
        raise StructureError(
            f"The root has no input over the variables {describe(absent)}; number the variables 0, 1, 2, ... without gaps."
        )


def check_masks_and_ties(circuit: Circuit) -> None:
    """Raise unless masks fit the weights and leave each unit an edge, and tied nodes have the same parameters."""
    for i, node in enumerate(circuit.nodes):
        if isinstance(node, Sum) and node.mask is not None:
            shape = circuit.weight_shape(i)
            if node.mask.shape != shape:
                raise StructureError(f"Node {i} (Sum): the mask has shape {node.mask.shape}, the weights {shape}.")
            empty = np.flatnonzero(~node.mask.any(axis=1))
            if len(empty):
                raise StructureError(
                    f"Node {i} (Sum): the mask removes all edges of unit {empty[0]}; leave each unit one edge or drop the unit."
                )
        tie = None if isinstance(node, Product) else node.tie
        if tie is not None:
            _check_tie(circuit, i, tie)


def _check_tie(circuit: Circuit, i: int, tie: int) -> None:
    node = circuit.nodes[i]
    if not 0 <= tie < i:
        raise StructureError(f"Node {i} is tied to node {tie}; it can only share the parameters of an earlier node.")
    other = circuit.nodes[tie]
    fits = type(other) is type(node)
    if fits and isinstance(node, Input) and isinstance(other, Input):
        fits = (node.family, node.width) == (other.family, other.width)
    elif fits:
        fits = circuit.weight_shape(i) == circuit.weight_shape(tie)
        if fits and isinstance(node, Sum) and isinstance(other, Sum):
            a, b = node.mask, other.mask
            fits = (a is None and b is None) or (a is not None and b is not None and np.array_equal(a, b))
    if not fits:
        raise StructureError(f"Node {i} is tied to node {tie}, which has other parameters (kind, family, shape or mask).")
