"""Floors of the variances of Gaussian inputs: the lower, the sharper the peaks that a model may have.

They are chosen in units in which columns have variance 1. A column that never changes would be the likelier the lower its floor
is, whatever the others need, so it keeps its own.
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


def with_floor(circuit: Circuit, floor: float, varies: Sequence[bool]) -> Circuit:
    """The circuit with that floor, where it has the usual one and the column varies; variances stay as they are."""
    from flatpc.circuit.circuit import Circuit

    nodes = [
        replace(node, family=node.family.with_floor(floor))
        if isinstance(node, Input) and node.family.floor in FLOORS and all(varies[v] for v in node.variables)
        else node
        for node in circuit.nodes
    ]  # fmt: skip
    parameters: dict[int, Any] = dict(circuit.parameters)
    return Circuit(nodes, parameters)


def varying(rows: Array) -> list[bool]:
    """Which columns have more than one value."""
    out = []
    for column in rows.T:
        known = column[~np.isnan(column)]
        out.append(len(known) > 0 and bool((known != known[0]).any()))
    return out
