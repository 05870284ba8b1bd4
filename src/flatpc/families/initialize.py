"""Random starting points, by seed.

| scheme | a row of weights is proportional to | from |
|---|---|---|
| `"exponential"` | exp(-4 U(0, 1)) | PyJuice |
| `"uniform"` | U(1 - ε, 1 + ε), ε = 0.3 | Juice.jl |
| `"dirichlet"` | Dirichlet(1, ..., 1) | |
| `"einsum"` | exp of a softmax of N(0, 1): almost uniform | Einsum Networks |
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flatpc._options import choice
from flatpc._typing import Array

SCHEMES = ("exponential", "uniform", "dirichlet", "einsum")
_EPSILON = 0.3
_LARGEST, _LARGEST_VARIANCE = 1e150, 1e300
"""Numbers beyond the first have squares that are no longer numbers; the second stands for their variances."""


def random_simplex(shape: tuple[int, int], rng: np.random.Generator, scheme: str, mask: NDArray[np.bool_] | None = None) -> Array:
    """Rows drawn by `scheme`, zero where `mask` is False, each summing to one."""
    if choice("scheme", scheme, SCHEMES) == "exponential":
        w = np.exp(-4.0 * rng.random(shape))
    elif scheme == "uniform":
        w = rng.uniform(1 - _EPSILON, 1 + _EPSILON, shape)
    elif scheme == "einsum":
        # Its softmax is taken twice: once to project the start onto the simplex, and again in every pass.
        e = np.exp(rng.standard_normal(shape))
        w = np.exp(e / e.sum(axis=1, keepdims=True))
    else:
        w = rng.standard_exponential(shape)
    if mask is not None:
        w = np.where(mask, w, 0.0)
    return np.asarray(w / w.sum(axis=1, keepdims=True))


def k_means(x: Array, k: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Means and variances of k clusters of the numbers `x` (NaN ignored), for Gaussian inputs.

    Lloyd's algorithm from k-means++ starts; clusters that end empty take the overall variance.
    """
    x = np.sort(x[~np.isnan(x)])
    if len(x) == 0:
        return rng.standard_normal(k), np.ones(k)
    unit = float(max(-x[0], x[-1]))
    if unit > _LARGEST:
        means, variances = k_means(x / unit, k, rng)
        return means * unit, np.minimum(variances, _LARGEST_VARIANCE / unit / unit) * unit * unit
    centres = np.empty(k)
    centres[0] = x[rng.integers(len(x))]
    distance = (x - centres[0]) ** 2
    for j in range(1, k):
        total = distance.sum()
        centres[j] = x[rng.choice(len(x), p=distance / total)] if total > 0 else x[rng.integers(len(x))]
        distance = np.minimum(distance, (x - centres[j]) ** 2)
    centres.sort()
    for _ in range(100):
        # In one dimension clusters are intervals: their borders are halfway between the centres.
        label = np.searchsorted((centres[1:] + centres[:-1]) / 2, x)
        count = np.bincount(label, minlength=k)
        sums = np.bincount(label, weights=x, minlength=k)
        new = np.where(count > 0, sums / np.maximum(count, 1), centres)
        if np.array_equal(new, centres):
            break
        centres = new
    spread = np.bincount(label, weights=(x - centres[label]) ** 2, minlength=k)
    overall = max(float(x.var()), 1e-12)
    variance = np.where(count > 1, spread / np.maximum(count, 1), overall)
    return centres, np.where(variance > 0, variance, overall / k**2)


def clusters_of_rows(x: Array, k: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Means `[k, d]` and covariances `[k, d, d]` of k clusters of rows (NaN at the column's mean), for Gaussian inputs.

    Lloyd's algorithm from k-means++ starts, in units of standard deviations. A cluster's covariance has the weight of d rows of
    the average one within clusters, so that few rows make no singular ones.
    """
    d = x.shape[1]
    known = ~np.isnan(x)
    if not known.any(axis=0).all():
        return rng.standard_normal((k, d)), np.tile(np.eye(d), (k, 1, 1))
    n_known = known.sum(axis=0)
    centre = np.where(known, x, 0.0).sum(axis=0) / n_known
    deviation = np.sqrt(np.where(known, (x - centre) ** 2, 0.0).sum(axis=0) / n_known)
    unit = np.where(deviation > 0, deviation, 1.0)
    z = np.where(known, (x - centre) / unit, 0.0)
    means = _spread_out(z, k, rng)
    for _ in range(30):
        label = _nearest(z, means)
        count = np.bincount(label, minlength=k)
        sums = np.stack([np.bincount(label, weights=z[:, j], minlength=k) for j in range(d)], axis=1)
        new = np.where(count[:, None] > 0, sums / np.maximum(count, 1)[:, None], means)
        if np.array_equal(new, means):
            break
        means = new
    label = _nearest(z, means)
    rest = z - means[label]
    within = rest.T @ rest / len(z)
    covariance = np.empty((k, d, d))
    for j in range(k):
        mine = rest[label == j]
        covariance[j] = (mine.T @ mine + d * within) / (len(mine) + d)
    # A column that never changes has no variance; the family's floor gives it one.
    return centre + unit * means, covariance * (unit[:, None] * unit)


def _spread_out(z: Array, k: int, rng: np.random.Generator) -> Array:
    """Rows to start from, each drawn by its squared distance from those before (k-means++)."""
    chosen = [int(rng.integers(len(z)))]
    distance = ((z - z[chosen[0]]) ** 2).sum(axis=1)
    for _ in range(1, k):
        total = distance.sum()
        chosen.append(int(rng.choice(len(z), p=distance / total)) if total > 0 else int(rng.integers(len(z))))
        distance = np.minimum(distance, ((z - z[chosen[-1]]) ** 2).sum(axis=1))
    return z[chosen]


def _nearest(z: Array, means: Array) -> NDArray[np.int64]:
    """Which mean each row is nearest to."""
    return np.asarray(((means**2).sum(axis=1) - 2 * z @ means.T).argmin(axis=1))
