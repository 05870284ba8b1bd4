"""Options that several structures share: smoothing, the family of each variable, the seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc._options import seed_number, several, wrong
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.nodes import Node
from flatpc.circuit.row_weights import read_weights
from flatpc.errors import DataError, MissingValueError
from flatpc.families.base import Family
from flatpc.families.binomial import Binomial
from flatpc.families.categorical import Categorical
from flatpc.families.indicator import Indicator
from flatpc.families.registry import family as family_by_name
from flatpc.tables.reading import read_matrix

Array = NDArray[np.float64]
FamilyLike = str | Family | Sequence[str | Family]

MAX_VALUES = 1 << 20
"""Of one variable of a structure that is learnt from rows."""

# These need a number of values or trials, which only data can tell when a name is all that is given.
_SIZED = {"categorical": Categorical, "binomial": Binomial, "indicator": Indicator}


def read_columns(X: Any, family: FamilyLike) -> tuple[Array, list[Family]]:
    """The rows, NaN where missing, and the family of each column, with every value checked against it.

    A family given by name is fitted to the column: `"categorical"` takes as many values as the column shows, and at
    least two. Every column must have a value that is not missing.
    """
    rows, names = read_matrix(X)
    families = []
    for v, given in enumerate(_one_each(family, rows.shape[1])):
        column = rows[:, v]
        if np.isnan(column).all():
            raise MissingValueError(f"{names[v]} has only missing values, so nothing can be learnt about it; drop the column.")
        families.append(_sized(given, column) if isinstance(given, str) else family_by_name(given))
        families[-1].check(column, names[v])
        if (families[-1].n_categories or 0) > MAX_VALUES:
            raise DataError(
                f"{names[v]} has {families[-1].n_categories:,} values, from 0 to its largest, and {MAX_VALUES:,} is the most; "
                f"merge rare values, sort them into bins, or number them 0, 1, 2, ..."
            )
    return rows, families


def read_weighted_columns(X: Any, family: FamilyLike, sample_weight: Any) -> tuple[Array, list[Family], Array | None]:
    """`read_columns`, without the rows of weight 0, and the weights of the others; None if each row counts once.

    How many values a column has is told by all its rows.
    """
    rows, families = read_columns(X, family)
    weights = read_weights(sample_weight, len(rows))
    if weights is None:
        return rows, families, None
    return rows[weights > 0], families, weights[weights > 0]


def resolve_families(family: FamilyLike, n_variables: int) -> list[Family]:
    """The family of each variable where there is no data to look at."""
    out = []
    for given in _one_each(family, n_variables):
        if isinstance(given, str) and given in _SIZED:
            kind = _SIZED[given].__name__
            raise wrong("family", given, f"this leaves open how many values a variable has; give fp.{kind}(n=...) instead.")
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
    if name not in _SIZED:
        return family_by_name(name)
    # A negative or fractional value gets a family all the same, whose check then names it.
    largest = max(int(np.nanmax(column)), 1)
    return family_by_name(name, n=largest if name == "binomial" else largest + 1)
