"""Gradient descent on unconstrained parameters z: minimise the mean of -log p(x) + μ R(x) over rows.

Gradients come from native passes, not from an autograd graph: flows give that of the likelihood, tangent passes that of the
penalty R, and the chain rule to z is written out (`unconstrained.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from flatpc._typing import Array, Ints
from flatpc.curvature.penalised import penalised
from flatpc.engine.contract import Evaluator, Evidence, Gradients
from flatpc.errors import DataError
from flatpc.learning.loop import Diverged
from flatpc.learning.regularizers import adaptive
from flatpc.learning.regularizers.together import Regularizers
from flatpc.learning.run.distributed import Workers
from flatpc.learning.run.schedules import as_schedule
from flatpc.learning.steps import model
from flatpc.learning.steps.collect import Collect, Plain
from flatpc.learning.steps.descent import Descent
from flatpc.learning.steps.pieces import Pieces, Task, flows
from flatpc.learning.steps.unconstrained import Unconstrained

LOST = 100.0
"""A run has diverged when its NLL is this many times farther from 0 than at the start, and more."""


@dataclass(frozen=True)
class Sums:
    """The rows of a step: what is added up over them, at the present parameters, and what they weigh."""

    of: Callable[[bool], Gradients]
    """With the penalty's own value, or without."""
    weight: float


