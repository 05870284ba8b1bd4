"""Kernel densities: Gaussian kernels over continuous columns times Aitchison and Aitken's over discrete ones.

The latter gives 1 - λ to a kernel's own value and λ / (n - 1) to each of the n - 1 others; λ here is `flatness` · (n - 1) / n,
so that 1 means that all values are alike. Rows that miss a value are no kernels. One kernel more, `WIDE` standard deviations
wide and flat over discrete columns, takes the sting out of a row that is far from all others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtr

from flatpc._typing import Array
from flatpc.paper.table_rivals.gaussians import log_interval
from flatpc.paper.table_rivals.rows import Rows

BANDWIDTHS = tuple(float(width) for width in np.geomspace(0.02, 1.0, 9))
FLATNESS = (0.01, 0.1, 0.3, 0.6)
MOST_KERNELS = 10_000
WIDE = 5.0
CHUNK = 3_000_000
"""Rows × kernels at a time."""


@dataclass(frozen=True)
class Kernels:
    """A kernel density."""

    rows: Rows
    n_values: tuple[int, ...]
    bandwidth: float
    flatness: float
    wide: bool = True
    """Whether there is the wide kernel."""
    counts: Array | None = None
    """How often each kernel counts; None is for once."""

    def log_density(self, rows: Rows) -> Array:
        """`[N]`."""
        constant = self.rows.y.shape[1] * np.log(self.bandwidth * np.sqrt(2 * np.pi))
        own = (self.rows.y**2).sum(axis=1)

        def kernel(part: Rows) -> Array:
            squares = (part.y**2).sum(axis=1)[:, None] - 2 * part.y @ self.rows.y.T + own
            return np.asarray(-0.5 * np.maximum(squares, 0.0) / self.bandwidth**2 - constant)

        return self._mean(rows, kernel, lambda part: -0.5 * (part.y / WIDE) ** 2 - np.log(WIDE * np.sqrt(2 * np.pi)))

    def log_cells(self, rows: Rows, r: Array) -> Array:
        """`[N]`."""

        def kernel(part: Rows) -> Array:
            out = np.zeros((len(part), len(self.rows)))
            for j, width in enumerate(r):
                away = (part.y[:, j, None] - self.rows.y[:, j]) / self.bandwidth
                out += log_masses(away, width / self.bandwidth)
            return out

        return self._mean(rows, kernel, lambda part: log_interval((part.y - r / 2) / WIDE, (part.y + r / 2) / WIDE))

    def _mean(self, rows: Rows, kernel: Callable[[Rows], Array], wide: Callable[[Rows], Array]) -> Array:
        out = []
        step = max(1, CHUNK // len(self.rows))
        for i in range(0, len(rows), step):
            part = rows[i : i + step]
            logs = kernel(part) + self._matches(part)
            n = logs.shape[1] if self.counts is None else self.counts.sum()
            if self.counts is not None:
                logs += np.log(self.counts)
            if self.wide:
                flat = -((part.codes >= 0) * np.log(self.n_values or 1.0)).sum(axis=1) if self.n_values else 0.0
                logs = np.hstack([logs, (wide(part).sum(axis=1) + flat)[:, None]])
                n += 1
            out.append(logsumexp(logs, axis=1) - np.log(n))
        return np.concatenate(out)

    def _matches(self, rows: Rows) -> Array:
        """`[N, M]`: the discrete columns' log-kernels."""
        mine, theirs, constant = [], [], np.zeros(len(rows))
        for d, n in enumerate(self.n_values):
            if n == 1:
                continue
            other = self.flatness / n
            own = 1 - self.flatness * (n - 1) / n
            known = rows.codes[:, d] >= 0
            constant += np.where(known, np.log(other), 0.0)
            mine.append(np.log(own / other) * _one_hot(rows.codes[:, d], n))
            theirs.append(_one_hot(self.rows.codes[:, d], n))
        if not mine:
            return np.zeros((len(rows), len(self.rows)))
        return constant[:, None] + np.hstack(mine) @ np.hstack(theirs).T


def log_masses(away: Array, width: float) -> Array:
    """Log of Φ(z + w/2) - Φ(z - w/2), for many z and one w."""
    if width < 0.02:  # the density changes by less than 1e-4 of itself within it, up to z = 8
        return np.asarray(-0.5 * away**2 + np.log(width / np.sqrt(2 * np.pi)))
    z = abs(away)
    inside = ndtr(width / 2 - z) - ndtr(-width / 2 - z)
    with np.errstate(divide="ignore"):
        out = np.log(inside)
    small = inside < 1e-250
    out[small] = log_interval(-z[small] - width / 2, -z[small] + width / 2)
    return np.asarray(out)


def fit_kernels(rows: Rows, n_values: tuple[int, ...], *, bandwidth: float, flatness: float, seed: int) -> Kernels:
    """All rows that have all values, or `MOST_KERNELS` of them."""
    kept = np.flatnonzero((rows.codes >= 0).all(axis=1))
    kept = np.random.default_rng(seed).permutation(kept)[:MOST_KERNELS]
    return Kernels(rows[kept], n_values, bandwidth, flatness)


def search_kernels(judge: Callable[..., tuple[float, float]], n_continuous: int, n_discrete: int) -> None:
    """One option after the other, and the first again."""
    widths = BANDWIDTHS if n_continuous else (1.0,)
    flat = FLATNESS if n_discrete else (0.0,)
    tried = {width: judge(bandwidth=width, flatness=flat[len(flat) // 2]) for width in widths}
    for score in (0, 1):
        best = max(tried, key=lambda width, s=score: tried[width][s])  # type: ignore[misc]
        by_flatness = {f: judge(bandwidth=best, flatness=f) for f in flat}
        flattest = max(by_flatness, key=lambda f, s=score: by_flatness[f][s])  # type: ignore[misc]
        for width in widths:
            judge(bandwidth=width, flatness=flattest)


def _one_hot(codes: NDArray[np.int64], n: int) -> Array:
    out = np.zeros((len(codes), n))
    known = codes >= 0
    out[np.flatnonzero(known), codes[known]] = 1.0
    return out
