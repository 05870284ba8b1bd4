"""Columns that are alike: pixels of images, items of a questionnaire. One of them may lack values that the others have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from flatpc._typing import Array, Ints
from flatpc.tables.reading import RawColumn
from flatpc.tables.suiting import FINITE, PER_VALUE, finite_is_likelier

FEWEST = 8
"""Columns that it takes."""


def common_values(columns: Sequence[RawColumn], weights: Array | None = None, groups: Ints | None = None) -> dict[str, range]:
    """By name, the whole numbers that columns which are alike have together, where each is best given a probability of its own.

    Columns of whole numbers are alike if half of them, and eight at least, have the same least and the same largest value, and
    the others stay between the two.

    >>> rng = np.random.default_rng(0)
    >>> pixels = [RawColumn(f"p{j}", "integer", rng.choice([0.0, 2.0, 15.0, 16.0], 200)) for j in range(8)]
    >>> corner = RawColumn("corner", "integer", rng.choice([0.0, 1.0], 200))
    >>> common_values([*pixels, corner])["corner"]
    range(0, 17)
    """
    whole = [column for column in columns if column.dtype in ("integer", "float") and _is_whole(column)]
    if len(whole) < FEWEST:
        return {}
    ends = Counter((int(np.nanmin(column.values)), int(np.nanmax(column.values))) for column in whole)
    (low, high), n = ends.most_common(1)[0]
    between = [column for column in whole if np.nanmin(column.values) >= low and np.nanmax(column.values) <= high]
    size = high - low + 1
    if n < max(FEWEST, len(between) / 2) or not 2 < size <= FINITE or len(whole[0].values) < PER_VALUE * size:
        return {}
    whole_range = [column for column in between if (np.nanmin(column.values), np.nanmax(column.values)) == (low, high)]
    votes = [finite_is_likelier(column.values, low, high, weights, groups) for column in whole_range[:32]]
    return {column.name: range(low, high + 1) for column in between} if np.mean(votes) > 0.5 else {}


def _is_whole(column: RawColumn) -> bool:
    known = column.values[~np.isnan(column.values)]
    return len(known) > 0 and not column.problem and bool(np.isfinite(known).all() and (known == np.floor(known)).all())
