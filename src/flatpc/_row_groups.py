"""Groups of rows, `groups=`: rows of one group belong together, and never judge what was learnt from others of it.

What a user gave is read here, and here are parts of whole groups and what groups tell.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc._row_weights import deviation
from flatpc._typing import Array, Ints
from flatpc.errors import DataError


def read_groups(given: Any, n_rows: int, kept: NDArray[np.bool_] | None = None) -> Ints | None:
    """Groups of the rows that are kept as numbers 0, 1, 2, ... from labels of all N rows; None stays None.

    >>> read_groups(["b", "a", "b"], 3).tolist()
    [1, 0, 1]
    """
    if given is None:
        return None
    try:
        labels = np.asarray(given)
        if labels.shape != (n_rows,):
            raise DataError(f"groups has the shape {labels.shape}; it holds one label for each of the {n_rows} rows.")
        rows = np.arange(n_rows) if kept is None else np.flatnonzero(kept)
        # NaN, in whatever form, is the one label that isn't itself.
        without = rows[np.asarray(labels[rows] != labels[rows], dtype=np.bool_)]
        if len(without):
            raise DataError(f"groups has no label for row {without[0]}; give a row that goes with no other a label of its own.")
        found = np.unique(labels[rows], return_inverse=True)[1]
    except (TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError("groups holds labels that can't be compared; give one number or one text for each row.") from None
    return found.astype(np.int64)


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
