"""Mutual information of all pairs of discrete variables, from one matrix product.

With one-hot rows `O [N, S]`, one column for each value of each variable, `Oᵀ O` counts how often any two values occur
together. A missing value is a row of zeros, so each pair of variables is counted over the rows that have both.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from flatpc.errors import DataError

Array = NDArray[np.float64]

# Entries of the one-hot block and of the float64 temporaries: 2²² of them are 16 and 32 MiB.
_BLOCK = 1 << 22
# Past this many values over all variables the table of pairs outgrows 4 GiB.
_MAX_VALUES = 1 << 15


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
