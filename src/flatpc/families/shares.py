"""Rows of probabilities that add up to 1, as several families have among their parameters: checked, learnt, unconstrained."""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

from flatpc._typing import Array
from flatpc.errors import ParameterError
from flatpc.families.base import SIMPLEX_TOLERANCE, check_probability, ratio


def check_shares(shares: Array, where: str, what: str = "shares") -> None:
    """Raise `ParameterError` unless the row of each unit is on the simplex.

    >>> check_shares(np.array([[0.5, 0.5]]), "Node 0")
    """
    check_probability(shares, where)
    total = shares.sum(axis=1)
    if (abs(total - 1) > SIMPLEX_TOLERANCE).any():
        unit = int(np.argmax(abs(total - 1)))
        raise ParameterError(f"{where}: the {what} of unit {unit} sum to {total[unit]:.9g}, not 1.")


def shares_of(counts: Array, old: Array, pseudocount: float = 0.0) -> Array:
    """Shares of counts, `pseudocount` of them spread evenly; the old ones where nothing was counted.

    >>> shares_of(np.array([[3.0, 1.0], [0.0, 0.0]]), np.array([[0.5, 0.5], [0.1, 0.9]])).tolist()
    [[0.75, 0.25], [0.1, 0.9]]
    """
    counts = counts + pseudocount / counts.shape[1]
    return ratio(counts, np.broadcast_to(counts.sum(axis=1, keepdims=True), counts.shape), old)


def between(old: Array, new: Array, step: float | Array) -> Array:
    """Averages, by one step for all units or one for each."""
    part = np.reshape(step, (*np.shape(step), 1)) if np.ndim(step) else step
    return np.asarray((1 - part) * old + part * new)


def logs_of(shares: Array) -> Array:
    """Unconstrained numbers: logarithms."""
    return np.asarray(np.log(np.maximum(shares, 1e-300)))


def shares_from(logs: Array) -> Array:
    """Their softmax."""
    return np.asarray(softmax(logs, axis=1))


def pull(counts: Array, shares: Array) -> Array:
    """The gradient in unconstrained numbers: what was counted less what was to be expected."""
    return np.asarray(counts - shares * counts.sum(axis=1, keepdims=True))
