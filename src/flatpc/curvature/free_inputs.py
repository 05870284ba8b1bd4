"""Parameters of inputs that are no free tables (Gaussians and all others) as numbers that a posterior can move.

A unit's unconstrained numbers z (`Family.unconstrain`) have the scores s(x) = ∂ log density / ∂z. With f(x) the unit's flow,

    Σ f s sᵀ / Σ f = (R Rᵀ)⁻¹,     z = z₀ + R y

so that in y one row of a unit's own is worth an information of 1, whatever units values are measured in. Directions in which
scores vanish (numbers that softmax leaves open, units without flow, a variance at its floor) are left out: there R is 0.

Second derivatives come from the passes that tables have. Over the training rows an input is a table t of as many entries as the
variable has distinct values, and p is linear in each. With G = t ∇²log p t, f the flow of entries and c(x) = ∂² log density / ∂z²

    ∂²log p / ∂z² = Sᵀ (G + diag f) S + Σ f c,      S the scores of all entries

and in the same way for mixed derivatives with weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from flatpc._typing import Array
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.nodes import Input, Node
from flatpc.errors import FamilyError
from flatpc.families import asking, differences
from flatpc.families.categorical import Categorical
from flatpc.families.differences import flat, named

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flatpc.families.base import Family

LEAST = 1e-290
"""Of a density next to the best unit's at the same value: smaller ones count as this."""
FLAT = 1e-9
"""Of a unit's largest information: directions with less are left out."""
VALUES_AT_A_TIME = 4096


@dataclass(frozen=True)
class FreeInput:
    """The units of one owning node."""

    family: Family
    parameters: Mapping[str, Array]
    start: int
    """Where their part of the vector begins, which is `[K, Q]`."""
    roots: Array
    """`[K, Q, Q]`: R."""

    @property
    def shape(self) -> tuple[int, int]:
        return self.roots.shape[0], self.roots.shape[1]

    @property
    def part(self) -> slice:
        return slice(self.start, self.start + self.shape[0] * self.shape[1])

    def derivatives(self, x: Array) -> tuple[Array, Array]:
        """`[N, K, Q]` and `[N, K, Q, Q]`: of log-densities in y; 0 for missing and impossible values."""
        first, second = derivatives(self.family, self.parameters, x)
        first = np.einsum("nkq,kqr->nkr", first, self.roots)
        return first, np.einsum("kqr,nkqp,kps->nkrs", self.roots, second, self.roots)

    def scores(self, x: Array) -> Array:
        """The first of `derivatives`."""
        return np.asarray(np.einsum("nkq,kqr->nkr", derivatives(self.family, self.parameters, x)[0], self.roots))

    def at(self, y: Array) -> dict[str, Array]:
        """The family's parameters at `y [K, Q]`."""
        if not y.any():
            return dict(self.parameters)
        free = self.family.unconstrain(self.parameters)
        moved = self.family.constrain(named(flat(free) + np.einsum("kqr,kr->kq", self.roots, y), free))
        # Units that don't move keep their parameters to the last bit, also those at a bound that the map doesn't reach.
        still = ~self.roots.any(axis=(1, 2))
        return {name: np.where(_units(still, value), self.parameters[name], value) for name, value in moved.items()}


def derivatives(family: Family, parameters: Mapping[str, Array], x: Array) -> tuple[Array, Array]:
    """Of log-densities in unconstrained numbers; 0 for missing values and those outside the support."""
    asked = ~np.isnan(x) & ~family.outside(x)
    width, size = flat(family.unconstrain(parameters)).shape
    first, second = np.zeros((len(x), width, size)), np.zeros((len(x), width, size, size))
    if asked.any():
        # A subclass may have another density than the closed form that it inherits.
        closed = family.follows("derivatives", of="log_density")
        found = family.derivatives(parameters, x[asked]) if closed else differences.derivatives(family, parameters, x[asked])
        first[asked], second[asked] = found
    return first, second


def moves(node: Node) -> bool:
    """Whether an input has parameters of this kind."""
    if not isinstance(node, Input) or node.family.is_free_table or not node.family.learnable:
        return False
    return node.family.defines("unconstrain", "constrain")


