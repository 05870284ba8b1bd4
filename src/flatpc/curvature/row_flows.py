"""How much every row uses every edge: the gradient of its log-likelihood in logits, up to what normalisation takes away.

With θ = softmax(z) for every unit, f_nc(x) the flow of edge c of unit n and F_n(x) = Σ_c f_nc(x),

    ∂ log p(x) / ∂z_nc = f_nc(x) - θ_nc F_n(x)

which lies between -1 and 1, however small weights are.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import TYPE_CHECKING

import numpy as np

from flatpc._typing import Array
from flatpc.circuit.nodes import Input, Mixture, Sum
from flatpc.curvature.layout import Layout
from flatpc.engine.contract import get_engine
from flatpc.tables.sources import Source

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

BLOCK_BYTES = 1 << 26
"""Of flows of a block of rows."""


def row_flows(
    layout: Layout, rows: Array, flows: list[Array] | None = None, of: Circuit | None = None, without: Container[int] = ()
) -> Array:
    """`[N, P]`: the flow of every edge and of every entry of an input's table, row by row; 0 for an impossible row.

    `flows` are those of all units, if known. `of` is the circuit with other inputs in the place of some, which are left out:
    those `without`.
    """
    circuit, engine = layout.circuit, get_engine()
    evaluated = of or circuit
    values = engine.unit_values(evaluated, rows)
    flows = engine.unit_flows(evaluated, rows) if flows is None else flows
    tables = layout.arrays(layout.values)
    out = {i: np.zeros((len(rows), *shape)) for i, shape in layout.shapes.items()}
    for i, node in enumerate(circuit.nodes):
        owner = circuit.owners[i]
        if owner not in out or i in without:
            continue
        flow, table = flows[i], tables[owner]
        if isinstance(node, Input):
            x = rows[:, node.variable]
            known = ~np.isnan(x)
            at = np.where(known, x, 0.0).astype(np.int64)
            # A missing value is each of its values in turn.
            share = np.where(known[:, None, None], np.eye(table.shape[1])[at][:, None, :], table)
            out[owner] += flow[:, :, None] * share
            continue
        assert isinstance(node, Sum | Mixture)
        below = [values[c] for c in node.children]
        children = np.stack(below, axis=2) if isinstance(node, Mixture) else np.concatenate(below, axis=1)[:, None, :]
        used = flow > 0
        top = np.where(used, values[i], 0.0)
        with np.errstate(over="ignore"):
            ratio = np.exp(np.where(used[:, :, None], children - top[:, :, None], -np.inf))
        out[owner] += flow[:, :, None] * np.where(table > 0, np.minimum(table * np.where(table > 0, ratio, 0.0), 1.0), 0.0)
    parts = [out[i].reshape(len(rows), -1) for i in layout.shapes]
    return np.concatenate(parts, axis=1) if parts else np.zeros((len(rows), 0))


def blocks(layout: Layout, rows: Array | Source, n_numbers: int = 0) -> Iterator[Array]:
    """Rows in blocks whose flows, and `n_numbers` for each row, fit in bounded memory."""
    size = max(1, BLOCK_BYTES // (8 * max(layout.size, sum(layout.circuit.widths), n_numbers, 1)))
    for some in rows.blocks() if isinstance(rows, Source) else (rows,):
        for start in range(0, len(some), size):
            yield some[start : start + size]


def in_logits(layout: Layout, flows: Array) -> Array:
    """`[..., P]`: gradients in logits from flows."""
    return flows - layout.values * layout.row_sums(flows)
