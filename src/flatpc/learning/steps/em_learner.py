"""Expectation maximisation, plain and regularised.

A step adds up flows of a batch (E) and puts in their place what maximises the expected log-likelihood less the penalty (M),
then averages with the old parameters: θ ← (1-α)θ + αθ̃.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flatpc._typing import Array, Ints
from flatpc.engine.contract import Evaluator, Evidence
from flatpc.learning.regularizers.together import Regularizers
from flatpc.learning.run.distributed import Workers
from flatpc.learning.run.schedules import as_schedule
from flatpc.learning.steps import model
from flatpc.learning.steps.anemone import UnitSteps
from flatpc.learning.steps.collect import Collect, Plain
from flatpc.learning.steps.em import EM
from flatpc.learning.steps.inputs import group_inputs
from flatpc.learning.steps.m_step import Batch, KernelStep, MStep
from flatpc.learning.steps.momentum import Momentum
from flatpc.learning.steps.pieces import Pieces, Task

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit


@dataclass(frozen=True)
class Statistics:
    """What an E-step leaves: sums over rows, which add up over batches and over machines."""

    log_likelihood: float
    """Of the rows, before the step."""
    weight: float
    """Rows, or the sum of their weights."""
    gradient: NDArray[Any]
    """Of all weights, flat: flow / weight."""
    inputs: Array
    """Sufficient statistics of all inputs, flat."""

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(
            self.log_likelihood + other.log_likelihood,
            self.weight + other.weight,
            self.gradient + other.gradient,
            self.inputs + other.inputs,
        )


class EMLearner:
    """Learns by EM. `step` makes one step; `accumulate` and `update` are its two halves."""

    def __init__(
        self,
        evaluator: Evaluator,
        weight: float,
        method: EM,
        regularizers: Regularizers | None = None,
        workers: Workers | None = None,
        collect: Collect | None = None,
    ) -> None:
        """Learn from data that weigh so much: the number of rows, or the sum of their weights."""
        regularizers = regularizers or Regularizers()
        self.evaluator, self.weight = evaluator, weight
        self.step_size = as_schedule("step_size", method.step_size)
        self.pseudocount, self.input_pseudocount = regularizers.counts
        self.workers = workers or Workers()
        self.collect = collect or Plain(evaluator)
        self._groups = group_inputs(evaluator.circuit, evaluator.program)
        for group in self._groups:
            group.family.require("EM", "statistics", "update")
        self._m_step: MStep = regularizers.m_step(evaluator, self._groups) or KernelStep(evaluator, self._groups)
        self._momentum = Momentum(method.momentum, evaluator, self._groups) if method.momentum else None
        self._anemone = method.anemone
        alone = self.workers.n == 1 and not (collect or method.momentum or method.anemone)
        self._fused = self._m_step if alone and isinstance(self._m_step, KernelStep) and self._m_step.fuses else None
        """The M-step, if it can use flows up as soon as they are there."""

        free = [group for group in self._groups if not group.is_table]
        self._calls, self._cost = len(free), sum(group.n_units * group.family.cost.update for group in free)
        """Of an update of inputs."""

    @property
    def mu(self) -> float:
        """The μ of the last step, averaged over layers."""
        return self._m_step.mu

    def step(self, evidence: Evidence, rows: Ints, progress: float, weights: Array | None = None) -> float:
        """One E-step and M-step over the rows; the mean log-likelihood before it. `weights` has one number per row of all."""
        self.evaluator.work.calls += self._calls
        self.evaluator.work.multiplications += self._cost
        if self._fused is None:
            statistics = self.workers.add_statistics(self.accumulate(evidence, self.workers.share_of(rows), weights))
            self.update(statistics, progress)
            return statistics.log_likelihood / statistics.weight
        batch = self._batch(len(rows) if weights is None else float(weights[rows].sum()), progress)
        alpha = self.step_size(progress)
        log_likelihood, inputs = self.evaluator.em_step(evidence, rows, self._fused.rule(batch, alpha), weights)
        self._fused.update_inputs(inputs, batch, alpha)
        return log_likelihood

    def step_over(self, pieces: Pieces, progress: float) -> float:
        """The same over a batch that comes in pieces."""
        found = pieces.add_up(Task(), self.evaluator, self.collect)
        statistics = Statistics(float(found.numbers[0]), float(pieces.n_rows), found.weights, found.inputs)
        self.update(statistics, progress)
        return statistics.log_likelihood / statistics.weight

    def accumulate(self, evidence: Evidence, rows: Ints, weights: Array | None = None) -> Statistics:
        """The E-step over the rows."""
        log_likelihood, gradient, inputs = self.collect.statistics(evidence, rows, weights)
        return Statistics(log_likelihood, len(rows) if weights is None else float(weights[rows].sum()), gradient, inputs)

    def update(self, statistics: Statistics, progress: float = 0.0) -> None:
        """The M-step from statistics that were taken at the present parameters; it uses them up."""
        gradient, inputs = statistics.gradient, statistics.inputs
        alpha, batch = self.step_size(progress), self._batch(statistics.weight, progress)
        if self._momentum is not None:
            gradient, inputs = self._momentum.smooth(gradient, inputs, batch.weight)
        if self._anemone:
            steps = UnitSteps(self.evaluator, self._groups, gradient, inputs, batch, alpha)
            self._m_step.update(gradient, inputs, batch, 1.0)
            steps.average()
        else:
            self._m_step.update(gradient, inputs, batch, alpha)

    def _batch(self, weight: float, progress: float) -> Batch:
        share = weight / self.weight
        return Batch(weight, share, self.pseudocount * share, self.input_pseudocount * share, progress)

    def end_epoch(self, train_nll: float, valid_nll: float) -> None:
        """EM has nothing to do between epochs."""

    def check(self, mean_log_prob: Callable[[Evaluator], float]) -> None:
        """EM never leaves the simplex."""

    @property
    def resumes_anywhere(self) -> bool:
        """Nothing is added up over an epoch."""
        return True

    def circuit(self) -> Circuit:
        """The circuit as it is now."""
        return model.to_circuit(self.evaluator)

    def state(self) -> model.Parameters:
        """All that a later run needs to go on from here."""
        momentum = {} if self._momentum is None else self._momentum.state()
        return {**model.packed(self.evaluator), "draws": np.array([self.collect.draws]), **momentum}

    def restore(self, state: model.Parameters) -> None:
        """Go on from a state."""
        model.restore(self.evaluator, state)
        self.collect.draws = int(state["draws"][0])
        if self._momentum is not None:
            self._momentum.restore(state)
