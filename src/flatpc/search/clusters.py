"""Where learning starts: each unit of the inputs at a cluster of rows.

Rows are sorted into K clusters, and unit k of every input is fitted to the rows of cluster k, with a share of all others so that
no unit is surer than its few rows allow. A random start would have to know the scale (a Poisson rate may be 2 or 2000); this one
finds it in the data, and the states of a latent stand for kinds of rows from the beginning.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flatpc._typing import Array
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.nodes import Input
from flatpc.families import asking
from flatpc.structures.clusters import cluster_weights

LEAST, PER_UNIT = 2000, 20
"""Rows that clusters are found in, and for each of them: a rough picture is enough to start from."""


def most_rows(width: int) -> int:
    """That so many clusters are found in."""
    return max(LEAST, PER_UNIT * width)


def start_at_clusters(circuit: Circuit, rows: Array, seed: int, pseudocount: float, row_weights: Array | None = None) -> Circuit:
    """The circuit with its inputs fitted to clusters of rows, or of a sample, one clustering for all inputs of a width."""
    weights: dict[int, Array] = {}
    chosen: dict[int, Any] = {}
    parameters: dict[int, Any] = {}
    rng = np.random.default_rng(seed)
    for i, node in enumerate(circuit.nodes):
        if not isinstance(node, Input) or not node.family.learnable:
            continue
        if node.width not in weights:
            chosen[node.width] = _sample(rows, node.width, seed)
            counted = None if row_weights is None else row_weights[chosen[node.width]]
            weights[node.width] = cluster_weights(rows[chosen[node.width]], node.width, seed, counted)
        some = rows[chosen[node.width]]
        fitted = node.family.initialize(node.width, rng, "uniform")
        # The second round measures deviations from the means that the first one found.
        for _ in range(2):
            found = asking.statistics(node.family, fitted, some[:, node.columns], weights[node.width])
            fitted = node.family.update(fitted, found, pseudocount)
        parameters[i] = fitted
    return circuit.with_parameters(parameters)


def _sample(rows: Array, width: int, seed: int) -> Any:
    """Which rows; all of them where a sample would know nothing of a column."""
    if len(rows) <= most_rows(width):
        return slice(None)
    some = np.sort(np.random.default_rng(seed).permutation(len(rows))[: most_rows(width)])
    return slice(None) if np.isnan(rows[some]).all(axis=0).any() else some
