"""Multivariate normal densities of K units at rows with unknown entries, all units and rows of a pattern at once.

With o the known and u the unknown entries of a row, a unit's mean m and covariance S give

    x_o ~ N(m_o, S_oo),    x_u | x_o ~ N(m_u + R (x_o - m_o), C),    R = S_uo S_oo⁻¹,    C = S_uu - R S_ou

R and C depend only on which entries are known. Rows are taken by these patterns, and a pattern's in blocks of bounded memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from flatpc._typing import Array
from flatpc.errors import ParameterError

Indices = NDArray[np.int64]
Bools = NDArray[np.bool_]

_BLOCK = 1 << 15
"""Numbers of a block's deviations `[K, rows, d]`: few enough to stay in the cache."""


def patterns(x: Array) -> Iterator[tuple[Indices, Bools]]:
    """For each set of known entries that occurs: its rows, and which entries these are `[d]`."""
    known = ~np.isnan(x)
    if known.all():
        if len(x):
            yield np.arange(len(x)), np.ones(x.shape[1], bool)
        return
    packed = np.ascontiguousarray(np.packbits(known, axis=1))
    _, which = np.unique(packed.view([("", packed.dtype)] * packed.shape[1]).ravel(), return_inverse=True)
    order = np.argsort(which, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(which[order])) + 1):
        yield rows, known[rows[0]]


def blocks(rows: Indices, width: int, d: int) -> Iterator[Indices]:
    """Rows of a pattern in pieces of bounded memory."""
    size = max(1, _BLOCK // max(1, width * d))
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def transposed(a: Array) -> Array:
    """Each matrix of a stack transposed."""
    return np.swapaxes(a, -1, -2)


def indefinite() -> ParameterError:
    """The error of a covariance that rounding has left without a Cholesky factor."""
    return ParameterError(
        "A covariance is not positive definite to the digits of its numbers: some variable follows almost exactly from others; "
        "raise min_variance, divide large columns by their standard deviation, or leave that variable out."
    )


def cholesky(covariance: Array) -> Array:
    """L with L Lᵀ = S of each; `ParameterError` where there is none."""
    try:
        return np.asarray(np.linalg.cholesky(covariance))
    except np.linalg.LinAlgError:
        raise indefinite() from None


def definite(covariance: Array) -> Array:
    """The nearest covariances with a Cholesky factor in float64: correlations' eigenvalues are raised to a few roundings of 1."""
    deviation = np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1))
    unit = deviation[:, :, None] * deviation[:, None, :]
    least = least_share(covariance.shape[-1])
    values, vectors = (np.asarray(each, np.float64) for each in np.linalg.eigh(covariance / unit))
    low = values[:, 0] < least
    if not low.any():
        return covariance
    raised = (vectors[low] * np.maximum(values[low], least)[:, None, :]) @ np.swapaxes(vectors[low], -1, -2)
    out = covariance.copy()
    out[low] = (raised + np.swapaxes(raised, -1, -2)) / 2 * unit[low]
    return out


def least_share(d: int) -> float:
    """Of the variances of d variables: what noise alone must be of them, so that a Cholesky factor exists in float64."""
    return 100 * d * float(np.finfo(np.float64).eps)


def whitening(covariance: Array) -> tuple[Array, Array]:
    """`[K, d, d]` and `[K]`: W with W Wᵀ = S⁻¹, so that (x - m) W is standard normal; and log det S."""
    factor = cholesky(covariance)
    half = np.log(np.diagonal(factor, axis1=-2, axis2=-1)).sum(axis=-1)
    return transposed(np.asarray(np.linalg.inv(factor), np.float64)), 2 * half


def deviations(mean: Array, x: Array) -> Array:
    """`[K, N, d]`."""
    return x[None] - mean[:, None, :]


def log_normal(deviation: Array, whitener: Array, log_det: Array) -> Array:
    """`[N, K]` log-densities of deviations `[K, N, d]`; `-inf` where squares overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        white = deviation @ whitener
        square = np.einsum("knd,knd->nk", white, white)
        out = -0.5 * (square + (log_det + deviation.shape[-1] * math.log(2 * math.pi)))
    return np.where(np.isnan(out), -np.inf, out)


def log_density(mean: Array, covariance: Array, x: Array) -> Array:
    """`[N, K]`: of the known entries of every row; 0 where there are none."""
    out = np.zeros((len(x), len(mean)))
    for rows, known in patterns(x):
        if not known.any():
            continue
        whitener, log_det = whitening(_part(covariance, known, known))
        for some in blocks(rows, len(mean), x.shape[1]):
            out[some] = log_normal(deviations(mean[:, known], x[np.ix_(some, known)]), whitener, log_det)
    return out


def conditional(covariance: Array, known: Bools) -> tuple[Array, Array]:
    """`R [K, u, o]` and `C [K, u, u]` of the unknown entries given the known ones."""
    unknown = ~known
    if not known.any():
        return np.zeros((len(covariance), int(unknown.sum()), 0)), covariance
    across = _part(covariance, unknown, known)
    slope = transposed(np.asarray(np.linalg.solve(_part(covariance, known, known), transposed(across)), np.float64))
    rest = _part(covariance, unknown, unknown) - slope @ transposed(across)
    return slope, (rest + transposed(rest)) / 2


def filled(mean: Array, covariance: Array, x: Array) -> Iterator[tuple[Indices, Bools, Array, Array]]:
    """Rows in blocks of one pattern: their numbers, which entries are known, deviations, and what is left of covariance.

    Deviations `[K, n, d]` of unknown entries are expected ones, given the known; `[K, u, u]` is the covariance left to them.
    """
    for rows, known in patterns(x):
        whole = bool(known.all())
        slope, rest = (np.empty(0), np.empty((len(mean), 0, 0))) if whole else conditional(covariance, known)
        for some in blocks(rows, len(mean), x.shape[1]):
            if whole:
                yield some, known, deviations(mean, x[some]), rest
                continue
            out = np.empty((len(mean), len(some), x.shape[1]))
            out[:, :, known] = deviations(mean[:, known], x[np.ix_(some, known)])
            out[:, :, ~known] = out[:, :, known] @ transposed(slope)
            yield some, known, out, rest


def moments(mean: Array, covariance: Array, x: Array, flow: Array) -> tuple[Array, Array, Array]:
    """Σ flow, Σ flow · deviation, Σ flow · deviation deviationᵀ, expected given known entries: `[K]`, `[K, d]`, `[K, d, d]`."""
    count = np.zeros(len(mean))
    first = np.zeros(mean.shape)
    second = np.zeros(covariance.shape)
    for rows, known, deviation, rest in filled(mean, covariance, x):
        if not known.any():
            continue
        weight = flow[rows].T
        count += weight.sum(axis=1)
        weighted = weight[:, :, None] * deviation
        first += (weight[:, None, :] @ deviation)[:, 0]
        second += transposed(weighted) @ deviation
        if rest.size:
            unknown = np.flatnonzero(~known)
            second[:, unknown[:, None], unknown] += weight.sum(axis=1)[:, None, None] * rest
    return count, first, second


def _part(covariance: Array, rows: Bools, columns: Bools) -> Array:
    if rows.all() and columns.all():
        return covariance
    return covariance[:, rows][:, :, columns]