class Gradient:
    """Learns by following a gradient: with Adam, or with SGD."""

    def __init__(
        self,
        evaluator: Evaluator,
        method: Descent,
        regularizers: Regularizers | None = None,
        workers: Workers | None = None,
        collect: Collect | None = None,
        seed: int = 0,
    ) -> None:
        self.regularizers = regularizers or Regularizers()
        self.evaluator, self.method = evaluator, method
        self.step_size = as_schedule("step_size", method.step_size)
        self.sharpness = sharpness = self.regularizers.penalty
        self.ascent = self.regularizers.that_defines("offset")
        self.workers = workers or Workers()
        self.collect = collect or Plain(evaluator)
        self.unconstrained = self.regularizers.unconstrained(evaluator, seed) or Unconstrained(evaluator)
        self.z = self.unconstrained.read()
        self.unconstrained.write(self.z)
        self._memory: dict[str, Array] = {}
        """What the method remembers from step to step."""
        self._penalised = penalised(evaluator, sharpness.space) if sharpness else None
        self.mu = math.nan if sharpness and sharpness.mu == "adaptive" else 0.0
        self._adaptive = adaptive.rule_of(sharpness, self.unconstrained) if self._is_adaptive else None
        self._limit = math.nan

    @property
    def _is_adaptive(self) -> bool:
        return self.sharpness is not None and self.sharpness.mu == "adaptive"

    # ---- objective ------------------------------------------------------------------------------------------------

    def gradients(
        self, evidence: Evidence, rows: Ints, row_weights: Array | None = None, *, value: bool = False
    ) -> tuple[Array, Array, Array]:
        """Mean log-likelihood and mean penalty (if `value`), and the gradients in z of minus the one and of the other."""
        return self._gradients(self._sums_of(evidence, rows, row_weights), value)

    def _gradients(self, batch: Sums, value: bool = False) -> tuple[Array, Array, Array]:
        found, weight = batch.of(value), batch.weight
        likelihood, penalty = np.zeros((2, self.unconstrained.size))
        self.unconstrained.add_gradient(likelihood, -1.0 / weight, found.weights, found.inputs)
        if self._penalised is not None:
            self.unconstrained.add_gradient(penalty, 1.0 / weight, found.penalty_weights, found.penalty_inputs)
        return found.numbers / weight, likelihood, penalty

    def _collect(self, evidence: Evidence, rows: Ints, row_weights: Array | None, value: bool) -> Gradients:
        mine = self.workers.share_of(rows)
        if self._penalised is not None:
            found = self._penalised.gradients(evidence, mine, row_weights, value=value)
        else:
            found = flows(self.collect, evidence, mine, row_weights)
        self.workers.add(*found.arrays)
        return found

    def _sums_of(self, evidence: Evidence, rows: Ints, row_weights: Array | None) -> Sums:
        return Sums(lambda value: self._collect(evidence, rows, row_weights, value), _weight(rows, row_weights))

    def _objective(self, batch: Sums, progress: float) -> tuple[float, Array]:
        """Mean log-likelihood, and the gradient of what is minimised."""
        if self._adaptive is not None:
            numbers, likelihood, penalty = self._gradients(batch)
            self._adaptive.see(batch, likelihood, penalty)
            if math.isnan(self.mu):
                self.mu = self._adaptive.first(likelihood, penalty)
            gradient = likelihood + self.mu * penalty
            self.regularizers.add_gradients(self.z, gradient)
            return float(numbers[0]), gradient
        found, weight = batch.of(False), batch.weight
        if self.sharpness is not None:
            # The chain rule is linear, so once is enough for both.
            self.mu = self.sharpness.schedule(progress)
            found.weights -= self.mu * found.penalty_weights
            found.inputs -= self.mu * found.penalty_inputs
        gradient = np.zeros(self.unconstrained.size)
        self.unconstrained.add_gradient(gradient, -1.0 / weight, found.weights, found.inputs)
        self.regularizers.add_gradients(self.z, gradient)
        return float(found.numbers[0]) / weight, gradient

    # ---- steps ----------------------------------------------------------------------------------------------------

    def step(self, evidence: Evidence, rows: Ints, progress: float, weights: Array | None = None) -> float:
        """One step; the mean log-likelihood of the rows before it. `weights` has one number for each row of the evidence."""
        return self._step(self._sums_of(evidence, rows, weights), progress)

    def step_over(self, pieces: Pieces, progress: float) -> float:
        """The same for a batch that comes in pieces."""
        space = None if self.sharpness is None else self.sharpness.space
        return self._step(
            Sums(lambda value: pieces.add_up(Task(space, value), self.evaluator, self.collect), float(pieces.n_rows)), progress
        )

    def _step(self, batch: Sums, progress: float) -> float:
        log_likelihood, gradient = self._objective(batch, progress)
        self._check(log_likelihood, gradient)
        if self.ascent is not None:
            here = self.z.copy()
            self._move_to(here + self.ascent.offset(here, gradient))
            _, gradient = self._objective(batch, progress)
            self._move_to(here)
        norm = float(np.linalg.norm(gradient))
        if not math.isfinite(norm):
            self._check(math.nan, gradient)
        if self.method.clip is not None and norm > self.method.clip:
            gradient *= self.method.clip / norm
        self.method.move(self.z, gradient, self.step_size(progress), self._memory)
        self.unconstrained.write(self.z)
        return log_likelihood

    def _move_to(self, z: Array) -> None:
        self.z[:] = z
        self.unconstrained.write(z)

    def _check(self, log_likelihood: float, gradient: Array) -> None:
        if math.isnan(self._limit):
            if log_likelihood == -math.inf:
                raise DataError(
                    "Some rows have probability 0 from the start, so there is no gradient to follow; change the structure, "
                    "the starting parameters or the rows."
                )
            self._limit = LOST * (1 + abs(log_likelihood))
        if not (abs(log_likelihood) < self._limit or log_likelihood > 0) or not np.isfinite(gradient).all():
            lower = "step_size" if self.sharpness is None else "step_size or mu"
            raise Diverged(
                f"Learning diverged (NLL {-log_likelihood:g}); the parameters of the last good epoch are kept. "
                f"Lower {lower}, or set clip=1.0, both options of fp.{type(self.method).__name__}."
            )

    def check(self, mean_log_prob: Callable[[Evaluator], float]) -> None:
        """Raise `Diverged` if the last step led nowhere."""
        if not math.isnan(self._limit):
            self._check(mean_log_prob(self.evaluator), self.z)

    @property
    def resumes_anywhere(self) -> bool:
        """An adaptive μ looks back at a whole epoch."""
        return self._adaptive is None

    def end_epoch(self, train_nll: float, valid_nll: float) -> None:
        """Balance penalty and likelihood anew."""
        if self._adaptive is not None and not math.isnan(self.mu):
            self.mu = self._adaptive.next(train_nll, valid_nll, self.mu, lambda batch: self._gradients(batch)[1:])

    # ---- state ----------------------------------------------------------------------------------------------------

    def state(self) -> model.Parameters:
        """All that a later run needs to go on from here."""
        before = (math.nan, math.nan) if self._adaptive is None else self._adaptive.before
        out = {"z": self.z.copy(), "numbers": np.array([self.mu, self._limit, self.collect.draws, *before])}
        return out | {f"optimizer.{name}": value.copy() for name, value in self._memory.items()}

    def restore(self, state: model.Parameters) -> None:
        """Go on from a state."""
        self._move_to(state["z"])
        self.mu, self._limit = (float(x) for x in state["numbers"][:2])
        self.collect.draws = int(state["numbers"][2])
        if self._adaptive is not None:
            self._adaptive.restart(*(float(x) for x in state["numbers"][3:5]))
        moments = {name.removeprefix("optimizer."): array for name, array in state.items() if name.startswith("optimizer.")}
        self._memory = {name: array.copy() for name, array in moments.items()}


def _weight(rows: Ints, row_weights: Array | None) -> float:
    return float(len(rows) if row_weights is None else row_weights[rows].sum())
