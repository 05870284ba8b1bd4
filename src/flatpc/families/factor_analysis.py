"""Covariances of low rank plus a diagonal, L Lᵀ + Ψ, fitted to others by steps of EM for factor analysis.

A row is m + L f + noise with f standard normal, and noise of variances Ψ. Given a row's deviation x, f has the mean B x with
B = Lᵀ (L Lᵀ + Ψ)⁻¹. With S the average of x xᵀ, the averages of x fᵀ and f fᵀ are C = S Bᵀ and F = I - B L + B S Bᵀ, and

    L' = C F⁻¹,    Ψ' = diag(S - L' Cᵀ)

never lower the likelihood, nor if Ψ' is raised to a floor.
"""

from __future__ import annotations

import numpy as np

from flatpc._typing import Array
from flatpc.families.normal_blocks import least_share

STEPS = 4
"""Of EM in one M-step."""


def covariance(loadings: Array, noise: Array) -> Array:
    """`[K, d, d]` from loadings `[K, d, r]` and variances `[K, d]`."""
    out = loadings @ np.swapaxes(loadings, 1, 2)
    place = np.arange(noise.shape[1])
    out[:, place, place] += noise
    return out


def improved(loadings: Array, noise: Array, squares: Array, floors: Array) -> tuple[Array, Array]:
    """Loadings and variances that are more probable, given average products of deviations `[K, d, d]`."""
    one = np.eye(loadings.shape[2])
    for _ in range(STEPS):
        back = np.swapaxes(np.asarray(np.linalg.solve(covariance(loadings, noise), loadings), np.float64), 1, 2)
        across = squares @ np.swapaxes(back, 1, 2)
        within = one - back @ loadings + back @ across
        loadings = np.swapaxes(np.asarray(np.linalg.solve(np.swapaxes(within, 1, 2), np.swapaxes(across, 1, 2))), 1, 2)
        variance = np.diagonal(squares, axis1=1, axis2=2)
        left = variance - (loadings * across).sum(axis=2)
        noise = np.maximum(left, np.maximum(floors, least_share(variance.shape[1]) * variance))
    return loadings, noise


def principal(squares: Array, rank: int, floors: Array) -> tuple[Array, Array]:
    """Loadings and variances to start from: along the largest eigenvectors of the correlations."""
    variance = np.maximum(np.diagonal(squares, axis1=1, axis2=2), floors)
    unit = np.sqrt(variance)
    values, vectors = np.linalg.eigh(squares / (unit[:, :, None] * unit[:, None, :]))
    rest = values[:, :-rank].mean(axis=1, keepdims=True)
    root = np.sqrt(np.maximum(values[:, -rank:] - rest, 1e-3))
    loadings = unit[:, :, None] * vectors[:, :, -rank:] * root[:, None, :]
    left = variance - (loadings**2).sum(axis=2)
    return loadings, np.maximum(left, np.maximum(floors, least_share(variance.shape[1]) * variance))
