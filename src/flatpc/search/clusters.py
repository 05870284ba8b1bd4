"""Where learning starts: each unit of the inputs at a cluster of rows.

Rows are sorted into K clusters, and unit k of every input is fitted to the rows of cluster k, with a share of all others so that
no unit is surer than its few rows allow. A random start would have to know the scale (a Poisson rate may be 2 or 2000); this one
finds it in the data, and the states of a latent stand for kinds of rows from the beginning.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc.circuit.circuit import Circuit
from flatpc.circuit.nodes import Input
from flatpc.families import asking

Array = NDArray[np.float64]

SHARE = 0.1
"""Of a row's weight that is spread over all units."""


def start_at_clusters(circuit: Circuit, rows: Array, seed: int, pseudocount: float) -> Circuit:
    """The circuit with its inputs fitted to clusters of rows, one clustering for all inputs of a width."""
    weights: dict[int, Array] = {}
    parameters: dict[int, Any] = {}
    rng = np.random.default_rng(seed)
    for i, node in enumerate(circuit.nodes):
        if not isinstance(node, Input) or not node.family.learnable:
            continue
        if node.width not in weights:
            weights[node.width] = _clusters(rows, node.width, seed)
        fitted = node.family.initialize(node.width, rng, "uniform")
        # The second round measures deviations from the means that the first one found.
        for _ in range(2):
            found = asking.statistics(node.family, fitted, rows[:, node.variable], weights[node.width])
            fitted = node.family.update(fitted, found, pseudocount)
        parameters[i] = fitted
    return circuit.with_parameters(parameters)


def _clusters(rows: Array, width: int, seed: int) -> Array:
    """`[N, width]`: the weight of every row in every unit."""
    from sklearn.cluster import KMeans

    # Columns of equal variance, unknown entries at the mean: a rough picture is enough to start from.
    mean = np.nanmean(rows, axis=0)
    deviation = np.nanstd(rows, axis=0)
    points = np.where(np.isnan(rows), 0.0, (rows - mean) / np.where(deviation > 0, deviation, 1.0))
    n_clusters = min(width, len(np.unique(points, axis=0)))
    label = KMeans(n_clusters, n_init=1, max_iter=30, random_state=seed).fit_predict(points)
    weights = np.full((len(rows), width), SHARE / width)
    # Where there are fewer clusters than units, several units share one and random weights tell them apart.
    which = np.arange(width) % n_clusters
    rng = np.random.default_rng(seed)
    own = np.where(which[None, :] == label[:, None], rng.uniform(0.5, 1.5, (len(rows), width)), 0.0)
    return np.asarray(weights + (1 - SHARE) * own / own.sum(axis=1, keepdims=True))
