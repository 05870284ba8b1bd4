"""Each column by itself: a kernel density whose bandwidth validation chooses, or shares of values with Laplace's rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from flatpc._typing import Array
from flatpc.paper.table_rivals.kernels import BANDWIDTHS, Kernels, fit_kernels
from flatpc.paper.table_rivals.rows import Rows

SMOOTHINGS = (0.1, 1.0, 5.0)


@dataclass(frozen=True)
class Independent:
    """A product of columns."""

    kernels: tuple[Kernels, ...]
    """Of the continuous columns."""
    log_shares: tuple[Array, ...]
    """`[n]` for each discrete column."""

    def log_density(self, rows: Rows) -> Array:
        """`[N]`."""
        parts = [_once(column.log_density, rows.y[:, j]) for j, column in enumerate(self.kernels)]
        return np.asarray(np.sum([self._discrete(rows), *parts], axis=0))

    def log_cells(self, rows: Rows, r: Array) -> Array:
        """`[N]`."""
        parts = [
            _once(lambda values, c=column, w=r[j : j + 1]: c.log_cells(values, w), rows.y[:, j])  # type: ignore[misc]
            for j, column in enumerate(self.kernels)
        ]
        return np.asarray(np.sum([self._discrete(rows), *parts], axis=0))

    def _discrete(self, rows: Rows) -> Array:
        out = np.zeros(len(rows))
        for d, logs in enumerate(self.log_shares):
            known = rows.codes[:, d] >= 0
            out[known] += logs[rows.codes[known, d]]
        return out


def fit_independent(
    rows: Rows, n_values: tuple[int, ...], *, bandwidths: tuple[float, ...], smoothing: float, seed: int
) -> Independent:
    """With a bandwidth for each continuous column."""
    kernels = [_kernels(rows.y[:, j], width, seed) for j, width in enumerate(bandwidths)]
    shares = []
    for d, n in enumerate(n_values):
        codes = rows.codes[:, d]
        counts = np.bincount(codes[codes >= 0], minlength=n) + smoothing
        shares.append(np.log(counts / counts.sum()))
    return Independent(tuple(kernels), tuple(shares))


def search_independent(
    judge: Callable[..., tuple[float, float]], train: Rows, valid: Rows, r: Array, floors: Array, seed: int
) -> None:
    """The best bandwidth of each column in either score, not below its floor, and smoothings of shares."""
    chosen: list[tuple[float, ...]] = []
    for score in ("plain", "bounded"):
        widths = []
        for j in range(train.y.shape[1]):
            found = []
            tried = tuple(dict.fromkeys(max(width, float(floors[j])) for width in BANDWIDTHS))
            for width in tried:
                model = Independent((_kernels(train.y[:, j], width, seed),), ())
                theirs = _column(valid.y[:, j])
                found.append((model.log_density(theirs) if score == "plain" else model.log_cells(theirs, r[j : j + 1])).mean())
            widths.append(tried[int(np.argmax(found))])
        chosen.append(tuple(widths))
    for bandwidths in dict.fromkeys(chosen):
        for smoothing in SMOOTHINGS:
            judge(bandwidths=bandwidths, smoothing=smoothing)


def _kernels(y: Array, bandwidth: float, seed: int) -> Kernels:
    """One kernel for each value, that counts as often as the value occurs."""
    drawn = fit_kernels(_column(y), (), bandwidth=bandwidth, flatness=0.0, seed=seed)
    values, counts = np.unique(drawn.rows.y[:, 0], return_counts=True)
    return replace(drawn, rows=_column(values), counts=counts.astype(np.float64))


def _once(scores: Callable[[Rows], Array], y: Array) -> Array:
    """Scores of a column, each value's worked out once."""
    values, back = np.unique(y, return_inverse=True)
    return scores(_column(values))[back]


def _column(y: Array) -> Rows:
    return Rows(y[:, None], np.zeros((len(y), 0), np.int64))
