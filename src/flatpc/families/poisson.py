"""Counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy

from flatpc._options import number, put
from flatpc.errors import ParameterError
from flatpc.families.base import Array, Family, Parameters, Statistics, count_and_sum, masked, ratio


@dataclass(frozen=True)
class Poisson(Family):
    """Counts. Parameters: `rate [K]`; EM keeps every rate at `min_rate` or more."""

    min_rate: float = 1e-6
    names: ClassVar[tuple[str, ...]] = ("rate",)

    def __post_init__(self) -> None:
        what = "the floor of the rates is positive and finite"
        put(self, min_rate=number("Poisson: min_rate", self.min_rate, 0.0, above=True, what=what))

    def check_parameters(self, parameters: Parameters, where: str) -> None:
        rate = parameters["rate"]
        if not (np.isfinite(rate) & (rate > 0)).all():
            raise ParameterError(f"{where}: every rate must be finite and positive.")

    def initialize(self, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        return {"rate": rng.uniform(0.5, 5.0, width)}

    def log_density(self, parameters: Parameters, x: Array) -> Array:
        value, seen = masked(x)
        rate, k = parameters["rate"], value[:, None]
        log_factorial = gammaln(k + 1)
        possible = np.isfinite(log_factorial)  # beyond all doubles for counts near 1e308
        log_density = xlogy(np.where(possible, k, 0.0), rate) - rate - np.where(possible, log_factorial, np.inf)
        return np.where(seen[:, None], log_density, 0.0)

    def statistics(self, parameters: Parameters, x: Array, flow: Array) -> Statistics:
        return count_and_sum(x, flow)

    def update(self, parameters: Parameters, statistics: Statistics, pseudocount: float = 0.0) -> dict[str, Array]:
        rate = ratio(statistics["sum"], statistics["count"], parameters["rate"])
        return {"rate": np.maximum(rate, self.min_rate)}

    def mode(self, parameters: Parameters) -> Array:
        return np.floor(parameters["rate"])

    def mean(self, parameters: Parameters) -> Array:
        return np.asarray(parameters["rate"])

    def variance(self, parameters: Parameters) -> Array:
        return np.asarray(parameters["rate"])

    def sample(self, parameters: Parameters, units: NDArray[np.int64], rng: np.random.Generator) -> Array:
        rate = parameters["rate"][units]
        # NumPy draws no counts beyond 64 bits; there the distribution is a Gaussian to all digits.
        large = rate > 1e15
        out = rng.poisson(np.where(large, 1.0, rate)).astype(np.float64)
        out[large] = np.round(rng.normal(rate[large], np.sqrt(rate[large])))
        return out

    def _outside(self, x: Array) -> NDArray[np.bool_]:
        value, seen = masked(x)
        return np.asarray(seen & (~np.isfinite(value) | (value < 0) | (value != np.floor(value))))

    def _support(self) -> str:
        return "the whole numbers 0, 1, 2, ..."
