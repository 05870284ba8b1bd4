"""Parameters of inputs that are no free tables (Gaussians and all others) as numbers that a posterior can move.

A unit's unconstrained numbers z (`Family.unconstrain`) have the scores s(x) = ∂ log density / ∂z. With f(x) the unit's flow,

    Σ f s sᵀ / Σ f = (R Rᵀ)⁻¹,     z = z₀ + R y

so that in y one row of a unit's own is worth an information of 1, whatever units values are measured in. A family that knows
its information (`Family.information`) gives it in place of Σ f s sᵀ / Σ f. Directions in which it vanishes (numbers that softmax
leaves open, loadings that only turn, units without flow) are left out: there R is 0; and so are parameters at a bound that the
map doesn't reach, such as a variance at its floor.

Second derivatives come from the passes that tables have (`tabulating.py`). Over the training rows an input is a table t of as
many entries as its variables have distinct values, and p is linear in each. With G = t ∇²log p t, f the flow of entries and
c(x) = ∂² log density / ∂z²

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
from flatpc.families import asking, differences
from flatpc.families.differences import flat, named

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flatpc.families.base import Family

FLAT = 1e-9
"""Of a unit's largest information: directions with less are left out."""
FLOOR = 1e-6
"""Of a family's floor is that of the coordinates: near a floor, the map to numbers without bounds bends more than the density."""
VALUES_AT_A_TIME = 4096
SCORE_BYTES = 1 << 26
"""Of scores in unconstrained numbers that are alive at once."""


