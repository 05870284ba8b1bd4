"""Rows sorted into clusters, for units to start from."""

from __future__ import annotations

import warnings

import numpy as np

from flatpc._typing import Array

SHARE = 0.1
"""Of a row's weight that is spread over all units."""


def cluster_weights(rows: Array, width: int, seed: int, row_weights: Array | None = None) -> Array:
    """`[N, width]`: the weight of every row in every unit, which is one cluster's; rows add up to 1, or to their weights."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    # Columns of equal variance, unknown entries at the mean: a rough picture is enough to start from.
    mean, deviation = spread(rows, row_weights)
    points = np.where(np.isnan(rows), 0.0, (rows - mean) / np.where(deviation > 0, deviation, 1.0))
    n_clusters = min(width, len(np.unique(points, axis=0)))
    with warnings.catch_warnings():
        # Beside points that are very far, others are the same to it: then there are fewer clusters.
        warnings.simplefilter("ignore", ConvergenceWarning)
        label = KMeans(n_clusters, n_init=1, max_iter=30, random_state=seed).fit_predict(points, sample_weight=row_weights)
    weights = np.full((len(rows), width), SHARE / width)
    # Where there are fewer clusters than units, several units share one and random weights tell them apart.
    which = np.arange(width) % n_clusters
    rng = np.random.default_rng(seed)
    own = np.where(which[None, :] == label[:, None], rng.uniform(0.5, 1.5, (len(rows), width)), 0.0)
    out = weights + (1 - SHARE) * own / own.sum(axis=1, keepdims=True)
    return np.asarray(out if row_weights is None else out * row_weights[:, None])


def spread(rows: Array, weights: Array | None) -> tuple[Array, Array]:
    """Mean and standard deviation of every column, without its missing values."""
    if weights is None:
        return np.asarray(np.nanmean(rows, axis=0)), np.asarray(np.nanstd(rows, axis=0))
    known = ~np.isnan(rows)
    share = known * weights[:, None]
    total = share.sum(axis=0)
    mean = (share * np.where(known, rows, 0.0)).sum(axis=0) / total
    return mean, np.sqrt((share * np.where(known, rows - mean, 0.0) ** 2).sum(axis=0) / total)
