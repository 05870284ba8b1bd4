"""Numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from flatpc._options import number, put
from flatpc.errors import ParameterError
from flatpc.families.base import Array, Family, Parameters, Statistics, masked, ratio


@dataclass(frozen=True)
class Gaussian(Family):
    """Normal density. Parameters: `mean [K]`, `variance [K]`; learning keeps every variance at `min_variance` or more.

    With `max_variance` variances are bounded above too, and random ones are drawn wide, as in Einsum Networks: r from N(0, 1),
    `variance = min_variance + sigmoid(r) (max_variance - min_variance)`. Wide inputs that narrow slowly overfit less than inputs
    that start with variance 1.

    >>> bool(Gaussian(max_variance=10.0).initialize(100, np.random.default_rng(0), "exponential")["variance"].mean() > 4)
    True
    """

    min_variance: float = 1e-4
    max_variance: float | None = None
    names: ClassVar[tuple[str, ...]] = ("mean", "variance")
    discrete: ClassVar[bool] = False

    def __post_init__(self) -> None:
        what = "the variance floor is positive and finite"
        put(self, min_variance=number("Gaussian: min_variance", self.min_variance, 0.0, above=True, what=what))
        if self.max_variance is not None:
            what = f"the largest variance is finite and above min_variance ({self.min_variance:g}), or None"
            put(self, max_variance=number("Gaussian: max_variance", self.max_variance, self.min_variance, above=True, what=what))

    def check_parameters(self, parameters: Parameters, where: str) -> None:
        if not np.isfinite(parameters["mean"]).all():
            raise ParameterError(f"{where}: every mean must be a finite number.")
        variance = parameters["variance"]
        if not (np.isfinite(variance) & (variance > 0)).all():
            raise ParameterError(f"{where}: every variance must be finite and positive.")

    def initialize(self, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        mean = rng.standard_normal(width)
        if self.max_variance is None:
            return {"mean": mean, "variance": np.ones(width)}
        share = expit(rng.standard_normal(width))
        return {"mean": mean, "variance": self.min_variance + share * (self.max_variance - self.min_variance)}

    def within(self, variance: Array) -> Array:
        """The variances, each moved to the nearest that is allowed."""
        return np.clip(variance, self.min_variance, self.max_variance)

    def log_density(self, parameters: Parameters, x: Array) -> Array:
        value, seen = masked(x)
        mean, variance = parameters["mean"], parameters["variance"]
        with np.errstate(over="ignore"):
            z = (value[:, None] - mean) ** 2 / variance
        return np.where(seen[:, None], -0.5 * (z + np.log(variance) + math.log(2 * math.pi)), 0.0)

    def statistics(self, parameters: Parameters, x: Array, flow: Array) -> Statistics:
        # Deviations from the current mean, so that large means don't cancel.
        value, seen = masked(x)
        flow = np.where(seen[:, None], flow, 0.0)
        deviation = value[:, None] - parameters["mean"]
        return {
            "count": flow.sum(axis=0),
            "deviation": (flow * deviation).sum(axis=0),
            "squares": (flow * deviation**2).sum(axis=0),
        }

    def update(self, parameters: Parameters, statistics: Statistics, pseudocount: float = 0.0) -> dict[str, Array]:
        count = statistics["count"]
        shift = ratio(statistics["deviation"], count, np.zeros_like(count))
        squares = ratio(statistics["squares"], count, parameters["variance"])
        variance = np.where(count > 0, squares - shift**2, parameters["variance"])
        return {"mean": parameters["mean"] + shift, "variance": self.within(variance)}

    def mode(self, parameters: Parameters) -> Array:
        return np.asarray(parameters["mean"])

    def mean(self, parameters: Parameters) -> Array:
        return np.asarray(parameters["mean"])

    def variance(self, parameters: Parameters) -> Array:
        return np.asarray(parameters["variance"])

    def sample(self, parameters: Parameters, units: NDArray[np.int64], rng: np.random.Generator) -> Array:
        noise = rng.standard_normal(len(units))
        return np.asarray(parameters["mean"][units] + np.sqrt(parameters["variance"][units]) * noise)

    def _outside(self, x: Array) -> NDArray[np.bool_]:
        return np.isinf(x)

    def _support(self) -> str:
        return "finite numbers"
