"""Boxes of a normal distribution: their probabilities, and draws from inside.

With L the Cholesky factor of the covariance, an entry x_i = m_i + Σ_j L_ij y_j of standard normal numbers y is between its
bounds, given the numbers before y_i, with the probability

    g_i = Φ(b_i) - Φ(a_i),    a_i = (low_i - m_i - Σ_{j<i} L_ij y_j) / L_ii,    b_i likewise with high_i

A box has the mean of Π g_i over numbers that are drawn each within its own bounds (Genz, 1992). For one entry that is exact; for
two and three the mean is taken by quadrature, for more over the points of a lattice.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.special import ndtr, ndtri

from flatpc._typing import Array
from flatpc.families.normal_blocks import cholesky

_NODES = {2: 200, 3: 48}
"""Of quadrature in each dimension, by entries."""
_POINTS = 1 << 13
"""Of a lattice."""
_BLOCK = 1 << 18
"""Numbers at a time."""
_TRIES = 200
"""Draws of an entry that are thrown away, at the most."""


@cache
def _points(d: int) -> tuple[Array, Array]:
    """`[P, d - 1]` and `[P]`: points of the unit cube, and their weights."""
    if d == 1:
        return np.empty((1, 0)), np.ones(1)
    if d in _NODES:
        node, weight = np.polynomial.legendre.leggauss(_NODES[d])
        node, weight = (node + 1) / 2, weight / 2
        grid = np.meshgrid(*[node] * (d - 1), indexing="ij")
        shares = np.meshgrid(*[weight] * (d - 1), indexing="ij")
        return np.stack([each.ravel() for each in grid], axis=1), np.asarray(np.prod([each.ravel() for each in shares], axis=0))
    # Steps by powers of the root of g^d = g + 1, whose multiples fill a cube evenly; folded, so that both ends of an axis agree.
    g = 2.0
    for _ in range(60):
        g = (1 + g) ** (1 / d)
    raw = (0.5 + np.arange(1, _POINTS + 1)[:, None] * g ** -np.arange(1, d, dtype=np.float64)) % 1
    return np.abs(2 * raw - 1), np.full(_POINTS, 1 / _POINTS)


def _factor(covariance: Array) -> Array:
    return cholesky(covariance)


def _between(a: Array, b: Array) -> Array:
    """Φ(b) - Φ(a), both far to the right too."""
    return np.asarray(np.where(a > 0, ndtr(-a) - ndtr(-b), ndtr(b) - ndtr(a)))


def _inside(a: Array, b: Array, w: Array) -> Array:
    """The number at the share w of the way from a to b, by probability."""
    with np.errstate(invalid="ignore"):
        left = ndtri(ndtr(a) + w * (ndtr(b) - ndtr(a)))
        right = -ndtri(ndtr(-b) + (1 - w) * (ndtr(-a) - ndtr(-b)))
    return np.asarray(np.clip(np.where(a > 0, right, left), np.maximum(a, -38.0), np.minimum(b, 38.0)))


def _walk(mean: Array, factor: Array, low: Array, high: Array, w: Array) -> tuple[Array, Array, Array]:
    """Numbers `y [..., d]`, the probability of the first entry, and the product of the others', for points `w [..., d]`."""
    y = np.zeros(np.broadcast_shapes(w.shape, mean.shape))
    first, rest = np.ones(y.shape[:-1]), np.ones(y.shape[:-1])
    for i in range(mean.shape[-1]):
        at = mean[..., i] + y[..., :i] @ factor[i, :i]
        a, b = (low[i] - at) / factor[i, i], (high[i] - at) / factor[i, i]
        mass = np.maximum(_between(a, b), 0.0)
        if i == 0:
            first = first * mass
        else:
            rest = rest * mass
        y[..., i] = _inside(a, b, w[..., i])
    return y, first, rest


def mass(mean: Array, covariance: Array, low: Array, high: Array) -> Array:
    """`[n]`: the probability of a box, for means `[n, d]` and one covariance `[d, d]`; bounds `[d]`."""
    d = mean.shape[1]
    factor, (points, weights) = _factor(covariance), _points(d)
    w = np.concatenate([points, np.full((len(points), 1), 0.5)], axis=1)  # the last number has no others after it
    out = np.empty(len(mean))
    size = max(1, _BLOCK // (len(points) * d))
    for start in range(0, len(mean), size):
        some = mean[start : start + size, None, :]
        _, first, rest = _walk(some, factor, low, high, w)
        out[start : start + size] = (first * rest) @ weights
    return out


def drawn(mean: Array, covariance: Array, low: Array, high: Array, rng: np.random.Generator) -> Array:
    """`[n, d]`: one draw from inside the box for each of the means `[n, d]`.

    A draw is thrown away with the probability that entries after the first are outside. If a box is so hard to hit that many are,
    one of many is taken in proportion.
    """
    d, factor = mean.shape[1], _factor(covariance)
    out, left = np.empty(mean.shape), np.arange(len(mean))
    for _ in range(_TRIES):
        if not len(left):
            return out
        y, _, rest = _walk(mean[left], factor, low, high, rng.random((len(left), d)))
        hit = rng.random(len(left)) < rest
        out[left[hit]] = mean[left[hit]] + y[hit] @ factor.T
        left = left[~hit]
    for i in left:
        y, _, rest = _walk(mean[i], factor, low, high, rng.random((_POINTS, d)))
        share = rest / rest.sum() if rest.sum() > 0 else np.full(len(rest), 1 / len(rest))
        out[i] = mean[i] + factor @ y[rng.choice(len(y), p=share)]
    return np.clip(out, low, high)
