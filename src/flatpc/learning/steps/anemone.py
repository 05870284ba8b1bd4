"""Anemone (Liu, Shao and Van den Broeck, 2025): mini-batch EM in which every unit takes a step of its own.

Mini-batch EM moves each unit by α towards what the batch says of it, even if the batch says it by a fraction of a row. Here

    θ_nc  ∝  α F_nc / B + (1-α) t(n) θ_nc

where F are the flows of a batch of B rows and t(n) is the unit's top-down probability, its share of flow under the model
itself. In other words, the unit's step is α F_n / (α F_n + (1-α) B t(n)): smaller than α where the batch brings less flow
than expected. Inputs average their mean parameters with the same steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc._typing import Array
from flatpc.circuit.nodes import Input
from flatpc.engine.contract import Evaluator
from flatpc.families import packing
from flatpc.learning.steps.inputs import Group
from flatpc.learning.steps.m_step import Batch
from flatpc.learning.steps.topdown import top_down


class UnitSteps:
    """The steps of all units, and the average with the parameters that were there before."""

    def __init__(
        self, evaluator: Evaluator, groups: Sequence[Group], gradient: NDArray[Any], statistics: Array,
        batch: Batch, alpha: float,
    ) -> None:  # fmt: skip
        """Take the present parameters for the old ones."""
        self.evaluator, self.groups = evaluator, groups
        self._weights, self._inputs = evaluator.weights.copy(), evaluator.inputs.copy()
        circuit = evaluator.circuit
        expected: dict[int, Array] = {}
        for i, probability in enumerate(top_down(evaluator)):
            owner = circuit.owners[i]
            expected[owner] = expected.get(owner, 0.0) + probability
        flows = evaluator.weight_views(np.multiply(gradient, evaluator.weights, dtype=np.float64))
        self._steps = {
            i: _steps((view.sum(axis=1) + batch.pseudocount) / batch.weight, expected[i], alpha) for i, view in flows.items()
        }  # fmt: skip
        per_input = np.zeros(evaluator.program.n_inputs)
        steps, counts = evaluator.input_views(per_input), evaluator.input_views(statistics)
        for i in evaluator.program.input_blocks:
            node = circuit.nodes[i]
            assert isinstance(node, Input)
            if not node.family.learnable:
                continue
            count = node.family.count(packing.unpack_statistics(node.family, counts[i]))
            if node.family.is_free_table:
                count = count + batch.input_pseudocount
            steps[i][:] = _steps(count / batch.weight, expected[i], alpha)
        self._per_input = per_input

    def average(self) -> None:
        """Replace the present parameters by their average with the old ones."""
        e = self.evaluator
        new, old = e.weight_views(e.weights), e.weight_views(self._weights)
        for i, step in self._steps.items():
            new[i][:] = (1 - step)[:, None] * old[i] + step[:, None] * new[i]
        for group in self.groups:
            step = group.units(self._per_input)[0]
            if group.is_table:
                mixed = (1 - step) * group.units(self._inputs) + step * group.units(e.inputs)
                group.put(e.inputs, mixed)
            else:
                before, after = group.parameters(self._inputs), group.parameters(e.inputs)
                group.write(e.inputs, group.family.interpolate(before, after, step))


def _steps(flow: Array, expected: Array, alpha: float) -> Array:
    total = alpha * flow + (1 - alpha) * expected
    return np.divide(alpha * flow, total, out=np.zeros_like(total), where=total > 0)
