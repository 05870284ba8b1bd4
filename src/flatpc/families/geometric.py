"""Counts that fall off steadily."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from flatpc._typing import Array
from flatpc.families.base import Parameters, masked
from flatpc.families.differences import derivatives
from flatpc.families.poisson import Poisson


@dataclass(frozen=True)
class Geometric(Poisson):
    """Whole numbers from 0 on, each less probable than the one before by the factor r / (1 + r). Parameters: `rate [K]`.

    The rate r is the mean.

    >>> import flatpc as fp
    >>> import numpy as np
    >>> np.exp(fp.Geometric().log_density({"rate": np.array([1.0])}, np.array([0.0, 1.0, 2.0])))[:, 0].round(3).tolist()
    [0.5, 0.25, 0.125]

    Parameters
    ----------
    min_rate
        Learning keeps every rate at this or more.

    Raises
    ------
    OptionError
        If `min_rate` is not a positive number.
    """

    native: ClassVar[str | None] = None

    def log_density(self, parameters: Parameters, x: Array) -> Array:
        """`x log(r / (1+r)) - log(1+r)`; 0 where x is NaN."""
        value, seen = masked(x)
        rate = parameters["rate"]
        log_p = xlogy(value[:, None], rate / (1 + rate)) - np.log1p(rate)
        return np.where(seen[:, None], log_p, 0.0)

    def gradient(self, parameters: Parameters, statistics: dict[str, Array]) -> dict[str, Array]:
        """By the chain rule."""
        rate = parameters["rate"]
        slope = statistics["sum"] / (rate * (1 + rate)) - statistics["count"] / (1 + rate)
        return {"rate": slope * (rate - self.min_rate)}

    def derivatives(self, parameters: Parameters, x: Array) -> tuple[Array, Array]:
        """By differences."""
        return derivatives(self, parameters, x)

    def mode(self, parameters: Parameters) -> Array:
        """0."""
        return np.zeros_like(parameters["rate"])

    def variance(self, parameters: Parameters) -> Array:
        """`r (1 + r)`."""
        return np.asarray(parameters["rate"] * (1 + parameters["rate"]))

    def entropy(self, parameters: Parameters) -> Array:
        """(1+r) log(1+r) - r log r."""
        rate = parameters["rate"]
        return np.asarray((1 + rate) * np.log1p(rate) - xlogy(rate, rate))

    def cdf(self, parameters: Parameters, x: Array) -> Array:
        """1 - (r / (1+r))^(x+1)."""
        k = np.floor(np.asarray(x, np.float64))[:, None]
        return np.where(k < 0, 0.0, -np.expm1(-(k + 1) * np.log1p(1 / parameters["rate"])))

    def sample(self, parameters: Parameters, units: NDArray[np.int64], rng: np.random.Generator) -> Array:
        """From exponentials, rounded down."""
        return np.floor(rng.standard_exponential(len(units)) / np.log1p(1 / parameters["rate"][units]))

    def torch_log_density(self, parameters: Mapping[str, Any], x: Any) -> Any:
        """The same."""
        import torch

        rate = parameters["rate"]
        return torch.xlogy(x, rate / (1 + rate)) - torch.log1p(rate)
