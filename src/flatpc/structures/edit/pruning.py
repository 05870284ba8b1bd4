"""Pruning and growing (Dang, Liu and Van den Broeck, 2022): take away the edges that rows hardly use, then double the units.

The flow of an edge in a row is the posterior probability that the row's induced tree has the edge. Without a set E of edges

    log p(x) - log p'(x)  ≤  -log(1 - Σ_{e in E} F_e(x))

even before the other weights are scaled up to sum to one. So edges go in the order of their flow over the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flatpc._options import number
from flatpc._typing import Array
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.nodes import Sum
from flatpc.circuit.rows import check_circuit

if TYPE_CHECKING:
    from flatpc.circuit.nodes import Node


def prune(circuit: Circuit, X: Any, fraction: float, *, missing: str = "raise") -> Circuit:
    """The circuit without those of the sums' edges that have the least flow; each unit keeps its best edge.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> X = np.random.default_rng(0).integers(0, 2, size=(100, 4))
    >>> circuit = fp.structures.hclt(X, n_latents=8)
    >>> fp.structures.prune(circuit, X, 0.5).n_edges < circuit.n_edges
    True

    Parameters
    ----------
    circuit
        Any circuit.
    X
        Rows over which the flows are summed.
    fraction
        Share of the edges to remove, from 0 to less than 1.
    missing
        `"raise"`, or `"marginalize"` to integrate missing values (NaN) out.

    Returns
    -------
    Circuit
        With masks where edges are gone, and the remaining weights normalised. `compact` removes the units that are left over.

    Raises
    ------
    OptionError
        For an option out of its range.
    DataError
        For rows that are not the circuit's.
    """
    fraction = share_of_edges("fraction", fraction)
    return without_least(circuit, check_circuit(circuit).flows(X, missing=missing).sums, fraction)


def without_least(circuit: Circuit, flows: Mapping[int, Array], fraction: float) -> Circuit:
    """`prune` with the flows of every sum's edges at hand."""
    owners = [i for i, node in enumerate(circuit.nodes) if isinstance(node, Sum) and circuit.owners[i] == i]
    exists = {i: _mask(circuit, i) for i in owners}
    order = []
    for i in owners:
        # The best edge of a unit sorts behind all others: it stays whatever happens.
        rank = np.where(exists[i], flows[i], np.inf)
        # Among edges without flow the heaviest is best.
        best = np.argmax(np.where(exists[i], flows[i] + 1e-300 * np.asarray(circuit.parameters[i]), -1.0), axis=1)
        rank[np.arange(len(rank)), best] = np.inf
        order.append(rank.ravel())
    rank = np.concatenate(order) if order else np.empty(0)
    n = round(fraction * sum(int(mask.sum()) for mask in exists.values()))
    gone = np.zeros(len(rank), bool)
    gone[np.argsort(rank, kind="stable")[:n]] = True
    gone &= np.isfinite(rank)
    masks, start = {}, 0
    for i in owners:
        size = exists[i].size
        masks[i] = exists[i] & ~gone[start : start + size].reshape(exists[i].shape)
        start += size
    return _without(circuit, masks)


def share_of_edges(name: str, value: Any) -> float:
    """The share of edges to remove."""
    return number(name, value, 0.0, 1.0, below=True, what="it is the share of edges to remove, from 0 to less than 1")


def _mask(circuit: Circuit, i: int) -> NDArray[np.bool_]:
    node = circuit.nodes[i]
    assert isinstance(node, Sum)
    return np.ones(circuit.weight_shape(i), bool) if node.mask is None else node.mask


def _without(circuit: Circuit, masks: dict[int, NDArray[np.bool_]]) -> Circuit:
    nodes: list[Node] = list(circuit.nodes)
    parameters: dict[int, Any] = {i: p for i, p in circuit.parameters.items() if circuit.owners[i] == i}
    for i, node in enumerate(nodes):
        if isinstance(node, Sum) and not masks[circuit.owners[i]].all():
            nodes[i] = replace(node, mask=masks[circuit.owners[i]])
    for i, mask in masks.items():
        weights = parameters[i] * mask
        total = weights.sum(axis=1, keepdims=True)
        # A unit without a row may be left with edges of weight 0 only.
        parameters[i] = np.where(total > 0, weights / np.where(total > 0, total, 1.0), mask / mask.sum(axis=1, keepdims=True))
    return Circuit(nodes, parameters)
