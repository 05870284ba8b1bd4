"""Columns of codes, and counts of pairs of them: by joint codes, one pair at a time, or by products of one-hot rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from flatpc._typing import Array

# Entries of one-hot rows: 16 MiB.
_ONE_HOT = 1 << 22
# Cells of a pair, in units of its rows, up to which all of them are counted; beyond, only those that occur.
_SPARSE = 4


class JointCodes:
    """The columns of a table of codes 0, 1, ..., with NaN where missing.

    >>> codes = JointCodes(np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 1.0], [0.0, np.nan]]), np.array([2, 2]))
    >>> codes.joint(0, 1)
    array([[1., 0.],
           [0., 2.]])
    >>> codes.marginal(0)
    array([2., 2.])
    >>> bool(np.isclose(codes.information(0, 1), np.log(3) - 2 / 3 * np.log(2)))
    True
    """

    def __init__(self, X: Array, sizes: NDArray[np.int64], weights: Array | None = None) -> None:
        self.sizes, self.weights = sizes, weights
        # -1 is a missing value.
        smallest = np.min_scalar_type(-int(sizes.max()))
        self._columns = np.empty((X.shape[1], X.shape[0]), dtype=smallest)
        self._missing = np.zeros(X.shape[1], dtype=bool)
        for v in range(X.shape[1]):
            absent = np.isnan(X[:, v])
            self._missing[v] = absent.any()
            self._columns[v] = np.where(absent, -1, X[:, v]) if self._missing[v] else X[:, v]
        # Whole numbers below 2²⁴ are exact in float32.
        self.dtype: Any = np.float32 if weights is None and len(X) < 1 << 24 else np.float64

    @property
    def complete(self) -> NDArray[Any] | None:
        """The codes `[variables, rows]` of rows that count once each and lack nothing, or None."""
        return None if self._missing.any() or self.weights is not None else self._columns

    def joint(self, u: int, v: int) -> Array:
        """Counts `[values of u, values of v]`."""
        a, b, weights = self._both(u, v)
        counts = np.bincount(a * self.sizes[v] + b, weights, minlength=self.sizes[u] * self.sizes[v])
        return counts.astype(np.float64).reshape(self.sizes[u], self.sizes[v])

    def marginal(self, v: int) -> Array:
        """Counts `[values of v]`."""
        codes, _, weights = self._both(v, v)
        return _counted(codes, self.sizes[v], weights)

    def information(self, u: int, v: int, smoothing: float = 0.0) -> float:
        """Mutual information of a pair; cells that never occur are not stored if they are most of them."""
        a, b, weights = self._both(u, v)
        rows, cells = len(a), int(self.sizes[u] * self.sizes[v])
        total = (rows if weights is None else float(weights.sum())) + smoothing
        if total == 0:
            return 0.0
        key = a * self.sizes[v] + b
        if cells > _SPARSE * rows:
            key = np.unique(key, return_inverse=True)[1]
        counts = np.bincount(key, weights, minlength=cells if cells <= _SPARSE * rows else 1)
        if weights is None:
            # How many cells have each count: all with the same one contribute the same.
            cells_with = np.bincount(counts, minlength=1)
            cells_with[0] += cells - len(counts)
            height = np.flatnonzero(cells_with)
        else:
            height, cells_with = np.append(counts, 0.0), np.append(np.ones(len(counts)), cells - len(counts))
        smoothed = height + smoothing / cells
        left, right = (
            _counted(a, self.sizes[u], weights) + smoothing / self.sizes[u],
            _counted(b, self.sizes[v], weights) + smoothing / self.sizes[v],
        )
        joint = (cells_with[height] if weights is None else cells_with) @ xlogy(smoothed, smoothed)
        return float((joint - xlogy(left, left).sum() - xlogy(right, right).sum()) / total + np.log(total))

    def products(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[Any]:
        """Counts `[values * rows, values * columns]` of variables with equally many values: first values first."""
        m, n = int(self.sizes[rows[0]]), int(self.sizes[columns[0]])
        out = np.zeros((m * len(rows), n * len(columns)), dtype=self.dtype)
        step = max(_ONE_HOT // (m * len(rows) + n * len(columns)), 256)
        for first in range(0, self._columns.shape[1], step):
            some = slice(first, first + step)
            left = _one_hot(self._columns[rows, some], m)
            if self.weights is not None:
                left = left * self.weights[some]
            out += left @ _one_hot(self._columns[columns, some], n).T
        return out

    def _both(self, u: int, v: int) -> tuple[NDArray[np.int64], NDArray[np.int64], Array | None]:
        """The codes of both in rows that have both, and the rows' weights."""
        a, b = self._columns[u].astype(np.int64), self._columns[v].astype(np.int64)
        if self._missing[u] or self._missing[v]:
            known = (a >= 0) & (b >= 0)
            return a[known], b[known], None if self.weights is None else self.weights[known]
        return a, b, self.weights


def _counted(codes: NDArray[np.int64], size: int, weights: Array | None = None) -> Array:
    return np.bincount(codes, weights, minlength=size).astype(np.float64)


def _one_hot(codes: NDArray[Any], size: int) -> NDArray[Any]:
    """`[values * variables, rows]` from codes `[variables, rows]`."""
    values = np.arange(size, dtype=codes.dtype)[:, None, None]
    return np.asarray(codes[None] == values, dtype=np.float32).reshape(size * codes.shape[0], codes.shape[1])
