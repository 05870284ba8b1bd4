"""Row weights, `sample_weight=`: how often each row counts. A row of weight 2 is two rows; one of weight 0 isn't there.

What a user gave is read here, and here are averages with weights, which without them are NumPy's own. Whole numbers give what
repeated values do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flatpc._options import wrong
from flatpc._typing import Array, Ints

SMALLEST, LARGEST = 1e-12, 1e12
"""Weights that flows in float32 have the numbers for."""


def read_weights(given: Any, n_rows: int, option: str = "sample_weight") -> Array | None:
    """`[N]` float64 from what a user gave for N rows; None stays None, for rows that each count once.

    >>> read_weights([1.0, 1e-40, 2.0], 3).tolist()
    [1.0, 0.0, 2.0]
    """
    if given is None:
        return None
    give = f"give one number of 0 or more for each of the {n_rows} rows, or None"
    if isinstance(given, str | bytes | dict | set | frozenset | type):
        raise wrong(option, given, f"{give}.")
    try:
        found = np.asarray(given)
        if found.ndim != 1:
            raise TypeError
        if found.dtype.kind not in "iuf" and not (found.dtype.kind == "O" and len(found)):
            raise TypeError
        weights = np.array(found, np.float64)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        raise wrong(option, given, f"{give}.") from None
    if len(weights) != n_rows:
        raise wrong(option, given, f"it has {len(weights)} numbers; {give}.")
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        raise wrong(option, given, f"its number {first} is {weights[first]:g}; {give}.")
    # What is so small beside others, as importance weights may be, is nothing.
    weights[weights < SMALLEST * weights.max(initial=0.0)] = 0.0
    beyond = (weights > 0) & ((weights < SMALLEST) | (weights > LARGEST))
    if beyond.any():
        first = int(np.flatnonzero(beyond)[0])
        allowed = f"those above 0 are from {SMALLEST:g} to {LARGEST:g}, so multiply all by one number"
        raise wrong(option, given, f"its number {first} is {weights[first]:g}; {allowed}.")
    if not weights.any():
        raise wrong(option, given, "all weights are zero; at least one row must count.")
    return weights


def mean(x: Array, weights: Array | None = None) -> float:
    """The mean of numbers."""
    return float(np.mean(x)) if weights is None else float(np.average(x, weights=weights))


def deviation(x: Array, weights: Array | None = None) -> float:
    """The standard deviation of numbers."""
    if weights is None:
        return float(np.std(x))
    return float(np.sqrt(np.average((x - np.average(x, weights=weights)) ** 2, weights=weights)))


def median(x: Array, weights: Array | None = None) -> float:
    """The number with half of the weight on either side; the middle of two where both are.

    >>> median(np.array([1.0, 2.0, 7.0]), np.array([1.0, 1.0, 2.0]))
    4.5
    """
    if weights is None:
        return float(np.median(x))
    order = np.argsort(x, kind="stable")
    up_to = np.cumsum(weights[order])
    places = [np.searchsorted(up_to, up_to[-1] / 2, side=side) for side in ("left", "right")]
    return float(np.mean(x[order][np.minimum(places, len(x) - 1)]))


def quantiles(x: Array, shares: Array, weights: Array | None = None) -> Array:
    """The numbers at these shares of the weight, the higher of two neighbours.

    >>> quantiles(np.array([1.0, 2.0, 7.0]), np.array([0.5]), np.array([0.1, 0.1, 0.3])).tolist()
    [7.0]
    """
    if weights is None:
        return np.asarray(np.quantile(x, shares, method="higher"))
    order = np.argsort(x, kind="stable")
    up_to = np.cumsum(weights[order])
    whole = (weights == np.round(weights)).all()
    place = np.ceil((up_to[-1] - 1) * shares) if whole else up_to[-1] * shares
    return np.asarray(x[order][np.minimum(np.searchsorted(up_to, place, side="right"), len(x) - 1)])


def interpolated_quantiles(x: Array, shares: Array, weights: Array | None = None) -> Array:
    """The numbers at these shares of the weight, between two neighbours in proportion.

    >>> interpolated_quantiles(np.array([1.0, 2.0, 7.0]), np.array([0.5]), np.array([1.0, 1.0, 2.0])).tolist()
    [4.5]
    """
    if weights is None:
        return np.asarray(np.quantile(x, shares))
    order = np.argsort(x, kind="stable")
    up_to = np.cumsum(weights[order])
    place = np.maximum(up_to[-1] - 1, 0.0) * shares
    below = np.floor(place)
    low, high = (x[order][np.minimum(np.searchsorted(up_to, below + k, side="right"), len(x) - 1)] for k in (0, 1))
    return np.asarray(low + (place - below) * (high - low))


def rows_by_weight(weights: Array, most: int) -> Ints:
    """Numbers of up to about `most` rows, each as often as its weight says: what every k-th one of repeated rows would be.

    >>> rows_by_weight(np.array([2.0, 1.0, 3.0]), 100).tolist(), rows_by_weight(np.array([2.0, 1.0, 3.0]), 3).tolist()
    ([0, 0, 1, 2, 2, 2], [0, 1, 2])
    """
    up_to = np.cumsum(weights)
    # Rows that count less than once on average are as many as they are, not as their weights add up to.
    step = max(np.ceil(up_to[-1] / most), 1.0) if up_to[-1] >= len(weights) else up_to[-1] / min(len(weights), most)
    places = np.arange(0.0, up_to[-1] * (1 - 1e-12), step)
    return np.minimum(np.searchsorted(up_to, places, side="right"), len(weights) - 1)


def weighted_sum(of_rows: Array, rows: Ints, weights: Array | None) -> float:
    """The sum over some rows of one number each, each as often as it counts."""
    return float(of_rows.sum() if weights is None else of_rows @ weights[rows])
