"""What families over finitely many values share: a table of probabilities."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from flatpc.families.base import Array, Family, Parameters, Statistics, masked


class Finite(Family):
    """A family over 0, ..., n-1, seen as a table of probabilities `[K, n]`."""

    @abstractmethod
    def table(self, parameters: Parameters) -> Array: ...

    def log_density(self, parameters: Parameters, x: Array) -> Array:
        value, seen = masked(x)
        with np.errstate(divide="ignore"):
            log_table = np.log(self.table(parameters))
        return np.where(seen[:, None], log_table[:, value.astype(np.int64)].T, 0.0)

    def statistics(self, parameters: Parameters, x: Array, flow: Array) -> Statistics:
        value, seen = masked(x)
        n = self.n_categories
        assert n is not None
        counts = np.zeros((n, flow.shape[1]))
        np.add.at(counts, value.astype(np.int64)[seen], flow[seen])
        return {"counts": counts.T.copy()}

    def mode(self, parameters: Parameters) -> Array:
        return np.asarray(self.table(parameters).argmax(axis=1), dtype=np.float64)

    def mean(self, parameters: Parameters) -> Array:
        table = self.table(parameters)
        return np.asarray(table @ np.arange(table.shape[1], dtype=np.float64))

    def variance(self, parameters: Parameters) -> Array:
        table = self.table(parameters)
        deviation = np.arange(table.shape[1]) - self.mean(parameters)[:, None]
        return np.asarray((table * deviation**2).sum(axis=1))

    def sample(self, parameters: Parameters, units: NDArray[np.int64], rng: np.random.Generator) -> Array:
        cumulative = np.cumsum(self.table(parameters), axis=1)
        u = rng.random(len(units)) * cumulative[units, -1]
        return np.asarray((cumulative[units, :-1] <= u[:, None]).sum(axis=1), dtype=np.float64)

    def _outside(self, x: Array) -> NDArray[np.bool_]:
        n = self.n_categories
        assert n is not None
        value, seen = masked(x)
        return np.asarray(seen & ((value < 0) | (value >= n) | (value != np.floor(value))))

    def _support(self) -> str:
        n = self.n_categories
        return "0 and 1" if n == 2 else f"the whole numbers 0 to {(n or 1) - 1}"
