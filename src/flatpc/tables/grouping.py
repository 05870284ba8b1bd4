"""Groups of rows, `groups=`: rows of one group belong together, and never judge what was learnt from others of it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

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
        found = np.unique(labels if kept is None else labels[kept], return_inverse=True)[1]
    except (TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError("groups holds labels that can't be compared; give one number or one text for each row.") from None
    return found.astype(np.int64)


def halves(rows: Ints, groups: Ints | None, most: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Two parts of up to `most` of the rows in random order; those of a group are in the same one.

    >>> one, other = halves(np.arange(6), np.array([0, 0, 0, 1, 1, 1]), 6, np.random.default_rng(0))
    >>> sorted([one.tolist(), other.tolist()])
    [[0, 1, 2], [3, 4, 5]]
    """
    if groups is None:
        order = rng.permutation(rows)[:most]
        first, second = np.array_split(order, 2)
        return first, second
    place = rng.permutation(int(groups.max()) + 1)[groups[rows]]
    by = np.argsort(place, kind="stable")[:most]
    starts = np.flatnonzero(np.diff(place[by], prepend=-1))
    cut = int(starts[abs(starts - len(by) / 2).argmin()])
    return rows[by[:cut]], rows[by[cut:]]


def mean_and_error(of_rows: Array, groups: Ints | None = None) -> tuple[float, float]:
    """The mean of one number per row, and its standard error; groups tell as much as one row each would.

    >>> mean_and_error(np.array([1.0, 3.0])), mean_and_error(np.array([1.0, 1.0, 3.0, 3.0]), np.array([0, 0, 1, 1]))
    ((2.0, 1.0), (2.0, 1.0))
    """
    mean = float(of_rows.mean())
    label = np.arange(len(of_rows)) if groups is None else np.unique(groups, return_inverse=True)[1]
    left = np.bincount(label, of_rows - mean)
    n = len(left)
    return mean, float(np.sqrt((left**2).sum() * n / max(n - 1, 1e-9)) / len(of_rows))
