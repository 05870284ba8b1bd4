"""Derivatives of multivariate normal log-densities in numbers that move the mean and the covariance.

Number q moves a unit's covariance S by B_q, and q and r together by D_qr to second order. With W = S⁻¹ and u = W (x - m), both 0
at unknown entries, and the sums over rows with the weights f: F = Σ f, e = Σ f u, U = Σ f u uᵀ

    ∂_q log N      = ½ tr((u uᵀ - W) B_q),                                    ∂_m log N = u
    Σ f ∂_q ∂_r    = -tr(B_q W B_r (U - ½ F W)) + ½ tr((U - F W) D_qr),       Σ f ∂_m ∂_r = -W B_r e,     Σ f ∂_m ∂_m = -F W

One row of a unit's own, with all entries known, tells W of the mean and ½ tr(B_q W B_r W) of the covariance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from flatpc._typing import Array
from flatpc.families import normal_blocks as normal

Bend = Callable[[Array], Array]
"""V `[d, d]` -> `[Q, Q]`: ½ tr(V D_qr)."""


def solved(mean: Array, covariance: Array, x: Array) -> Iterator[tuple[NDArray[np.int64], Array, Array]]:
    """Rows in blocks of one pattern: their numbers, `u [n, K, d]` and `W [K, d, d]`."""
    for rows, known in normal.patterns(x):
        inverse = np.zeros(covariance.shape)
        there = np.flatnonzero(known)
        inverse[:, there[:, None], there] = np.linalg.inv(covariance[:, known][:, :, known])
        for some in normal.blocks(rows, *mean.shape):
            away = np.where(known, x[some], 0.0)[None] - np.where(known, mean, 0.0)[:, None]
            yield some, np.swapaxes(away @ inverse, 0, 1), inverse


def sums(mean: Array, covariance: Array, x: Array, flow: Array) -> Iterator[tuple[Array, Array, Array, Array]]:
    """For each pattern and block: `W [K, d, d]`, `F [K]`, `e [K, d]`, `U [K, d, d]`."""
    for rows, u, inverse in solved(mean, covariance, x):
        f = flow[rows]
        weighted = f[:, :, None] * u
        yield inverse, f.sum(axis=0), weighted.sum(axis=0), np.swapaxes(weighted, 0, 1).swapaxes(1, 2) @ np.swapaxes(u, 0, 1)


def by_triangle(factor: Array) -> tuple[Array, Bend]:
    """`B [Q, d, d]` and D of S = L Lᵀ + floors in the entries of L, row by row, its diagonal as logarithms; 0 above it."""
    d = len(factor)
    scale = np.tril(np.ones((d, d))) * np.where(np.eye(d) > 0, factor, 1.0)
    moved = np.zeros((d, d, d, d))
    row = np.arange(d)
    moved[row, :, row, :] = np.einsum("ij,kj->ijk", scale, factor)
    moved = moved + np.swapaxes(moved, 2, 3)

    def bend(V: Array) -> Array:
        out = np.einsum("ij,kl,jl,ik->ijkl", scale, scale, np.eye(d), V)
        out[row, row, row, row] += np.diag(factor) * np.diag(V @ factor)
        return np.asarray(out.reshape(d * d, d * d))

    return moved.reshape(d * d, d, d), bend


def by_loadings(loadings: Array, above: Array) -> tuple[Array, Bend]:
    """The same of S = Λ Λᵀ + floors + exp(2 z), in Λ row by row and in z; `above [d]` is exp(2 z)."""
    d, rank = loadings.shape
    row, n = np.arange(d), d * rank
    moved = np.zeros((d, rank, d, d))
    moved[row, :, row, :] = np.broadcast_to(loadings.T, (d, rank, d))
    moved = moved + np.swapaxes(moved, 2, 3)
    noise = np.zeros((d, d, d))
    noise[row, row, row] = 2 * above

    def bend(V: Array) -> Array:
        out = np.zeros((n + d, n + d))
        out[:n, :n] = np.einsum("rs,ik->irks", np.eye(rank), V).reshape(n, n)
        out[n + row, n + row] = 2 * above * np.diag(V)
        return out

    return np.concatenate([moved.reshape(n, d, d), noise]), bend


def second(moved: Array, bend: Bend, W: Array, F: float, e: Array, U: Array, of_mean: float | None = None) -> Array:
    """`[d + Q, d + Q]`: Σ f ∂∂ of one unit; `of_mean`, if given, is F for the mean."""
    d, flat = len(W), (len(moved), -1)
    out = np.empty((d + len(moved), d + len(moved)))
    out[:d, :d] = -(F if of_mean is None else of_mean) * W
    out[:d, d:] = -(W @ (moved @ e).T)
    out[d:, :d] = out[:d, d:].T
    left, right = moved @ W, moved @ (U - F / 2 * W)
    out[d:, d:] = bend(U - F * W) - left.reshape(flat) @ normal.transposed(right).reshape(flat).T
    return out


def information(moved: Array, W: Array) -> Array:
    """`[d + Q, d + Q]`: what one whole row tells of one unit."""
    d, flat = len(W), (len(moved), -1)
    out = np.zeros((d + len(moved), d + len(moved)))
    out[:d, :d] = W
    one = moved @ W
    out[d:, d:] = one.reshape(flat) @ normal.transposed(one).reshape(flat).T / 2
    return out
