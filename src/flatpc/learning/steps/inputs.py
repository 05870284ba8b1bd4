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
from flatpc.engine.flat import PLAIN, Program
from flatpc.families import packing
from flatpc.families.base import Family, Parameters, Statistics
from flatpc.learning._kernels.input_tables import update_penalised_tables, update_tables

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit


@dataclass(frozen=True)
class Group:
    """Learnable inputs of one family and width, next to each other in the flat array of parameters (and of statistics)."""

    family: Family
    start: int
    n_nodes: int
    shape: tuple[int, int]
    """In memory: rows (of a table, parameters or statistics) and stride."""
    width: int

    @property
    def is_table(self) -> bool:
        """Whether tables are learnt as they are."""
        return self.family.is_free_table

    def view(self, flat: Array) -> Array:
        """`[nodes, rows, width]` of a flat array."""
        size = self.n_nodes * self.shape[0] * self.shape[1]
        return flat[self.start : self.start + size].reshape(self.n_nodes, *self.shape)[:, :, : self.width]

    def units(self, flat: Array) -> Array:
        """`[rows, nodes · width]`: a copy, with all units of the group beside each other."""
        return np.moveaxis(self.view(flat), 1, 0).reshape(self.shape[0], -1)

    def put(self, flat: Array, units: Array) -> None:
        """Write what `units` reads."""
        self.view(flat)[:] = np.moveaxis(units.reshape(self.shape[0], self.n_nodes, self.width), 0, 1)

    def parameters(self, inputs: Array) -> dict[str, Array]:
        """The family's parameters of all units."""
        return packing.unpack(self.family, self.units(inputs))

    def write(self, inputs: Array, parameters: Parameters) -> None:
        """Put the family's parameters of all units in their place."""
        units = np.zeros((self.shape[0], self.n_nodes * self.width))
        packing.write(self.family, parameters, units)
        self.put(inputs, units)

    def statistics(self, flat: Array) -> Statistics:
        """The family's statistics of all units."""
        return packing.unpack_statistics(self.family, self.units(flat))


def group_inputs(circuit: Circuit, program: Program) -> list[Group]:
    """All learnable inputs, in order."""
    groups: list[Group] = []
    for i, (offset, (rows, stride)) in program.input_blocks.items():
        node = circuit.nodes[i]
        assert isinstance(node, Input)
        if not node.family.learnable:
            continue
        last = groups[-1] if groups else None
        if (
            last is not None
            and (last.family, last.width) == (node.family, node.width)
            and last.start + last.n_nodes * rows * stride == offset
        ):
            groups[-1] = Group(last.family, last.start, last.n_nodes + 1, last.shape, last.width)
        else:
            groups.append(Group(node.family, offset, 1, (rows, stride), node.width))
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
) -> None:
    """The M-step of all inputs, in place.

    `kind` and `mu` are the update rule of tables; `unit`, if given, makes the unit of μ from the mean flow of entries and units.
    """
    for group in groups:
        if group.is_table:
            mean = 0.0 if unit is None else float(group.view(statistics).mean())
            scaled = mu if unit is None else mu * unit(mean, mean * group.shape[0])
            shape = group.n_nodes, *group.shape
            if kind == PLAIN or scaled <= 0:
                update_tables(statistics, inputs, group.start, shape, group.width, pseudocount, alpha)
            else:
                update_penalised_tables(kind, statistics, inputs, group.start, shape, group.width, scaled, pseudocount, alpha)
            continue
        old = group.parameters(inputs)
        new = group.family.update(old, group.statistics(statistics), pseudocount)
        group.write(inputs, new if alpha == 1 else group.family.interpolate(old, new, alpha))
