"""Drawn values that a table could not have: of another type or category, beyond a column's bounds or between its steps."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc._typing import Array
from flatpc.estimator.density import CircuitDensity
from flatpc.tables.column import Column

NEAR = 1e-4
"""Of a step: how far a number that is written with few digits may be from it."""


def values_outside(density: CircuitDensity, frame: Any, drawn: Any) -> dict[str, int]:
    """How many values of `drawn` are outside of their column, by the names of columns that have any.

    Parameters
    ----------
    density
        What drew them.
    frame
        Rows that it was learnt from, a polars frame: they say which type a column has.
    drawn
        A frame.
    """
    retyped = {name: drawn.height for name, kind in frame.schema.items() if drawn.schema.get(name) != kind}
    codes = density.columns_.encode(drawn, unseen="raise")
    counts = {column.name: int(_outside(column, codes[:, j]).sum()) for j, column in enumerate(density.columns_.columns)}
    return {name: n for name, n in counts.items() if n} | retyped


def _outside(column: Column, x: Array) -> NDArray[np.bool_]:
    low, high = column.traits.bounds
    beyond = np.isnan(x) | (x < low) | (x > high)
    if not column.traits.resolution or column.is_discrete:
        return np.asarray(beyond)
    apart = np.isin(x, column.traits.atoms) | np.isin(x, (low, high))
    return np.asarray(beyond | ~(apart | on_steps(column, x)))


def on_steps(column: Column, x: Array) -> NDArray[np.bool_]:
    """Which numbers are multiples of the column's resolution, from its origin."""
    steps = (x - column.traits.origin) / column.traits.resolution
    return np.asarray(abs(steps - np.round(steps)) < NEAR)
