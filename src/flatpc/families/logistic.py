"""Numbers with tails heavier than a Gaussian's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, logit

from flatpc._typing import Array
from flatpc.families.base import Parameters
from flatpc.families.location_scale import LocationScale


@dataclass(frozen=True)
class Logistic(LocationScale):
    """Logistic density: tails heavier than a Gaussian's. Parameters of a unit: `location [K]`, `scale [K]`.

    >>> import flatpc as fp
    >>> import numpy as np
    >>> unit = {"location": np.array([0.0]), "scale": np.array([1.0])}
    >>> float(np.exp(fp.Logistic().log_density(unit, np.array([0.0])))[0, 0])
    0.25

    Parameters
    ----------
    min_scale
        Learning keeps every scale at this or more.

    Raises
    ------
    OptionError
        If `min_scale` is not a positive number.
    """

    def weight(self, parameters: Parameters, z: Array) -> Array:
        """tanh(z/2) / z, which is 1/2 at 0."""
        small = abs(z) < 1e-4
        safe = np.where(small, 1.0, z)
        return np.where(small, 0.5 - z**2 / 24, np.tanh(safe / 2) / safe)

    def log_density(self, parameters: Parameters, x: Array) -> Array:
        """-|z| - 2 log(1 + exp(-|z|)) - log s; 0 where x is NaN."""
        z = abs(self.standardized(parameters, x))
        log_p = -z + 2 * log_expit(z) - np.log(parameters["scale"])
        return np.where(np.isnan(x)[:, None], 0.0, log_p)

    def mean(self, parameters: Parameters) -> Array:
        """The location."""
        return np.asarray(parameters["location"])

    def variance(self, parameters: Parameters) -> Array:
        """(π s)² / 3."""
        return np.asarray((np.pi * parameters["scale"]) ** 2 / 3)

    def entropy(self, parameters: Parameters) -> Array:
        """2 + log s."""
        return np.asarray(2 + np.log(parameters["scale"]))

    def cdf(self, parameters: Parameters, x: Array) -> Array:
        """1 / (1 + exp(-z))."""
        return np.asarray(expit((np.asarray(x, np.float64)[:, None] - parameters["location"]) / parameters["scale"]))

    def quantile(self, parameters: Parameters, q: Array) -> Array:
        """By the logit."""
        return np.asarray(parameters["location"] + parameters["scale"] * logit(np.asarray(q, np.float64))[:, None])

    def noise(self, parameters: Parameters, units: NDArray[np.int64], rng: np.random.Generator) -> Array:
        """NumPy's."""
        return rng.logistic(size=len(units))

    def torch_log_density(self, parameters: Mapping[str, Any], x: Any) -> Any:
        """The same."""
        import torch

        z = (x - parameters["location"]) / parameters["scale"]
        return torch.nn.functional.logsigmoid(z) + torch.nn.functional.logsigmoid(-z) - torch.log(parameters["scale"])
