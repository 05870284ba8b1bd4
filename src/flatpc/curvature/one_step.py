"""One step of EM without each row in turn: what leaving a row out costs it, to all orders, but for what latents make of it.

With f the flows of a row through the edges of a unit, F their sum, and n the flows of all rows with the prior, N their sum,

    θ = n / N  after a step with all rows,      θ' = (n - f) / (N - F)  after a step without the row

and the row's cost is its log-likelihood with θ less that with θ'. Of a model that is counted, whose sums tell their parts apart,
that is leaving it out, exactly. Every row has a θ' of its own. But with one number u for each unit, f = u θ₀ p (θ₀ the weights as
they are, p the values below), so that the values of a dense block are two products with matrices, and no θ' is written down.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from flatpc._typing import Array
from flatpc.circuit.nodes import Input, Mixture, Product, Sum
from flatpc.curvature.layout import Layout
from flatpc.curvature.row_flows import BLOCK_BYTES
from flatpc.engine.contract import get_engine

LEAST = 1e-300


def costs_of_leaving_out(layout: Layout, rows: Array, alpha: Array | float) -> Array:
    """`[N]`: for each row, nats; a row of probability 0 costs nothing.

    `alpha`, a number or `[P]`, is the Dirichlet prior of every weight. Inputs that are not in the layout stay as they are.
    """
    layout.refuse_ties("likelihood without a row by one step of EM")
    circuit = layout.circuit
    flows = get_engine().flows(circuit, rows)
    prior = layout.arrays(np.broadcast_to(np.asarray(alpha, np.float64), layout.values.shape) * (layout.values > 0))
    counts = {
        i: np.asarray(flows.inputs[i]["counts"] if isinstance(circuit.nodes[i], Input) else flows.sums[i]).reshape(shape)
        + prior[i]
        for i, shape in layout.shapes.items()
    }
    size = max(1, BLOCK_BYTES // (8 * 4 * max(sum(circuit.widths), 1)))
    parts = [_costs(layout, counts, rows[start : start + size]) for start in range(0, len(rows), size)]
    return np.concatenate(parts) if parts else np.zeros(0)


def _costs(layout: Layout, counts: dict[int, Array], rows: Array) -> Array:
    circuit, engine = layout.circuit, get_engine()
    before, flows = engine.unit_values(circuit, rows), engine.unit_flows(circuit, rows)
    old = layout.arrays(layout.values)
    after: list[Array] = []
    without: list[Array] = []
    for i, node in enumerate(circuit.nodes):
        if isinstance(node, Product):
            after.append(_product(node, after))
            without.append(_product(node, without))
        elif i not in counts:
            after.append(before[i])
            without.append(before[i])
        else:
            n, total = counts[i], counts[i].sum(axis=1)
            with np.errstate(divide="ignore"):
                rest = np.log(np.maximum(total - flows[i], LEAST))
                log_total = np.log(np.maximum(total, LEAST))
            if isinstance(node, Input):
                x = rows[:, node.variable]
                known = ~np.isnan(x)[:, None]
                here = n.T[np.where(known[:, 0], x, 0.0).astype(np.int64)]
                after.append(np.where(known, _log(here) - log_total, 0.0))
                without.append(np.where(known, _log(here - flows[i]) - rest, 0.0))
            else:
                assert isinstance(node, Sum | Mixture)
                mix = _entry_by_entry if isinstance(node, Mixture) else _dense
                below, under = _children(node, before), _children(node, without)
                used = flows[i] > 0
                level = _level(below)
                u = np.where(used, flows[i] * np.exp(np.where(used, level - np.where(used, before[i], 0.0), 0.0)), 0.0)
                shared, own = mix(n, old[i])
                above = _children(node, after)
                after.append(_log(shared(_scaled(above))) + _level(above) - log_total)
                e = _scaled(under)
                without.append(_log(shared(e) - u * own(_scaled(below) * e)) + _level(under) - rest)
    possible = np.isfinite(before[-1][:, 0])
    return np.subtract(after[-1][:, 0], without[-1][:, 0], out=np.zeros(len(rows)), where=possible)


def _dense(n: Array, theta: Array) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
    """Sums over children with the counts, and with the weights as they are: `[N, C] -> [N, K]`."""
    return lambda e: np.asarray(e @ n.T), lambda e: np.asarray(e @ theta.T)


def _entry_by_entry(n: Array, theta: Array) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
    """The same for a mixture, `[N, K, C] -> [N, K]`."""
    return lambda e: np.asarray((e * n).sum(axis=2)), lambda e: np.asarray((e * theta).sum(axis=2))


def _children(node: Any, values: list[Array]) -> Array:
    below = [values[c] for c in node.children]
    return np.stack(below, axis=2) if isinstance(node, Mixture) else np.concatenate(below, axis=1)


def _level(children: Array) -> Array:
    """The largest of the children, `[N, 1]` or `[N, K]`."""
    found = children.max(axis=-1, keepdims=children.ndim == 2)
    return np.where(np.isfinite(found), found, 0.0)


def _scaled(children: Array) -> Array:
    level = _level(children)
    return np.asarray(np.exp(children - (level if children.ndim == 2 else level[:, :, None])))


def _product(node: Product, values: list[Array]) -> Array:
    out = values[node.children[0]]
    for c in node.children[1:]:
        other = values[c]
        out = (out[:, :, None] + other[:, None, :]).reshape(len(out), -1) if node.kind == "kronecker" else out + other
    return out


def _log(values: Array) -> Array:
    return np.asarray(np.log(np.maximum(values, LEAST)))