@dataclass(frozen=True)
class FreeInput:
    """The units of one owning node."""

    family: Family
    parameters: Mapping[str, Array]
    start: int
    """Where their part of the vector begins, which is `[K, Q]`."""
    roots: Array
    """`[K, numbers, Q]`: R."""

    @property
    def shape(self) -> tuple[int, int]:
        return self.roots.shape[0], self.roots.shape[2]

    @property
    def part(self) -> slice:
        return slice(self.start, self.start + self.shape[0] * self.shape[1])

    def scores(self, x: Array) -> Array:
        """`[N, K, Q]`: derivatives of log-densities in y; 0 for missing and impossible values."""
        out = np.empty((len(x), *self.shape))
        size = max(1, SCORE_BYTES // (8 * max(self.roots.shape[0] * self.roots.shape[1], 1)))
        for at in range(0, len(x), size):
            found = scores(self.family, self.parameters, x[at : at + size])
            out[at : at + size] = np.swapaxes(np.swapaxes(found, 0, 1) @ self.roots, 0, 1)
        return out

    def bends(self, x: Array, flow: Array) -> Array:
        """`[K, Q, Q]`: Σ f c, of second derivatives in y."""
        return self.turned(bends(self.family, self.parameters, x, flow))

    def turned(self, second: Array) -> Array:
        """Second derivatives in z `[K, numbers, numbers]` as those in y."""
        return np.asarray(np.swapaxes(self.roots, 1, 2) @ second @ self.roots)

    def at(self, y: Array) -> dict[str, Array]:
        """The family's parameters at `y [K, Q]`."""
        if not y.any():
            return dict(self.parameters)
        free = self.family.unconstrain(self.parameters)
        moved = self.family.constrain(named(flat(free) + np.einsum("kqr,kr->kq", self.roots, y), free))
        # What doesn't move stays as it is to the last bit, also at a bound that the map doesn't reach.
        moves = named(np.asarray(self.roots.any(axis=2), np.float64), free)
        return {name: np.where(_units(_any(moves[name]), old), moved[name], old) for name, old in self.parameters.items()}


def scores(family: Family, parameters: Mapping[str, Array], x: Array) -> Array:
    """Of log-densities in unconstrained numbers; 0 for missing values and those outside the support."""
    if not family.follows("scores", of="log_density"):
        return derivatives(family, parameters, x)[0]
    asked = _asked(family, x)
    out = np.zeros((len(x), *flat(family.unconstrain(parameters)).shape))
    if asked.any():
        out[asked] = family.scores(parameters, x[asked])
    return out


def bends(family: Family, parameters: Mapping[str, Array], x: Array, flow: Array) -> Array:
    """Second derivatives of log-densities, summed with weights `[N, K]`; missing and impossible values add nothing."""
    asked = _asked(family, x)
    if family.follows("bends", of="log_density"):
        return family.bends(parameters, x[asked], flow[asked])
    width, size = flat(family.unconstrain(parameters)).shape
    out = np.zeros((width, size, size))
    for at in range(0, len(x), 1024):
        some = slice(at, at + 1024)
        out += np.einsum("nk,nkqr->kqr", flow[some], derivatives(family, parameters, x[some])[1])
    return out


def _asked(family: Family, x: Array) -> Any:
    return ~asking.all_missing(x) & ~asking.outside(family, x)


def derivatives(family: Family, parameters: Mapping[str, Array], x: Array) -> tuple[Array, Array]:
    """Of log-densities in unconstrained numbers, for each value; 0 for missing values and those outside the support."""
    asked = _asked(family, x)
    width, size = flat(family.unconstrain(parameters)).shape
    first, second = np.zeros((len(x), width, size)), np.zeros((len(x), width, size, size))
    if asked.any():
        # A subclass may have another density than the closed form that it inherits.
        closed = family.follows("derivatives", of="log_density")
        found = family.derivatives(parameters, x[asked]) if closed else differences.derivatives(family, parameters, x[asked])
        first[asked], second[asked] = found
    return first, second


def moves(node: Node) -> bool:
    """Whether an input has parameters of this kind; raises `FamilyError` if its family can't say how they move."""
    if not isinstance(node, Input) or node.family.is_free_table or not node.family.learnable or not node.family.names:
        return False
    node.family.require("The uncertainty of inputs (include_inputs=True)", "unconstrain", "constrain")
    return True


def free_inputs(circuit: Circuit, rows: Array, flows: list[Array], start: int) -> dict[int, FreeInput]:
    """By owning node, the first at place `start` of the vector; `flows [N, K]` of all nodes' units over the rows."""
    squares: dict[int, Array] = {}
    totals: dict[int, Array] = {}
    for i, node in enumerate(circuit.nodes):
        if not moves(node):
            continue
        assert isinstance(node, Input)
        parameters: Any = circuit.parameters[i]
        owner, x, family = circuit.owners[i], rows[:, node.columns], node.family.with_lower_floor(FLOOR)
        width, size = flat(family.unconstrain(parameters)).shape
        known = family.follows("information", of="log_density")
        squares.setdefault(owner, np.zeros((width, size, size)))
        totals.setdefault(owner, np.zeros(width))
        totals[owner] += flows[i][~asking.all_missing(x)].sum(axis=0)
        for at in range(0, 0 if known else len(x), VALUES_AT_A_TIME):
            some = slice(at, at + VALUES_AT_A_TIME)
            score, flow = scores(family, parameters, x[some]), flows[i][some]
            squares[owner] += np.einsum("nk,nkq,nkr->kqr", flow, score, score)
    out = {}
    for owner, total in totals.items():
        node, parameters = circuit.nodes[owner], circuit.parameters[owner]
        assert isinstance(node, Input)
        reached: dict[str, Any] = {name: each & (total > 0) for name, each in node.family.reached(parameters).items()}
        family = node.family.with_lower_floor(FLOOR)
        if family.follows("information", of="log_density"):
            share = family.information(parameters)
        else:
            share = squares[owner] / np.where(total > 0, total, 1.0)[:, None, None]
            # With one at its bound, values may tell nothing of the others: all of them at the mean.
            reached = dict.fromkeys(reached, np.all(list(reached.values()), axis=0))
        roots = _roots(parameters, share, reached)
        if roots.any():
            out[owner] = FreeInput(family, parameters, start, roots)
            start = out[owner].part.stop
    return out


def _roots(parameters: Mapping[str, Array], share: Array, reached: Mapping[str, Any]) -> Array:
    """R of every unit, with as many columns as any of them needs; `reached [K]` tells which units' numbers move."""
    shapes = {name: np.shape(value) for name, value in parameters.items()}
    moving = flat({name: np.broadcast_to(_units(reached[name], value), shapes[name]) for name, value in parameters.items()})
    # Numbers are compared in units of their own: a mean may be of the order of 1e6, the logarithm of a scale of 1.
    own = np.sqrt(np.maximum(np.einsum("kqq->kq", share), 0.0)) * moving
    scale = np.where(own > 0, 1 / np.where(own > 0, own, 1.0), 0.0)
    values, vectors = np.linalg.eigh(share * scale[:, :, None] * scale[:, None, :])
    kept = values > FLAT
    root = scale[:, :, None] * vectors * np.where(kept, 1 / np.sqrt(np.where(kept, values, 1.0)), 0.0)[:, None, :]
    return np.asarray(root[:, :, kept.shape[1] - int(kept.sum(axis=1).max(initial=0)) :])


def _any(value: Array) -> Any:
    """`[K]`: of units with something that is not 0."""
    return np.reshape(value, (len(value), -1)).any(axis=1)


def _units(chosen: Any, value: Array) -> Any:
    return chosen.reshape(-1, *[1] * (np.ndim(value) - 1))
