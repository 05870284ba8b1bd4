"""The inputs of a packed circuit, in groups of equal nodes that lie side by side, so that each is handled at once.

EM averages *mean parameters*: with η the old mean parameters and η̃ those of the batch, (1-α)η + αη̃ never lowers the expected
log-likelihood, for any exponential family. What they are, the family knows (`Family.interpolate`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from flatpc._typing import Array
from flatpc.circuit.nodes import Input
from flatpc.engine.flat import PLAIN, InputBlocks, Program, input_block
from flatpc.families import packing
from flatpc.families.base import Family, Parameters, Statistics
from flatpc.learning._kernels.input_tables import update_penalised_tables, update_tables

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit


@dataclass(frozen=True)
class Group:
    """Learnable inputs of one family and width, next to each other in the flat array of parameters (and of statistics)."""

    family: Family
    place: InputBlocks

    @property
    def n_units(self) -> int:
        """Of all its inputs."""
        return self.place.n_nodes * self.place.width

    @property
    def is_table(self) -> bool:
        """Whether tables are learnt as they are."""
        return self.family.is_free_table

    def view(self, flat: Array) -> Array:
        """`[nodes, rows, width]` of a flat array."""
        return self.place.view(flat)

    def units(self, flat: Array) -> Array:
        """`[rows, nodes · width]`: a copy, with all units of the group beside each other."""
        return np.moveaxis(self.view(flat), 1, 0).reshape(self.place.rows, -1)

    def put(self, flat: Array, units: Array) -> None:
        """Write what `units` reads."""
        self.view(flat)[:] = np.moveaxis(units.reshape(self.place.rows, self.place.n_nodes, self.place.width), 0, 1)

    def parameters(self, inputs: Array) -> dict[str, Array]:
        """The family's parameters of all units."""
        return packing.unpack(self.family, self.units(inputs))

    def write(self, inputs: Array, parameters: Parameters) -> None:
        """Put the family's parameters of all units in their place."""
        units = np.zeros((self.place.rows, self.n_units))
        packing.write(self.family, parameters, units)
        self.put(inputs, units)

    def statistics(self, flat: Array) -> Statistics:
        """The family's statistics of all units."""
        return packing.unpack_statistics(self.family, self.units(flat))


def group_inputs(circuit: Circuit, program: Program) -> list[Group]:
    """All learnable inputs, in order."""
    groups: list[Group] = []
    for i in program.input_blocks:
        node = circuit.nodes[i]
        assert isinstance(node, Input)
        if not node.family.learnable:
            continue
        place = input_block(circuit, program, i)
        both = groups[-1].place.followed_by(place) if groups and groups[-1].family == node.family else None
        if both is None:
            groups.append(Group(node.family, place))
        else:
            groups[-1] = Group(node.family, both)
    return groups


def update_inputs(
    groups: Sequence[Group],
    statistics: Array,
    inputs: Array,
    *,
    kind: int,
    mu: float,
    unit: Callable[[float, float], float] | None,
    pseudocount: float,
    alpha: float,
    share: float = 1.0,
) -> None:
    """The M-step of all inputs, in place, from a batch with this share of the data.

    `kind` and `mu` are the update rule of tables; `unit`, if given, makes the unit of μ from the mean flow of entries and units.
    """
    for group in groups:
        if group.is_table:
            mean = 0.0 if unit is None else float(group.view(statistics).mean())
            at = group.place
            scaled = mu if unit is None else mu * unit(mean, mean * at.rows)
            shape = at.n_nodes, at.rows, at.stride
            if kind == PLAIN or scaled <= 0:
                update_tables(statistics, inputs, at.start, shape, at.width, pseudocount, alpha)
            else:
                update_penalised_tables(kind, statistics, inputs, at.start, shape, at.width, scaled, pseudocount, alpha)
            continue
        old = group.parameters(inputs)
        new = group.family.in_batch(share).update(old, group.statistics(statistics), pseudocount)
        group.write(inputs, new if alpha == 1 else group.family.interpolate(old, new, alpha))
