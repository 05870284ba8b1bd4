"""Positive numbers over several orders of magnitude."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from flatpc._typing import Array
from flatpc.families.base import Parameters, Statistics
from flatpc.families.gaussian import Gaussian


@dataclass(frozen=True)
class LogNormal(Gaussian):
    """Positive numbers whose logarithms are normal. Parameters of a unit: `mean [K]`, `variance [K]`, of the logarithm.

    >>> import flatpc as fp
    >>> import numpy as np
    >>> unit = {"mean": np.array([0.0]), "variance": np.array([1.0])}
    >>> float(fp.LogNormal().quantile(unit, np.array([0.5]))[0, 0])
    1.0

    Parameters
    ----------
    min_variance
        Learning keeps every variance at this or more.
    max_variance
        Learning keeps every variance at this or less; None for no upper bound.

    Raises
    ------
    OptionError
        Unless 0 < `min_variance` < `max_variance`.
    """

    native: ClassVar[str | None] = None

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

    def initialize_from(self, x: Array, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        """Clusters of logarithms."""
        return super().initialize_from(_log(x), width, rng, spread)

    def log_density(self, parameters: Parameters, x: Array) -> Array:
        """A Gaussian's at log x, less log x; 0 where x is NaN."""
        y = _log(x)
        log_p = super().log_density(parameters, y) - np.where(np.isnan(y), 0.0, y)[:, None]
        return np.where((x <= 0)[:, None], -np.inf, log_p)

    def statistics(self, parameters: Parameters, x: Array, flow: Array) -> Statistics:
        """A Gaussian's of log x."""
        return super().statistics(parameters, _log(x), flow)

    def kernels(self, whole: Parameters, found: Statistics, x: Array, share: float) -> dict[str, Array]:
        """A Gaussian's around log x."""
        return super().kernels(whole, found, _log(x), share)

    def derivatives(self, parameters: Parameters, x: Array) -> tuple[Array, Array]:
        """A Gaussian's at log x."""
        return super().derivatives(parameters, _log(x))

    def mode(self, parameters: Parameters) -> Array:
        """exp(m - v)."""
        return np.asarray(np.exp(parameters["mean"] - parameters["variance"]))

    def mean(self, parameters: Parameters) -> Array:
        """exp(m + v/2)."""
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(parameters["mean"] + parameters["variance"] / 2))

    def variance(self, parameters: Parameters) -> Array:
        """(exp(v) - 1) exp(2m + v)."""
        v = parameters["variance"]
        with np.errstate(over="ignore"):
            return np.asarray(np.expm1(v) * np.exp(2 * parameters["mean"] + v))

    def entropy(self, parameters: Parameters) -> Array:
        """A Gaussian's, and m."""
        return np.asarray(super().entropy(parameters) + parameters["mean"])

    def cdf(self, parameters: Parameters, x: Array) -> Array:
        """A Gaussian's at log x."""
        x = np.asarray(x, np.float64)
        return np.where((x <= 0)[:, None], 0.0, super().cdf(parameters, np.log(np.where(x > 0, x, 1.0))))

    def quantile(self, parameters: Parameters, q: Array) -> Array:
        """The exponential of a Gaussian's."""
        return np.asarray(np.exp(super().quantile(parameters, q)))

    def sample(self, parameters: Parameters, units: NDArray[np.int64], rng: np.random.Generator) -> Array:
        """The exponential of a Gaussian's, kept finite and positive."""
        return np.exp(np.clip(super().sample(parameters, units, rng), -700.0, 700.0))

    def rescaled(self, parameters: Parameters, shift: float, scale: float) -> tuple[LogNormal, dict[str, Array]]:
        """Only without a shift."""
        if shift != 0 or scale <= 0:
            raise self.lacks("rescaled")
        return self, {"mean": parameters["mean"] + np.log(scale), "variance": parameters["variance"]}

    def torch_log_density(self, parameters: Mapping[str, Any], x: Any) -> Any:
        """The same."""
        import torch

        y = torch.log(torch.where(x > 0, x, 1.0))
        return torch.where(x > 0, super().torch_log_density(parameters, y) - y, -torch.inf)

    def torch_statistics(self, parameters: Mapping[str, Any], x: Any, flow: Any) -> dict[str, Any]:
        """The same."""
        import torch

        return super().torch_statistics(parameters, torch.log(torch.where(x > 0, x, 1.0)), flow)


def _log(x: Array) -> Array:
    return np.log(np.where(x > 0, x, np.where(np.isnan(x), np.nan, 1.0)))
