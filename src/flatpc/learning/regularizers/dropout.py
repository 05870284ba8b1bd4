"""Probabilistic dropout (Peharz et al., 2019): learn from rows with values missing and from sums with children missing.

A dropped value is integrated out, as any missing one. A dropped edge of a sum is one state of its latent variable that is
known not to hold: the unit's value is the sum over the edges that are left, not renormalised. What is maximised is the mean over
draws of the log-likelihood that remains. A unit that would lose every edge keeps all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc._options import number, put, whole_number
from flatpc._row_weights import weighted_sum
from flatpc._typing import Array, Ints
from flatpc.engine.contract import Evaluator, Evidence
from flatpc.errors import OptionError
from flatpc.learning.regularizers.base import Regularizer
from flatpc.learning.run.schedules import as_schedule
from flatpc.learning.steps.method import Method
from flatpc.learning.steps.rows import TrainingRows

_STREAM = 0xD40
"""Keeps these draws apart from the order of rows, which is drawn from the same seed."""


@dataclass(frozen=True)
class Dropout(Regularizer):
    """Drop values and edges at random, by the seed of `fit`.

    Parameters
    ----------
    inputs
        The probability that a value is taken as missing, anew for every row and step.
    sums
        The probability that an edge of a sum or mixture is left out.
    rows_per_mask
        Rows that share one draw of edges: 1 as in the paper, or None for all rows of a batch, which is much faster.

    Raises
    ------
    OptionError
        If an option is out of range.

    Examples
    --------
    >>> import flatpc as fp
    >>> fp.learning.Dropout(inputs=0.2)
    Dropout(inputs=0.2, sums=0.0, rows_per_mask=None)
    """

    inputs: float = 0.1
    sums: float = 0.0
    rows_per_mask: int | None = None

    def __post_init__(self) -> None:
        for name in ("inputs", "sums"):
            what = "it is a probability from 0 to less than 1"
            put(self, **{name: number(f"Dropout: {name}", getattr(self, name), 0.0, 1.0, below=True, what=what)})
        if self.rows_per_mask is not None:
            put(self, rows_per_mask=whole_number("Dropout: rows_per_mask", self.rows_per_mask, 1))

    def collect(self, evaluator: Evaluator, rows: TrainingRows, seed: int, rank: int) -> Dropped:
        """Flows with parts left out."""
        return Dropped(self, evaluator, seed, rank)

    def objection(self, other: Regularizer, method: Method) -> str:
        """Draws change from one gradient to the next."""
        return "two gradients are compared, and dropout changes the objective in between" if other.defines("offset") else ""

    def check(self, method: Method, judged: bool) -> None:
        """A full step of EM forgets all but the batch."""
        step_size = as_schedule("step_size", method.step_size)
        if method.kind == "em" and self.sums > 0 and any(step_size(t / 100) >= 1 for t in range(100)):
            raise OptionError("With step_size=1 EM would delete each edge that Dropout leaves out of a batch; take 0.5 or less.")


class Dropped:
    """Adds up flows of rows and circuits with parts left out."""

    def __init__(self, dropout: Dropout, evaluator: Evaluator, seed: int, rank: int = 0) -> None:
        self.dropout, self.evaluator = dropout, evaluator
        self.draws = 0
        self._seed = [_STREAM, seed, rank]

    def statistics(self, evidence: Evidence, rows: Ints, weights: Array | None = None) -> tuple[float, Any, Array]:
        """Flows where something is left out."""
        e, total = self.evaluator, 0.0
        gradient, inputs = np.zeros(e.program.n_weights, e.dtype), np.zeros(e.program.n_inputs)
        for part, mine, kept in self.draw(evidence, rows):
            counted = weights if weights is None or part is evidence else weights[rows]
            whole = e.weights
            e.weights = whole if kept is None else whole * kept
            try:
                log_prob, g, statistics = e.statistics(part, mine, counted)
            finally:
                e.weights = whole
            total += weighted_sum(log_prob, mine, counted)
            gradient += g if kept is None else g * kept
            inputs += statistics
        return total, gradient, inputs

    def draw(self, evidence: Evidence, rows: Ints) -> Iterator[tuple[Evidence, Ints, NDArray[np.bool_] | None]]:
        """Evidence with values left out, the rows of it that belong together, and which weights they keep (None: all)."""
        rng = np.random.default_rng([*self._seed, self.draws])
        self.draws += 1
        if self.dropout.inputs > 0:
            X = evidence.X[rows]
            X[rng.random(X.shape) < self.dropout.inputs] = np.nan
            evidence, rows = self.evaluator.evidence(X), np.arange(len(rows))
        size = self.dropout.rows_per_mask or len(rows)
        if self.dropout.sums == 0 or len(rows) == 0:
            size = len(rows)
        for start in range(0, len(rows), max(size, 1)):
            yield evidence, rows[start : start + size], self._edges(rng)

    def _edges(self, rng: np.random.Generator) -> NDArray[np.bool_] | None:
        if self.dropout.sums == 0:
            return None
        kept: NDArray[np.bool_] = rng.random(self.evaluator.program.n_weights) >= self.dropout.sums
        weights = self.evaluator.weight_views(self.evaluator.weights)
        for i, view in self.evaluator.weight_views(kept).items():
            view[~(view & (weights[i] > 0)).any(axis=1)] = True
        return kept
