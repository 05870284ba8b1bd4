"""Numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_ndtr, logit, ndtr, ndtri

from flatpc._options import number, put
from flatpc._typing import Array
from flatpc.errors import ParameterError
from flatpc.families.base import LARGEST_EXPONENT, Family, Parameters, Statistics, masked, ratio
from flatpc.families.initialize import k_means

NARROW = 1e-4
"""Standard deviations below which an interval's probability is its width times the density."""
FAR_OUT = 500.0
"""Standard deviations beyond which the square of a number has lost the digits that differences need."""


@dataclass(frozen=True)
class Gaussian(Family):
    """Normal density. Parameters of a unit: `mean [K]`, `variance [K]`.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> units = {"mean": np.array([0.0]), "variance": np.array([4.0])}
    >>> fp.Gaussian().cdf(units, np.array([0.0])).tolist()
    [[0.5]]
    >>> fp.Gaussian(max_variance=10.0).within(np.array([0.0, 99.0])).tolist()
    [0.0001, 10.0]

    Parameters
    ----------
    min_variance
        Learning keeps every variance at this or more.
    max_variance
        Learning keeps every variance at this or less, and random ones are drawn wide, as in Einsum Networks: with r from
        N(0, 1), `variance = min_variance + sigmoid(r) (max_variance - min_variance)`. Wide inputs that narrow slowly overfit
        less than inputs that start with variance 1. By default there is no upper bound.

    Raises
    ------
    OptionError
        Unless `0 < min_variance < max_variance`, both finite.
    """

    min_variance: float = 1e-4
    max_variance: float | None = None
    names: ClassVar[tuple[str, ...]] = ("mean", "variance")
    statistic_names: ClassVar[tuple[str, ...]] = ("count", "deviation", "squares")
    discrete: ClassVar[bool] = False
    native: ClassVar[str | None] = "gaussian"

    def __post_init__(self) -> None:
        what = "the variance floor is positive and finite"
        put(self, min_variance=number("Gaussian: min_variance", self.min_variance, 0.0, above=True, what=what))
        if self.max_variance is not None:
            what = f"the largest variance is finite and above min_variance ({self.min_variance:g}), or None"
            put(self, max_variance=number("Gaussian: max_variance", self.max_variance, self.min_variance, above=True, what=what))

    def check_parameters(self, parameters: Parameters, where: str) -> None:
        """Finite means, positive variances."""
        if not np.isfinite(parameters["mean"]).all():
            raise ParameterError(f"{where}: every mean must be a finite number.")
        variance = parameters["variance"]
        if not (np.isfinite(variance) & (variance > 0)).all():
            raise ParameterError(f"{where}: every variance must be finite and positive.")

    def initialize(self, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        """Standard normal means; variances of 1, or wide ones below the bound."""
        mean = rng.standard_normal(width)
        if self.max_variance is None:
            return {"mean": mean, "variance": np.ones(width)}
        share = expit(rng.standard_normal(width))
        return {"mean": mean, "variance": self.min_variance + share * (self.max_variance - self.min_variance)}

    def within(self, variance: Array) -> Array:
        """The variances, each moved to the nearest that is allowed.

        Parameters
        ----------
        variance
            Any numbers.

        Returns
        -------
        array
            Of the same shape.
        """
        return np.clip(variance, self.min_variance, self.max_variance)

    def initialize_from(self, x: Array, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        """Clusters of the values, by k-means."""
        self.initialize(width, rng, spread)  # so that later draws are those of a start without rows
        mean, variance = k_means(x, width, rng)
        return {"mean": mean, "variance": self.within(variance)}

    def log_density(self, parameters: Parameters, x: Array) -> Array:
        """Of the normal distribution; 0 where x is NaN."""
        value, seen = masked(x)
        mean, variance = parameters["mean"], parameters["variance"]
        with np.errstate(over="ignore"):
            z = (value[:, None] - mean) ** 2 / variance
        return np.where(seen[:, None], -0.5 * (z + np.log(variance) + math.log(2 * math.pi)), 0.0)

    def statistics(self, parameters: Parameters, x: Array, flow: Array) -> Statistics:
        """Flow, and first and second powers of deviations from the mean."""
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
        """Mean and variance of the values."""
        count = statistics["count"]
        shift = ratio(statistics["deviation"], count, np.zeros_like(count))
        squares = ratio(statistics["squares"], count, parameters["variance"])
        variance = np.where(count > 0, squares - shift**2, parameters["variance"])
        return {"mean": parameters["mean"] + shift, "variance": self.within(variance)}

    def kernels(self, whole: Parameters, found: Statistics, x: Array, share: float) -> dict[str, Array]:
        """At the values, with a share of the variance."""
        seen = ~np.isnan(x)
        return {
            "mean": np.where(seen, x, whole["mean"]),
            "variance": self.within(np.where(seen, share, 1.0) * whole["variance"]),
        }

    def interpolate(self, old: Parameters, new: Parameters, step: float | Array) -> dict[str, Array]:
        """The average of first and second moments: v' = (1-α)v + αṽ + α(1-α)(m̃-m)²."""
        shift = new["mean"] - old["mean"]
        variance = (1 - step) * old["variance"] + step * new["variance"] + step * (1 - step) * shift**2
        return {"mean": old["mean"] + step * shift, "variance": self.within(variance)}

    def restate(self, statistics: Statistics, old: Parameters, new: Parameters) -> Statistics:
        """Σ(x-m') and Σ(x-m')² from Σ(x-m) and Σ(x-m)²."""
        shift = new["mean"] - old["mean"]
        count, deviation = statistics["count"], statistics["deviation"]
        return {
            "count": count,
            "deviation": deviation - shift * count,
            "squares": statistics["squares"] + shift * (shift * count - 2 * deviation),
        }

    def unconstrain(self, parameters: Parameters) -> dict[str, Array]:
        """The mean itself; z with variance = min_variance + exp(2 z), the logarithm of a scale.

        With `max_variance`: variance = min_variance + (max_variance - min_variance) / (1 + exp(-z)).
        """
        above = np.maximum(parameters["variance"] - self.min_variance, 0.01 * self.min_variance)
        if self.max_variance is None:
            return {"mean": parameters["mean"], "variance": np.log(above) / 2}
        share = above / (self.max_variance - self.min_variance)
        return {"mean": parameters["mean"], "variance": logit(np.clip(share, 1e-12, 1 - 1e-12))}

    def constrain(self, free: Parameters) -> dict[str, Array]:
        """Back again."""
        z = free["variance"]
        if self.max_variance is None:
            above = np.exp(np.minimum(2 * z, LARGEST_EXPONENT))
        else:
            above = expit(z) * (self.max_variance - self.min_variance)
        return {"mean": free["mean"], "variance": self.min_variance + above}

    def gradient(self, parameters: Parameters, statistics: Statistics) -> dict[str, Array]:
        """By the chain rule."""
        variance = parameters["variance"]
        above = variance - self.min_variance
        slope = 2 * above  # of the variance in z
        if self.max_variance is not None:
            slope = above * (self.max_variance - variance) / (self.max_variance - self.min_variance)
        pull = (statistics["squares"] / variance - statistics["count"]) / (2 * variance)
        return {"mean": statistics["deviation"] / variance, "variance": pull * slope}

    def derivatives(self, parameters: Parameters, x: Array) -> tuple[Array, Array]:
        """By the chain rule."""
        variance = parameters["variance"]
        slope, bend = self._slopes(variance)
        value, seen = masked(x)
        d = value[:, None] - parameters["mean"]
        pull = (d**2 / variance - 1) / (2 * variance)
        first = np.stack([d / variance, pull * slope], axis=2)
        second = np.empty((*d.shape, 2, 2))
        second[..., 0, 0] = -1 / variance
        second[..., 0, 1] = second[..., 1, 0] = -d / variance**2 * slope
        second[..., 1, 1] = (0.5 - d**2 / variance) / variance**2 * slope**2 + pull * bend
        return first * seen[:, None, None], second * seen[:, None, None, None]

    def information(self, parameters: Parameters) -> Array:
        """Of the mean 1 / v, and of the variance 1 / 2v², with its slope."""
        variance = parameters["variance"]
        out = np.zeros((len(variance), 2, 2))
        out[:, 0, 0], out[:, 1, 1] = 1 / variance, (self._slopes(variance)[0] / variance) ** 2 / 2
        return out

    def _slopes(self, variance: Array) -> tuple[Array, Array]:
        """First and second derivatives of the variance in its unconstrained number."""
        above = variance - self.min_variance
        if self.max_variance is None:
            return 2 * above, 4 * above
        width = self.max_variance - self.min_variance
        return above * (width - above) / width, above * (width - above) * (width - 2 * above) / width**2

    def mode(self, parameters: Parameters) -> Array:
        """The mean."""
        return np.asarray(parameters["mean"])

    def mean(self, parameters: Parameters) -> Array:
        """The parameter."""
        return np.asarray(parameters["mean"])

    def variance(self, parameters: Parameters) -> Array:
        """The parameter."""
        return np.asarray(parameters["variance"])

    def entropy(self, parameters: Parameters) -> Array:
        """log(2πe v) / 2."""
        return np.asarray(np.log(2 * np.pi * math.e * parameters["variance"]) / 2)

    def cdf(self, parameters: Parameters, x: Array) -> Array:
        """Of the normal distribution."""
        return np.asarray(ndtr(self._standardized(parameters, x)))

    def log_between(self, parameters: Parameters, start: Array, end: Array) -> Array:
        """From logarithms of the cdf on the side where it is small; of very narrow intervals, from the density at the middle."""
        a, b = self._standardized(parameters, start), self._standardized(parameters, end)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            flip = a + b > 0
            lower, upper = log_ndtr(np.where(flip, -b, a)), log_ndtr(np.where(flip, -a, b))
            out = upper + np.log(-np.expm1(lower - upper))
            narrow, middle, width = self._narrow(parameters, start, end)
            near = np.log(width) - (middle**2 + math.log(2 * math.pi)) / 2 + np.log1p(width**2 * (middle**2 - 1) / 24)
        return np.where(narrow, near, out)

    def statistics_between(self, parameters: Parameters, start: Array, end: Array, flow: Array) -> Statistics:
        """From the moments of a normal distribution cut to the interval."""
        a, b = self._standardized(parameters, start), self._standardized(parameters, end)
        log_inside = self.log_between(parameters, start, end)
        with np.errstate(invalid="ignore", over="ignore"):
            left, right = (np.exp(-(z**2 + math.log(2 * math.pi)) / 2 - log_inside) for z in (a, b))
            narrow, middle, width = self._narrow(parameters, start, end)
            first = np.where(narrow, middle * (1 - width**2 / 12), left - right)
            ends = np.where(np.isinf(a), 0.0, a * left) - np.where(np.isinf(b), 0.0, b * right)
            second = np.where(narrow, middle**2 * (1 - width**2 / 6) + width**2 / 12, 1 + ends)
        far, at, more = _far_moments(a, b)
        first = np.clip(np.where(far, at, first), a, b)
        second = np.maximum(np.where(far, at**2 + more, second), first**2)
        scale = np.sqrt(parameters["variance"])
        return {
            "count": flow.sum(axis=0),
            "deviation": scale * (flow * first).sum(axis=0),
            "squares": parameters["variance"] * (flow * second).sum(axis=0),
        }

    def _narrow(self, parameters: Parameters, start: Array, end: Array) -> tuple[NDArray[np.bool_], Array, Array]:
        """Whether intervals are so narrow that differences of their ends have too few digits; their middles and widths."""
        middle = self._standardized(parameters, (start + end) / 2)
        width = (end - start)[:, None] / np.sqrt(parameters["variance"])
        return (width < NARROW) & (abs(middle) * width < 100 * NARROW), middle, width

    @staticmethod
    def _standardized(parameters: Parameters, x: Array) -> Array:
        return np.asarray((np.asarray(x)[:, None] - parameters["mean"]) / np.sqrt(parameters["variance"]))

    def quantile(self, parameters: Parameters, q: Array) -> Array:
        """Of the normal distribution."""
        return np.asarray(parameters["mean"] + np.sqrt(parameters["variance"]) * ndtri(np.asarray(q))[:, None])

    def sample(self, parameters: Parameters, units: NDArray[np.int64], rng: np.random.Generator) -> Array:
        """Normal noise, scaled and shifted."""
        noise = rng.standard_normal(len(units))
        return np.asarray(parameters["mean"][units] + np.sqrt(parameters["variance"][units]) * noise)

    def rescaled(self, parameters: Parameters, shift: float, scale: float) -> tuple[Gaussian, dict[str, Array]]:
        """Variances and their bounds by the square of the scale."""
        mean, variance = shift + scale * parameters["mean"], scale**2 * parameters["variance"]
        most = None if self.max_variance is None else self.max_variance * scale**2
        family = replace(self, min_variance=self.min_variance * scale**2, max_variance=most)
        return family, {"mean": mean, "variance": variance}

    def together(self, families: Sequence[Family]) -> Family | None:
        """A multivariate Gaussian with the floors of all, if none has an upper bound."""
        from flatpc.families.multivariate_gaussian import MultivariateGaussian

        floors = [family.min_variance for family in families if type(family) is Gaussian and family.max_variance is None]
        return MultivariateGaussian(len(families), tuple(floors)) if len(floors) == len(families) else None

    @property
    def floor(self) -> float | None:
        """`min_variance`."""
        return self.min_variance

    @property
    def chosen_floor(self) -> float:
        """`min_variance` unless it is the default."""
        return 0.0 if self.min_variance == Gaussian.min_variance else self.min_variance

    def with_floor(self, floor: float) -> Gaussian:
        """With `min_variance=floor`."""
        return replace(self, min_variance=floor)

    def torch_log_density(self, parameters: Mapping[str, Any], x: Any) -> Any:
        """The same, with derivatives that are numbers where the square of a deviation overflows."""
        import torch

        mean, variance = parameters["mean"], parameters["variance"]
        # The square of a huge deviation overflows: its density is 0, and its derivative must not be inf · 0.
        far = ((x - mean) ** 2 / variance).detach().isinf()
        z = torch.where(far, 0.0, x - mean) ** 2 / variance
        return torch.where(far, -torch.inf, -0.5 * (z + torch.log(2 * math.pi * variance)))

    def torch_statistics(self, parameters: Mapping[str, Any], x: Any, flow: Any) -> dict[str, Any]:
        """The same."""
        deviation = x[..., None] - parameters["mean"][:, None, :]
        once = flow * deviation
        return {"count": flow.sum(1), "deviation": once.sum(1), "squares": (once * deviation).sum(1)}


def _far_moments(a: Array, b: Array) -> tuple[NDArray[np.bool_], Array, Array]:
    """Whether a whole interval of standardised numbers is far out, and their mean and variance if it is.

    Differences of squares have no digits left there. But from the end next to the mean, the density falls as that of an
    exponential distribution, cut off at the other end.
    """
    near, width = np.minimum(abs(a), abs(b)), b - a
    far = (near > FAR_OUT) & (np.sign(a) == np.sign(b)) & np.isfinite(near)
    slope = np.where(far, near, 1.0)
    length = np.minimum(np.where(far, width, 0.0) * slope, 300.0)
    flat = length < 1e-2  # where the closed forms have lost too many digits
    u = np.where(flat, 1.0, length)
    mean = np.where(flat, length / 2 - length**2 / 12, 1 - u / np.expm1(u))
    variance = np.where(flat, length**2 / 12, 1 - u**2 * np.exp(u) / np.expm1(u) ** 2)
    start = np.where(a > 0, a, b)
    return far, start + np.sign(start) * mean / slope, variance / slope**2
