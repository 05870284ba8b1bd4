"""A family's parameters and statistics as rows of numbers `[rows, K]`, the form in which engines keep those of all inputs.

A table `[n, K]` comes first where densities are looked up; where the table is not what is learnt, the parameters follow it.
Statistics have as many rows, so that both lie at the same place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from flatpc._typing import Array
from flatpc.families.base import Family, Parameters, Statistics

Shapes = Mapping[str, tuple[int, ...]]


class Rows(NamedTuple):
    """What the rows of a family hold."""

    n_rows: int
    table: int
    """Rows of the table, which come first."""
    free: bool
    """Whether the table stands for the parameters."""
    kept: bool
    """Whether the parameters themselves are kept: what is not learnt stays in the circuit."""


def rows_of(family: Family) -> Rows:
    """What an input of this family takes, worked out once: circuits have thousands of inputs."""
    try:
        return _rows_of_hashable(family)
    except TypeError:  # an option without a hash
        return _rows_of(family)


def _rows_of(family: Family) -> Rows:
    table, free = (family.n_categories or 0) if family.is_table else 0, family.is_free_table
    kept = not family.is_table or (family.learnable and not free)
    parameters = _size(family.parameter_shapes(1)) if kept else 0
    return Rows(max(table + parameters, _size(family.statistic_shapes(1)), 1), table, free, kept)


_rows_of_hashable = lru_cache(maxsize=1024)(_rows_of)


def n_rows(family: Family) -> int:
    """How many rows an input of this family takes."""
    return rows_of(family).n_rows


def write(family: Family, parameters: Parameters, to: Array) -> None:
    """Parameters to a block `[n_rows, K]`."""
    rows = rows_of(family)
    if rows.table:
        to[: rows.table] = family.table(parameters).T
    if rows.kept:
        _write(to[rows.table :], parameters, family.parameter_shapes(to.shape[1]))


def unpack(family: Family, block: Array) -> dict[str, Array]:
    """The parameters of a packed block; only of a family that is `learnable` or has no table."""
    rows = rows_of(family)
    if rows.free:
        return family.from_table(block[: rows.table].T)
    return _read(block[rows.table :], family.parameter_shapes(block.shape[1]))


def pack_free(family: Family, free: Parameters, width: int) -> Array:
    """`[n_rows, K]`: numbers without constraints, at the rows of the parameters that they stand for."""
    out = np.zeros((n_rows(family), width))
    _write(out[rows_of(family).table :], free, family.parameter_shapes(width))
    return out


def unpack_free(family: Family, block: Array) -> dict[str, Array]:
    """The same, back again."""
    return _read(block[rows_of(family).table :], family.parameter_shapes(block.shape[1]))


def pack_statistics(family: Family, statistics: Statistics, width: int) -> Array:
    """`[n_rows, K]`."""
    out = np.zeros((n_rows(family), width))
    _write(out, statistics, family.statistic_shapes(width))
    return out


def unpack_statistics(family: Family, block: Array) -> Statistics:
    """The same, back again."""
    return _read(block, family.statistic_shapes(block.shape[1]))


def _size(shapes: Shapes) -> int:
    """Numbers for one unit."""
    return sum(math.prod(shape) for shape in shapes.values())


def _write(block: Array, arrays: Mapping[str, Array], shapes: Shapes) -> None:
    start = 0
    for name, shape in shapes.items():
        size = math.prod(shape[1:])
        block[start : start + size] = np.reshape(arrays[name], (shape[0], size)).T
        start += size


def _read(block: Array, shapes: Shapes) -> dict[str, Array]:
    out, start = {}, 0
    for name, shape in shapes.items():
        size = math.prod(shape[1:])
        out[name] = np.ascontiguousarray(block[start : start + size].T).reshape(shape)
        start += size
    return out
