"""Equations of one unknown that maximum likelihood leaves, solved for all units at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import digamma, polygamma

from flatpc._typing import Array


def root(f: Callable[[Array], Array], low: Array, high: Array, steps: int = 80) -> Array:
    """Where f, which falls, crosses 0 between two positive numbers, by bisection of logarithms; an end if it doesn't cross."""
    a, b = np.log(low), np.log(high)
    for _ in range(steps):
        middle = (a + b) / 2
        above = f(np.exp(middle)) > 0
        a, b = np.where(above, middle, a), np.where(above, b, middle)
    return np.clip(np.exp((a + b) / 2), low, high)


def shape_of_gamma(gap: Array, low: float, high: float) -> Array:
    """The shape k with log k - digamma(k) = gap: that of gamma values whose log of the mean exceeds the mean of logs by `gap`.

    >>> float(shape_of_gamma(np.array([np.log(3.0) - digamma(3.0)]), 1e-6, 1e6)[0].round(9))
    3.0
    """
    gap = np.maximum(gap, 1e-300)
    shape = (3 - gap + np.sqrt((gap - 3) ** 2 + 24 * gap)) / (12 * gap)  # right to 2%
    shape = np.clip(shape, low, high)
    for _ in range(8):
        # Newton's in 1/k, which is nearly linear.
        f = np.log(shape) - digamma(shape) - gap
        slope = 1 / shape - polygamma(1, shape)
        shape = np.clip(1 / np.maximum(1 / shape + f / (shape**2 * slope), 1 / high), low, high)
    return np.asarray(shape)
