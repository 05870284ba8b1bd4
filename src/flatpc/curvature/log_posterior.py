"""The negative log posterior around a fitted circuit: gradient, second derivatives, and EM's complete-data information.

Its coordinates are the logits of all weights and free tables, in the order of a `Layout`, and after them the numbers y of all
other inputs (`free_inputs.py`). A unit's logits may all be moved by one number without changing anything; that direction is left
out.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from flatpc._typing import Array
from flatpc.circuit.nodes import Input
from flatpc.curvature.directions import Coordinates
from flatpc.curvature.free_inputs import FreeInput, free_inputs, moves
from flatpc.curvature.hessians import hessian
from flatpc.curvature.layout import Layout
from flatpc.curvature.operators import HessianOperator, operator
from flatpc.curvature.over_sources import total_flows
from flatpc.curvature.row_flows import blocks, in_logits, row_flows
from flatpc.curvature.tabulating import Tabulated, tabulated
from flatpc.engine.contract import get_engine
from flatpc.errors import ColumnTypeError, TiedParametersError
from flatpc.families import asking
from flatpc.tables.sources import Source

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit
    from flatpc.curvature.tilting import Tilt

LARGE = 1 << 12
"""Weights of a node from which on vectors are taken node by node, so that they stay in the cache."""
DIRECTION_BYTES = 1 << 28
"""Of directions over all entries of tabulated inputs."""
MOST_OWN = 0.95
"""Of what is known about an input's parameters, the most that is taken away with one row; without it nothing may be left."""


