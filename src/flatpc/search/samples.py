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

from flatpc._row_weights import deviation, mean, read_weights, rows_by_weight
from flatpc._typing import Array, Ints
from flatpc.tables.grouping import read_groups

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


def parted(order: Ints, n: int, groups: Ints | None = None) -> tuple[Ints, Ints]:
    """Rows in a random order as two parts: the first n, and the rest. Groups, given for all rows, stay whole.

    The first part of whole groups has as nearly n rows as can be; it has none if there is one group only.

    >>> order = np.array([3, 0, 4, 2, 1])
    >>> first, rest = parted(order, 2, np.array([0, 0, 1, 1, 1]))
    >>> first.tolist(), rest.tolist()
    ([0, 1], [3, 4, 2])
    """
    if groups is None:
        return order[:n], order[n:]
    place = np.argsort(order)
    _, first, label = np.unique(groups[order[place]], return_index=True, return_inverse=True)
    # A group stands where its row of the lowest number does: large ones are no earlier than small ones.
    stands = place[first[label]]
    by = np.lexsort((place, stands))
    starts = np.flatnonzero(np.diff(stands[by], prepend=stands[by[:1]]))
    cut = starts[abs(starts - n).argmin()] if len(starts) else 0
    kept = order[place[by]]
    return kept[:cut], kept[cut:]


def standard_error(of_values: Array, weights: Array, n: float, groups: Ints | None = None) -> float:
    """Of the mean of numbers that tell as much as n independent ones do; where they are in groups, by the mean of each group.

    >>> x, pairs = np.array([1.0, 1.0, 3.0, 3.0]), np.array([0, 0, 1, 1])
    >>> standard_error(x, np.ones(4), 4), standard_error(x, np.ones(4), 2, pairs)
    (0.5, 1.0)
    """
    if groups is None:
        return float(deviation(of_values, weights) / np.sqrt(n))
    label = np.unique(groups, return_inverse=True)[1]
    total = np.bincount(label, weights).astype(np.float64)
    means = np.bincount(label, weights * of_values) / total
    # Groups may be few, and vary about a mean of their own.
    return float(deviation(means, total) / np.sqrt(max(n - 1, 1e-9)))


def effective_number(weights: Array, groups: Ints | None = None) -> float:
    """How many values, or groups of them, of equal weight would tell as much.

    >>> effective_number(np.ones(4)), effective_number(np.ones(4), np.array([0, 0, 7, 7]))
    (4.0, 2.0)
    """
    if groups is not None:
        weights = np.bincount(np.unique(groups, return_inverse=True)[1], weights).astype(np.float64)
    return float(weights.sum() ** 2 / (weights**2).sum())


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
