"""What families of a location and a scale share that are mixtures of Gaussians of all variances.

With z = (x - location) / scale, log p = f(z²) - log scale, and f falls and is convex. Then

    f(z²) ≥ f(z₀²) - u (z² - z₀²) / 2,      u = -2 f'(z₀²)

so that a Gaussian step with the weights u never lowers the likelihood, and u (x - location) / scale² is the slope of log p in the
location: the same sums serve EM and gradients.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from flatpc._options import number, put
from flatpc._typing import Array
from flatpc.errors import ParameterError
from flatpc.families.base import LARGEST_EXPONENT, Family, Parameters, Statistics, masked, ratio
from flatpc.families.initialize import k_means


@dataclass(frozen=True)
class LocationScale(Family):
    """Parameters: `location [K]`, `scale [K]`; learning keeps every scale at `min_scale` or more. Subclasses define the shape."""

    min_scale: float = 1e-2
    names: ClassVar[tuple[str, ...]] = ("location", "scale")
    statistic_names: ClassVar[tuple[str, ...]] = ("count", "weight", "deviation", "squares")
    discrete: ClassVar[bool] = False

    def __post_init__(self) -> None:
        name, what = f"{type(self).__name__}: min_scale", "the floor of the scales is positive and finite"
        put(self, min_scale=number(name, self.min_scale, 0.0, above=True, what=what))

    def weight(self, parameters: Parameters, z: Array) -> Array:
        """`[N, K]`: u."""
        raise self.lacks("weight")

    def check_parameters(self, parameters: Parameters, where: str) -> None:
        """Finite locations; all else positive."""
        for name, value in parameters.items():
            if not (np.isfinite(value) & ((value > 0) | (name == "location"))).all():
                kind = "a finite number" if name == "location" else "finite and positive"
                raise ParameterError(f"{where}: every {name} must be {kind}.")

    def initialize(self, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        """Standard normal locations, scales of 1."""
        return {"location": rng.standard_normal(width), "scale": np.ones(width)}

    def initialize_from(self, x: Array, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        """Clusters of the values, by k-means."""
        drawn = self.initialize(width, rng, spread)
        mean, variance = k_means(x, width, rng)
        return {**drawn, "location": mean, "scale": np.maximum(np.sqrt(variance), self.min_scale)}

    def standardized(self, parameters: Parameters, x: Array) -> Array:
        """`[N, K]`: z, 0 where x is NaN."""
        value, seen = masked(x)
        return np.where(seen[:, None], (value[:, None] - parameters["location"]) / parameters["scale"], 0.0)

    def statistics(self, parameters: Parameters, x: Array, flow: Array) -> Statistics:
        """Flow; flow times u, and times first and second powers of deviations from the location."""
        flow = np.where(np.isnan(x)[:, None], 0.0, flow)
        z = self.standardized(parameters, x)
        weight, deviation = flow * self.weight(parameters, z), z * parameters["scale"]
        return {
            "count": flow.sum(axis=0),
            "weight": weight.sum(axis=0),
            "deviation": (weight * deviation).sum(axis=0),
            "squares": (weight * deviation**2).sum(axis=0),
        }

    def moved(self, parameters: Parameters, statistics: Statistics, total: Array) -> dict[str, Array]:
        """Location and scale of the weighted values; `total` is what the sum of squares is divided by."""
        weight, count = statistics["weight"], statistics["count"]
        shift = ratio(statistics["deviation"], weight, np.zeros_like(count))
        square = ratio(statistics["squares"] - shift**2 * weight, total, parameters["scale"] ** 2)
        scale = np.where(count > 0, np.sqrt(np.maximum(square, 0.0)), parameters["scale"])
        return {"location": parameters["location"] + shift, "scale": np.maximum(scale, self.min_scale)}

    def update(self, parameters: Parameters, statistics: Statistics, pseudocount: float = 0.0) -> dict[str, Array]:
        """A Gaussian's step with weights."""
        return self.moved(parameters, statistics, statistics["count"])

    def interpolate(self, old: Parameters, new: Parameters, step: float | Array) -> dict[str, Array]:
        """The average of first and second moments, as of a Gaussian."""
        shift = new["location"] - old["location"]
        square = (1 - step) * old["scale"] ** 2 + step * new["scale"] ** 2 + step * (1 - step) * shift**2
        return {"location": old["location"] + step * shift, "scale": np.maximum(np.sqrt(square), self.min_scale)}

    def restate(self, statistics: Statistics, old: Parameters, new: Parameters) -> Statistics:
        """Deviations from the new location."""
        shift, weight, deviation = new["location"] - old["location"], statistics["weight"], statistics["deviation"]
        squares = statistics["squares"] + shift * (shift * weight - 2 * deviation)
        return {**statistics, "deviation": deviation - shift * weight, "squares": squares}

    def unconstrain(self, parameters: Parameters) -> dict[str, Array]:
        """The location itself; z with scale = min_scale + exp(z)."""
        above = np.maximum(parameters["scale"] - self.min_scale, 0.01 * self.min_scale)
        return {"location": parameters["location"], "scale": np.log(above)}

    def constrain(self, free: Parameters) -> dict[str, Array]:
        """Back again."""
        scale = self.min_scale + np.exp(np.minimum(free["scale"], LARGEST_EXPONENT))
        return {"location": free["location"], "scale": scale}

    def gradient(self, parameters: Parameters, statistics: Statistics) -> dict[str, Array]:
        """By the chain rule."""
        scale = parameters["scale"]
        pull = (statistics["squares"] / scale**2 - statistics["count"]) / scale
        return {"location": statistics["deviation"] / scale**2, "scale": pull * (scale - self.min_scale)}

    def mode(self, parameters: Parameters) -> Array:
        """The location."""
        return np.asarray(parameters["location"])

    def sample(self, parameters: Parameters, units: NDArray[np.int64], rng: np.random.Generator) -> Array:
        """Noise, scaled and shifted."""
        return np.asarray(parameters["location"][units] + parameters["scale"][units] * self.noise(parameters, units, rng))

    def noise(self, parameters: Parameters, units: NDArray[np.int64], rng: np.random.Generator) -> Array:
        """Values of z."""
        raise self.lacks("noise")

    def rescaled(self, parameters: Parameters, shift: float, scale: float) -> tuple[LocationScale, dict[str, Any]]:
        """Location and scale, and the floor of scales."""
        moved = {"location": shift + scale * parameters["location"], "scale": scale * parameters["scale"]}
        return replace(self, min_scale=self.min_scale * scale), {**parameters, **moved}

    @property
    def floor(self) -> float | None:
        """The square of `min_scale`."""
        return self.min_scale**2

    @property
    def chosen_floor(self) -> float:
        """The floor, unless it is the default."""
        return 0.0 if self.min_scale == LocationScale.min_scale else self.min_scale**2

    def with_floor(self, floor: float) -> LocationScale:
        """With `min_scale` of its root."""
        return replace(self, min_scale=float(np.sqrt(floor)))
