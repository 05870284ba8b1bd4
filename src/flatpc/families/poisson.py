"""Counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, pdtr, xlogy

from flatpc._options import number, put
from flatpc._typing import Array
from flatpc.errors import ParameterError
from flatpc.families.base import LARGEST_EXPONENT, Family, Parameters, Statistics, count_and_sum, masked, ratio
from flatpc.families.counts import entropy_of_counts, quantile_of_counts, torch_count_and_sum

MANY = 1e5
"""Counts beyond which Stirling's formula with one correction is exact to all digits."""


@dataclass(frozen=True)
class Poisson(Family):
    """Counts. Parameters of a unit: `rate [K]`.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> fp.Poisson().variance({"rate": np.array([2.5])}).tolist()
    [2.5]

    Parameters
    ----------
    min_rate
        Learning keeps every rate at this or more.

    Raises
    ------
    OptionError
        Unless `min_rate` is positive and finite.
    """

    min_rate: float = 1e-6
    names: ClassVar[tuple[str, ...]] = ("rate",)
    statistic_names: ClassVar[tuple[str, ...]] = ("count", "sum")
    native: ClassVar[str | None] = "poisson"

    def __post_init__(self) -> None:
        what = "the floor of the rates is positive and finite"
        put(self, min_rate=number("Poisson: min_rate", self.min_rate, 0.0, above=True, what=what))

    def check_parameters(self, parameters: Parameters, where: str) -> None:
        """Positive rates."""
        rate = parameters["rate"]
        if not (np.isfinite(rate) & (rate > 0)).all():
            raise ParameterError(f"{where}: every rate must be finite and positive.")

    def initialize(self, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        """Uniform between 0.5 and 5."""
        return {"rate": rng.uniform(0.5, 5.0, width)}

    def log_density(self, parameters: Parameters, x: Array) -> Array:
        """Of the Poisson distribution; 0 where x is NaN."""
        value, seen = masked(x)
        rate, k = parameters["rate"], value[:, None]
        few = k <= MANY
        textbook = xlogy(np.where(few, k, 0.0), rate) - rate - gammaln(np.where(few, k, 0.0) + 1)
        return np.where(seen[:, None], np.where(few, textbook, _log_density_of_many(np.where(few, MANY, k), rate)), 0.0)

    def statistics(self, parameters: Parameters, x: Array, flow: Array) -> Statistics:
        """Flow, and flow times value."""
        return count_and_sum(x, flow)

    def update(self, parameters: Parameters, statistics: Statistics, pseudocount: float = 0.0) -> dict[str, Array]:
        """The mean of the values."""
        rate = ratio(statistics["sum"], statistics["count"], parameters["rate"])
        return {"rate": np.maximum(rate, self.min_rate)}

    def unconstrain(self, parameters: Parameters) -> dict[str, Array]:
        """`z` with rate = min_rate + exp(z)."""
        return {"rate": np.log(np.maximum(parameters["rate"] - self.min_rate, 0.01 * self.min_rate))}

    def constrain(self, free: Parameters) -> dict[str, Array]:
        """Back again."""
        return {"rate": self.min_rate + np.exp(np.minimum(free["rate"], LARGEST_EXPONENT))}

    def gradient(self, parameters: Parameters, statistics: Statistics) -> dict[str, Array]:
        """By the chain rule."""
        rate = parameters["rate"]
        return {"rate": (statistics["sum"] / rate - statistics["count"]) * (rate - self.min_rate)}

    def derivatives(self, parameters: Parameters, x: Array) -> tuple[Array, Array]:
        """By the chain rule."""
        rate = parameters["rate"]
        above = rate - self.min_rate  # slope and bend of the rate in z
        value, seen = masked(x)
        pull = value[:, None] / rate - 1
        first, second = pull * above, pull * above - value[:, None] / rate**2 * above**2
        return (first * seen[:, None])[:, :, None], (second * seen[:, None])[:, :, None, None]

    def mode(self, parameters: Parameters) -> Array:
        """The rate, rounded down."""
        return np.floor(parameters["rate"])

    def mean(self, parameters: Parameters) -> Array:
        """The rate."""
        return np.asarray(parameters["rate"])

    def variance(self, parameters: Parameters) -> Array:
        """The rate."""
        return np.asarray(parameters["rate"])

    def entropy(self, parameters: Parameters) -> Array:
        """Summed over values."""
        # Twelve standard deviations beyond the mean hold all but 1e-30 of the mass.
        largest = float(parameters["rate"].max())
        return entropy_of_counts(self, parameters, np.ceil(largest + 12 * np.sqrt(largest) + 30))

    def cdf(self, parameters: Parameters, x: Array) -> Array:
        """By the incomplete gamma function."""
        k = np.floor(np.asarray(x, np.float64))[:, None]
        return np.where(k < 0, 0.0, pdtr(np.maximum(k, 0.0), parameters["rate"]))

    def quantile(self, parameters: Parameters, q: Array) -> Array:
        """By bisection of the cdf."""
        return quantile_of_counts(self, parameters, q)

    def sample(self, parameters: Parameters, units: NDArray[np.int64], rng: np.random.Generator) -> Array:
        """NumPy's."""
        rate = parameters["rate"][units]
        # NumPy draws no counts beyond 64 bits; there the distribution is a Gaussian to all digits.
        large = rate > 1e15
        out = rng.poisson(np.where(large, 1.0, rate)).astype(np.float64)
        out[large] = np.round(rng.normal(rate[large], np.sqrt(rate[large])))
        return out

    def outside(self, x: Array) -> NDArray[np.bool_]:
        """Whatever is not a whole number from 0 on."""
        value, seen = masked(x)
        return np.asarray(seen & (~np.isfinite(value) | (value < 0) | (value != np.floor(value))))

    def support(self) -> str:
        """The values in words."""
        return "the whole numbers 0, 1, 2, ..."

    @property
    def bounds(self) -> tuple[float, float]:
        """From 0 on."""
        return 0.0, np.inf

    def torch_log_density(self, parameters: Mapping[str, Any], x: Any) -> Any:
        """The same."""
        import torch

        rate, few = parameters["rate"], x <= MANY
        k, many = torch.where(few, x, 0.0), torch.where(few, MANY, x)
        d = (rate - many) / many
        log_ratio = torch.where(d > -0.5, torch.log1p(d.clamp(min=-0.5)), torch.log(rate / many))
        stirling = -many * (d - log_ratio) - 0.5 * torch.log(2 * torch.pi * many) - 1 / (12 * many)
        return torch.where(few, torch.xlogy(k, rate) - rate - torch.lgamma(k + 1), stirling)

    def torch_statistics(self, parameters: Mapping[str, Any], x: Any, flow: Any) -> dict[str, Any]:
        """The same."""
        return torch_count_and_sum(x, flow)


def _log_density_of_many(k: Array, rate: Array) -> Array:
    """By Stirling's formula around the rate: the terms of the textbook's form cancel to no digits for counts near 1e15."""
    with np.errstate(over="ignore"):
        d = (rate - k) / k
        log_ratio = np.where(d > -0.5, np.log1p(np.maximum(d, -0.5)), np.log(rate / k))
        return np.asarray(-k * (d - log_ratio) - 0.5 * np.log(2 * np.pi * k) - 1 / (12 * k))
