"""Rows drawn from a circuit as a table may have them: within the bounds of columns, and at their resolution."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc._typing import Array
from flatpc.circuit.circuit import Circuit
from flatpc.queries.events import sample_given_events
from flatpc.tables.column import Column
from flatpc.tables.columns import Columns

TRIES = 100
"""How often rows outside of bounds are drawn again; what is left then is put on the bound."""


def draw(
    circuit: Circuit, columns: Columns, n: int, seed: int, rows: Array | None = None, events: Mapping[int, Any] | None = None
) -> Array:
    """`[n, D]`, or `[n · N, D]` given N rows, one after the other; drawn again until all are within the columns' bounds.

    That is a draw from the circuit given that all values are within bounds, which all of the table's are. A column that has one
    value alone takes it.
    """
    low, high = (np.array(ends) for ends in zip(*(column.traits.bounds for column in columns.columns), strict=True))
    known = np.zeros((1, len(low)), bool) if rows is None else ~np.isnan(rows)
    events = {j: _within((low[j], high[j]), event) for j, event in (events or {}).items()}
    if events:
        known = known.copy()
        known[:, list(events)] = True

    def some(which: NDArray[np.int64] | None, seed: int) -> Array:
        if rows is None and not events:
            return np.asarray(circuit.sample(n if which is None else len(which), seed=seed))
        if rows is None:
            return sample_given_events(circuit, n if which is None else len(which), events=events, seed=seed)
        asked = np.tile(rows, (n, 1)) if which is None else np.tile(rows, (n, 1))[which]
        return np.asarray(sample_given_events(circuit, 1, events=events, given=asked, seed=seed)[0])

    found = some(None, seed)
    free = ~np.broadcast_to(known, (len(known), len(low)))
    free = np.tile(free, (len(found) // len(free), 1))
    _again(found, lambda which, again: some(which, seed + 7919 * again), (low, high), free)
    out = settle(columns, found, free)
    for j, event in events.items():
        ranges = [each for each in (event if isinstance(event, list) else [event]) if isinstance(each, tuple)]
        if ranges:
            out[:, j] = _rounded_within(columns.columns[j], found[:, j], ranges)
    return out


def _within(bounds: tuple[float, float], event: Any) -> Any:
    """Ranges without what lies beyond the column's bounds, if anything is left of them; other events as they are."""
    if isinstance(event, list):
        return [_within(bounds, each) for each in event]
    if not isinstance(event, tuple):
        return event
    low, high = max(event[0], bounds[0]), min(event[1], bounds[1])
    return (low, high) if low < high else event


def _rounded_within(column: Column, x: Array, ranges: Sequence[tuple[float, float]]) -> Array:
    """Numbers rounded to the column's resolution, to a neighbour where that would leave the ranges; as they are without one."""
    step = column.traits.resolution
    out = x
    for near in (x - step, x + step, x):
        rounded = column.rounded(near)
        inside = np.logical_or.reduce([(low <= rounded) & (rounded <= high) for low, high in ranges])
        out = np.where(inside, rounded, out)
    return out


def _again(
    found: Array, some: Callable[[NDArray[np.int64], int], Array], bounds: tuple[Array, Array], free: NDArray[np.bool_]
) -> None:
    low, high = bounds
    drawn = free & (low < high)
    for again in range(1, TRIES + 1):
        bad = np.flatnonzero((drawn & ((found < low) | (found > high))).any(axis=1))
        if len(bad) == 0:
            return
        found[bad] = some(bad, again)
    np.copyto(found, np.clip(found, low, high), where=free)


def settle(columns: Columns, rows: Array, free: NDArray[np.bool_]) -> Array:
    """Numbers that were computed, rounded to the resolution of their columns and kept within bounds."""
    out = rows.copy()
    for j, column in enumerate(columns.columns):
        if not column.is_discrete:
            out[free[:, j], j] = column.rounded(rows[free[:, j], j])
    return out
