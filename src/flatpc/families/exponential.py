"""Waiting times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from flatpc._options import number, put
from flatpc._typing import Array
from flatpc.errors import ParameterError
from flatpc.families.base import LARGEST_EXPONENT, Family, Parameters, Statistics, count_and_sum, masked, ratio
from flatpc.families.counts import torch_count_and_sum


@dataclass(frozen=True)
class Exponential(Family):
    """Exponential density of numbers from 0 on, such as waiting times. Parameters of a unit: `mean [K]`.

    >>> import flatpc as fp
    >>> import numpy as np
    >>> circuit = fp.Circuit([fp.Input(0, fp.Exponential())], {0: {"mean": [2.0]}})
    >>> float(np.exp(circuit.log_prob([[0.0]]))[0])
    0.5

    Parameters
    ----------
    min_mean
        Learning keeps every mean at this or more.

    Raises
    ------
    OptionError
        If `min_mean` is not a positive number.
    """

    min_mean: float = 1e-6
    names: ClassVar[tuple[str, ...]] = ("mean",)
    statistic_names: ClassVar[tuple[str, ...]] = ("count", "sum")
    discrete: ClassVar[bool] = False

    def __post_init__(self) -> None:
        what = "the floor of the means is positive and finite"
        put(self, min_mean=number("Exponential: min_mean", self.min_mean, 0.0, above=True, what=what))

    def check_parameters(self, parameters: Parameters, where: str) -> None:
        """Positive means."""
        mean = parameters["mean"]
        if not (np.isfinite(mean) & (mean > 0)).all():
            raise ParameterError(f"{where}: every mean must be finite and positive.")

    def outside(self, x: Array) -> NDArray[np.bool_]:
        """Negative numbers."""
        return np.asarray((x < 0) | np.isinf(x))

    def support(self) -> str:
        """The values in words."""
        return "numbers from 0 on"

    @property
    def bounds(self) -> tuple[float, float]:
        """From 0 on."""
        return 0.0, np.inf

    def initialize(self, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        """Means between 1/2 and 2."""
        return {"mean": np.exp(rng.uniform(-0.7, 0.7, width))}

    def initialize_from(self, x: Array, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        """Around the mean of the values."""
        seen = x[~np.isnan(x)]
        scale = float(seen.mean()) if len(seen) else 1.0
        return {"mean": np.maximum(scale * self.initialize(width, rng, spread)["mean"], self.min_mean)}

    def log_density(self, parameters: Parameters, x: Array) -> Array:
        """-x/m - log m; 0 where x is NaN."""
        value, seen = masked(x)
        mean = parameters["mean"]
        log_p = np.where(value[:, None] < 0, -np.inf, -value[:, None] / mean - np.log(mean))
        return np.where(seen[:, None], log_p, 0.0)

    def statistics(self, parameters: Parameters, x: Array, flow: Array) -> Statistics:
        """Flow, and flow times value."""
        return count_and_sum(x, flow)

    def update(self, parameters: Parameters, statistics: Statistics, pseudocount: float = 0.0) -> dict[str, Array]:
        """The mean of the values."""
        return {"mean": np.maximum(ratio(statistics["sum"], statistics["count"], parameters["mean"]), self.min_mean)}

    def unconstrain(self, parameters: Parameters) -> dict[str, Array]:
        """`z` with mean = min_mean + exp(z)."""
        return {"mean": np.log(np.maximum(parameters["mean"] - self.min_mean, 0.01 * self.min_mean))}

    def constrain(self, free: Parameters) -> dict[str, Array]:
        """Back again."""
        return {"mean": self.min_mean + np.exp(np.minimum(free["mean"], LARGEST_EXPONENT))}

    def gradient(self, parameters: Parameters, statistics: Statistics) -> dict[str, Array]:
        """By the chain rule."""
        mean = parameters["mean"]
        return {"mean": (statistics["sum"] / mean - statistics["count"]) / mean * (mean - self.min_mean)}

    def mode(self, parameters: Parameters) -> Array:
        """0."""
        return np.zeros_like(parameters["mean"])

    def mean(self, parameters: Parameters) -> Array:
        """The parameter."""
        return np.asarray(parameters["mean"])

    def variance(self, parameters: Parameters) -> Array:
        """The square of the mean."""
        return np.asarray(parameters["mean"] ** 2)

    def entropy(self, parameters: Parameters) -> Array:
        """1 + log m."""
        return np.asarray(1 + np.log(parameters["mean"]))

    def cdf(self, parameters: Parameters, x: Array) -> Array:
        """1 - exp(-x/m)."""
        return np.asarray(-np.expm1(-np.maximum(np.asarray(x, np.float64), 0.0)[:, None] / parameters["mean"]))

    def quantile(self, parameters: Parameters, q: Array) -> Array:
        """-m log(1 - q)."""
        with np.errstate(divide="ignore"):
            return np.asarray(-parameters["mean"] * np.log1p(-np.asarray(q, np.float64))[:, None])

    def sample(self, parameters: Parameters, units: NDArray[np.int64], rng: np.random.Generator) -> Array:
        """NumPy's."""
        return rng.exponential(parameters["mean"][units])

    def torch_log_density(self, parameters: Mapping[str, Any], x: Any) -> Any:
        """The same."""
        import torch

        mean = parameters["mean"]
        return torch.where(x < 0, -torch.inf, -x / mean - torch.log(mean))

    def torch_statistics(self, parameters: Mapping[str, Any], x: Any, flow: Any) -> dict[str, Any]:
        """The same."""
        return torch_count_and_sum(x, flow)
