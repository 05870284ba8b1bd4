"""Numbers with tails heavier than a Gaussian's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, logit

from flatpc._typing import Array
from flatpc.families.base import Parameters, Statistics
from flatpc.families.location_scale import LocationScale
from flatpc.families.quadrature import NODE_WEIGHTS, NODES


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

    def log_between(self, parameters: Parameters, start: Array, end: Array) -> Array:
        """σ(b) - σ(a) = σ(b) σ(-a) (1 - exp(a - b)), which has all its digits in both tails."""
        a, b, width = self._ends(parameters, start, end)
        with np.errstate(divide="ignore", invalid="ignore"):
            out = log_expit(b) + log_expit(-a) + np.log(-np.expm1(-width))
        return np.where(width > 0, out, -np.inf)

    def statistics_between(self, parameters: Parameters, start: Array, end: Array, flow: Array) -> Statistics:
        """By 25 points of quadrature in the probability, taken from the side where it is small."""
        a, b, _ = self._ends(parameters, start, end)
        flip = -a < b  # the middle is positive
        upper = log_expit(np.where(flip, -a, b))
        # log t of the ratio t of both ends' probabilities, which log_between has in other words
        with np.errstate(divide="ignore", invalid="ignore"):
            apart = np.where(flip, log_expit(-b), log_expit(a)) - upper
        inside = np.exp(apart)[..., None] + (-np.expm1(apart))[..., None] * NODES
        log_v = upper[..., None] + np.log(inside)
        z = log_v - np.log1p(-np.exp(np.minimum(log_v, -1e-16)))
        z = np.where(flip[..., None], -z, z)
        z = np.clip(z, a[..., None], b[..., None])
        weight = np.tanh(z / 2)
        scale = parameters["scale"]
        return {
            "count": flow.sum(axis=0),
            "weight": (flow * (self.weight(parameters, z) @ NODE_WEIGHTS)).sum(axis=0),
            "deviation": scale * (flow * (weight @ NODE_WEIGHTS)).sum(axis=0),
            "squares": scale**2 * (flow * ((weight * z) @ NODE_WEIGHTS)).sum(axis=0),
        }

    def _ends(self, parameters: Parameters, start: Array, end: Array) -> tuple[Array, Array, Array]:
        """`[N, K]`: both ends in units of the scale, and how far they are apart."""
        location, scale = parameters["location"], parameters["scale"]
        start, end = np.asarray(start, np.float64)[:, None], np.asarray(end, np.float64)[:, None]
        with np.errstate(invalid="ignore"):
            return (start - location) / scale, (end - location) / scale, (end - start) / scale

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
