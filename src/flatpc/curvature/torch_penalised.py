"""Log-likelihood and penalty of a batch with both gradients, where torch makes the passes (`flatpc.engine.torch.tangents`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from flatpc._row_weights import weighted_sum
from flatpc._typing import Array, Bools, Ints
from flatpc.curvature.penalised import Penalised
from flatpc.engine.contract import Gradients
from flatpc.engine.numba.evaluator import Evaluator
from flatpc.engine.torch.engine import Totals
from flatpc.engine.torch.evaluator import TorchEvidence
from flatpc.engine.torch.tangents import penalty
from flatpc.errors import OptionError


class TorchPenalised:
    """Evaluates likelihood and penalty together; rows that need wider numbers go through the native passes on the CPU."""

    def __init__(self, evaluator: Any, space: str) -> None:
        if space != "weights":
            raise OptionError(
                f"space={space!r} is penalised by engine='numba' alone; choose that, or space='weights'.", option="space"
            )
        self.evaluator = evaluator
        self._native = Penalised(Evaluator(evaluator.circuit, "float64", 1), space)

    def gradients(self, evidence: TorchEvidence, rows: Ints, weights: Array | None = None, *, value: bool = False) -> Gradients:
        """Of the rows; see `Penalises`."""
        log_prob, gradient, statistics = self.evaluator.statistics(evidence, rows, weights)
        totals, settled, total = self._penalty(evidence, rows, weights)
        more, more_statistics = self.evaluator.flat(totals)
        numbers = np.array([weighted_sum(log_prob, rows, weights), total])
        out = Gradients(numbers, gradient, statistics, more.astype(np.float64), more_statistics)
        if not (np.isfinite(out.penalty_weights.sum()) and np.isfinite(out.penalty_inputs.sum())):
            settled[:], out.numbers[1], out.penalty_weights[:], out.penalty_inputs[:] = False, 0.0, 0.0, 0.0
        hard = rows[~settled]
        if len(hard):
            native = self._native.evaluator
            native.weights[:], native.inputs[:] = self.evaluator.weights, self.evaluator.inputs
            self._native.add_wide(evidence.X[hard], None if weights is None else weights[hard], out)
        return out

    def _penalty(self, evidence: TorchEvidence, rows: Ints, weights: Array | None) -> tuple[Totals, Bools, float]:
        """Gradients of the penalty, summed over rows; which rows are in them; its value."""
        run = self.evaluator.run.wider
        totals, settled, total = Totals(run), [np.empty(0, np.bool_)], 0.0
        for block, counts in self.evaluator.blocks(run, evidence, rows, weights):
            found = penalty(run.net, block, counts, run.stacked)
            for g, gradient in found.gradients.items():
                totals.add_gradient(g, gradient)
            for g, flow in found.flows.items():
                totals.add_inputs(g, block, flow)
            settled.append(found.settled.cpu().numpy())
            total += float((found.values * counts).sum())
        return totals, np.concatenate(settled), total
