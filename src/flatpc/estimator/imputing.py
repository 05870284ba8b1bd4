"""Gaps of rows filled in, given the rest of each row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from flatpc.circuit.circuit import Circuit
from flatpc.queries.answers import refuse_impossible
from flatpc.tables.columns import Columns

Array = NDArray[np.float64]
STRATEGIES = ("mean", "mpe", "sample")


def fill(circuit: Circuit, columns: Columns, rows: Array, strategy: str, seed: int) -> Array:
    """Rows without NaN: means of numbers and most probable categories, most probable rows, or draws."""
    if strategy == "mpe":
        return np.asarray(circuit.mpe(rows).values)
    if strategy == "sample":
        return np.asarray(circuit.sample(1, seed=seed, given=rows)[0])
    filled = np.array(circuit.expectation(rows))
    for j, column in enumerate(columns.columns):
        unknown = np.flatnonzero(np.isnan(rows[:, j])) if column.is_discrete else ()
        if len(unknown):
            filled[unknown, j] = log_conditional(circuit, rows[unknown], j, len(column.categories)).argmax(axis=1)
    return filled


def log_conditional(circuit: Circuit, rows: Array, j: int, n_categories: int) -> Array:
    """`[N, categories]`: log p(x_j = k | the rest)."""
    joint = np.empty((len(rows), n_categories))
    asked = rows.copy()
    for k in range(n_categories):
        asked[:, j] = k
        joint[:, k] = circuit.log_prob(asked, missing="marginalize")
    evidence = logsumexp(joint, axis=1, keepdims=True)
    refuse_impossible(evidence[:, 0], np.arange(len(rows)))
    return np.asarray(joint - evidence)
