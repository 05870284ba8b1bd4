"""Growing: twice as many units, so that those that are used can specialise (see `pruning`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from flatpc._options import number, seed_number
from flatpc._typing import Array, Ints
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.nodes import Input, Mixture, Node, Product, Sum
from flatpc.circuit.rows import check_circuit


def grow(circuit: Circuit, *, noise: float = 0.1, seed: int = 0) -> Circuit:
    """Two copies of every unit that can have them; with `noise=0` the distribution stays the same.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> X = np.random.default_rng(0).integers(0, 2, size=(100, 4))
    >>> circuit = fp.structures.hclt(X, n_latents=8)
    >>> bigger = fp.structures.grow(circuit, noise=0.0)
    >>> bool(np.allclose(bigger.log_prob(X), circuit.log_prob(X)))
    True

    An edge is copied between all copies of its ends, and its weight is shared out evenly. Weights are then multiplied by numbers
    drawn from N(1, noise²), at least 0, and normalised: without noise the copies would stay the same for ever.

    The root has one unit, and so have the nodes whose width depends on the root's through products and mixtures.

    Parameters
    ----------
    circuit
        Any circuit.
    noise
        Relative size of the noise on copied weights.
    seed
        Random seed of the noise.

    Returns
    -------
    Circuit
        With up to twice as many units and four times as many edges.

    Raises
    ------
    OptionError
        For an option out of its range.
    """
    noise = number("noise", noise, 0.0, what="it is the relative size of the noise on copied weights, 0 or more")
    rng = np.random.default_rng(seed_number(seed))
    check_circuit(circuit)
    single = _single(circuit)
    # Which old unit each new one copies.
    origin: list[Ints] = []
    nodes: list[Node] = []
    parameters: dict[int, Any] = {}
    for i, node in enumerate(circuit.nodes):
        origin.append(_origin(circuit, i, single, origin))
        owner = circuit.owners[i] == i
        if isinstance(node, Input):
            nodes.append(replace(node, width=len(origin[i])))
            if owner:
                parameters[i] = {name: array[origin[i]] for name, array in _named(circuit, i).items()}
        elif isinstance(node, Product):
            nodes.append(node)
        else:
            columns, copies = _columns(circuit, node, origin)
            rows = origin[i][:, None]
            mask = node.mask[rows, columns] if isinstance(node, Sum) and node.mask is not None else None
            nodes.append(replace(node, width=len(origin[i]), mask=mask) if isinstance(node, Sum) else node)
            if owner:
                weights = np.asarray(circuit.parameters[i])[rows, columns] / copies
                parameters[i] = _noisy(weights, noise, rng)
    return Circuit(nodes, parameters)


def _named(circuit: Circuit, i: int) -> dict[str, Array]:
    value = circuit.parameters[i]
    assert isinstance(value, dict)
    return value


def _single(circuit: Circuit) -> list[bool]:
    """Nodes that can't be doubled: the root, and all whose width is bound to that of one that can't."""
    single = [False] * len(circuit.nodes)
    single[-1] = True
    before = -1
    while sum(single) != before:
        before = sum(single)
        for i, node in enumerate(circuit.nodes):
            for bound in _bound(circuit, i, node):
                if any(single[j] for j in bound):
                    for j in bound:
                        single[j] = True
            if isinstance(node, Product) and node.kind == "kronecker" and single[i]:
                for c in node.children:
                    single[c] = True
    return single


def _bound(circuit: Circuit, i: int, node: Node) -> list[tuple[int, ...]]:
    """Groups of nodes that are doubled together or, with the root among them, not at all."""
    bound = []
    if isinstance(node, Mixture) or (isinstance(node, Product) and node.kind == "hadamard"):
        bound.append((i, *node.children))
        if any(_multiplies(circuit, c) for c in node.children) and (isinstance(node, Mixture) or len(node.children) > 1):
            bound[-1] += (circuit.root,)
    owner = circuit.owners[i]
    if owner != i:
        bound.append((i, owner))
        other = circuit.nodes[owner]
        if isinstance(node, Sum) and isinstance(other, Sum):
            bound += _matched(circuit, node.children, other.children)
    return bound


def _matched(circuit: Circuit, some: tuple[int, ...], others: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Groups that give two sums with shared weights children of one shape; with the root in it, a group is never doubled."""
    if [circuit.widths[i] for i in some] != [circuit.widths[i] for i in others]:
        return [(*some, *others, circuit.root)]
    groups: list[tuple[int, ...]] = []
    for i, j in zip(some, others, strict=True):
        a, b = circuit.nodes[i], circuit.nodes[j]
        if isinstance(a, Product) and isinstance(b, Product) and a.kind == b.kind == "kronecker":
            groups += [(i, j), *_matched(circuit, a.children, b.children)]
        else:
            mixed = _multiplies(circuit, i) or _multiplies(circuit, j)
            groups.append((i, j, circuit.root) if mixed else (i, j))
    return groups


def _multiplies(circuit: Circuit, i: int) -> bool:
    """Whether a node of doubled parts would have four times as many units, or more."""
    node = circuit.nodes[i]
    if not isinstance(node, Product):
        return False
    return node.kind == "kronecker" or any(_multiplies(circuit, c) for c in node.children)


def _origin(circuit: Circuit, i: int, single: list[bool], origin: list[Ints]) -> Ints:
    node, width = circuit.nodes[i], circuit.widths[i]
    if isinstance(node, Product):
        if node.kind == "hadamard":
            return origin[node.children[0]]
        units = origin[node.children[0]]
        for c in node.children[1:]:
            units = (units[:, None] * circuit.widths[c] + origin[c]).ravel()
        return units
    return np.arange(width) if single[i] else np.tile(np.arange(width), 2)


def _columns(circuit: Circuit, node: Sum | Mixture, origin: list[Ints]) -> tuple[Ints, Array | float]:
    """For each new edge of a unit the old one, and among how many copies its weight is shared."""
    if isinstance(node, Mixture):
        return np.arange(len(node.children)), 1.0
    columns, copies, start = [], [], 0
    for c in node.children:
        columns.append(start + origin[c])
        copies.append(np.full(len(origin[c]), len(origin[c]) / circuit.widths[c]))
        start += circuit.widths[c]
    return np.concatenate(columns), np.concatenate(copies)


def _noisy(weights: Array, noise: float, rng: np.random.Generator) -> Array:
    if noise == 0:
        return weights
    new = weights * np.maximum(1 + noise * rng.standard_normal(weights.shape), 0.0)
    total = new.sum(axis=1, keepdims=True)
    return np.where(total > 0, new / np.where(total > 0, total, 1.0), weights)
