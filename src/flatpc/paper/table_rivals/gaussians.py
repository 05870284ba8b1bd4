"""Densities and boxes of several Gaussians: log N(y; m, L Lᵀ) and log P(y - r/2 < Y < y + r/2).

The probability of a box is an average over points of a lattice of products of one-dimensional probabilities, each given the
coordinates before it (Genz 1992). For a diagonal covariance one point is exact.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import log_ndtr, logsumexp, ndtr, ndtri

from flatpc._typing import Array

SMALLEST = 1e-10
"""Differences of Φ below this are taken from the density in the middle, or from logarithms."""
CHUNK = 200_000
"""Rows × points at a time."""


def log_normal(y: Array, mean: Array, factor: Array) -> Array:
    """`[N]`: the log-density of one Gaussian, `factor` being the lower Cholesky factor of its covariance."""
    z = solve_triangular(factor, (y - mean).T, lower=True)
    return np.asarray(-0.5 * (z**2).sum(axis=0) - np.log(np.diag(factor)).sum() - 0.5 * len(mean) * np.log(2 * np.pi))


def log_interval(low: Array, high: Array) -> Array:
    """log(Φ(high) - Φ(low)), wherever they are."""
    # Above the mean, what is left is more exact than what is passed.
    flip = low + high > 0
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    inside = ndtr(b) - ndtr(a)
    out = np.log(np.maximum(inside, SMALLEST))
    small = inside < SMALLEST
    if small.any():
        top, bottom = log_ndtr(b[small]), log_ndtr(a[small])
        with np.errstate(divide="ignore"):
            tail = top + np.log1p(-np.exp(np.minimum(bottom - top, 0.0)))
        middle, width = 0.5 * (a[small] + b[small]), b[small] - a[small]
        narrow = width * np.maximum(1.0, abs(middle)) < 1e-4
        with np.errstate(divide="ignore"):
            centre = -0.5 * middle**2 - 0.5 * np.log(2 * np.pi) + np.log(width)
        out[small] = np.where(narrow, centre, tail)
    return np.asarray(out)


def log_box(y: Array, r: Array, mean: Array, factor: Array, n_points: int = 16) -> Array:
    """`[N]`: the log-probability of y ± r/2 under one Gaussian; widths r are of columns, or of every entry."""
    n_columns = len(mean)
    if n_columns == 0:
        return np.zeros(len(y))
    r = np.broadcast_to(r, y.shape)
    if np.count_nonzero(np.tril(factor, -1)) == 0:
        n_points = 1
    points = _lattice(n_points, n_columns)
    step = max(1, CHUNK // n_points)
    return np.concatenate([_box(y[i : i + step], r[i : i + step], mean, factor, points) for i in range(0, len(y), step)])


def _box(y: Array, r: Array, mean: Array, factor: Array, points: Array) -> Array:
    n, (n_points, n_columns) = len(y), points.shape
    centre, half = np.repeat(y - mean, n_points, axis=0), np.repeat(r / 2, n_points, axis=0)
    u = np.tile(points, (n, 1))
    z = np.zeros((n * n_points, n_columns))
    total = np.zeros(n * n_points)
    for j in range(n_columns):
        shift = centre[:, j] - z[:, :j] @ factor[j, :j]
        low, high = (shift - half[:, j]) / factor[j, j], (shift + half[:, j]) / factor[j, j]
        total += log_interval(low, high)
        if j + 1 < n_columns:
            z[:, j] = _inside(low, high, u[:, j])
    return np.asarray(logsumexp(total.reshape(n, n_points), axis=1) - np.log(n_points))


def _inside(low: Array, high: Array, u: Array) -> Array:
    """The quantile u of a standard normal between low and high."""
    flip = low + high > 0
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    share = np.where(flip, 1 - u, u)
    below, up_to = ndtr(a), ndtr(b)
    z = ndtri(below + share * (up_to - below))
    z = np.where((up_to - below > SMALLEST) & np.isfinite(z), z, a + share * (b - a))
    return np.asarray(np.where(flip, -1, 1) * np.clip(z, a, b))


def _lattice(n_points: int, n_columns: int) -> Array:
    """Points of a rank-one lattice with the roots of primes for generators, folded by a tent; one point is the middle."""
    if n_points == 1:
        return np.full((1, n_columns), 0.5)
    primes: list[int] = []
    candidate = 2
    while len(primes) < n_columns:
        if all(candidate % p for p in primes):
            primes.append(candidate)
        candidate += 1
    return np.asarray(abs(2 * (((np.arange(n_points)[:, None] + 0.5) * np.sqrt(primes)) % 1.0) - 1))
