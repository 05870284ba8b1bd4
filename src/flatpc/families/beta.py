"""Numbers between two bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincinv, betaln, digamma, polygamma

from flatpc._options import number, put
from flatpc._typing import Array
from flatpc.errors import ParameterError
from flatpc.families.base import Cost, Family, Parameters, Statistics, masked

LEAST = 1e-3


@dataclass(frozen=True)
class Beta(Family):
    """Beta density of numbers strictly between two bounds. Parameters of a unit: `a [K]`, `b [K]`, both positive.

    With y = (x - low) / (high - low), p is proportional to y^(a-1) (1-y)^(b-1).

    >>> import flatpc as fp
    >>> import numpy as np
    >>> unit = {"a": np.array([2.0]), "b": np.array([2.0])}
    >>> float(fp.Beta(0.0, 10.0).mean(unit)[0])
    5.0

    Parameters
    ----------
    low, high
        The bounds, which are no values themselves.
    largest
        Learning keeps a and b at this or less, so that no unit becomes a spike.

    Raises
    ------
    OptionError
        Unless `low` < `high`, both finite, and `largest` is above 0.001.
    """

    low: float = 0.0
    high: float = 1.0
    largest: float = 1e4
    names: ClassVar[tuple[str, ...]] = ("a", "b")
    statistic_names: ClassVar[tuple[str, ...]] = ("count", "log_y", "log_rest")
    cost: ClassVar[Cost] = Cost(update=1e6)
    discrete: ClassVar[bool] = False

    def __post_init__(self) -> None:
        put(self, low=number("Beta: low", self.low))
        put(self, high=number("Beta: high", self.high, self.low, above=True, what="the upper bound is above the lower one"))
        put(self, largest=number("Beta: largest", self.largest, LEAST, above=True))

    def check_parameters(self, parameters: Parameters, where: str) -> None:
        """Positive parameters."""
        for name, value in parameters.items():
            if not (np.isfinite(value) & (value > 0)).all():
                raise ParameterError(f"{where}: every {name} must be finite and positive.")

    def outside(self, x: Array) -> NDArray[np.bool_]:
        """Whatever isn't between the bounds, or equals one."""
        y, rest = self._shares(x)
        return np.asarray(~np.isnan(x) & ~((y > 0) & (rest > 0)))

    def support(self) -> str:
        """The values in words."""
        return f"numbers between {self.low:g} and {self.high:g}, without these two"

    @property
    def bounds(self) -> tuple[float, float]:
        """Both."""
        return self.low, self.high

    def _shares(self, x: Array) -> tuple[Array, Array]:
        width = self.high - self.low
        return (x - self.low) / width, (self.high - x) / width

    @property
    def _ends(self) -> tuple[float, float]:
        """The least and the largest value, whose shares are the least above 0."""
        least = (self.high - self.low) * float(np.finfo(np.float64).smallest_subnormal)
        low, high = math.nextafter(self.low, self.high), math.nextafter(self.high, self.low)
        return max(low, self.low + least), min(high, self.high - least)

    def _logs(self, x: Array) -> tuple[Array, Array, NDArray[np.bool_]]:
        """Log y, log(1-y), and where there is a value inside."""
        y, rest = self._shares(masked(x)[0])
        inside = ~np.isnan(x) & (y > 0) & (rest > 0)
        return np.log(np.where(inside, y, 0.5)), np.log(np.where(inside, rest, 0.5)), inside

    def initialize(self, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        """Between 1/2 and 4."""
        return {"a": np.exp(rng.uniform(-0.7, 1.4, width)), "b": np.exp(rng.uniform(-0.7, 1.4, width))}

    def log_density(self, parameters: Parameters, x: Array) -> Array:
        """(a-1) log y + (b-1) log(1-y) - log B(a, b) - log(high - low); 0 where x is NaN."""
        a, b = parameters["a"], parameters["b"]
        log_y, log_rest, inside = self._logs(x)
        log_p = (a - 1) * log_y[:, None] + (b - 1) * log_rest[:, None] - betaln(a, b) - np.log(self.high - self.low)
        return np.where(np.isnan(x)[:, None], 0.0, np.where(inside[:, None], log_p, -np.inf))

    def statistics(self, parameters: Parameters, x: Array, flow: Array) -> Statistics:
        """Flow, flow times log y and times log(1-y)."""
        log_y, log_rest, inside = self._logs(x)
        flow = np.where(inside[:, None], flow, 0.0)
        return {"count": flow.sum(axis=0), "log_y": log_y @ flow, "log_rest": log_rest @ flow}

    def update(self, parameters: Parameters, statistics: Statistics, pseudocount: float = 0.0) -> dict[str, Array]:
        """By Newton's method; the likelihood is concave."""
        count = statistics["count"]
        seen = count > 0
        safe = np.where(seen, count, 1.0)
        a, b = self._solve(parameters, statistics["log_y"] / safe, statistics["log_rest"] / safe)
        return {"a": np.where(seen, a, parameters["a"]), "b": np.where(seen, b, parameters["b"])}

    def _solve(self, start: Parameters, log_y: Array, log_rest: Array) -> tuple[Array, Array]:
        """The a and b with these expectations of log y and log(1-y): steps in logarithms, halved until none is downhill."""

        def value(a: Array, b: Array) -> Array:
            return np.asarray(a * log_y + b * log_rest - betaln(a, b))

        a, b = np.clip(start["a"], LEAST, self.largest), np.clip(start["b"], LEAST, self.largest)
        for _ in range(50):
            both = digamma(a + b)
            slope_a, slope_b = a * (log_y - digamma(a) + both), b * (log_rest - digamma(b) + both)
            # The Hessian in logarithms without the slopes' own part, which keeps it negative definite.
            cross = polygamma(1, a + b)
            h_aa, h_bb, h_ab = a**2 * (cross - polygamma(1, a)), b**2 * (cross - polygamma(1, b)), a * b * cross
            determinant = np.maximum(h_aa * h_bb - h_ab**2, 1e-300)
            move_a = np.clip(-(h_bb * slope_a - h_ab * slope_b) / determinant, -2.0, 2.0)
            move_b = np.clip(-(h_aa * slope_b - h_ab * slope_a) / determinant, -2.0, 2.0)
            step, before = np.ones_like(a), value(a, b)
            for _ in range(30):
                new_a = np.clip(a * np.exp(step * move_a), LEAST, self.largest)
                new_b = np.clip(b * np.exp(step * move_b), LEAST, self.largest)
                worse = value(new_a, new_b) < before
                if not worse.any():
                    break
                step = np.where(worse, step / 2, step)
            better = value(new_a, new_b) >= before
            new_a, new_b = np.where(better, new_a, a), np.where(better, new_b, b)
            moved = max(float(abs(np.log(new_a / a)).max(initial=0.0)), float(abs(np.log(new_b / b)).max(initial=0.0)))
            a, b = new_a, new_b
            if moved < 1e-13:
                break
        return a, b

    def interpolate(self, old: Parameters, new: Parameters, step: float | Array) -> dict[str, Array]:
        """The average of E[log y] and of E[log(1-y)]."""

        def mixed(name: str) -> Array:
            first, last = (digamma(p[name]) - digamma(p["a"] + p["b"]) for p in (old, new))
            return np.asarray((1 - step) * first + step * last)

        a, b = self._solve(old, mixed("a"), mixed("b"))
        return {"a": a, "b": b}

    def unconstrain(self, parameters: Parameters) -> dict[str, Array]:
        """`z` with a = LEAST + exp(z)."""
        return {name: np.log(np.maximum(value - LEAST, 0.01 * LEAST)) for name, value in parameters.items()}

    def constrain(self, free: Parameters) -> dict[str, Array]:
        """Back again."""
        return {name: np.minimum(LEAST + np.exp(np.minimum(z, 600.0)), self.largest) for name, z in free.items()}

    def gradient(self, parameters: Parameters, statistics: Statistics) -> dict[str, Array]:
        """By the chain rule."""
        both, count, out = digamma(parameters["a"] + parameters["b"]), statistics["count"], {}
        for name, logs in (("a", "log_y"), ("b", "log_rest")):
            value = parameters[name]
            slope = np.where(value < self.largest, value - LEAST, 0.0)
            out[name] = (statistics[logs] - count * (digamma(value) - both)) * slope
        return out

    def mode(self, parameters: Parameters) -> Array:
        """(a-1) / (a+b-2), or next to a bound at which the density has no bound."""
        a, b = parameters["a"], parameters["b"]
        inner = (a > 1) & (b > 1)
        peak = np.where(inner, (a - 1) / np.where(inner, a + b - 2, 1.0), np.where(a >= b, 1.0, 0.0))
        return np.clip(self.low + (self.high - self.low) * peak, *self._ends)

    def mean(self, parameters: Parameters) -> Array:
        """Low + (high - low) a / (a+b)."""
        a, b = parameters["a"], parameters["b"]
        return np.asarray(self.low + (self.high - self.low) * a / (a + b))

    def variance(self, parameters: Parameters) -> Array:
        """(high - low)² ab / ((a+b)² (a+b+1))."""
        a, b = parameters["a"], parameters["b"]
        return np.asarray((self.high - self.low) ** 2 * a * b / ((a + b) ** 2 * (a + b + 1)))

    def entropy(self, parameters: Parameters) -> Array:
        """-E[log p]."""
        a, b = parameters["a"], parameters["b"]
        parts = (a - 1) * digamma(a) + (b - 1) * digamma(b) - (a + b - 2) * digamma(a + b)
        return np.asarray(betaln(a, b) - parts + np.log(self.high - self.low))

    def cdf(self, parameters: Parameters, x: Array) -> Array:
        """By the incomplete beta function."""
        y = np.clip(self._shares(np.asarray(x, np.float64))[0], 0.0, 1.0)
        return np.asarray(betainc(parameters["a"], parameters["b"], y[:, None]))

    def quantile(self, parameters: Parameters, q: Array) -> Array:
        """Its inverse, and a bound itself for a probability of 0 or 1 alone."""
        q = np.asarray(q, np.float64)[:, None]
        x = self.low + (self.high - self.low) * betaincinv(parameters["a"], parameters["b"], q)
        return np.asarray(np.where((q > 0) & (q < 1), np.clip(x, *self._ends), x))

    def sample(self, parameters: Parameters, units: NDArray[np.int64], rng: np.random.Generator) -> Array:
        """NumPy's, and never a bound itself."""
        y = rng.beta(parameters["a"][units], parameters["b"][units])
        return np.clip(self.low + (self.high - self.low) * y, *self._ends)

    def torch_log_density(self, parameters: Mapping[str, Any], x: Any) -> Any:
        """The same."""
        import torch

        a, b, width = parameters["a"], parameters["b"], self.high - self.low
        inside = (x > self.low) & (x < self.high)
        y = torch.where(inside, (x - self.low) / width, 0.5)
        rest = torch.where(inside, (self.high - x) / width, 0.5)
        norm = torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b) + np.log(width)
        return torch.where(inside, (a - 1) * torch.log(y) + (b - 1) * torch.log(rest) - norm, -torch.inf)
