"""Counts that vary more than a Poisson's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaln, digamma, polygamma

from flatpc._typing import Array
from flatpc.errors import ParameterError
from flatpc.families.base import Cost, Parameters, Statistics, masked, ratio
from flatpc.families.counts import entropy_of_counts
from flatpc.families.differences import derivatives
from flatpc.families.poisson import Poisson

SIZES = (1e-3, 1e5)
REACH = (0.5, 0.1, 0.01)
"""By which share a step may lower the size: a bound of the curvature is taken for each, and the step that promises most."""

BISECTIONS, NEWTON_STEPS = 8, 6
"""By which the best step is found."""


@dataclass(frozen=True)
class NegativeBinomial(Poisson):
    """Counts that vary more than a Poisson's. Parameters of a unit: `rate [K]`, the mean; `size [K]`.

    The variance is rate + rate² / size: a Poisson's for large sizes.

    >>> import flatpc as fp
    >>> import numpy as np
    >>> float(fp.NegativeBinomial().variance({"rate": np.array([4.0]), "size": np.array([2.0])})[0])
    12.0

    Parameters
    ----------
    min_rate
        Learning keeps every rate at this or more.

    Raises
    ------
    OptionError
        If `min_rate` is not a positive number.
    """

    names: ClassVar[tuple[str, ...]] = ("rate", "size")
    statistic_names: ClassVar[tuple[str, ...]] = ("count", "sum", "slope", "half", "tenth", "hundredth")
    cost: ClassVar[Cost] = Cost(700.0, 6500.0, 3e4)
    native: ClassVar[str | None] = None

    def check_parameters(self, parameters: Parameters, where: str) -> None:
        """Positive rates and sizes."""
        for name, value in parameters.items():
            if not (np.isfinite(value) & (value > 0)).all():
                raise ParameterError(f"{where}: every {name} must be finite and positive.")

    def initialize(self, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        """Rates between 1/2 and 5, sizes between 1 and 4."""
        return {**super().initialize(width, rng, spread), "size": np.exp(rng.uniform(0.0, 1.4, width))}

    def initialize_from(self, x: Array, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        """Rates around the mean of the values."""
        drawn, seen = self.initialize(width, rng, spread), x[~np.isnan(x)]
        scale = float(seen.mean()) if len(seen) else 2.0
        return {**drawn, "rate": np.maximum(drawn["rate"] * scale / 2, self.min_rate)}

    def log_density(self, parameters: Parameters, x: Array) -> Array:
        """`log Γ(x+s) - log Γ(s) - log x! + s log(s / (s+r)) + x log(r / (s+r))`; 0 where x is NaN."""
        value, seen = masked(x)
        k, rate, size = value[:, None], parameters["rate"], parameters["size"]
        counted = -betaln(k + 1, size) - np.log(k + size)
        log_p = counted - size * np.log1p(rate / size) - k * np.log1p(size / rate)
        return np.where(seen[:, None], log_p, 0.0)

    def statistics(self, parameters: Parameters, x: Array, flow: Array) -> Statistics:
        """Flow, flow times value; slope of log Γ(x+s) - log Γ(s) in s, and bounds of its curvature."""
        value, seen = masked(x)
        flow, k, size = np.where(seen[:, None], flow, 0.0), value[:, None], parameters["size"]
        slope = digamma(k + size) - digamma(size)
        at = (1 - np.array(REACH)[:, None]) * size
        curves = polygamma(1, at)[:, None] - polygamma(1, k + at[:, None])
        found = {"slope": slope, **dict(zip(self.statistic_names[3:], curves, strict=True))}
        return {
            "count": flow.sum(axis=0), "sum": value @ flow, **{name: (flow * each).sum(axis=0) for name, each in found.items()}
        }  # fmt: skip

    def update(self, parameters: Parameters, statistics: Statistics, pseudocount: float = 0.0) -> dict[str, Array]:
        """The mean of the values; the size that maximises a lower bound of the likelihood.

        f(s) = Σ log Γ(x+s) - log Γ(s) is at least its tangent less C (s - s₀)² / 2, where C is the curvature at the least s that
        a step may reach. All else is known exactly.
        """
        count, size = statistics["count"], parameters["size"]
        seen = count > 0
        n, rate = np.where(seen, count, 1.0), ratio(statistics["sum"], count, parameters["rate"])
        rate = np.maximum(rate, self.min_rate)

        curve = np.maximum(np.stack([statistics[name] for name in self.statistic_names[3:]]), 0.0)  # [3, K]: one for each reach

        def rest(s: Array) -> Array:
            return np.asarray(n * (-s * np.log1p(rate / s) - rate * np.log(s + rate)))

        def slope(s: Array) -> Array:
            return np.asarray(statistics["slope"] - curve * (s - size) - n * np.log1p(rate / s))

        low = np.maximum((1 - np.array(REACH)[:, None]) * size, SIZES[0])
        high = np.broadcast_to(np.minimum(4 * size, SIZES[1]), low.shape)
        up = slope(np.broadcast_to(size, low.shape)) > 0
        a, b = np.where(up, size, low), np.where(up, high, size)
        found = (a + b) / 2
        for step in range(BISECTIONS + NEWTON_STEPS):
            steep = slope(found)
            a, b = np.where(steep > 0, found, a), np.where(steep > 0, b, found)
            middle = (a + b) / 2
            if step < BISECTIONS:
                found = middle
                continue
            bend = n * rate / (found * (found + rate)) - curve
            with np.errstate(divide="ignore", invalid="ignore"):
                nearer = found - steep / bend
            found = np.where((nearer >= a) & (nearer <= b), nearer, middle)
        move = found - size
        won = statistics["slope"] * move - curve / 2 * move**2 + rest(found) - rest(size)
        which = np.argmax(won, axis=0)[None]
        best = np.where(np.take_along_axis(won, which, 0)[0] > 0, np.take_along_axis(found, which, 0)[0], size)
        return {"rate": np.where(seen, rate, parameters["rate"]), "size": np.where(seen, best, size)}

    def gradient(self, parameters: Parameters, statistics: Statistics) -> dict[str, Array]:
        """By the chain rule."""
        rate, size, count, total = parameters["rate"], parameters["size"], statistics["count"], statistics["sum"]
        by_rate = total / rate - (total + count * size) / (size + rate)
        by_size = statistics["slope"] + count * (1 - np.log1p(rate / size)) - (total + count * size) / (size + rate)
        inside = (size > SIZES[0]) & (size < SIZES[1])
        return {"rate": by_rate * (rate - self.min_rate), "size": np.where(inside, by_size * size, 0.0)}

    def derivatives(self, parameters: Parameters, x: Array) -> tuple[Array, Array]:
        """By differences."""
        return derivatives(self, parameters, x)

    def unconstrain(self, parameters: Parameters) -> dict[str, Array]:
        """And the logarithm of the size."""
        return {**super().unconstrain(parameters), "size": np.log(parameters["size"])}

    def constrain(self, free: Parameters) -> dict[str, Array]:
        """Back again."""
        return {**super().constrain(free), "size": np.exp(np.clip(free["size"], *np.log(SIZES)))}

    def mode(self, parameters: Parameters) -> Array:
        """`r (s-1) / s`, rounded down."""
        rate, size = parameters["rate"], parameters["size"]
        return np.floor(np.maximum(rate * (size - 1) / size, 0.0))

    def variance(self, parameters: Parameters) -> Array:
        """`r + r² / s`."""
        return np.asarray(parameters["rate"] + parameters["rate"] ** 2 / parameters["size"])

    def entropy(self, parameters: Parameters) -> Array:
        """Summed over values, unit by unit, until all but 1e-12 of the mass is in."""
        out = []
        for k in range(len(parameters["rate"])):
            one = {name: value[k : k + 1] for name, value in parameters.items()}
            out.append(entropy_of_counts(self, one, float(self.quantile(one, np.array([1 - 1e-12]))[0, 0])))
        return np.concatenate(out)

    def cdf(self, parameters: Parameters, x: Array) -> Array:
        """By the incomplete beta function."""
        k = np.floor(np.asarray(x, np.float64))[:, None]
        rate, size = parameters["rate"], parameters["size"]
        return np.where(k < 0, 0.0, betainc(size, np.maximum(k, 0.0) + 1, size / (size + rate)))

    def sample(self, parameters: Parameters, units: NDArray[np.int64], rng: np.random.Generator) -> Array:
        """A Poisson's of a gamma's."""
        rate, size = parameters["rate"][units], parameters["size"][units]
        drawn = np.maximum(rng.gamma(size) * rate / size, 1e-300)
        return super().sample({"rate": drawn}, np.arange(len(units)), rng)

    def torch_log_density(self, parameters: Mapping[str, Any], x: Any) -> Any:
        """The same by Loader's form of the binomial, whose terms don't cancel for large counts or sizes."""
        import torch

        rate, size = parameters["rate"], parameters["size"]
        none = x == 0
        k = torch.where(none, 1.0, x)
        sums = k + size
        distance = size * _above_logarithm((k - rate) / (size + rate), sums / (size + rate))
        distance = distance + k * _above_logarithm(size / k * ((rate - k) / (size + rate)), rate / k * (sums / (size + rate)))
        errors = _stirling_error(sums) - _stirling_error(size) - _stirling_error(k)
        some = errors - distance + (torch.log(size) - torch.log(sums) - torch.log(2 * torch.pi * k)) / 2
        return torch.where(none, -size * torch.log1p(rate / size), some)


def _above_logarithm(d: Any, whole: Any) -> Any:
    """D - log(1 + d) by torch; `whole` is 1 + d without its rounding."""
    import torch

    near = d > -0.5
    return d - torch.where(near, torch.log1p(torch.where(near, d, 0.0)), torch.log(whole))


def _stirling_error(z: Any) -> Any:
    """Log Γ(z+1) less Stirling's formula for it, by torch."""
    import torch

    few = z < 16
    small, large = torch.where(few, z, 1.0), torch.where(few, 16.0, z)
    square = large**2
    series = (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / (1188 * square)) / square) / square) / square) / large
    exact = torch.lgamma(small + 1) - (small + 0.5) * torch.log(small) + small - 0.5 * math.log(2 * math.pi)
    return torch.where(few, exact, series)
