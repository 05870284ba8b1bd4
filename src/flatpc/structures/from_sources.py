"""What structures learn from a source of rows: families from the largest value of each column, pair counts as sums over blocks.

Numbers are sorted into bins by the quantiles of a sample. What looks at rows again and again, such as clusters of trees, looks at
the sample alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc._typing import Array
from flatpc.errors import ShapeError
from flatpc.families.base import Family
from flatpc.tables.reading import only_missing, read_matrix
from flatpc.tables.sources import Source


@dataclass(frozen=True)
class Coding:
    """How columns become codes: by themselves, or by the borders of bins."""

    families: tuple[Family, ...]
    borders: tuple[NDArray[Any] | None, ...]

    def codes(self, block: Any) -> Array:
        """`[N, D]`, NaN where missing."""
        rows, labels = read_matrix(block)
        out = rows.copy()
        for v, (family, borders) in enumerate(zip(self.families, self.borders, strict=True)):
            family.check(rows[:, v], labels[v])
            if borders is not None:
                seen = ~np.isnan(rows[:, v])
                out[seen, v] = np.searchsorted(borders, rows[seen, v], side="right")
        return out


def largest_values(source: Source) -> Array:
    """`[D]`: the largest value of each column; an error for a column without values."""
    largest = [one for one in source.map(_largest, None, None) if len(one)]
    if not largest:
        raise ShapeError("The source has no rows: all its parts are empty.")
    found = np.fmax.reduce(largest)
    for name, value in zip(source.names, found, strict=True):
        if np.isnan(value):
            raise only_missing(f"Column {name!r}")
    return np.asarray(found)


def pair_table(source: Source, coding: Coding, sizes: Sequence[int]) -> Array:
    """`[S, S]`: how often any two values of any two columns occur together."""
    (table,) = source.add_up(_count_pairs, (coding, tuple(sizes)), None)
    return table


def column_statistics(source: Source, families: Sequence[Family], fitted: Sequence[dict[str, Array]]) -> list[dict[str, Array]]:
    """The statistics of each column, each row counted once, at these parameters."""
    names = [tuple(sorted(_statistics(kind, now, np.zeros(1)))) for kind, now in zip(families, fitted, strict=True)]
    flat = iter(source.add_up(_column_statistics, tuple(families), (tuple(fitted), names)))
    return [{name: next(flat) for name in mine} for mine in names]


def _largest(blocks: Iterator[Any], fixed: None, shared: None) -> Array:
    """`[D]`; empty of a part without rows."""
    found = [np.fmax.reduce(read_matrix(block)[0], axis=0) for block in blocks]
    return np.fmax.reduce(found) if found else np.empty(0)


def _count_pairs(blocks: Iterator[Any], how: tuple[Coding, tuple[int, ...]], shared: None) -> tuple[Array]:
    from flatpc.structures.trees.mutual_information import PairCounts

    coding, sizes = how
    total = np.zeros((sum(sizes), sum(sizes)))
    for block in blocks:
        total += PairCounts(coding.codes(block), sizes).whole_table
    return (total,)


def _statistics(kind: Family, fitted: dict[str, Array], x: Array) -> dict[str, Array]:
    from flatpc.families import asking

    return asking.statistics(kind, fitted, x, np.ones((len(x), 1)))


def _column_statistics(blocks: Iterator[Any], families: tuple[Family, ...], now: tuple[Any, Any]) -> tuple[Array, ...]:
    fitted, names = now
    total: list[Any] = [0.0 for mine in names for _ in mine]
    for block in blocks:
        rows, labels = read_matrix(block)
        i = 0
        for v, kind in enumerate(families):
            kind.check(rows[:, v], labels[v])
            found = _statistics(kind, fitted[v], rows[:, v])
            for name in names[v]:
                total[i] = total[i] + found[name]
                i += 1
    return tuple(np.asarray(one) for one in total)
