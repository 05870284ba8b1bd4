"""The E-step: what is added up over the rows of a batch. Some regularisers put one of their own in its place."""

from __future__ import annotations

from typing import Any, Protocol

from flatpc._row_weights import weighted_sum
from flatpc._typing import Array, Ints
from flatpc.engine.contract import Evaluator, Evidence


class Collect(Protocol):
    """Adds up flows over rows."""

    draws: int
    """How often it has drawn at random; with the seed, all that later draws depend on."""

    def statistics(self, evidence: Evidence, rows: Ints, weights: Array | None = None) -> tuple[float, Any, Array]:
        """Log-likelihood, gradients of all weights and statistics of all inputs, summed over the rows, flat.

        `weights` has one number for each row of the evidence: how often it counts.
        """


class Plain:
    """The evaluator's own flows."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self.draws = 0

    def statistics(self, evidence: Evidence, rows: Ints, weights: Array | None = None) -> tuple[float, Any, Array]:
        """Flows of the rows as they are."""
        log_prob, gradient, inputs = self.evaluator.statistics(evidence, rows, weights)
        return weighted_sum(log_prob, rows, weights), gradient, inputs
