"""Expectation maximisation, plain and sharpness-aware.

A step adds up flows of a batch (E) and puts in their place what maximises the expected log-likelihood less the penalty (M),
then averages with the old parameters: θ ← (1-α)θ + αθ̃.

A batch of B rows stands for N/B times as much data. For the M-step to stay the same when all flows are scaled by s = B/N,
pseudocounts scale with s, and μ with s (λ = 1, renormalised), with 1 (exact λ, quadratic) or with 1/s (exact λ, cubic): in terms
of φ = λθ the exact equations are the renormalised ones with λμ and λ²μ for μ, and λ grows with the flow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flatpc.engine.numba import packing
from flatpc.engine.numba._kernels import update
from flatpc.engine.numba._kernels.collect import update_weights
from flatpc.engine.numba._kernels.threads import run
from flatpc.engine.numba._kernels.update import Rule
from flatpc.engine.numba.evaluator import Evaluator
from flatpc.engine.numba.evidence import Evidence
from flatpc.learning.regularizers.entropy import Entropy, EntropyStep
from flatpc.learning.regularizers.sharpness import Sharpness
from flatpc.learning.run.distributed import Workers
from flatpc.learning.run.schedules import Constant, Schedule
from flatpc.learning.steps import model
from flatpc.learning.steps.anemone import UnitSteps
from flatpc.learning.steps.collect import Collect, Plain
from flatpc.learning.steps.inputs import group_inputs, update_inputs
from flatpc.learning.steps.layers import Layers
from flatpc.learning.steps.momentum import Momentum

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

FULL_STEP = Constant(1.0)
KINDS = {
    ("quadratic", "renormalize"): update.QUADRATIC,
    ("cubic", "renormalize"): update.CUBIC,
    ("quadratic", "exact"): update.QUADRATIC_EXACT,
    ("cubic", "exact"): update.CUBIC_EXACT,
}


@dataclass(frozen=True)
class Statistics:
    """What an E-step leaves: sums over rows, which add up over batches and over machines."""

    log_likelihood: float
    n_rows: int
    gradient: NDArray[Any]
    """Of all weights, flat: flow / weight."""
    inputs: Array
    """Sufficient statistics of all inputs, flat."""

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(
            self.log_likelihood + other.log_likelihood,
            self.n_rows + other.n_rows,
            self.gradient + other.gradient,
            self.inputs + other.inputs,
        )


class EM:
    """Learns by EM. `step` makes one step; `accumulate` and `update` are its two halves."""

    def __init__(
        self,
        evaluator: Evaluator,
        n_rows: int,
        *,
        step_size: Schedule = FULL_STEP,
        pseudocount: float = 0.0,
        input_pseudocount: float = 0.0,
        sharpness: Sharpness | None = None,
        workers: Workers | None = None,
        collect: Collect | None = None,
        entropy: Entropy | None = None,
        momentum: float = 0.0,
        anemone: bool = False,
    ) -> None:
        self.evaluator = evaluator
        self.n_rows = n_rows
        self.step_size = step_size
        self.pseudocount, self.input_pseudocount = pseudocount, input_pseudocount
        self.sharpness = sharpness
        self.workers = workers or Workers()
        self.collect = collect or Plain(evaluator)
        self.mu = 0.0
        """The μ of the last step, averaged over layers."""
        self._kind = KINDS[sharpness.update, sharpness.multiplier] if sharpness else update.PLAIN
        self._layers = Layers(evaluator.circuit, evaluator.program)
        self._groups = group_inputs(evaluator.circuit, evaluator.program)
        for group in self._groups:
            group.family.require("EM", "statistics", "update")
        self._allowed = packing.pack_masks(evaluator.circuit, evaluator.program)
        self._entropy = EntropyStep(entropy, evaluator, self._groups) if entropy else None
        self._momentum = Momentum(momentum, evaluator, self._groups) if momentum else None
        self._anemone = anemone
        relative = sharpness is not None and sharpness.relative
        self._fused = self.workers.n == 1 and not (collect or entropy or momentum or anemone or relative)
        """Whether flows can be used up as soon as they are there."""

    def step(self, evidence: Evidence, rows: Ints, progress: float) -> float:
        """One E-step and M-step over the rows; the mean log-likelihood before it."""
        if not self._fused:
            statistics = self.workers.add_statistics(self.accumulate(evidence, self.workers.share_of(rows)))
            self.update(statistics, progress)
            return statistics.log_likelihood / statistics.n_rows
        share = len(rows) / self.n_rows
        self.mu = self._mu(progress, share)
        rule = self._rule(np.full(self.evaluator.program.n_steps, self.mu), share, self.step_size(progress))
        log_likelihood, inputs = self.evaluator.em_step(evidence, rows, rule)
        self._update_inputs(inputs, progress, share, self.step_size(progress))
        return log_likelihood

    def accumulate(self, evidence: Evidence, rows: Ints) -> Statistics:
        """The E-step over the rows."""
        log_likelihood, gradient, inputs = self.collect.statistics(evidence, rows)
        return Statistics(log_likelihood, len(rows), gradient, inputs)

    def update(self, statistics: Statistics, progress: float = 0.0) -> None:
        """The M-step from statistics that were taken at the present parameters; it uses them up."""
        gradient, inputs, n_rows = statistics.gradient, statistics.inputs, statistics.n_rows
        alpha, share = self.step_size(progress), n_rows / self.n_rows
        if self._momentum is not None:
            gradient, inputs = self._momentum.smooth(gradient, inputs, n_rows)
        counts = self.pseudocount * share, self.input_pseudocount * share
        if self._entropy is not None:
            self._entropy.update(gradient, inputs, n_rows, *counts, alpha)
        elif self._anemone:
            steps = UnitSteps(self.evaluator, self._groups, gradient, inputs, n_rows, *counts, alpha)
            self._maximise(gradient, inputs, progress, share, 1.0)
            steps.average()
        else:
            self._maximise(gradient, inputs, progress, share, alpha)

    def _maximise(self, gradient: NDArray[Any], inputs: Array, progress: float, share: float, alpha: float) -> None:
        """Towards what maximises the expected log-likelihood less the penalty, by the step α."""
        per_layer = np.full(self._layers.n_layers, self._mu(progress, share))
        if self.sharpness and self.sharpness.relative:
            per_layer *= self._unit(*self._layers.mean_flow(gradient, self.evaluator.weights))
        self.mu = float(per_layer.mean()) if len(per_layer) else 0.0
        rule = self._rule(self._layers.per_step(per_layer), share, alpha)
        program = self.evaluator.program
        run(
            update_weights, self.evaluator.n_threads,
            program.structure, program.owners, self.evaluator.weights, gradient, rule, True,
        )  # fmt: skip
        self._update_inputs(inputs, progress, share, alpha)

    def _mu(self, progress: float, share: float) -> float:
        """μ for a batch with this share of the data, or in units of the mean flow."""
        if self.sharpness is None:
            return 0.0
        mu = self.sharpness.schedule(progress)
        as_it_is = self.sharpness.relative or self.sharpness.unit == "batch-counts"
        if as_it_is or self._kind == update.QUADRATIC_EXACT:
            return mu
        return mu / share if self._kind == update.CUBIC_EXACT else mu * share

    def _unit(self, edge: Any, node: Any) -> Any:
        """The unit of a relative μ where edges and units have these mean flows."""
        power = {update.QUADRATIC_EXACT: 1, update.CUBIC_EXACT: 2}.get(self._kind, 0)
        return edge / np.maximum(node, np.finfo(np.float64).tiny) ** power

    def _rule(self, mu: Array, share: float, alpha: float) -> Rule:
        return Rule(self._kind, mu, self.pseudocount * share, alpha, self._allowed)

    def _update_inputs(self, statistics: Array, progress: float, share: float, alpha: float) -> None:
        regularised = self.sharpness is not None and self.sharpness.inputs
        update_inputs(
            self._groups, statistics, self.evaluator.inputs,
            kind=self._kind if regularised else update.PLAIN,
            mu=self._mu(progress, share) if regularised else 0.0,
            unit=self._unit if self.sharpness is not None and self.sharpness.relative else None,
            pseudocount=self.input_pseudocount * share, alpha=alpha,
        )  # fmt: skip

    def end_epoch(self, train_nll: float, valid_nll: float) -> None:
        """EM has nothing to do between epochs."""

    def check(self, evidence: Evidence) -> None:
        """EM never leaves the simplex."""

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
