"""Momentum for mini-batch EM: an M-step from flows averaged over the last batches.

    m ← βm + (1-β) F/B,    M-step from  B · m / (1 - β^t)

F are the flows of a batch of B rows, and t counts the steps; the division makes up for the start at 0, as in Adam. A batch
alone, of which a unit may have seen a few rows only, says little about that unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc._typing import Array
from flatpc.engine.contract import Evaluator
from flatpc.families import packing
from flatpc.learning.steps.inputs import Group


class Momentum:
    """The averaged flows of weights and inputs."""

    def __init__(self, beta: float, evaluator: Evaluator, groups: Sequence[Group]) -> None:
        self.beta, self.evaluator = beta, evaluator
        self._moved = [group for group in groups if group.family.defines("restate")]
        self._flows = np.zeros(evaluator.program.n_weights)
        self._inputs = np.zeros(evaluator.program.n_inputs)
        self._at = evaluator.inputs.copy()
        """The inputs' parameters at the last step, to which their statistics belong: a Gaussian's are taken about its mean."""
        self._steps = 0

    def smooth(self, gradient: NDArray[Any], statistics: Array, weight: float) -> tuple[NDArray[Any], Array]:
        """What takes the place of a batch's flow / weight and statistics of inputs."""
        weights = self.evaluator.weights
        self._steps += 1
        self._restate()
        for average, new in ((self._flows, np.multiply(gradient, weights, dtype=np.float64)), (self._inputs, statistics)):
            average *= self.beta
            average += (1 - self.beta) / weight * new
        scale = weight / (1 - self.beta**self._steps)
        out = np.zeros_like(gradient)
        np.divide(scale * self._flows, weights, out=out, where=weights > 0, casting="same_kind")
        return out, scale * self._inputs

    def _restate(self) -> None:
        """Express statistics as if they had been taken at the present parameters."""
        for group in self._moved:
            old, new = group.parameters(self._at), group.parameters(self.evaluator.inputs)
            restated = group.family.restate(group.statistics(self._inputs), old, new)
            group.put(self._inputs, packing.pack_statistics(group.family, restated, group.n_units))
        self._at[:] = self.evaluator.inputs

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays from which `restore` goes on."""
        arrays = {"flows": self._flows, "inputs": self._inputs, "at": self._at, "steps": np.array([self._steps])}
        return {f"momentum.{name}": array.copy() for name, array in arrays.items()}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go on from a state."""
        self._flows[:], self._inputs[:] = state["momentum.flows"], state["momentum.inputs"]
        self._at[:], self._steps = state["momentum.at"], int(state["momentum.steps"][0])
