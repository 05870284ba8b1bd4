"""Log-likelihood and penalty of a batch with both gradients, from one set of passes.

The penalty needs adjoints row by row; the likelihood's gradient is added up from the same ones, so that a regularised step costs
7 block products where a plain one costs 3.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from flatpc._row_weights import weighted_sum
from flatpc._typing import Array, Ints
from flatpc.circuit.nodes import Input
from flatpc.curvature.passes import Passes
from flatpc.engine import contract
from flatpc.engine.contract import Gradients, Penalises
from flatpc.engine.numba.evaluator import Evaluator
from flatpc.engine.numba.evidence import Evidence
from flatpc.engine.numba.views import input_view
from flatpc.families import packing
from flatpc.families.base import Statistics


def penalised(evaluator: contract.Evaluator, space: str) -> Penalises:
    """For an evaluator of either engine."""
    if evaluator.engine == "numba":
        return Penalised(cast(Evaluator, evaluator), space)
    from flatpc.curvature.torch_penalised import TorchPenalised

    return TorchPenalised(evaluator, space)


class Penalised:
    """The same on the CPU."""

    def __init__(self, evaluator: Evaluator, space: str) -> None:
        self.passes = Passes(evaluator)
        self.passes.layout.refuse_ties("trace")
        self.evaluator, self.program = evaluator, evaluator.program
        self.space = space

    def gradients(self, evidence: Evidence, rows: Ints, weights: Array | None = None, *, value: bool = False) -> Gradients:
        """Of the rows; see `Penalises`."""
        out = Gradients(np.zeros(2), *self._empty(), *self._empty())
        hard, start = [rows[:0]], 0
        for block in self.passes.blocks(evidence, rows, None if weights is None else weights[rows], shared=False):
            mine = rows[start : start + len(block.where)]
            start += len(mine)
            hard.append(mine[block.unsettled[block.where]])
            log_prob, _ = self.evaluator.root(block.plan)
            settled = ~block.unsettled
            out.numbers[0] += log_prob[settled] @ block.asked[settled]
            if value:
                out.numbers[1] += self.passes.squares(block, self.space).sum(axis=0) @ block.count
            self.passes.add_gradient(block, out.weights, out.inputs)
            self.passes.add_penalty_gradient(block, self.space, out.penalty_weights, out.penalty_inputs)
        self._add_hard(evidence, rows, weights, np.concatenate(hard), out)
        return out

    def _empty(self) -> tuple[NDArray[Any], Array]:
        return np.zeros(self.program.n_weights, self.evaluator.dtype), np.zeros(self.program.n_inputs)

    def _add_hard(self, evidence: Evidence, rows: Ints, row_weights: Array | None, hard: Ints, out: Gradients) -> None:
        """Rows far outside the model, where linear arithmetic ends: flows with care, and the penalty in wider numbers."""
        if len(hard):
            log_prob, weights, inputs = self.evaluator.statistics(evidence, hard, row_weights)
            out.numbers[0] += weighted_sum(log_prob, hard, row_weights)
            out.weights += weights
            out.inputs += inputs
        if not (np.isfinite(out.penalty_weights.sum()) and np.isfinite(out.penalty_inputs.sum())):
            hard = rows
            out.numbers[1], out.penalty_weights[:], out.penalty_inputs[:] = 0.0, 0.0, 0.0
        if len(hard):
            self.add_wide(evidence.X[hard], None if row_weights is None else row_weights[hard], out)

    def add_wide(self, X: Array, row_weights: Array | None, out: Gradients) -> None:
        """Add the penalty of rows and its gradients, in wider numbers."""
        more, vector, statistics = self.passes.wide().penalty(X, self.space, row_weights)
        out.numbers[1] += float(more.to_float())
        out.penalty_weights += self.passes.flat_weights(vector.to_float())
        self._add_statistics(statistics, out.penalty_inputs)

    def _add_statistics(self, statistics: dict[int, Statistics], to: Array) -> None:
        """Statistics by node, to where the evaluator has them."""
        for i, found in statistics.items():
            node = self.evaluator.circuit.nodes[i]
            assert isinstance(node, Input)
            block = input_view(self.evaluator.circuit, self.program, to, i)
            block += packing.pack_statistics(node.family, found, node.width)
