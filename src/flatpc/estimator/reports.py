"""What a fitted estimator says of itself: free parameters, sharpness, and one line about the choice that was made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from flatpc._row_weights import rows_by_weight
from flatpc._typing import Array
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.nodes import Mixture, Sum
from flatpc.search.choice import Choice
from flatpc.search.samples import Sample
from flatpc.tables.recognition import KINDS

CURVATURE_ROWS = 2000
"""Rows of which the sharpness is the mean, at the most."""


@dataclass(frozen=True)
class Curvature:
    """How sharply the likelihood of the training rows falls off around the learnt weights."""

    sharpness: float
    """Mean over rows of -Tr ∇² log p(x) in the weights of sums, exact."""
    by_layer: dict[int, float]
    """What each layer of sums contributes to it, lowest first."""
    n_rows: int
    """Rows that the mean is over: all training rows, or 2000 of them; each as often as it counts."""

    @staticmethod
    def of(circuit: Circuit, rows: Sample) -> Curvature:
        """The report for a circuit and the rows it was fitted to, NaN where missing."""
        return Curvature.at(circuit, some_rows(rows))

    @staticmethod
    def at(circuit: Circuit, rows: Array) -> Curvature:
        """The report for some rows."""
        from flatpc.curvature import breakdown

        if not any(isinstance(node, Sum | Mixture) for node in circuit.nodes):
            return Curvature(0.0, {}, len(rows))
        found = breakdown(circuit, rows, reduction="mean", missing="marginalize")
        return Curvature(found.total, found.by_layer, len(rows))


def some_rows(rows: Sample) -> Array:
    """Of which the sharpness is the mean: all of them, or 2000, each as often as it counts."""
    if rows.weights is None:
        return rows.X[:: -(-len(rows) // CURVATURE_ROWS)]
    return rows.X[rows_by_weight(rows.weights, CURVATURE_ROWS)]


def columns_in_words(kinds: Mapping[str, str]) -> str:
    """How many columns there are of each kind.

    >>> columns_in_words({"a": "binary", "b": "count", "c": "binary"})
    '3 columns (2 binary, 1 count)'
    """
    counts = Counter(kinds.values())
    listed = ", ".join(f"{counts[kind]} {kind}" for kind in KINDS if counts[kind])
    return f"{len(kinds)} column{'' if len(kinds) == 1 else 's'} ({listed})"


def size_in_words(circuit: Circuit) -> str:
    """How many parameters are free."""
    n = circuit.n_free_parameters
    return f"{n:,} free parameter{'' if n == 1 else 's'}"


def summary(kinds: Mapping[str, str], choice: Choice) -> str:
    """What was chosen and why, in one line."""
    late = "; time_budget ended before all was tried" if choice.cut_short == "time budget" else ""
    return f"{columns_in_words(kinds)}; {choice.why}{late}; {size_in_words(choice.circuit)}."
