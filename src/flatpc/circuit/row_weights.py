"""`sample_weight=`: how often each row counts. A row of weight 2 is two rows; one of weight 0 isn't there."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc._options import wrong

Array = NDArray[np.float64]

SMALLEST, LARGEST = 1e-12, 1e12
"""Weights that flows in float32 have the numbers for."""


def read_weights(given: Any, n_rows: int) -> Array | None:
    """`[N]` float64 from what a user gave for N rows; None stays None, for rows that each count once."""
    if given is None:
        return None
    give = f"give one number of 0 or more for each of the {n_rows} rows, or None"
    if isinstance(given, str | bytes | dict | set | frozenset | type):
        raise wrong("sample_weight", given, f"{give}.")
    try:
        found = np.asarray(given)
        if found.ndim != 1:
            raise TypeError
        if found.dtype.kind not in "iuf" and not (found.dtype.kind == "O" and len(found)):
            raise TypeError
        weights = np.array(found, np.float64)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        raise wrong("sample_weight", given, f"{give}.") from None
    if len(weights) != n_rows:
        raise wrong("sample_weight", given, f"it has {len(weights)} numbers; {give}.")
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        raise wrong("sample_weight", given, f"its number {first} is {weights[first]:g}; {give}.")
    beyond = (weights > 0) & ((weights < SMALLEST) | (weights > LARGEST))
    if beyond.any():
        first = int(np.flatnonzero(beyond)[0])
        allowed = f"those above 0 are from {SMALLEST:g} to {LARGEST:g}, so multiply all by one number"
        raise wrong("sample_weight", given, f"its number {first} is {weights[first]:g}; {allowed}.")
    if not weights.any():
        raise wrong("sample_weight", given, "all weights are zero; at least one row must count.")
    return weights
