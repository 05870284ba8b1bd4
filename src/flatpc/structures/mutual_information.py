"""Mutual information of all pairs of discrete variables, from one matrix product.

With one-hot rows `O [N, S]`, one column for each value of each variable, `Oᵀ O` counts how often any two values occur
together. A missing value is a row of zeros, so each pair of variables is counted over the rows that have both. Numbers are
sorted into bins first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import xlogy

from flatpc.errors import DataError
from flatpc.families.base import Family
from flatpc.families.bernoulli import Bernoulli
from flatpc.families.categorical import Categorical

Array = NDArray[np.float64]

# Entries of the one-hot block and of the float64 temporaries: 2²² of them are 16 and 32 MiB.
_BLOCK = 1 << 22
# Past this many values over all variables the table of pairs outgrows 4 GiB.
_MAX_VALUES = 1 << 15


def binned(X: Array, families: Sequence[Family]) -> tuple[Array, list[int]]:
    """Codes 0, 1, ... for every column, and how many there are: Bernoulli and Categorical values as they are, others in bins.

    Bins hold about equally many rows, and are so few that a pair of columns has about five rows in each of its cells: two at
    the least, eight at the most.

    >>> from flatpc import Gaussian
    >>> codes, sizes = binned(np.arange(80.0)[:, None], [Gaussian()])
    >>> sizes, np.bincount(codes[:, 0].astype(int)).tolist()
    ([4], [20, 20, 20, 20])
    """
    codes, sizes = X.copy(), []
    n_bins = min(max(int(np.sqrt(len(X) / 5)), 2), 8)
    for v, family in enumerate(families):
        if isinstance(family, Bernoulli | Categorical):
            sizes.append(family.n_categories)
            continue
        seen = ~np.isnan(X[:, v])
        # Borders that coincide are one: a value that many rows share makes a wide bin.
        borders = np.unique(np.quantile(X[seen, v], np.arange(1, n_bins) / n_bins, method="higher"))
        codes[seen, v] = np.searchsorted(borders, X[seen, v], side="right")
        sizes.append(len(borders) + 1)
    return codes, sizes


class PairCounts:
    """How often two variables take two values together.

    >>> counts = PairCounts(np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 1.0]]), sizes=[2, 2])
    >>> counts.joint(0, 1)
    array([[1., 0.],
           [0., 2.]])
    >>> bool(np.isclose(counts.mutual_information()[0, 1], np.log(3) - 2 / 3 * np.log(2)))
    True

    `smoothing` in the methods is a number of further rows, spread evenly over the joint values of each pair. It
    leaves the marginals of a pair consistent: summing out one variable is smoothing the other with the same number.
    """

    def __init__(self, X: Array, sizes: Sequence[int]) -> None:
        self.sizes = np.asarray(sizes, dtype=np.int64)
        self.start = np.concatenate([[0], np.cumsum(self.sizes)])
        total = int(self.start[-1])
        if total > _MAX_VALUES:
            raise DataError(
                f"The variables have {total:,} values altogether, and a table of all pairs is feasible up to {_MAX_VALUES:,}; "
                f"merge rare values or sort them into bins."
            )
        # Whole numbers below 2²⁴ are exact in float32.
        self.table = np.zeros((total, total), dtype=np.float32 if len(X) < 1 << 24 else np.float64)
        step = max(_BLOCK // total, 256)
        for first in range(0, len(X), step):
            block = X[first : first + step]
            row, variable = np.nonzero(~np.isnan(block))
            one_hot = np.zeros((len(block), total), dtype=np.float32)
            one_hot[row, self.start[variable] + block[row, variable].astype(np.int64)] = 1
            self.table += one_hot.T @ one_hot

    @classmethod
    def of_table(cls, table: NDArray[Any], sizes: NDArray[np.int64]) -> PairCounts:
        """Counts that are known already: `table[a, b]` for all values of all variables, one after the other."""
        new = object.__new__(cls)
        new.sizes, new.start, new.table = sizes, np.concatenate([[0], np.cumsum(sizes)]), table
        return new

    @property
    def n_rows(self) -> float:
        """How many rows have the first variable."""
        return float(self.marginal(0).sum())

    def plus(self, other: PairCounts, factor: float) -> PairCounts:
        """These counts and `factor` times those of `other`."""
        return PairCounts.of_table(self.table + self.table.dtype.type(factor) * other.table, self.sizes)

    def smoothed(self, smoothing: float) -> PairCounts:
        """The counts with that many further rows, spread evenly over the joint values of each pair."""
        per_value = 1 / np.repeat(self.sizes, self.sizes)
        even = np.outer(per_value, per_value)
        for first, last in zip(self.start[:-1], self.start[1:], strict=True):
            even[first:last, first:last] = np.diag(per_value[first:last])
        return PairCounts.of_table(self.table + smoothing * even, self.sizes)

    def joint(self, u: int, v: int, smoothing: float = 0.0) -> Array:
        """Counts `[values of u, values of v]` of the pair."""
        block = self.table[self.start[u] : self.start[u + 1], self.start[v] : self.start[v + 1]]
        return block.astype(np.float64) + smoothing / block.size

    def marginal(self, v: int, smoothing: float = 0.0) -> Array:
        """Counts `[values of v]`."""
        return np.asarray(self.joint(v, v).diagonal() + smoothing / self.sizes[v])

    def mutual_information(self, smoothing: float = 0.0) -> Array:
        """`[n, n]` in nats; the diagonal is 0.

        With joint counts c, their marginals and their total T: `(Σ c log c - Σ cᵤ log cᵤ - Σ cᵥ log cᵥ) / T + log T`.
        """
        n, total = len(self.sizes), int(self.start[-1])
        cell = smoothing / np.repeat(self.sizes, self.sizes).astype(np.float64)
        out = np.zeros((n, n))
        first = 0
        while first < n:
            last = max(int(np.searchsorted(self.start, self.start[first] + _BLOCK // total, side="right")) - 1, first + 1)
            rows = slice(self.start[first], self.start[last])
            joint = self.table[rows] + np.outer(1 / np.repeat(self.sizes, self.sizes)[rows], cell)
            out[first:last] = self._information(joint, self.start[first:last] - self.start[first])
            first = last
        np.fill_diagonal(out, 0.0)
        # Both halves hold the same numbers up to rounding; ties between edges must not depend on which one is read.
        return np.maximum((out + out.T) / 2, 0.0)

    def _information(self, joint: Array, row_start: NDArray[np.int64]) -> Array:
        column_start = self.start[:-1]
        left = np.add.reduceat(joint, column_start, axis=1)
        right = np.add.reduceat(joint, row_start, axis=0)
        pairs = np.add.reduceat(left, row_start, axis=0)
        both = np.add.reduceat(np.add.reduceat(xlogy(joint, joint), column_start, axis=1), row_start, axis=0)
        first = np.add.reduceat(xlogy(left, left), row_start, axis=0)
        second = np.add.reduceat(xlogy(right, right), column_start, axis=1)
        # Without smoothing a pair may have no row in common; it is then taken for independent.
        seen = pairs > 0
        return np.where(seen, (both - first - second) / np.where(seen, pairs, 1) + np.log(np.where(seen, pairs, 1)), 0.0)


class WeightedCounts:
    """Pair counts of the same rows under many weightings, without missing values; `counts(weights)` gives `PairCounts`.

    >>> counts = WeightedCounts(np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 1.0]]), sizes=[2, 2])
    >>> counts(np.array([0.5, 1.0, 2.0])).joint(0, 1)
    array([[0.5, 0. ],
           [0. , 3. ]])

    A variable's first value is what the others leave of all rows, so its column is left out of the matrix product and put back
    by a sparse one: for binary variables that is a quarter of the work. Counts are rounded to float32.
    """

    def __init__(self, X: Array, sizes: Sequence[int]) -> None:
        self.sizes = np.asarray(sizes, dtype=np.int64)
        self.start = np.concatenate([[0], np.cumsum(self.sizes)])
        # Column 0 is of ones; those of variable v follow at its start, less one for each variable up to it.
        columns = [np.ones((len(X), 1), np.float32)]
        place, reduced, sign = [], [], []
        at = 1
        for v, n in enumerate(self.sizes):
            columns.append((X[:, v, None] == np.arange(1, n)).astype(np.float32))
            others = list(range(at, at + n - 1))
            place += [self.start[v]] * n + list(range(self.start[v] + 1, self.start[v + 1]))
            reduced += [0, *others, *others]
            sign += [1.0] + [-1.0] * (n - 1) + [1.0] * (n - 1)
            at += n - 1
        self._columns = np.concatenate(columns, axis=1)
        self._full = csr_array((np.array(sign, np.float32), (place, reduced)), shape=(int(self.start[-1]), at))

    def __call__(self, weights: Array) -> PairCounts:
        """Counts of rows of which each counts as many times as its weight says."""
        columns = self._columns
        product = columns.T @ (columns * weights[:, None].astype(np.float32))
        return PairCounts.of_table(np.maximum(self._full @ (self._full @ product).T, 0), self.sizes)
