"""`sample_weight=` of a search: rows as often as their weight says, copies of a row always on the same side of a split.

The engine evaluates equal rows once, so that copies cost little time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc._options import wrong
from flatpc.circuit.row_weights import read_weights
from flatpc.errors import DataError

Array = NDArray[np.float64]

MOST_ROWS = 10_000_000
"""That weights may stand for."""


def repeated(rows: Array, sample_weight: Any, groups: Any) -> tuple[Array, Any]:
    """The rows, each as often as its weight says, and their groups: those given, or one for all copies of a row.

    >>> rows, groups = repeated(np.array([[0.0], [1.0], [2.0]]), [2, 0, 1], None)
    >>> rows.ravel().tolist(), groups.tolist()
    ([0.0, 0.0, 2.0], [0, 0, 2])
    """
    weights = read_weights(sample_weight, len(rows))
    if weights is None:
        return rows, groups
    if (weights != np.round(weights)).any() or weights.sum() > MOST_ROWS:
        raise wrong(
            "sample_weight", sample_weight,
            f"a search repeats rows, so give whole numbers with a sum of {MOST_ROWS:,} at most; fp.fit takes any weights.",
        )  # fmt: skip
    times = weights.astype(np.int64)
    labels = np.arange(len(rows)) if groups is None else np.asarray(groups)
    if labels.shape != (len(rows),):
        raise DataError(f"groups has the shape {labels.shape}; it holds one label for each of the {len(rows)} rows.")
    return np.repeat(rows, times, axis=0), np.repeat(labels, times)
