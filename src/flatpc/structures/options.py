"""Options that several structures share: smoothing, the family of each variable, the seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flatpc._options import seed_number, several, wrong
from flatpc._row_weights import read_weights
from flatpc._typing import Array
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.nodes import Node
from flatpc.errors import DataError
from flatpc.families.base import Family
from flatpc.families.registry import family as family_by_name
from flatpc.families.registry import kind_by_name
from flatpc.structures.from_sources import largest_values
from flatpc.tables.reading import only_missing, read_matrix
from flatpc.tables.sources import Source, as_source, is_source

FamilyLike = str | Family | Sequence[str | Family]

MAX_VALUES = 1 << 20
"""Of one variable of a structure that is learnt from rows."""


def read_columns(X: Any, family: FamilyLike) -> tuple[Array, list[Family]]:
    """The rows, NaN where missing, and the family of each column, with every value checked against it.

    A family given by name is fitted to the column: `"categorical"` takes as many values as the column shows, and at
    least two. Every column must have a value that is not missing. Of a source of rows these are a sample.
    """
    source = as_source(X)
    if source is not None:
        return _columns_of_source(source, family)
    rows, names = read_matrix(X)
    families = []
    for v, given in enumerate(_one_each(family, rows.shape[1])):
        column = rows[:, v]
        if np.isnan(column).all():
            raise only_missing(names[v])
        families.append(_sized(given, column) if isinstance(given, str) else family_by_name(given))
        families[-1].check(column, names[v])
        if (families[-1].n_categories or 0) > MAX_VALUES:
            raise DataError(
                f"{names[v]} has {families[-1].n_categories:,} values, from 0 to its largest, and {MAX_VALUES:,} is the most; "
                f"merge rare values, sort them into bins, or number them 0, 1, 2, ..."
            )
    return rows, families


def _columns_of_source(source: Source, family: FamilyLike) -> tuple[Array, list[Family]]:
    """A sample of the rows; the sizes of families are told by all rows."""
    given = _one_each(family, len(source.names))
    if any(isinstance(each, str) and kind_by_name(each).n_beyond_largest is not None for each in given):
        largest = largest_values(source)
        given = [_sized(each, largest[v : v + 1]) if isinstance(each, str) else each for v, each in enumerate(given)]
    return read_columns(source.sample(), given)


def read_weighted_columns(X: Any, family: FamilyLike, sample_weight: Any) -> tuple[Array, list[Family], Array | None]:
    """`read_columns`, without the rows of weight 0, and the weights of the others; None if each row counts once.

    How many values a column has is told by all its rows.
    """
    rows, families = read_columns(X, family)
    if sample_weight is not None and is_source(X):
        raise wrong("sample_weight", sample_weight, "it counts rows in memory; repeat rows of a source instead.")
    weights = read_weights(sample_weight, len(rows))
    if weights is None:
        return rows, families, None
    return rows[weights > 0], families, weights[weights > 0]


def resolve_families(family: FamilyLike, n_variables: int) -> list[Family]:
    """The family of each variable where there is no data to look at."""
    out = []
    for given in _one_each(family, n_variables):
        if isinstance(given, str) and kind_by_name(given).n_beyond_largest is not None:
            like = f"fp.{kind_by_name(given).__name__}(n=...)"
            raise wrong("family", given, f"this leaves open how many values a variable has; give {like} instead.")
        out.append(family_by_name(given))
    return out


def random_circuit(nodes: Sequence[Node], seed: int) -> Circuit:
    """The nodes with random parameters by seed."""
    seed = seed_number(seed)
    circuit = Circuit(nodes)
    # A new circuit has the parameters of seed 0; drawing millions of them again would double the time.
    return circuit if seed == 0 else circuit.randomize(seed)


def _one_each(family: FamilyLike, n_variables: int) -> list[str | Family]:
    if isinstance(family, str | Family):
        return [family] * n_variables
    families = several("family", family, "a family or its name, for all variables, or a list with one for each")
    if len(families) != n_variables:
        raise wrong(
            "family",
            family,
            f"there are {n_variables} variables but {len(families)} families; give one for each, or one for all.",
        )
    return list(families)


def _sized(name: str, column: Array) -> Family:
    beyond = kind_by_name(name).n_beyond_largest
    if beyond is None:
        return family_by_name(name)
    # A negative or fractional value gets a family all the same, whose check then names it.
    return family_by_name(name, n=max(int(np.nanmax(column)), 1) + beyond)
