"""μ of gradient learning, set anew after every epoch: penalty and likelihood pull equally hard, the penalty harder the more the
model overfits.

`Overfitting` is the rule of the paper's text, `Released` that of its authors' code.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from flatpc._typing import Array
from flatpc.learning.regularizers.sharpness import Sharpness
from flatpc.learning.run.history import degree_of_overfitting
from flatpc.learning.steps.unconstrained import Unconstrained

Gradients = Callable[[Any], Any]
"""A batch -> the gradients of likelihood and penalty at the present parameters."""

N_BATCHES = 5
SAME_WAY = 0.01
SMALLEST, LARGEST = 1e-12, 1e12


class Rule(Protocol):
    """Sees the gradients of every batch, and says what μ is next."""

    before: tuple[float, float]
    """Training and validation NLL of the epoch before; NaN at the start."""

    def see(self, batch: Any, likelihood: Array, penalty: Array) -> None:
        """A batch, and the gradients in z before its step."""

    def first(self, likelihood: Array, penalty: Array) -> float:
        """The μ of the first epoch."""

    def next(self, train_nll: float, valid_nll: float, mu: float, gradients: Gradients) -> float:
        """The μ of the next epoch."""

    def restart(self, train_nll: float, valid_nll: float) -> None:
        """Go on after an epoch that had these NLLs."""


def rule_of(sharpness: Sharpness | None, unconstrained: Unconstrained) -> Rule:
    """The rule that was asked for."""
    assert sharpness is not None
    return Released(sharpness, unconstrained.n_weights) if sharpness.rule == "released" else Overfitting(sharpness, unconstrained)


class Overfitting:
    """κ^DoF · α · ‖∇NLL‖ / ‖∇R‖, with gradients added up over the epoch."""

    def __init__(self, sharpness: Sharpness, unconstrained: Unconstrained) -> None:
        self.sharpness = sharpness
        self.before = (math.nan, math.nan)
        self._sums = np.zeros((2, unconstrained.size))

    def see(self, batch: Any, likelihood: Array, penalty: Array) -> None:
        """Add up."""
        self._sums += likelihood, penalty

    def first(self, likelihood: Array, penalty: Array) -> float:
        """Without overfitting."""
        return self._balance(likelihood, penalty, 0.0)

    def next(self, train_nll: float, valid_nll: float, mu: float, gradients: Gradients) -> float:
        """By the degree of overfitting."""
        overfitting = degree_of_overfitting(train_nll, valid_nll)
        found = self._balance(self._sums[0], self._sums[1], 0.0 if math.isnan(overfitting) else overfitting)
        self.restart(train_nll, valid_nll)
        return found

    def restart(self, train_nll: float, valid_nll: float) -> None:
        """Begin a new sum."""
        self._sums[:] = 0.0

    def _balance(self, likelihood: Array, penalty: Array, overfitting: float) -> float:
        norm = float(np.linalg.norm(penalty))
        pull = self.sharpness.kappa ** min(overfitting, self.sharpness.max_overfitting) * self.sharpness.scale
        return pull * float(np.linalg.norm(likelihood)) / norm if norm > 0 else 0.0


class Released:
    """The authors' rule. It balances norms in the sums' logits alone, after the epoch, as medians over five of its batches."""

    def __init__(self, sharpness: Sharpness, n_weights: int) -> None:
        self.sharpness, self.n_weights = sharpness, n_weights
        self.before = (math.nan, math.nan)
        self._batches: list[Any] = []

    def see(self, batch: Any, likelihood: Array, penalty: Array) -> None:
        """Remember the first batches of an epoch."""
        if len(self._batches) < N_BATCHES:
            self._batches.append(batch)

    def first(self, likelihood: Array, penalty: Array) -> float:
        """As after an epoch in which nothing moved."""
        return self._balance([self._norms(likelihood, penalty)], SAME_WAY, 0.0)

    def next(self, train_nll: float, valid_nll: float, mu: float, gradients: Gradients) -> float:
        """By which way the NLLs moved."""
        train, valid = train_nll - self.before[0], valid_nll - self.before[1]
        if math.isnan(train) or math.isnan(valid) or train * valid >= 0:
            factor = SAME_WAY
        elif train <= 0 <= valid:
            overfitting = 100 * abs(valid_nll - train_nll) / abs(valid_nll)
            factor = self.sharpness.kappa ** min(overfitting, self.sharpness.max_overfitting)
        else:
            factor = 1.0
        norms = [self._norms(*gradients(batch)) for batch in self._batches]
        self.restart(train_nll, valid_nll)
        return self._balance(norms, factor, mu)

    def restart(self, train_nll: float, valid_nll: float) -> None:
        """Begin a new epoch."""
        self.before = train_nll, valid_nll
        self._batches = []

    def _norms(self, likelihood: Array, penalty: Array) -> tuple[float, float]:
        n = self.n_weights
        return float(np.linalg.norm(likelihood[:n])), float(np.linalg.norm(penalty[:n]))

    def _balance(self, norms: list[tuple[float, float]], factor: float, otherwise: float) -> float:
        likelihood, penalty = np.median(norms, axis=0)
        if not penalty > 0:
            return otherwise
        return float(np.clip(factor * self.sharpness.scale * likelihood / penalty, SMALLEST, LARGEST))