def free_inputs(circuit: Circuit, rows: Array, flows: list[Array], start: int) -> dict[int, FreeInput]:
    """By owning node, the first at place `start` of the vector; `flows [N, K]` of all nodes' units over the rows."""
    squares: dict[int, Array] = {}
    totals: dict[int, Array] = {}
    for i, node in enumerate(circuit.nodes):
        if not moves(node):
            continue
        assert isinstance(node, Input)
        if node.family.n_variables > 1:
            raise FamilyError(
                f"Node {i}: {node.family} is over several variables, and a posterior has no second derivatives of such inputs; "
                f"hold inputs still with include_inputs=False."
            )
        parameters: Any = circuit.parameters[i]
        owner, x = circuit.owners[i], rows[:, node.variable]
        width, size = flat(node.family.unconstrain(parameters)).shape
        squares.setdefault(owner, np.zeros((width, size, size)))
        totals.setdefault(owner, np.zeros(width))
        for at in range(0, len(x), VALUES_AT_A_TIME):
            some = slice(at, at + VALUES_AT_A_TIME)
            score, flow = derivatives(node.family, parameters, x[some])[0], flows[i][some]
            squares[owner] += np.einsum("nk,nkq,nkr->kqr", flow, score, score)
            totals[owner] += flow[~np.isnan(x[some])].sum(axis=0)
    out = {}
    for owner, square in squares.items():
        node, parameters = circuit.nodes[owner], circuit.parameters[owner]
        assert isinstance(node, Input)
        out[owner] = FreeInput(node.family, parameters, start, _roots(node.family, parameters, square, totals[owner]))
        start = out[owner].part.stop
    return out


def _roots(family: Family, parameters: Mapping[str, Array], squares: Array, totals: Array) -> Array:
    """R of every unit."""
    share = squares / np.where(totals > 0, totals, 1.0)[:, None, None]
    # Numbers are compared in units of their own: a mean may be of the order of 1e6, the logarithm of a scale of 1.
    own = np.sqrt(np.maximum(np.einsum("kqq->kq", share), 0.0))
    scale = np.where(own > 0, 1 / np.where(own > 0, own, 1.0), 0.0)
    values, vectors = np.linalg.eigh(share * scale[:, :, None] * scale[:, None, :])
    kept = values > FLAT
    root = scale[:, :, None] * vectors * np.where(kept, 1 / np.sqrt(np.where(kept, values, 1.0)), 0.0)[:, None, :]
    back = family.constrain(family.unconstrain(parameters))
    reached = [np.isclose(back[name], value, rtol=1e-6, atol=0).reshape(len(value), -1) for name, value in parameters.items()]
    moving = np.logical_and.reduce(np.concatenate(reached, axis=1), axis=1) & (totals > 0)
    return np.asarray(np.where(_units(moving, root), root, 0.0))


def _units(chosen: Any, value: Array) -> Any:
    return chosen.reshape(-1, *[1] * (value.ndim - 1))


@dataclass(frozen=True)
class Tabulated:
    """A circuit and its rows with tables in the place of all inputs that are none, each over the values that occur."""

    circuit: Circuit
    rows: Array
    values: dict[int, Array]
    """Node -> the values that the first entries of its table stand for."""


def tabulated(circuit: Circuit, rows: Array) -> Tabulated:
    """Log-likelihoods differ from the circuit's by a number for each row, and derivatives don't."""
    nodes: list[Node] = list(circuit.nodes)
    parameters: dict[int, Any] = {i: p for i, p in circuit.parameters.items() if circuit.owners[i] == i}
    coded, values = rows.copy(), {}
    for variable in range(circuit.n_variables):
        mine = {i: node for i, node in enumerate(circuit.nodes) if isinstance(node, Input) and variable in node.variables}
        kept = {
            i for i, node in mine.items() if node.family.is_free_table or (node.family.is_table and not node.family.learnable)
        }
        if len(kept) == len(mine):
            continue
        x = rows[:, variable]
        known = ~np.isnan(x)
        if kept:
            # Tables of one variable are over the same values.
            found = np.arange(mine[min(kept)].family.n_categories or 0, dtype=np.float64)
        else:
            found, coded[known, variable] = np.unique(x[known], return_inverse=True)
        logs: dict[int, Array] = {}
        for i in mine.keys() - kept:
            own: Any = circuit.parameters[i]
            logs[i] = asking.log_density(mine[i].family, own, found)
        top = np.max([log.max(axis=1, initial=-np.inf) for log in logs.values()], axis=0)
        scale = np.zeros(len(found)) if kept else np.where(np.isfinite(top), top, 0.0) + np.log(len(found) + 1)
        for i, log in logs.items():
            t = np.where(np.isneginf(log), 0.0, np.maximum(np.exp(log - scale[:, None]), LEAST))
            if not kept:
                t = np.concatenate([t, 1 - t.sum(axis=0, keepdims=True)])
            nodes[i] = Input(variable, Categorical(len(t)), log.shape[1])
            parameters[i] = {"p": t.T}
            values[i] = found
    return Tabulated(Circuit(nodes, parameters), coded, values)
