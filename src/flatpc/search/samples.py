"""The rows of a search, with how often each counts and which belong together.

Weights count rows, as in `fp.fit`: a row of weight 2 is two rows, a quarter is a quarter of a row. Sizes of models, smoothing and
how judges are chosen follow from the sum of all weights; work and mini-batches, from the rows that are there. A row is never on
both sides of a split, whatever its weight, so that its copies don't judge each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from flatpc._row_groups import read_groups
from flatpc._row_weights import mean, read_weights, rows_by_weight
from flatpc._typing import Array, Ints

if TYPE_CHECKING:
    from flatpc.tables.columns import Columns
    from flatpc.tables.reading import RawTable

DRAWN = 20_000
"""Rows, at the most, that stand for weighted ones."""


@dataclass(frozen=True)
class Sample:
    """Rows that have been read, NaN where missing.

    >>> sample = Sample(np.array([[0.0], [1.0], [2.0]]), weights=np.array([2.0, 0.5, 1.0]))
    >>> len(sample), sample.weight, sample.mean(np.array([1.0, 1.0, 8.0]))
    (3, 3.5, 3.0)
    """

    X: Array
    weights: Array | None = None
    """`[N]`, positive; None if each row counts once."""
    groups: Ints | None = None
    """`[N]`: 0, 1, 2, ...; rows of one group are never on both sides of a split. None if every row is one of its own."""

    @staticmethod
    def of(X: Array, weights: Array | None, groups: Any = None) -> Sample:
        """Rows with weights that have been read, and groups as a user gave them; rows of weight 0 are left out.

        >>> Sample.of(np.zeros((3, 1)), np.array([2.0, 0.0, 1.0]), ["a", "b", "c"]).groups.tolist()
        [0, 1]
        """
        kept = np.ones(len(X), np.bool_) if weights is None else weights > 0
        labels = read_groups(groups, len(X), kept)
        if weights is not None:
            weights = None if (weights[kept] == 1).all() else weights[kept]
        return Sample(X if kept.all() else np.ascontiguousarray(X[kept]), weights, labels)

    @staticmethod
    def encoded(columns: Columns, table: RawTable, missing: str, weights: Array | None, groups: Any = None) -> Sample:
        """`of` rows of a table to learn from. Those of weight 0 may hold anything."""
        if weights is None or weights.all():
            return Sample.of(columns.encode(table, missing), weights, groups)
        rows = np.full((len(table), len(columns.columns)), np.nan)
        rows[weights > 0] = columns.encode(table.some(weights > 0), missing)
        return Sample.of(rows, weights, groups)

    @staticmethod
    def read(X: Array, given: Any, option: str = "valid_weight") -> Sample:
        """Rows with what a user gave as their weights."""
        return Sample.of(X, read_weights(given, len(X), option))

    def __len__(self) -> int:
        return len(self.X)

    @property
    def weight(self) -> float:
        """How many rows they count as."""
        return float(len(self.X)) if self.weights is None else float(self.weights.sum())

    @property
    def n_groups(self) -> int:
        """Of how many groups they are."""
        return len(self.X) if self.groups is None else len(np.unique(self.groups))

    @property
    def halves(self) -> Any:
        """`[N]`: which rows are in the one of two halves; those of a group are in the same one."""
        place = np.arange(len(self.X)) if self.groups is None else np.unique(self.groups, return_inverse=True)[1]
        return place % 2 == 0

    def mean(self, of_rows: Array) -> float:
        """The mean of one number per row."""
        return mean(of_rows, self.weights)

    def some(self, which: Any) -> Sample:
        """Some of the rows, by number or mask."""
        return Sample(
            self.X[which],
            None if self.weights is None else self.weights[which],
            None if self.groups is None else self.groups[which],
        )

    def changed(self, X: Array) -> Sample:
        """The same rows in other units."""
        return replace(self, X=X)

    def drawn(self) -> Array:
        """Rows that count once each and stand for these, for starts that know no weights."""
        return self.X if self.weights is None else self.X[rows_by_weight(self.weights, max(len(self.X), DRAWN))]


def judges_of(samples: Sequence[Sample]) -> Sample:
    """All judges, one split's after the other's, without their values."""
    n = sum(map(len, samples))
    weights = None
    if any(sample.weights is not None for sample in samples):
        weights = np.concatenate([np.ones(len(s)) if s.weights is None else s.weights for s in samples])
    groups = None
    if any(sample.groups is not None for sample in samples):
        found, before = [], 0
        for s in samples:
            found.append(before + (np.arange(len(s)) if s.groups is None else np.unique(s.groups, return_inverse=True)[1]))
            before += s.n_groups
        groups = np.concatenate(found)
    return Sample(np.empty((n, 0)), weights, groups)
