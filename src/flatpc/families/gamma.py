"""Positive numbers with a peak and a tail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammainc, gammaincinv, gammaln

from flatpc._options import number, put
from flatpc._typing import Array
from flatpc.errors import ParameterError
from flatpc.families.base import LARGEST_EXPONENT, Cost, Family, Parameters, Statistics, masked, ratio
from flatpc.families.solving import shape_of_gamma

LEAST_SHAPE = 1e-3


@dataclass(frozen=True)
class Gamma(Family):
    """Gamma density of positive numbers. Parameters of a unit: `shape [K]`, `mean [K]`; the variance is mean² / shape.

    >>> import flatpc as fp
    >>> import numpy as np
    >>> unit = {"shape": np.array([4.0]), "mean": np.array([2.0])}
    >>> float(fp.Gamma().variance(unit)[0])
    1.0

    Parameters
    ----------
    max_shape
        Learning keeps every shape at this or less, so that no unit becomes a spike.

    Raises
    ------
    OptionError
        If `max_shape` is not a finite number above 0.001.
    """

    max_shape: float = 1e4
    names: ClassVar[tuple[str, ...]] = ("shape", "mean")
    statistic_names: ClassVar[tuple[str, ...]] = ("count", "sum", "logs")
    cost: ClassVar[Cost] = Cost(update=2e4)
    discrete: ClassVar[bool] = False

    def __post_init__(self) -> None:
        what = f"the largest shape is finite and above {LEAST_SHAPE:g}"
        put(self, max_shape=number("Gamma: max_shape", self.max_shape, LEAST_SHAPE, above=True, what=what))

    def check_parameters(self, parameters: Parameters, where: str) -> None:
        """Positive shapes and means."""
        for name, value in parameters.items():
            if not (np.isfinite(value) & (value > 0)).all():
                raise ParameterError(f"{where}: every {name} must be finite and positive.")

    def outside(self, x: Array) -> NDArray[np.bool_]:
        """0 and negative numbers."""
        return np.asarray((x <= 0) | np.isinf(x))

    def support(self) -> str:
        """The values in words."""
        return "positive numbers"

    @property
    def bounds(self) -> tuple[float, float]:
        """Above 0."""
        return 0.0, np.inf

    def initialize(self, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        """Shapes between 1 and 4, means between 1/2 and 2."""
        return {"shape": np.exp(rng.uniform(0.0, 1.4, width)), "mean": np.exp(rng.uniform(-0.7, 0.7, width))}

    def initialize_from(self, x: Array, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        """Means around that of the values."""
        drawn, seen = self.initialize(width, rng, spread), x[~np.isnan(x)]
        drawn["mean"] *= float(seen.mean()) if len(seen) else 1.0
        return {**drawn, "shape": np.minimum(drawn["shape"], self.max_shape)}

    def log_density(self, parameters: Parameters, x: Array) -> Array:
        """`k log(k/m) + (k-1) log x - k x/m - log Γ(k)`; 0 where x is NaN."""
        value, seen = masked(x)
        k, mean = parameters["shape"], parameters["mean"]
        possible = value[:, None] > 0
        share = np.where(possible, value[:, None], 1.0) / mean
        log_p = k * (np.log(k) - share) + k * np.log(share) - gammaln(k) - np.log(share * mean)
        return np.where(seen[:, None], np.where(possible, log_p, -np.inf), 0.0)

    def statistics(self, parameters: Parameters, x: Array, flow: Array) -> Statistics:
        """Flow, flow times value, and flow times log(value / mean)."""
        value, seen = masked(x)
        flow = np.where(seen[:, None] & (value[:, None] > 0), flow, 0.0)
        logs = np.log(np.where(value > 0, value, 1.0))[:, None] - np.log(parameters["mean"])
        return {"count": flow.sum(axis=0), "sum": value @ flow, "logs": (flow * logs).sum(axis=0)}

    def update(self, parameters: Parameters, statistics: Statistics, pseudocount: float = 0.0) -> dict[str, Array]:
        """The mean of the values; the shape by Newton's method."""
        count, old = statistics["count"], parameters["mean"]
        mean = ratio(statistics["sum"], count, old)
        mean = np.where(mean > 0, mean, old)
        gap = np.log(mean) - np.log(old) - ratio(statistics["logs"], count, np.zeros_like(count))
        shape = np.where(count > 0, shape_of_gamma(gap, LEAST_SHAPE, self.max_shape), parameters["shape"])
        return {"shape": shape, "mean": mean}

    def interpolate(self, old: Parameters, new: Parameters, step: float | Array) -> dict[str, Array]:
        """The average of E[x] and of E[log x]."""
        mean = (1 - step) * old["mean"] + step * new["mean"]
        logs = [digamma(p["shape"]) - np.log(p["shape"]) + np.log(p["mean"]) for p in (old, new)]
        gap = np.log(mean) - ((1 - step) * logs[0] + step * logs[1])
        return {"shape": shape_of_gamma(gap, LEAST_SHAPE, self.max_shape), "mean": mean}

    def restate(self, statistics: Statistics, old: Parameters, new: Parameters) -> Statistics:
        """Logarithms in units of the new mean."""
        return {**statistics, "logs": statistics["logs"] + statistics["count"] * np.log(old["mean"] / new["mean"])}

    def unconstrain(self, parameters: Parameters) -> dict[str, Array]:
        """`z` with shape = LEAST_SHAPE + exp(z); the logarithm of the mean."""
        above = np.maximum(parameters["shape"] - LEAST_SHAPE, 0.01 * LEAST_SHAPE)
        return {"shape": np.log(above), "mean": np.log(parameters["mean"])}

    def constrain(self, free: Parameters) -> dict[str, Array]:
        """Back again."""
        shape = LEAST_SHAPE + np.exp(np.minimum(free["shape"], LARGEST_EXPONENT))
        return {
            "shape": np.minimum(shape, self.max_shape),
            "mean": np.exp(np.clip(free["mean"], -LARGEST_EXPONENT, LARGEST_EXPONENT)),
        }

    def gradient(self, parameters: Parameters, statistics: Statistics) -> dict[str, Array]:
        """By the chain rule."""
        k, mean, count = parameters["shape"], parameters["mean"], statistics["count"]
        share = statistics["sum"] / mean
        by_shape = count * (np.log(k) + 1 - digamma(k)) + statistics["logs"] - share
        slope = np.where(k < self.max_shape, k - LEAST_SHAPE, 0.0)
        return {"shape": by_shape * slope, "mean": k * (share - count)}

    def mode(self, parameters: Parameters) -> Array:
        """(k - 1) m / k; where k < 1, the density grows without bound towards 0, and the mode is the smallest normal number."""
        k, mean = parameters["shape"], parameters["mean"]
        return np.maximum((k - 1) / k * mean, np.finfo(np.float64).tiny)

    def mean(self, parameters: Parameters) -> Array:
        """The parameter."""
        return np.asarray(parameters["mean"])

    def variance(self, parameters: Parameters) -> Array:
        """m² / k."""
        return np.asarray(parameters["mean"] ** 2 / parameters["shape"])

    def entropy(self, parameters: Parameters) -> Array:
        """`k + log(m/k) + log Γ(k) + (1-k) ψ(k)`."""
        k, mean = parameters["shape"], parameters["mean"]
        return np.asarray(k + np.log(mean / k) + gammaln(k) + (1 - k) * digamma(k))

    def cdf(self, parameters: Parameters, x: Array) -> Array:
        """By the incomplete gamma function."""
        k, mean = parameters["shape"], parameters["mean"]
        return np.asarray(gammainc(k, np.maximum(np.asarray(x, np.float64), 0.0)[:, None] * k / mean))

    def quantile(self, parameters: Parameters, q: Array) -> Array:
        """Its inverse."""
        k, mean = parameters["shape"], parameters["mean"]
        return np.asarray(gammaincinv(k, np.asarray(q, np.float64)[:, None]) * mean / k)

    def sample(self, parameters: Parameters, units: NDArray[np.int64], rng: np.random.Generator) -> Array:
        """NumPy's, and never 0."""
        k, mean = parameters["shape"][units], parameters["mean"][units]
        return np.maximum(rng.gamma(k) * mean / k, np.finfo(np.float64).tiny)

    def torch_log_density(self, parameters: Mapping[str, Any], x: Any) -> Any:
        """The same."""
        import torch

        k, mean = parameters["shape"], parameters["mean"]
        share = torch.where(x > 0, x, 1.0) / mean
        log_p = k * (torch.log(k) - share) + k * torch.log(share) - torch.lgamma(k) - torch.log(share * mean)
        return torch.where(x > 0, log_p, -torch.inf)
