"""A batch that comes in pieces, because it is larger than memory or on other machines: sums over rows are sums over pieces.

Pieces are added up as a tree whose shape depends on their number alone, ((1 + 2) + (3 + 4)) + 5, so that the sum has the same
bits wherever the pieces were worked on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from flatpc._typing import Array, Ints
from flatpc.curvature.penalised import penalised
from flatpc.engine.contract import Evaluator, Evidence, Gradients
from flatpc.learning.steps.collect import Collect, Plain
from flatpc.tables.sums import tree_sum

Arrays = tuple[NDArray[Any], ...]


@dataclass(frozen=True)
class Task:
    """What is added up over the rows of a piece; plain data, so that it can be sent to another machine."""

    space: str | None = None
    """Of the penalty; None for flows alone."""
    value: bool = False
    """Whether the penalty itself is wanted, beside its gradient."""

    def work_out(self, evaluator: Evaluator, evidence: Evidence, collect: Collect | None = None) -> Arrays:
        """The sums over the rows of the evidence: numbers, and flat arrays as in `Gradients`."""
        rows = np.arange(len(evidence))
        if self.space is not None:
            return penalised(evaluator, self.space).gradients(evidence, rows, value=self.value).arrays
        return flows(collect or Plain(evaluator), evidence, rows, None).arrays


def flows(collect: Collect, evidence: Evidence, rows: Ints, weights: Array | None) -> Gradients:
    """Log-likelihood and its gradients over some rows, in the form that has room for a penalty."""
    log_likelihood, gradient, inputs = collect.statistics(evidence, rows, weights)
    return Gradients(np.array([log_likelihood, 0.0]), gradient, inputs, gradient[:0], inputs[:0])


class Pieces(Protocol):
    """The rows of one batch."""

    @property
    def n_rows(self) -> int:
        """How many they are."""

    def add_up(self, task: Task, evaluator: Evaluator, collect: Collect | None) -> Gradients:
        """The sums over all rows, at the evaluator's parameters."""


@dataclass(frozen=True)
class Here:
    """Pieces that are read one after the other, and worked on by this process."""

    read: Callable[[], Iterable[Array]]
    """All rows of the batch, in pieces; from the beginning each time."""
    n_rows: int

    def add_up(self, task: Task, evaluator: Evaluator, collect: Collect | None) -> Gradients:
        """One piece after the other."""
        done = (task.work_out(evaluator, evaluator.evidence(X), collect) for X in self.read())
        return Gradients(*tree_sum(done))
