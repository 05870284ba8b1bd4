"""Mutual information of all pairs of discrete variables, block by block.

Pairs of variables with few values are counted by matrix products: with one-hot rows `O [N, S]`, one column for each value of each
variable, `Oᵀ O` counts how often any two values occur together. Other pairs are counted one by one, by their joint codes
(`joint_codes.py`), or by native code where that is worth compiling (`pair_kernel.py`). A missing value is a row of zeros, or no
code: each pair of variables is counted over the rows that have both. Numbers are sorted into bins first.

Memory beside the rows is bounded: 1 GiB for the information of all pairs, at `MAX_VARIABLES` variables, and less than half a GiB
for what is counted at a time, however many values the variables have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import xlogy

from flatpc._row_weights import quantiles
from flatpc._typing import Array
from flatpc.errors import TooLargeError
from flatpc.families.base import Family
from flatpc.structures.from_sources import Coding, pair_table
from flatpc.structures.trees.joint_codes import JointCodes
from flatpc.tables.sources import as_source

MAX_VARIABLES = 1 << 14
"""With more, the information of all pairs outgrows 1 GiB."""
MAX_TABLE = 1 << 13
"""Values over all variables up to which the counts of all pairs are kept, in 256 MiB; beyond, they are counted when asked for."""

# Entries of the one-hot block and of the float64 temporaries: 2²² of them are 16 and 32 MiB.
_BLOCK = 1 << 22
# Entries of one-hot rows that are kept in float32, in 128 MiB; more are kept as bytes.
_KEPT = 1 << 25
# Values of a variable up to which matrix products count its pairs faster than joint codes do.
_FEW_VALUES = 16
# Values of a variable, on average, up to which matrix products count all pairs faster than native code.
_FEW_ON_AVERAGE = 8
# Values of all pairs beyond which native code, which takes a second to compile, is faster.
_WORTH_COMPILING = 1 << 28
# Variables up to which information is kept in float64; beyond, float32 halves the memory.
_IN_DOUBLE = 1 << 13


def binned(
    X: Array, families: Sequence[Family], weights: Array | None = None, bins: int | None = None
) -> tuple[Array, list[int]]:
    """Codes 0, 1, ... for every column, and how many there are: Bernoulli and Categorical values as they are, others in bins.

    Bins hold about equally many rows, and are so few that a pair of columns has about five rows in each of its cells: two at
    the least, eight at the most. With `bins` there are so many, also of Categorical columns with more values.

    >>> from flatpc import Gaussian
    >>> codes, sizes = binned(np.arange(80.0)[:, None], [Gaussian()])
    >>> sizes, np.bincount(codes[:, 0].astype(int)).tolist()
    ([4], [20, 20, 20, 20])
    """
    codes, sizes = X, []
    for v, (family, borders) in enumerate(zip(families, bin_borders(X, families, weights, bins), strict=True)):
        if borders is None:
            sizes.append(family.n_categories or 0)
            continue
        seen = ~np.isnan(X[:, v])
        codes = X.copy() if codes is X else codes
        codes[seen, v] = np.searchsorted(borders, X[seen, v], side="right")
        sizes.append(len(borders) + 1)
    return codes, sizes


def bin_borders(
    X: Array, families: Sequence[Family], weights: Array | None = None, bins: int | None = None
) -> list[Array | None]:
    """The borders between the bins of each column; None for one that has codes of its own."""
    out: list[Array | None] = []
    n_bins = bins or min(max(int(np.sqrt((len(X) if weights is None else weights.sum()) / 5)), 2), 8)
    for v, family in enumerate(families):
        if family.is_free_table and (bins is None or (family.n_categories or 0) <= bins):
            out.append(None)
            continue
        seen = ~np.isnan(X[:, v])
        # Borders that coincide are one: a value that many rows share makes a wide bin.
        shares = np.arange(1, n_bins) / n_bins
        out.append(np.unique(quantiles(X[seen, v], shares, None if weights is None else weights[seen])))
    return out


def count_pairs(X: Any, rows: Array, families: Sequence[Family], weights: Array | None, bins: int | None = None) -> PairCounts:
    """The counts of all pairs, numbers in bins; of a source, of which `rows` are a sample, over all its rows if they fit."""
    codes, sizes = binned(rows, families, weights, bins)
    source = as_source(X)
    if source is None or sum(sizes) > MAX_TABLE:
        return PairCounts(codes, sizes, weights)
    coding = Coding(tuple(families), tuple(bin_borders(rows, families, bins=bins)))
    return PairCounts.of_table(pair_table(source, coding, sizes), np.asarray(sizes, np.int64))


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

    def __init__(self, X: Array, sizes: Sequence[int], weights: Array | None = None) -> None:
        """Count rows, each as often as its weight says; None counts each once."""
        self.sizes = np.asarray(sizes, dtype=np.int64)
        if len(self.sizes) > MAX_VARIABLES:
            raise TooLargeError(
                f"There are {len(self.sizes):,} variables, and a tree is learnt of {MAX_VARIABLES:,} at the most: the "
                f"information of all pairs would outgrow 1 GiB. Leave variables out, or choose a structure without a tree."
            )
        self.start = np.concatenate([[0], np.cumsum(self.sizes)])
        self._codes = JointCodes(X, self.sizes, weights)
        self._table: NDArray[Any] | None = None

    @classmethod
    def of_table(cls, table: NDArray[Any], sizes: NDArray[np.int64]) -> PairCounts:
        """Counts that are known already: `table[a, b]` for all values of all variables, one after the other."""
        new = object.__new__(cls)
        new.sizes, new.start, new._table = sizes, np.concatenate([[0], np.cumsum(sizes)]), table
        return new

    @property
    def table(self) -> NDArray[Any] | None:
        """`[S, S]`, counted when it is first asked for; None if there are more than `MAX_TABLE` values."""
        if self._table is None and self.start[-1] <= MAX_TABLE:
            self._table = self._full_table()
        return self._table

    @property
    def whole_table(self) -> NDArray[Any]:
        """The counts of all pairs, or an error if they are too many to be kept."""
        if self.table is None:
            raise TooLargeError(
                f"The variables have {self.start[-1]:,} values altogether, and a mixture of trees is learnt of {MAX_TABLE:,} at "
                f"the most: the counts of all pairs would outgrow 256 MiB. Merge rare values, or learn one tree."
            )
        return self.table

    @property
    def n_rows(self) -> float:
        """How many rows have the first variable."""
        return float(self.marginal(0).sum())

    def plus(self, other: PairCounts, factor: float) -> PairCounts:
        """These counts and `factor` times those of `other`."""
        table = self.whole_table
        return PairCounts.of_table(table + table.dtype.type(factor) * other.whole_table, self.sizes)

    def smoothed(self, smoothing: float) -> PairCounts:
        """The counts with that many further rows, spread evenly over the joint values of each pair."""
        per_value = 1 / np.repeat(self.sizes, self.sizes)
        even = np.outer(per_value, per_value)
        for first, last in zip(self.start[:-1], self.start[1:], strict=True):
            even[first:last, first:last] = np.diag(per_value[first:last])
        return PairCounts.of_table(self.whole_table + smoothing * even, self.sizes)

    def spread(self, kernels: Sequence[Array]) -> PairCounts:
        """The counts with each row spread over values near its own: `kernels[v][a, b]` is the share of value b that goes to a.

        >>> counts = PairCounts(np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 1.0]]), sizes=[2, 2])
        >>> counts.spread([np.eye(2), np.full((2, 2), 0.5)]).joint(0, 1)
        array([[0.5, 0.5],
               [1. , 1. ]])

        Columns of a kernel add up to 1, so that there are as many rows as before, and marginals of pairs stay consistent.
        """
        table, out = self.whole_table.astype(np.float64), np.empty(self.whole_table.shape)
        places = [slice(first, last) for first, last in zip(self.start[:-1], self.start[1:], strict=True)]
        half = np.empty_like(out)
        for here, kernel in zip(places, kernels, strict=True):
            half[here] = kernel @ table[here]
        for v, (here, kernel) in enumerate(zip(places, kernels, strict=True)):
            out[:, here] = half[:, here] @ kernel.T
            out[here, here] = np.diag(kernel @ self.marginal(v))
        return PairCounts.of_table(out, self.sizes)

    def joint(self, u: int, v: int, smoothing: float = 0.0) -> Array:
        """Counts `[values of u, values of v]` of the pair."""
        if self._table is None:
            counts = self._codes.joint(u, v)
        else:
            counts = self._table[self.start[u] : self.start[u + 1], self.start[v] : self.start[v + 1]].astype(np.float64)
        return counts + smoothing / counts.size

    def marginal(self, v: int, smoothing: float = 0.0) -> Array:
        """Counts `[values of v]`."""
        counts = self._codes.marginal(v) if self._table is None else self.joint(v, v).diagonal()
        return np.asarray(counts + smoothing / self.sizes[v])

    # ---- information ----------------------------------------------------------------------------------------------

    def mutual_information(self, smoothing: float = 0.0) -> NDArray[Any]:
        """`[n, n]` in nats, float32 if there are more than 8,192 variables; the diagonal is 0.

        With joint counts c, their marginals and their total T: `(Σ c log c - Σ cᵤ log cᵤ - Σ cᵥ log cᵥ) / T + log T`.
        """
        n = len(self.sizes)
        if self._table is None and (codes := self._codes.complete) is not None and self._many_values(codes.shape[1]):
            from flatpc.structures.trees.pair_kernel import pair_information

            return pair_information(codes, self.sizes, smoothing)
        out = np.zeros((n, n), np.float64 if n <= _IN_DOUBLE else np.float32)
        for rows, columns in self._blocks(self.sizes.max() if self.table is not None else _FEW_VALUES):
            shape = self.sizes[rows[0]], len(rows), self.sizes[columns[0]], len(columns)
            counts = self._codes.products(rows, columns) if self.table is None else self.table[self._places(rows, columns)]
            block = _information(counts.reshape(shape), smoothing)
            if rows[0] == columns[0]:
                # Both halves hold the same numbers up to rounding; ties between edges must not depend on which one is read.
                square = block[:, : len(rows)]
                square[:] = np.triu(square) + np.triu(square, 1).T
            if self._alike:
                # Slices are several times faster than lists of places.
                out[rows[0] : rows[-1] + 1, columns[0] :], out[columns[0] :, rows[0] : rows[-1] + 1] = block, block.T
            else:
                out[np.ix_(rows, columns)], out[np.ix_(columns, rows)] = block, block.T
        by_code = np.flatnonzero(self.sizes > _FEW_VALUES) if self.table is None else ()
        for u in map(int, by_code):
            for v in range(n):
                if self.sizes[v] <= _FEW_VALUES or u < v:
                    out[u, v] = out[v, u] = self._codes.information(u, v, smoothing)
        np.fill_diagonal(out, 0.0)
        return np.maximum(out, 0.0, out=out)

    def _many_values(self, n_rows: int) -> bool:
        """Whether native code, once compiled, counts faster than matrix products do."""
        n = len(self.sizes)
        return bool(n <= _IN_DOUBLE and self.start[-1] > _FEW_ON_AVERAGE * n and n * n * n_rows > _WORTH_COMPILING)

    @property
    def _alike(self) -> bool:
        """Whether all variables have equally many values."""
        return bool((self.sizes == self.sizes[0]).all())

    def _blocks(self, most: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """All pairs of variables with at most so many values; in a block, all rows have equally many, and all columns."""
        groups = [np.flatnonzero(self.sizes == size) for size in np.unique(self.sizes[self.sizes <= most])]
        for i, group in enumerate(groups):
            for j, other in enumerate(groups[i:], i):
                step = max(_BLOCK // int(self.sizes[group[0]] * self.sizes[other[0]] * len(other)), 1)
                for first in range(0, len(group), step):
                    yield group[first : first + step], other[first if i == j else 0 :]

    def _places(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where the table has the values of some variables: the first value of each of them, then the second, ..."""
        places = (self.start[some] + np.arange(self.sizes[some[0]])[:, None] for some in (rows, columns))
        return np.ix_(*(place.ravel() for place in places))  # type: ignore[return-value]

    def _full_table(self) -> NDArray[Any]:
        total = int(self.start[-1])
        table = np.zeros((total, total), dtype=self._codes.dtype)
        for rows, columns in self._blocks(_FEW_VALUES):
            counts = self._codes.products(rows, columns)
            table[self._places(rows, columns)] = counts
            table[self._places(columns, rows)] = counts.T
        for u in np.flatnonzero(self.sizes > _FEW_VALUES):
            for v in range(len(self.sizes)):
                if self.sizes[v] <= _FEW_VALUES or u <= v:
                    joint = self._codes.joint(int(u), v)
                    one, other = (slice(self.start[w], self.start[w + 1]) for w in (u, v))
                    table[one, other] = joint
                    table[other, one] = joint.T
        return table


