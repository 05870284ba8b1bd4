"""Types, limits and small sums that several families use."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from flatpc._typing import Array
from flatpc.errors import ParameterError

Parameters = Mapping[str, Array]
Statistics = dict[str, Array]

SIMPLEX_TOLERANCE = 1e-6
LARGEST_EXPONENT = 600.0
"""Exponents of unconstrained maps stay below, so that even a run that diverges has finite parameters."""


def masked(x: Array) -> tuple[Array, NDArray[np.bool_]]:
    """X with NaN replaced by 0, and where it was observed."""
    seen = ~np.isnan(x)
    return np.where(seen, x, 0.0), seen


def check_probability(p: Array, where: str) -> None:
    """Raise unless all entries are probabilities."""
    if not ((p >= 0) & (p <= 1)).all():
        bad = p[~((p >= 0) & (p <= 1))].ravel()[0]
        raise ParameterError(f"{where}: p holds {bad:g}; probabilities lie between 0 and 1.")


def ratio(numerator: Array, denominator: Array, otherwise: Array) -> Array:
    """The quotient, and `otherwise` where the denominator is not positive."""
    out = np.array(otherwise, dtype=np.float64)
    np.divide(numerator, denominator, out=out, where=denominator > 0)
    return out


def count_and_sum(x: Array, flow: Array) -> Statistics:
    """`{"count", "sum"}`: flow, and flow times value, over the values that are not missing."""
    value, seen = masked(x)
    flow = np.where(seen[:, None], flow, 0.0)
    return {"count": flow.sum(axis=0), "sum": value @ flow}
