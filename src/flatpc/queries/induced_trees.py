"""Walking down a circuit: at every sum unit choose one child, at every product unit follow all.

What is visited is an induced tree. Scopes of a product's children are disjoint, so a tree visits each node once at most and
one input for each variable; a batch of trees is walked node by node, all trees that visit a node together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from flatpc._typing import Array
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.nodes import Input, Mixture, Product, Sum
from flatpc.queries.answers import Indices

Choose = Callable[[int, Indices, Indices], Indices]
Visit = Callable[[int, Indices, Indices], None]

_CHUNK = 1 << 20


def descend(circuit: Circuit, n_trees: int, choose: Choose, visit: Visit) -> None:
    """Walk `n_trees` induced trees from the root.

    `choose(node, trees, units)` returns an edge for each tree that visits a unit of a Sum or Mixture; an edge is a column of
    the weights. `visit(node, trees, units)` is called for every Input that is reached.
    """
    pending: dict[int, list[tuple[Indices, Indices]]] = {circuit.root: [(np.arange(n_trees), np.zeros(n_trees, np.int64))]}
    for i in range(circuit.root, -1, -1):
        arrived = pending.pop(i, None)
        if arrived is None:
            continue
        trees, units = arrived[0] if len(arrived) == 1 else (np.concatenate(part) for part in zip(*arrived, strict=True))
        node = circuit.nodes[i]
        if isinstance(node, Input):
            visit(i, trees, units)
        elif isinstance(node, Product):
            for c, factor in zip(node.children, _factors(circuit, node, units), strict=True):
                pending.setdefault(c, []).append((trees, factor))
        else:
            for c, chosen, below in _split(circuit, node, units, choose(i, trees, units)):
                pending.setdefault(c, []).append((trees[chosen], below))


def edge_scores(circuit: Circuit, log_values: Sequence[Array], i: int, rows: Indices, units: Indices) -> Array:
    """`[len(rows), edges]`: log θ + log value of the child, for the given units of a Sum or Mixture at the given rows."""
    node = circuit.nodes[i]
    weights: Any = circuit.parameters[i]
    with np.errstate(divide="ignore"):
        scores: Array = np.log(weights[units])
    if isinstance(node, Mixture):
        for j, c in enumerate(node.children):
            scores[:, j] += log_values[c][rows, units]
        return scores
    assert isinstance(node, Sum)
    start = 0
    for c in node.children:
        scores[:, start : start + circuit.widths[c]] += log_values[c][rows]
        start += circuit.widths[c]
    return scores


def chunks(n: int, width: int) -> Iterator[slice]:
    """Slices of `range(n)` such that an array `[slice, width]` holds about a million numbers at most."""
    size = max(1, _CHUNK // max(1, width))
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def _factors(circuit: Circuit, node: Product, units: Indices) -> list[Indices]:
    """For each child of a product the units that the product's `units` multiply."""
    if node.kind == "hadamard":
        return [units] * len(node.children)
    out = []
    for c in reversed(node.children):
        units, below = np.divmod(units, circuit.widths[c])
        out.append(below)
    return out[::-1]


def _split(circuit: Circuit, node: Sum | Mixture, units: Indices, edges: Indices) -> Iterator[tuple[int, Any, Indices]]:
    """For each child that is chosen: the child, where it is chosen, and which of its units."""
    if len(node.children) == 1:
        yield node.children[0], slice(None), units if isinstance(node, Mixture) else edges
        return
    if isinstance(node, Mixture):
        position, below = edges, units
    else:
        starts = np.cumsum([0] + [circuit.widths[c] for c in node.children[:-1]])
        position = np.searchsorted(starts, edges, side="right") - 1
        below = edges - starts[position]
    order = np.argsort(position, kind="stable")
    taken, first = np.unique(position[order], return_index=True)
    for p, chosen in zip(taken, np.split(order, first[1:]), strict=True):
        yield node.children[p], chosen, below[chosen]