class LogPosterior:
    """Rows, weights and priors around one circuit; vectors are `[..., P]` with P = `size`."""

    def __init__(
        self,
        circuit: Circuit,
        rows: Array | Source,
        *,
        alpha: Array | float,
        input_prior: float = 0.0,
        include_inputs: bool = True,
    ) -> None:
        self.circuit, self.input_prior = circuit, input_prior
        self.rows: Any = rows
        self.layout = Layout(circuit, include_inputs)
        self.theta = self.layout.values
        self.moving_weights = self.theta > 0
        self.edges = self.layout.row_sums(self.moving_weights.astype(np.float64))
        self.alpha = np.broadcast_to(np.asarray(alpha, np.float64), self.theta.shape)
        self.free: dict[int, FreeInput] = {}
        if include_inputs and any(moves(node) for node in circuit.nodes):
            if isinstance(rows, Source):
                raise ColumnTypeError(
                    "Inputs that are no tables, such as Gaussian ones, move by what each row says, which takes rows in memory; "
                    "pass include_inputs=False to hold them still, or fp.tables.source(X).sample(n)."
                )
            flows = _unit_flows(self.layout, rows)
            self.free = free_inputs(circuit, rows, flows, self.layout.size)
        self.size: int = max([self.layout.size, *(each.part.stop for each in self.free.values())])

    @cached_property
    def moves(self) -> Any:
        """`[P]`: which coordinates change anything."""
        found = np.zeros(self.size, np.bool_)
        found[: self.layout.size] = self.moving_weights
        for each in self.free.values():
            found[each.part] = each.roots.any(axis=1).ravel()
        return found

    def centred(self, vectors: Array) -> Array:
        """Without directions in which nothing changes, and without entries that stay 0."""
        inside, n = np.where(self.moves, vectors, 0.0), self.layout.size
        if self._large_nodes:
            for mine, part in self._nodes(inside):
                self._centre(mine, part)
            return inside
        mean = self.layout.row_sums(inside[..., :n]) / np.maximum(self.edges, 1.0)
        inside[..., :n] = np.where(self.moving_weights, inside[..., :n] - mean, 0.0)
        return inside

    @property
    def _large_nodes(self) -> bool:
        """Whether it pays to take vectors node by node."""
        return self.layout.size > LARGE * max(len(self.layout.shapes), 1)

    def _nodes(self, vectors: Array) -> Iterator[tuple[Array, slice]]:
        """Views `[K, C]` of every node's weights in every vector, and their place: as many numbers as a cache holds."""
        for vector in vectors.reshape(-1, vectors.shape[-1]):
            for i, part in self._weight_parts.items():
                yield vector[part].reshape(self.layout.shapes[i]), part

    def _centre(self, mine: Array, part: slice) -> None:
        """In place."""
        moving, edges = self.moving_weights[part].reshape(mine.shape), self.edges[part].reshape(mine.shape)[:, :1]
        mine -= mine.sum(axis=1, keepdims=True) / np.maximum(edges, 1.0)
        if not moving.all():
            mine *= moving

    # ---- first derivatives --------------------------------------------------------------------------------------------

    def gradients(self, rows: Array, tilted: Tilt | None = None) -> Array:
        """`[N, P]`: of every row's log-likelihood, or of that of a tilted circuit; 0 for impossible rows."""
        circuit, n = self.circuit if tilted is None else tilted.circuit, self.layout.size
        slopes = {} if tilted is None else tilted.slopes
        flows, out = get_engine().unit_flows(circuit, rows), np.zeros((len(rows), self.size))
        out[:, :n] = in_logits(self.layout, row_flows(self.layout, rows, flows, circuit, slopes))
        for i, each, node in self._free_nodes():
            if i not in slopes:
                out[:, each.part] += (flows[i][:, :, None] * each.scores(rows[:, node.columns])).reshape(len(rows), -1)
        for i, slope in slopes.items():
            part = self.part_of(self.circuit.owners[i])
            if part is not None:
                out[:, part] += (flows[i][:, :, None] * slope).reshape(len(rows), -1)
        return out

    def in_units(self, gradients: Array) -> Array:
        """`[N, U]`: gᵀ C⁻¹ g of every row and every unit with weights, C being EM's complete-data information."""
        n = self.layout.size
        told = np.where(self.moving_weights, self.complete[:n] * self.theta, 0.0)
        squares = np.divide(gradients[:, :n] ** 2, told, out=np.zeros((len(gradients), n)), where=told > 0)
        return np.stack([squares[:, part].sum(axis=1) for part in self.layout.units()] or [np.zeros(len(gradients))], axis=1)

    def in_inputs(self, rows: Array, gradients: Array) -> tuple[Array, Array]:
        """`[N]`: gᵀ C⁻¹ g of every row in all free inputs, and the same where C is without what the row itself tells."""
        found, without = np.zeros(len(rows)), np.zeros(len(rows))
        flows = get_engine().unit_flows(self.circuit, rows) if self.free else []
        own = {owner: np.zeros((len(rows), each.shape[0])) for owner, each in self.free.items()}
        for i, _, node in self._free_nodes():
            own[self.circuit.owners[i]] += np.where(asking.all_missing(rows[:, node.columns])[:, None], 0.0, flows[i])
        for owner, each in self.free.items():
            told = np.maximum(self.complete[each.part].reshape(each.shape)[:, 0], 1e-300)
            part = (gradients[:, each.part].reshape(len(rows), *each.shape) ** 2).sum(axis=2) / told
            found += part.sum(axis=1)
            without += (part / (1 - np.minimum(own[owner] / told, MOST_OWN))).sum(axis=1)
        return found, without

    def part_of(self, owner: int) -> slice | None:
        """Where an owning node's part of the vector is, if it has one."""
        if owner in self.free:
            return self.free[owner].part
        return self._weight_parts.get(owner)

    @cached_property
    def _weight_parts(self) -> dict[int, slice]:
        starts = zip(self.layout.shapes, self.layout.starts[:-1], self.layout.starts[1:], strict=True)
        return {i: slice(int(a), int(b)) for i, a, b in starts}

    def blocks(self, rows: Array | Source) -> Iterator[Array]:
        """Rows in blocks whose gradients fit in bounded memory."""
        return blocks(self.layout, rows, self.size)

    def _free_nodes(self) -> Iterator[tuple[int, FreeInput, Input]]:
        """Every node, tied ones as well, whose parameters are among the free ones."""
        for i, node in enumerate(self.circuit.nodes):
            if isinstance(node, Input) and self.circuit.owners[i] in self.free:
                yield i, self.free[self.circuit.owners[i]], node

    @cached_property
    def flows(self) -> Array:
        """Of weights and free tables, over all rows."""
        return total_flows(self.layout, self.rows)

    @cached_property
    def _input_sums(self) -> tuple[Array, Array]:
        """Over all rows: gradients in y, and for each y its unit's flow."""
        n = self.layout.size
        slope, amount = np.zeros(self.size - n), np.zeros(self.size - n)
        for part in self.blocks(self.rows) if self.free else ():
            units = get_engine().unit_flows(self.circuit, part)
            for i, each, node in self._free_nodes():
                x, place = part[:, node.columns], slice(each.part.start - n, each.part.stop - n)
                flow = units[i] * ~asking.all_missing(x)[:, None]
                slope[place] += np.einsum("nk,nkq->kq", flow, each.scores(x)).ravel()
                amount[place] += np.repeat(flow.sum(axis=0), each.shape[1])
        return slope, amount

    @cached_property
    def slope(self) -> Array:
        """`[P]`: the gradient of the log posterior."""
        counts = self.flows + self.alpha * self.moving_weights
        found = np.concatenate([in_logits(self.layout, counts), self._input_sums[0]])
        for owner, (slope, _) in self.input_priors.items():
            found[self.free[owner].part] += slope.ravel()
        return self.centred(found)

    @cached_property
    def input_priors(self) -> dict[int, tuple[Array, Array]]:
        """By owner `[K, Q]` and `[K, Q, Q]`: derivatives of the log prior that learning an input's parameters supposes."""
        out = {}
        taken = get_engine().flows(self.circuit, self.rows).inputs if self.free else {}
        for owner, each in self.free.items():
            found = each.family.log_prior(each.parameters, taken[owner])
            if found is not None:
                out[owner] = np.einsum("kq,kqr->kr", found[0], each.roots), each.turned(found[1])
        return out

    # ---- second derivatives -------------------------------------------------------------------------------------------

    @cached_property
    def complete(self) -> Array:
        """`[P]`: F + αK of each entry's unit, and the flow (and prior) of each input's."""
        weights = self.layout.row_sums(self.flows) + self.alpha * self.edges
        return np.concatenate([weights, self._input_sums[1] + self.input_prior])

    def information(self, vectors: Array, *, prior: bool) -> Array:
        """EM's complete-data information times vectors; with `prior`, that of the prior alone."""
        n = self.layout.size
        amount = self.complete
        if prior:
            amount = np.concatenate([self.alpha * self.edges, np.full(self.size - n, self.input_prior)])
        out = amount * vectors
        v = vectors[..., :n]
        out[..., :n] = amount[:n] * self.theta * (v - self.layout.row_sums(self.theta * v))
        for owner, (_, bend) in self.input_priors.items() if prior else ():
            each = self.free[owner]
            mine = vectors[..., each.part].reshape(-1, *each.shape)
            out[..., each.part] -= np.einsum("kqr,dkr->dkq", bend, mine).reshape(*vectors.shape[:-1], -1)
        return np.asarray(out)

    @cached_property
    def _tabulated(self) -> Tabulated:
        return tabulated(self.circuit, self.rows)

    @cached_property
    def _operator(self) -> HessianOperator:
        if not self.free:
            options: Any = {"include_inputs": self.layout.include_inputs, "missing": "marginalize", "space": "logits"}
            return operator(self.circuit, self.rows, **options)
        return operator(self._tabulated.circuit, self._tabulated.rows, include_inputs=True, missing="marginalize")

    @cached_property
    def _places(self) -> tuple[Array, dict[int, tuple[slice, Array]]]:
        """In the vector of the tabulated circuit: where this layout's entries are, and each node's table, `[M, K, Q]` scores."""
        big, place = self._operator.layout, self._tabulated.place
        start = dict(zip(big.shapes, big.starts[:-1], strict=True))
        own = [np.arange(start[place[i]], start[place[i]] + a * b) for i, (a, b) in self.layout.shapes.items()]
        tables = {}
        for i, each, _ in self._free_nodes():
            at, (k, m) = int(start[place[i]]), big.shapes[place[i]]
            tables[i] = slice(at, at + k * m), each.scores(self._tabulated.values[i])
        return (np.concatenate(own) if own else np.empty(0, np.int64)), tables

    @cached_property
    def _bends(self) -> dict[int, Array]:
        """By owner `[K, Q, Q]`: Σ f c over all rows."""
        out = {owner: np.zeros((*each.shape, each.shape[1])) for owner, each in self.free.items()}
        for i, each, _ in self._free_nodes():
            flow = self._table(self._operator.flows[None], i)[0]
            out[self.circuit.owners[i]] += each.bends(self._tabulated.values[i], flow.T)
        return out

    def _table(self, vectors: Array, i: int) -> Array:
        """`[D, K, M]`: the entries of a tabulated input that stand for values."""
        k = self.circuit.widths[i]
        return vectors[:, self._places[1][i][0]].reshape(len(vectors), k, -1)[:, :, : len(self._tabulated.values[i])]

    def products(self, vectors: Array, damping: float) -> Array:
        """`[D, P]`: the Hessian of the negative log posterior, and a share of the complete-data information, times vectors."""
        if self.free or not self._large_nodes:
            found = self.hessian_products(vectors) + self.information(vectors, prior=True)
            return self.centred(found + damping * self.information(vectors, prior=False))
        # As `spaces.py` has it, node by node, so that numbers stay in the cache: of those with one factor, all at once.
        w, theta, f = vectors.copy(), self.theta, self._operator.flows
        amount = self.alpha * self.edges + damping * self.complete
        for mine, part in self._nodes(w):
            mine -= np.einsum("kc,kc->k", theta[part].reshape(mine.shape), mine)[:, None]
        out = self._operator.in_log_weights(w)
        bend = theta * (self.layout.row_sums(f) + amount) - f
        for (mine, part), (moved, _) in zip(self._nodes(out), self._nodes(w), strict=True):
            t, own = theta[part].reshape(mine.shape), f[part].reshape(mine.shape)
            sums = mine.sum(axis=1) + np.einsum("kc,kc->k", own, moved)
            moved *= bend[part].reshape(mine.shape)
            np.subtract(moved, mine, out=mine)
            mine += t * sums[:, None]
            if not self.moving_weights[part].all():
                mine *= self.moving_weights[part].reshape(mine.shape)
            self._centre(mine, part)
        return out

    def hessian_products(self, vectors: Array) -> Array:
        """`[D, P]`: the Hessian of the negative log-likelihood times each of `vectors [D, P]`."""
        if not self.free:
            return np.asarray(self._operator @ vectors.T).T
        size = max(1, DIRECTION_BYTES // (8 * 3 * self._operator.layout.size))
        return np.concatenate([self._products(vectors[at : at + size]) for at in range(0, len(vectors), size)])

    def _products(self, vectors: Array) -> Array:
        H, n = self._operator, self.layout.size
        own, tables = self._places
        relative = np.zeros((len(vectors), H.layout.size))
        w = vectors[:, :n] - self.layout.row_sums(self.theta * vectors[:, :n])
        relative[:, own] = w
        for i, each, _ in self._free_nodes():
            y = vectors[:, each.part].reshape(-1, *each.shape)
            self._table(relative, i)[:] = np.einsum("mkq,dkq->dkm", tables[i][1], y)
        found, out = H.in_log_weights(relative), np.empty_like(vectors)
        f, r = H.flows[own], found[:, own]
        curved = f * w - self.theta * (w * self.layout.row_sums(f) + self.layout.row_sums(f * w))
        out[:, :n] = r - self.theta * self.layout.row_sums(r) + curved
        for owner, each in self.free.items():
            y = vectors[:, each.part].reshape(-1, *each.shape)
            out[:, each.part] = np.einsum("kqr,dkr->dkq", self._bends[owner], y).reshape(len(y), -1)
        for i, each, _ in self._free_nodes():
            change = self._table(found, i) + self._table(H.flows[None], i) * self._table(relative, i)
            out[:, each.part] += np.einsum("mkq,dkm->dkq", tables[i][1], change).reshape(len(vectors), -1)
        return -out

    def hessian_matrix(self) -> Array:
        """`[P, P]`: the Hessian of the negative log-likelihood."""
        if not self.free:
            options: Any = {"include_inputs": self.layout.include_inputs, "missing": "marginalize", "space": "logits"}
            return np.asarray(hessian(self.circuit, self.rows, **options))
        found = self.hessian_products(np.eye(self.size))
        return (found + found.T) / 2

    def refuse_ties(self, what: str) -> None:
        """Raise if two nodes share parameters that move."""
        self.layout.refuse_ties(what)
        for i, owner in enumerate(self.circuit.owners):
            if owner != i and owner in self.free:
                raise TiedParametersError(
                    f"Node {i} shares the parameters of node {owner}; the {what} is exact where every parameter occurs once. "
                    f"Use structure='full' or 'operator', which are exact for tied parameters too."
                )

    # ---- other points -------------------------------------------------------------------------------------------------

    def circuit_at(self, move: Array) -> Circuit:
        """The circuit where the fit is moved by `move [P]`."""
        coordinates = Coordinates(self.layout, "logits")
        moved = coordinates.circuit_at(coordinates.point + move[: self.layout.size])
        inputs = {owner: each.at(move[each.part].reshape(each.shape)) for owner, each in self.free.items()}
        return moved.with_parameters(inputs) if inputs else moved


def _unit_flows(layout: Layout, rows: Array) -> list[Array]:
    """`[N, K]` of every node; only those of inputs are kept."""
    circuit, found = layout.circuit, []
    for part in blocks(layout, rows):
        flows = get_engine().unit_flows(circuit, part)
        found.append([flow if isinstance(node, Input) else flow[:0] for node, flow in zip(circuit.nodes, flows, strict=True)])
    return [np.concatenate(parts) for parts in zip(*found, strict=True)] if found else [np.zeros((0, k)) for k in circuit.widths]
