"""Gradient descent on unconstrained parameters z: minimise the mean of -log p(x) + μ R(x) over rows.

Gradients come from native passes, not from an autograd graph: flows give that of the likelihood, tangent passes that of the
penalty R, and the chain rule to z is written out (`unconstrained.py`). The step itself is a torch optimiser's.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray

from flatpc.engine.evaluator import Evaluator
from flatpc.engine.evidence import Evidence
from flatpc.errors import DataError
from flatpc.learning import model
from flatpc.learning.collect import Collect, Plain
from flatpc.learning.distributed import Workers
from flatpc.learning.loop import Diverged
from flatpc.learning.penalty import Gradients, Penalised
from flatpc.learning.sam import ASAM, SAM
from flatpc.learning.schedules import Schedule
from flatpc.learning.sharpness import Sharpness
from flatpc.learning.unconstrained import Unconstrained

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

MOMENTUM = 0.9
LOST = 100.0
"""A run has diverged when its NLL is this many times farther from 0 than at the start, and more."""


class Gradient:
    """Learns with Adam or SGD (momentum 0.9)."""

    def __init__(
        self,
        evaluator: Evaluator,
        method: str,
        step_size: Schedule,
        sharpness: Sharpness | None = None,
        clip: float | None = None,
        ascent: SAM | ASAM | None = None,
        workers: Workers | None = None,
        collect: Collect | None = None,
        unconstrained: Unconstrained | None = None,
    ) -> None:
        self.evaluator = evaluator
        self.step_size, self.sharpness, self.clip, self.ascent = step_size, sharpness, clip, ascent
        self.workers = workers or Workers()
        self.collect = collect or Plain(evaluator)
        self.unconstrained = unconstrained or Unconstrained(evaluator)
        self.z = torch.from_numpy(self.unconstrained.read())
        self.unconstrained.write(self.z.numpy())
        self._optimizer = _optimizer(method, self.z, step_size(0.0))
        self._penalised = Penalised(evaluator, sharpness.space) if sharpness else None
        self.mu = math.nan if sharpness and sharpness.mu == "adaptive" else 0.0
        self._epoch = np.zeros((2, self.unconstrained.size if self._is_adaptive else 0))
        """Gradients of likelihood and of penalty, added up over the epoch."""
        self._limit = math.nan

    @property
    def _is_adaptive(self) -> bool:
        return self.sharpness is not None and self.sharpness.mu == "adaptive"

    # ---- objective ------------------------------------------------------------------------------------------------

    def gradients(self, evidence: Evidence, rows: Ints, *, value: bool = False) -> tuple[Array, Array, Array]:
        """Mean log-likelihood and mean penalty (if `value`), and the gradients in z of minus the one and of the other."""
        found = self._collect(evidence, rows, value)
        likelihood, penalty = np.zeros((2, self.unconstrained.size))
        self.unconstrained.add_gradient(likelihood, -1.0 / len(rows), found.weights, found.inputs)
        if self._penalised is not None:
            self.unconstrained.add_gradient(penalty, 1.0 / len(rows), found.penalty_weights, found.penalty_inputs)
        return found.numbers / len(rows), likelihood, penalty

    def _collect(self, evidence: Evidence, rows: Ints, value: bool = False) -> Gradients:
        mine = self.workers.share_of(rows)
        if self._penalised is not None:
            found = self._penalised.gradients(evidence, mine, value=value)
        else:
            log_likelihood, weights, inputs = self.collect.statistics(evidence, mine)
            found = Gradients(np.array([log_likelihood, 0.0]), weights, inputs, weights[:0], inputs[:0])
        self.workers.add(*found.arrays)
        return found

    def _objective(self, evidence: Evidence, rows: Ints, progress: float) -> tuple[float, Array]:
        """Mean log-likelihood, and the gradient of what is minimised."""
        if self._is_adaptive:
            numbers, likelihood, penalty = self.gradients(evidence, rows)
            self._epoch += likelihood, penalty
            if math.isnan(self.mu):
                self.mu = self._balance(likelihood, penalty, 0.0)
            return float(numbers[0]), likelihood + self.mu * penalty
        found = self._collect(evidence, rows)
        if self.sharpness is not None:
            # The chain rule is linear, so once is enough for both.
            self.mu = self.sharpness.schedule(progress)
            found.weights -= self.mu * found.penalty_weights
            found.inputs -= self.mu * found.penalty_inputs
        gradient = np.zeros(self.unconstrained.size)
        self.unconstrained.add_gradient(gradient, -1.0 / len(rows), found.weights, found.inputs)
        return float(found.numbers[0]) / len(rows), gradient

    def _balance(self, likelihood: Array, penalty: Array, overfitting: float) -> float:
        """κ^DoF · α · ‖∇NLL‖ / ‖∇R‖."""
        assert self.sharpness is not None
        norm = float(np.linalg.norm(penalty))
        pull = self.sharpness.kappa ** min(overfitting, self.sharpness.max_overfitting) * self.sharpness.scale
        return pull * float(np.linalg.norm(likelihood)) / norm if norm > 0 else 0.0

    # ---- steps ----------------------------------------------------------------------------------------------------

    def step(self, evidence: Evidence, rows: Ints, progress: float) -> float:
        """One step; the mean log-likelihood of the rows before it."""
        log_likelihood, gradient = self._objective(evidence, rows, progress)
        self._check(log_likelihood, gradient)
        if self.ascent is not None:
            here = self.z.numpy().copy()
            self._move_to(here + self.ascent.offset(here, gradient))
            _, gradient = self._objective(evidence, rows, progress)
            self._move_to(here)
        norm = float(np.linalg.norm(gradient))
        if not math.isfinite(norm):
            self._check(math.nan, gradient)
        if self.clip is not None and norm > self.clip:
            gradient *= self.clip / norm
        self.z.grad = torch.from_numpy(gradient)
        for group in self._optimizer.param_groups:
            group["lr"] = self.step_size(progress)
        self._optimizer.step()
        self.unconstrained.write(self.z.numpy())
        return log_likelihood

    def _move_to(self, z: Array) -> None:
        self.z.numpy()[:] = z
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
                f"Lower {lower}, or set clip=1.0."
            )

    def check(self, evidence: Evidence) -> None:
        """Raise `Diverged` if the last step led nowhere."""
        if not math.isnan(self._limit):
            self._check(float(self.evaluator.log_prob(evidence).mean()), self.z.numpy())

    def end_epoch(self, overfitting: float | None) -> None:
        """Balance penalty and likelihood anew."""
        if self._is_adaptive:
            self.mu = self._balance(self._epoch[0], self._epoch[1], overfitting or 0.0)
            self._epoch[:] = 0.0

    # ---- state ----------------------------------------------------------------------------------------------------

    def state(self) -> model.Parameters:
        """All that a later run needs to go on from here."""
        out = {"z": self.z.numpy().copy(), "numbers": np.array([self.mu, self._limit, self.collect.draws])}
        for name, value in self._optimizer.state.get(self.z, {}).items():
            if value is not None:
                out[f"optimizer.{name}"] = value.numpy().copy()
        return out

    def restore(self, state: model.Parameters) -> None:
        """Go on from a state."""
        self._move_to(state["z"])
        self.mu, self._limit = (float(x) for x in state["numbers"][:2])
        self.collect.draws = int(state["numbers"][2])
        self._epoch[:] = 0.0
        moments = {name.removeprefix("optimizer."): array for name, array in state.items() if name.startswith("optimizer.")}
        self._optimizer.state.clear()
        if moments:
            self._optimizer.state[self.z] = {name: torch.from_numpy(array.copy()) for name, array in moments.items()}


def _optimizer(method: str, z: torch.Tensor, rate: float) -> torch.optim.Optimizer:
    if method == "adam":
        return torch.optim.Adam([z], rate, fused=True)
    return torch.optim.SGD([z], rate, momentum=MOMENTUM, fused=True)