def _information(counts: NDArray[Any], smoothing: float) -> Array:
    """`[U, V]`, from counts `[values, U, values, V]` of variables with equally many values."""
    joint = counts.astype(np.float64)
    joint += smoothing / (counts.shape[0] * counts.shape[2])
    left, right = joint.sum(axis=2), joint.sum(axis=0)
    pairs = left.sum(axis=0)
    both = xlogy(joint, joint, out=joint).sum(axis=2).sum(axis=0)
    one, other = xlogy(left, left, out=left).sum(axis=0), xlogy(right, right, out=right).sum(axis=1)
    # Without smoothing a pair may have no row in common; it is then taken for independent.
    seen = pairs > 0
    return np.where(seen, (both - one - other) / np.where(seen, pairs, 1) + np.log(np.where(seen, pairs, 1)), 0.0)


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
        kept: Any = np.float32 if len(X) * int(self.start[-1] - len(self.sizes) + 1) <= _KEPT else np.bool_
        columns: list[NDArray[Any]] = [np.ones((len(X), 1), kept)]
        place, reduced, sign = [], [], []
        at = 1
        for v, n in enumerate(self.sizes):
            columns.append((X[:, v, None] == np.arange(1, n)).astype(kept))
            others = list(range(at, at + n - 1))
            place += [self.start[v]] * n + list(range(self.start[v] + 1, self.start[v + 1]))
            reduced += [0, *others, *others]
            sign += [1.0] + [-1.0] * (n - 1) + [1.0] * (n - 1)
            at += n - 1
        self._columns = np.concatenate(columns, axis=1)
        self._full = csr_array((np.array(sign, np.float32), (place, reduced)), shape=(int(self.start[-1]), at))

    def __call__(self, weights: Array) -> PairCounts:
        """Counts of rows of which each counts as many times as its weight says."""
        n = self._columns.shape[1]
        product = np.zeros((n, n), np.float32)
        step = len(weights) if self._columns.dtype == np.float32 else max(_BLOCK // n, 256)
        for first in range(0, len(weights), step):
            columns = self._columns[first : first + step].astype(np.float32, copy=False)
            product += columns.T @ (columns * weights[first : first + step, None].astype(np.float32))
        return PairCounts.of_table(np.maximum(self._full @ (self._full @ product).T, 0), self.sizes)
