"""A kernel density as a circuit: one component for each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flatpc._options import count, number
from flatpc._typing import Array
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.nodes import Input, Node, Product, Sum
from flatpc.families import Family, asking
from flatpc.families.base.arithmetic import Statistics
from flatpc.structures.factorized import fit_columns
from flatpc.structures.options import FamilyLike, read_weighted_columns


def kernels(
    X: Any, *, share: float = 0.1, family: FamilyLike = "gaussian", smoothing: float = 1.0, sample_weight: Any = None
) -> Circuit:
    """A kernel density: a mixture with one component for each row, in which columns are independent.

    >>> import flatpc as fp
    >>> circuit = fp.structures.kernels([[-1.0], [1.0]], share=0.25)
    >>> circuit.parameters[0]["mean"].tolist(), circuit.parameters[0]["variance"].tolist()
    ([-1.0, 1.0], [0.25, 0.25])

    The component of a row lies between the row itself and the distribution of all rows, column by column, so that it suits
    columns of any family: a Gaussian one has the row's value for a mean, and `share` of the column's variance; a category has the
    probability `1 - share` if it is the row's, and `share` times its frequency besides (`Family.kernels`).

    Parameters
    ----------
    X
        Rows. Where a value is missing (NaN), its component has the column's overall distribution.
    share
        Of the distribution of all rows in each component, above 0 and up to 1. Of Gaussian columns, the square of the bandwidth
        in units of the deviation.
    family
        A family or its name, for all columns, or a list with one for each. `"categorical"` takes as many values as the column
        shows.
    smoothing
        Number of additional observations of every column in the distribution of all rows, spread evenly over its values (families
        over finitely many).
    sample_weight
        How often each row counts: one number of 0 or more per row. None counts each once.

    Returns
    -------
    Circuit
        With as many components as there are rows that count.

    Raises
    ------
    OptionError
        For a share out of its range, or an unknown family.
    DataError
        For rows that the families don't allow, or a column without values.
    """
    share, smoothing = number("share", share, 0.0, 1.0, above=True), count("smoothing", smoothing)
    rows, families, counted = read_weighted_columns(X, family, sample_weight)
    weights = np.ones(len(rows)) if counted is None else counted
    spread = Spread.of(rows, families, weights, smoothing)
    return around_rows(rows[weights > 0], families, spread, share, weights[weights > 0])


@dataclass(frozen=True)
class Spread:
    """The distribution of all values of each column."""

    parameters: list[dict[str, Array]]
    """Of one unit that is fitted to them."""
    statistics: list[Statistics]
    """Of all values, whose weights add up to 1."""

    @staticmethod
    def of(rows: Array, families: Sequence[Family], weights: Array, smoothing: float) -> Spread:
        """From rows that count as often as `weights` say."""
        parameters = fit_columns(rows, families, weights, smoothing)
        statistics = []
        for v, kind in enumerate(families):
            seen = weights * ~np.isnan(rows[:, v])
            statistics.append(asking.statistics(kind, parameters[v], rows[:, v], (seen / seen.sum())[:, None]))
        return Spread(parameters, statistics)


def around_rows(rows: Array, families: Sequence[Family], spread: Spread, share: float, weights: Array) -> Circuit:
    """Kernels around rows, between them and the columns' spread."""
    nodes: list[Node] = []
    parameters: dict[int, Any] = {}
    for v, kind in enumerate(families):
        parameters[v] = kind.kernels(spread.parameters[v], spread.statistics[v], rows[:, v], share)
        nodes.append(Input(v, kind, len(rows)))
    if len(nodes) > 1:
        nodes.append(Product(tuple(range(len(nodes)))))
    if len(rows) > 1:
        nodes.append(Sum((len(nodes) - 1,)))
        parameters[len(nodes) - 1] = (weights / weights.sum())[None]
    return Circuit(nodes, parameters)
