"""The rows to learn from, and how often each of them counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from flatpc._row_weights import read_weights
from flatpc._typing import Array, Ints


@dataclass(frozen=True)
class TrainingRows:
    """Rows that have been checked. A row of weight 2 counts as two rows."""

    X: Array
    weights: Array | None = None
    """`[N]`, positive; None if each row counts once."""
    total: float | None = None
    """The weight of all rows, if there are more than these."""

    @classmethod
    def read(cls, X: Array, sample_weight: Any, option: str = "sample_weight") -> TrainingRows:
        """Rows with what a user gave as their weights; those of weight 0 are left out."""
        weights = read_weights(sample_weight, len(X), option)
        if weights is None or (weights == 1).all():
            return cls(X)
        kept = weights > 0
        return cls(X, weights) if kept.all() else cls(np.ascontiguousarray(X[kept]), weights[kept])

    @property
    def weight(self) -> float:
        """Of all rows together."""
        if self.total is not None:
            return self.total
        return float(len(self.X)) if self.weights is None else float(self.weights.sum())

    def weight_of(self, rows: Ints) -> float:
        """Of some rows together."""
        return float(len(rows)) if self.weights is None else float(self.weights[rows].sum())

    def mean(self, of_rows: Array) -> float:
        """The mean of one number per row."""
        return float(np.average(of_rows, weights=self.weights))
