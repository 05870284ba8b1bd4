"""Leaving out the units that nothing uses any more (see `pruning`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from flatpc._typing import Bools
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.nodes import Input, Mixture, Node, Product, Sum, children_of
from flatpc.circuit.rows import check_circuit


def compact(circuit: Circuit) -> Circuit:
    """The same distribution without units that no edge leads to from the root.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> mask = np.array([[True, False, True]])
    >>> circuit = fp.Circuit([fp.Input(0, fp.Bernoulli(), 3), fp.Sum((0,), 1, mask)])
    >>> fp.structures.compact(circuit).widths
    (2, 1)

    Parameters
    ----------
    circuit
        A circuit, such as `prune` returns. One whose sums share weights is returned as it is.

    Returns
    -------
    Circuit
        With fewer units. An unused unit stays if a product or a mixture ties its position to that of a unit in use.

    Raises
    ------
    OptionError
        If it is not a circuit.
    """
    check_circuit(circuit)
    if any(isinstance(node, Sum | Mixture) and node.tie is not None for node in circuit.nodes):
        return circuit
    kept = _kept(circuit)
    if all(units.all() for units in kept):
        return circuit
    used = _used(circuit, kept)
    new_index = np.cumsum(used) - 1
    owner_at: dict[int, int] = {}
    nodes: list[Node] = []
    parameters: dict[int, Any] = {}
    for i, node in enumerate(circuit.nodes):
        if not used[i]:
            continue
        at = int(new_index[i])
        value: Any = circuit.parameters.get(i)
        if isinstance(node, Input):
            # Where the owner is gone, the first that shared its parameters owns them.
            owner = owner_at.setdefault(circuit.owners[i], at)
            tie = None if owner == at else owner
            nodes.append(replace(node, width=int(kept[i].sum()), tie=tie))
            if tie is None:
                parameters[at] = {name: array[kept[i]] for name, array in value.items()}
            continue
        children = tuple(int(new_index[c]) for c in node.children if kept[c].any())
        if isinstance(node, Sum):
            columns = np.concatenate([kept[c] for c in node.children])
            mask = None if node.mask is None else node.mask[kept[i]][:, columns]
            nodes.append(Sum(children, int(kept[i].sum()), None if mask is None or mask.all() else mask))
            parameters[at] = value[kept[i]][:, columns]
        else:
            nodes.append(replace(node, children=children))
            if isinstance(node, Mixture):
                parameters[at] = value[kept[i]]
    return Circuit(nodes, parameters)


def _kept(circuit: Circuit) -> list[Bools]:
    """Which units of each node stay: those that the root needs, and those that widths bind to them."""
    kept = [np.zeros(width, bool) for width in circuit.widths]
    kept[-1][:] = True
    before = -1
    while before != (before := sum(int(units.sum()) for units in kept)):
        for i in reversed(range(len(kept))):
            if kept[i].any():
                _spread(circuit, i, kept)
    return kept


def _used(circuit: Circuit, kept: list[Bools]) -> list[bool]:
    """Which nodes the root still leads to; inputs may be kept for the sake of others that share their parameters."""
    used = [False] * len(kept)
    used[-1] = True
    for i in reversed(range(len(kept))):
        if used[i]:
            for c in children_of(circuit.nodes[i]):
                used[c] |= bool(kept[c].any())
    return used


def _spread(circuit: Circuit, i: int, kept: list[Bools]) -> None:
    node = circuit.nodes[i]
    if isinstance(node, Input):
        owner = circuit.owners[i]
        kept[i] |= kept[owner]
        kept[owner] |= kept[i]
    elif isinstance(node, Sum):
        mask = np.ones(circuit.weight_shape(i), bool) if node.mask is None else node.mask
        needed, start = np.asarray(mask[kept[i]].any(axis=0)), 0
        for c in node.children:
            kept[c] |= needed[start : start + circuit.widths[c]]
            start += circuit.widths[c]
    elif isinstance(node, Product) and node.kind == "kronecker":
        grid = kept[i].reshape([circuit.widths[c] for c in node.children])
        whole = np.ones((), bool)
        for j, c in enumerate(node.children):
            kept[c] |= grid.any(axis=tuple(axis for axis in range(grid.ndim) if axis != j))
            whole = np.multiply.outer(whole, kept[c])
        kept[i] |= whole.ravel()
    else:
        for c in node.children:
            kept[i] |= kept[c]
        for c in node.children:
            kept[c] |= kept[i]
