"""Independent variables, each with the distribution that fits its column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flatpc._options import count
from flatpc._typing import Array
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.nodes import Input, Node, Product
from flatpc.families import Family, asking
from flatpc.families.base.arithmetic import Statistics
from flatpc.structures.from_sources import column_statistics
from flatpc.structures.options import FamilyLike, read_weighted_columns
from flatpc.tables.sources import as_source


def factorized(X: Any, *, family: FamilyLike = "bernoulli", smoothing: float = 1.0, sample_weight: Any = None) -> Circuit:
    """Independent variables: p(x) = Π_v p_v(x_v), fitted to the rows.

    >>> import flatpc as fp
    >>> circuit = fp.structures.factorized([[0, 1], [1, 1]], smoothing=0.0)
    >>> circuit.parameters[0]["p"].tolist(), circuit.parameters[1]["p"].tolist()
    ([0.5], [1.0])

    Parameters
    ----------
    X
        Rows, or a source of them. Missing values (NaN) are left out of their column's fit.
    family
        A family or its name, for all variables, or a list with one for each. `"categorical"` takes as many values as
        the column shows.
    smoothing
        Number of additional observations of every variable, spread evenly over its values (Bernoulli, Categorical,
        Binomial). Other families are fitted by maximum likelihood.
    sample_weight
        How often each row counts: one number of 0 or more per row. None counts each once.

    Returns
    -------
    Circuit
        One input per variable and their product.

    Raises
    ------
    OptionError
        For an unknown family or a negative smoothing.
    DataError
        For rows that the families don't allow, or a column without values.
    """
    smoothing = count("smoothing", smoothing)
    rows, families, weights = read_weighted_columns(X, family, sample_weight)
    source = as_source(X)
    if source is None:
        fitted = fit_columns(rows, families, np.ones(len(rows)) if weights is None else weights, smoothing)
    else:
        fitted = _fitted(families, smoothing, lambda found: column_statistics(source, families, found))
    return independent(families, fitted)


def independent(families: Sequence[Family], fitted: Sequence[dict[str, Array]]) -> Circuit:
    """Independent variables with these parameters."""
    nodes: list[Node] = [Input(v, kind) for v, kind in enumerate(families)]
    if len(nodes) > 1:
        nodes.append(Product(tuple(range(len(nodes)))))
    return Circuit(nodes, dict(enumerate(fitted)))


def fit_columns(rows: Array, families: Sequence[Family], weights: Array, smoothing: float) -> list[dict[str, Array]]:
    """Parameters of one unit for each column, fitted to its values."""
    return _fitted(
        families,
        smoothing,
        lambda fitted: [asking.statistics(kind, fitted[v], rows[:, v], weights[:, None]) for v, kind in enumerate(families)],
    )


def _fitted(
    families: Sequence[Family], smoothing: float, statistics: Callable[[list[dict[str, Array]]], Sequence[Statistics]]
) -> list[dict[str, Array]]:
    fitted = [kind.initialize(1, np.random.default_rng(0), "uniform") for kind in families]
    # The second round measures deviations from the mean that the first one found, so that large means don't cancel.
    for _ in range(2):
        found = statistics(fitted)
        fitted = [kind.update(fitted[v], found[v], smoothing) for v, kind in enumerate(families)]
    return fitted
