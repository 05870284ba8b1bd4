"""Parts of circuits over regions (sets of variables) that random and grid-shaped structures share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flatpc.circuit.nodes import Input, Node, Product
from flatpc.families.base import Family


def add_leaf_region(nodes: list[Node], variables: Iterable[int], families: Sequence[Family], width: int) -> int:
    """Append `width` factorised distributions over the variables; the index of the node that holds them."""
    inputs = []
    for v in variables:
        nodes.append(Input(v, families[v], width))
        inputs.append(len(nodes) - 1)
    if len(inputs) > 1:
        nodes.append(Product(tuple(inputs)))
    return len(nodes) - 1


def add_partition(nodes: list[Node], left: int, right: int) -> int:
    """Append all products of a unit of `left` and a unit of `right`; the index of that node."""
    nodes.append(Product((left, right), "kronecker"))
    return len(nodes) - 1
