"""Successes among trials."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlog1py, xlogy

from flatpc._options import put, whole_number
from flatpc.families.base import (
    Array,
    Family,
    Parameters,
    Statistics,
    check_probability,
    count_and_sum,
    masked,
    ratio,
)


@dataclass(frozen=True)
class Binomial(Family):
    """Number of successes in `n` trials. Parameters: `p [K]`."""

    n: int = 1
    names: ClassVar[tuple[str, ...]] = ("p",)

    def __post_init__(self) -> None:
        put(self, n=whole_number("Binomial: n", self.n, 1, why="the number of trials"))

    @property
    def n_categories(self) -> int:
        return self.n + 1

    def check_parameters(self, parameters: Parameters, where: str) -> None:
        check_probability(parameters["p"], where)

    def initialize(self, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        return {"p": rng.uniform(0.1, 0.9, width)}

    def log_density(self, parameters: Parameters, x: Array) -> Array:
        value, seen = masked(x)
        p, k = parameters["p"], value[:, None]
        log_choose = gammaln(self.n + 1) - gammaln(k + 1) - gammaln(self.n - k + 1)
        return np.where(seen[:, None], log_choose + xlogy(k, p) + xlog1py(self.n - k, -p), 0.0)

    def statistics(self, parameters: Parameters, x: Array, flow: Array) -> Statistics:
        return count_and_sum(x, flow)

    def update(self, parameters: Parameters, statistics: Statistics, pseudocount: float = 0.0) -> dict[str, Array]:
        trials = self.n * statistics["count"] + pseudocount
        return {"p": ratio(statistics["sum"] + pseudocount / 2, trials, parameters["p"])}

    def mode(self, parameters: Parameters) -> Array:
        return np.minimum(np.floor((self.n + 1) * parameters["p"]), self.n)

    def mean(self, parameters: Parameters) -> Array:
        return np.asarray(self.n * parameters["p"])

    def variance(self, parameters: Parameters) -> Array:
        return np.asarray(self.n * parameters["p"] * (1 - parameters["p"]))

    def sample(self, parameters: Parameters, units: NDArray[np.int64], rng: np.random.Generator) -> Array:
        return rng.binomial(self.n, parameters["p"][units]).astype(np.float64)

    def _outside(self, x: Array) -> NDArray[np.bool_]:
        value, seen = masked(x)
        return np.asarray(seen & ((value < 0) | (value > self.n) | (value != np.floor(value))))

    def _support(self) -> str:
        return f"the whole numbers 0 to {self.n}"
