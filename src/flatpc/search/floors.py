"""Floors of the variances of Gaussian inputs: the lower, the sharper the peaks that a model may have.

They are chosen in units in which columns have variance 1. A column that never changes would be the likelier the lower its floor
is, whatever the others need, so it keeps its own. The lowest floors are for several columns together, some of which may follow
from the others; even there a column that was rounded keeps the variance of its rounding, or its values would be peaks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from flatpc._typing import Array
from flatpc.circuit.nodes import Input
from flatpc.families import Family
from flatpc.search.plans import FLOORS
from flatpc.search.scaling import Scaling
from flatpc.search.suiting import is_ordinal
from flatpc.tables.traits import Traits

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit


def with_first_floor(families: Sequence[Family], scaling: Scaling) -> list[Family]:
    """Families in the units of learning: Gaussians with the highest floor, or the one that a user has set in the user's units."""
    out: list[Family] = []
    for j, family in enumerate(families):
        own = family if family.floor is not None and family.native_formula else scaling.own(family, j)
        chosen = 0.0 if j in scaling.transforms else family.chosen_floor / scaling.scale[j] ** 2
        out.append(own if family.floor is None else own.with_floor(max(FLOORS[0], chosen)))
    return out


def further_families(chosen: Sequence[Family], given: Sequence[Sequence[Family]], scaling: Scaling) -> dict[int, list[Family]]:
    """Column -> those of the families given that may stand beside the one chosen, in the units of learning.

    Families with a bound stay out where the units have moved it. Where there is a family for ordered categories, all families
    over the same values may stand beside each other.
    """
    out = {}
    for j, (family, several) in enumerate(zip(chosen, given, strict=True)):
        others = [
            with_first_floor([*chosen[:j], other, *chosen[j + 1 :]], scaling)[j]
            for other in several
            if other != family
            and other.learnable
            and other.discrete == family.discrete
            and other.set_apart == family.set_apart
            and (
                _may_be_beside_ordinal(family, other, several)
                or (other.can_rescale and family.can_rescale and (scaling.shift[j] == 0 or not np.isfinite(other.bounds).any()))
            )
        ]
        if others:
            out[j] = others
    return out


def _may_be_beside_ordinal(family: Family, other: Family, given: Sequence[Family]) -> bool:
    """Whether both are over the same several values, one of the families given is for ordered ones, and no unit changes them."""
    same = family.n_categories == other.n_categories is not None and (family.n_categories or 0) > 2
    return same and any(map(is_ordinal, given)) and not (family.can_rescale or other.can_rescale)


def with_floor(circuit: Circuit, floor: float, varies: Sequence[bool], rounding: Sequence[float] = ()) -> Circuit:
    """The circuit with that floor, where it has a usual one and columns vary; variances stay as they are.

    Below the usual ones, `rounding` are the least floors of columns, and inputs of one column have the lowest usual one.
    """
    from flatpc.circuit.circuit import Circuit

    def lowered(node: Input) -> Family:
        if floor >= FLOORS[-1]:
            return node.family.with_floor(floor)
        if node.family.n_variables == 1:
            return node.family.with_floor(FLOORS[-1])
        return node.family.with_floors([max(floor, rounding[v]) for v in node.variables])

    nodes = [
        replace(node, family=lowered(node))
        if isinstance(node, Input) and _is_usual(node.family.floor) and all(varies[v] for v in node.variables)
        else node
        for node in circuit.nodes
    ]  # fmt: skip
    parameters: dict[int, Any] = dict(circuit.parameters)
    return Circuit(nodes, parameters)


def _is_usual(floor: float | None) -> bool:
    """Whether a user has not set it: such floors are above the highest usual one here, and the search lowers no other."""
    return floor is not None and floor <= FLOORS[0]


def rounding_variances(rows: Array, families: Sequence[Family], scaling: Scaling) -> tuple[float, ...]:
    """Of rows in the user's units, the variances of the rounding of columns that may be correlated, in the units of learning.

    Numbers rounded to steps of r are off by r²/12 on average. Where a column is mapped, that is so at its median.
    """
    out = np.zeros(rows.shape[1])
    for j, family in enumerate(families):
        step = Traits.of(rows[:, j]).resolution if family.joins else 0.0
        if step:
            middle = np.nanmedian(rows[:, [j]], axis=0)
            slope = np.exp(scaling.transforms[j].log_slope(middle)[0]) if j in scaling.transforms else 1.0
            out[j] = (step * slope / scaling.scale[j]) ** 2 / 12
    return tuple(out.tolist())


def varying(rows: Array) -> list[bool]:
    """Which columns have more than one value."""
    out = []
    for column in rows.T:
        known = column[~np.isnan(column)]
        out.append(len(known) > 0 and bool((known != known[0]).any()))
    return out
