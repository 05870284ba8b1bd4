"""Whole numbers that go along with other numbers, as months with what was paid in them: rounded ones, rather than counts.

A count is a variable of its own, and models of numbers that depend on one another leave it out. What a column gains by joining
them is at least what the one that it goes along with tells of it: -log(1 - r²)/2 nats per row, with r the correlation of their
ranks. What it may lose is what a family of counts knows better than a rounded Gaussian.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.stats import rankdata

from flatpc._typing import Array
from flatpc.tables.reading import RawColumn
from flatpc.tables.recognition import Kind, recognize_numbers
from flatpc.tables.suiting import loss_as_rounded
from flatpc.tables.whole_numbers import MAX_CATEGORIES

FEWEST_VALUES = 20
"""Different ones of a column that starts at 0 or 1 and may be rounded numbers."""
FEWEST_ROWS = 50
"""By which a correlation is told."""
MOST_ROWS = 5000
"""By which it is looked for."""
MARGIN = 0.25
"""Nats per row by which a column has to gain more than it loses."""
_NONE = ("", "")


def rounded_numbers(columns: Sequence[RawColumn], recognised: Mapping[str, tuple[Kind, str]] | None = None) -> dict[str, str]:
    """Columns that would be counts, but go along with numbers: their names, and those of the others.

    `recognised` are their kinds; without it they are found.

    >>> rng = np.random.default_rng(0)
    >>> months = rng.integers(0, 73, 300).astype(float)
    >>> paid = RawColumn("paid", "float", months * rng.normal(20, 2, 300))
    >>> rounded_numbers([RawColumn("months", "integer", months), paid])
    {'months': 'paid'}
    """
    kinds = recognize_numbers(columns) if recognised is None else recognised
    counts = [column for column in columns if kinds.get(column.name, _NONE)[0] == "count" and _is_wide(column.values)]
    others = [column for column in columns if kinds.get(column.name, _NONE)[0] == "continuous"]
    out = {}
    for count in counts:
        among = [column for column in (*others, *counts) if column is not count]
        worth = [_worth(count.values, column.values) for column in among]
        best = int(np.argmax(worth)) if worth else 0
        if worth and worth[best] > MARGIN and worth[best] > MARGIN + loss_as_rounded(count.values):
            out[count.name] = among[best].name
    return out


def _is_wide(x: Array) -> bool:
    distinct = np.unique(x[~np.isnan(x)])
    # By their range, those that start beyond 1 are no counts.
    return len(distinct) >= (FEWEST_VALUES if distinct[0] <= 1 else MAX_CATEGORIES + 1)


def _worth(x: Array, y: Array) -> float:
    """Nats per row that either tells of the other, by the correlation of ranks."""
    both = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
    some = both[:: max(1, len(both) // MOST_ROWS)]
    if len(some) < FEWEST_ROWS or np.ptp(y[some]) == 0 or np.ptp(x[some]) == 0:
        return 0.0
    r = float(np.corrcoef(rankdata(x[some]), rankdata(y[some]))[0, 1])
    return -0.5 * float(np.log1p(-min(r**2, 1 - 1e-12)))
