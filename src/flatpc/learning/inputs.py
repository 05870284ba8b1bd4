"""The inputs of a packed circuit, in groups of equal nodes that lie side by side, so that each is handled at once.

EM averages *mean parameters*: with η the old mean parameters and η̃ those of the batch, (1-α)η + αη̃ never lowers the expected
log-likelihood, for any exponential family. They are the probabilities, the rate, and for a Gaussian mean and second moment:

    m' = (1-α)m + αm̃,    v' = (1-α)v + αṽ + α(1-α)(m̃-m)²
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from flatpc.circuit.nodes import Input
from flatpc.engine.program import Program
from flatpc.families.base import Family
from flatpc.families.bernoulli import Bernoulli
from flatpc.families.binomial import Binomial
from flatpc.families.categorical import Categorical
from flatpc.families.gaussian import Gaussian
from flatpc.families.poisson import Poisson
from flatpc.learning._kernels.tables import update_tables

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Group:
    """Learnable inputs of one family and width, next to each other in the flat array of parameters (and of statistics)."""

    family: Family
    start: int
    n_nodes: int
    shape: tuple[int, int]
    """In memory: rows (categories, or parameters of a formula) and stride."""
    width: int

    @property
    def is_table(self) -> bool:
        return isinstance(self.family, Bernoulli | Categorical)

    def view(self, flat: Array) -> Array:
        """`[nodes, rows, width]` of a flat array."""
        size = self.n_nodes * self.shape[0] * self.shape[1]
        return flat[self.start : self.start + size].reshape(self.n_nodes, *self.shape)[:, :, : self.width]


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
        s, p = group.view(statistics), group.view(inputs)
        if group.is_table:
            mean = 0.0 if unit is None else float(s.mean())
            scaled = mu if unit is None else mu * unit(mean, mean * group.shape[0])
            shape = group.n_nodes, *group.shape
            update_tables(kind, statistics, inputs, group.start, shape, group.width, scaled, pseudocount, alpha)
            continue
        names = group.family.names
        old = {name: p[:, row] for row, name in enumerate(names)}
        new = group.family.update(old, _named(group.family, s), pseudocount)
        if isinstance(group.family, Gaussian):
            shift = new["mean"] - old["mean"]
            variance = (1 - alpha) * old["variance"] + alpha * new["variance"] + alpha * (1 - alpha) * shift**2
            p[:, 1] = group.family.within(variance)
            p[:, 0] += alpha * shift
        else:
            p[:, 0] = (1 - alpha) * p[:, 0] + alpha * new[names[0]]


def _named(family: Family, statistics: Array) -> dict[str, Array]:
    if isinstance(family, Gaussian):
        return {"count": statistics[:, 0], "deviation": statistics[:, 1], "squares": statistics[:, 2]}
    assert isinstance(family, Binomial | Poisson)
    return {"count": statistics[:, 0], "sum": statistics[:, 1]}
