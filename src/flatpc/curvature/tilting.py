"""Means of missing values with their gradients, from log-likelihoods alone.

Let μ_u be the means of the units u over a missing variable, and c such that all μ_u + c are positive. A circuit whose units have
the value μ_u + c there, in place of 1, has at the row's known values the log-likelihood

    log p(known) + log (E[x | known] + c)

so that mean and gradient need two log-likelihoods and two gradients, and no derivative of a flow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from flatpc._typing import Array
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.nodes import Input, Node
from flatpc.errors import FamilyError
from flatpc.families.categorical import Categorical
from flatpc.families.differences import STEP, flat, named

if TYPE_CHECKING:
    from flatpc.curvature.log_posterior import LogPosterior


@dataclass(frozen=True)
class Tilt:
    """The circuit with means in the place of one variable's inputs."""

    circuit: Circuit
    variable: int
    low: float
    span: float
    """Entries are (μ - low + span) / (2 span): between 1/2 and 1."""
    slopes: dict[int, Array]
    """Node -> `[K, ...]`: derivatives of the logarithms of its entries in the coordinates of its owner's part of the vector."""

    def rows(self, rows: Array) -> Array:
        """With the entry that stands for the mean in the variable's place."""
        out = rows.copy()
        out[:, self.variable] = 0.0
        return out

    def mean(self, log_ratio: Array) -> Array:
        """E[x | known] from the two log-likelihoods' difference."""
        return self.shifted(log_ratio) + self.low - self.span

    def shifted(self, log_ratio: Array) -> Array:
        """E[x | known] + c."""
        return 2 * self.span * np.exp(log_ratio)


def tilt(around: LogPosterior, variable: int) -> Tilt:
    """For the mean of a variable."""
    circuit = around.circuit
    nodes: list[Node] = list(circuit.nodes)
    parameters: dict[int, Any] = {i: p for i, p in circuit.parameters.items() if circuit.owners[i] == i}
    mine = {i: node for i, node in enumerate(circuit.nodes) if isinstance(node, Input) and variable in node.variables}
    several = next((i for i, node in mine.items() if node.family.n_variables > 1), None)
    if several is not None:
        family = mine[several].family
        raise FamilyError(
            f"Node {several}: the mean of variable {variable} is one of {family}, and has no error bar in closed form; "
            f"`ask` draws for it."
        )
    owners = {circuit.owners[i] for i in mine}
    given: Any = circuit.parameters
    means = {i: np.asarray(node.family.mean(given[i]), np.float64) for i, node in mine.items()}
    low, high = min(m.min() for m in means.values()), max(m.max() for m in means.values())
    span = float(high - low) or max(1.0, abs(float(low)))
    slopes = {}
    for i, node in enumerate(circuit.nodes):
        if not isinstance(node, Input) or circuit.owners[i] not in owners:
            continue
        own: Any = circuit.parameters[i]
        if i not in mine:  # it shares parameters with one of them: now it has its own
            nodes[i], parameters[i] = Input(node.variable, node.family, node.width), own
            continue
        entries = (means[i] - low + span) / (2 * span)
        nodes[i] = Input(variable, Categorical(2), node.width)
        parameters[i] = {"p": np.stack([entries, 1 - entries], axis=1)}
        slopes[i] = _slopes(around, i) / (means[i] - low + span)[:, None]
    return Tilt(Circuit(nodes, parameters), variable, float(low), span, slopes)


def _slopes(around: LogPosterior, i: int) -> Array:
    """`[K, ...]`: derivatives of a node's means in its owner's coordinates."""
    owner, node = around.circuit.owners[i], around.circuit.nodes[i]
    assert isinstance(node, Input)
    parameters: Any = around.circuit.parameters[i]
    if owner in around.layout.shapes:
        table = node.family.table(parameters)
        values = np.arange(table.shape[1], dtype=np.float64)
        return np.asarray(table * (values - (table @ values)[:, None]))
    if owner not in around.free:
        return np.zeros((node.width, 0))
    free = node.family.unconstrain(parameters)
    z = flat(free)
    out = np.zeros(z.shape)
    for j in range(z.shape[1]):
        ends = []
        for reach in (STEP, 2 * STEP):
            move = np.zeros(z.shape)
            move[:, j] = reach
            up, down = (node.family.mean(node.family.constrain(named(z + s * move, free))) for s in (1, -1))
            ends.append((up - down) / (2 * reach))
        out[:, j] = (4 * ends[0] - ends[1]) / 3
    return np.asarray(np.einsum("kq,kqr->kr", out, around.free[owner].roots))
