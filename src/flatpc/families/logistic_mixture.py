"""Numbers with several peaks: each unit is a mixture of logistic densities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from flatpc._options import number, put, whole_number
from flatpc._typing import Array
from flatpc.families.base import Cost, Family, Parameters, Statistics
from flatpc.families.initialize import random_simplex
from flatpc.families.logistic import Logistic
from flatpc.families.shares import between, check_shares, logs_of, pull, shares_from, shares_of

_OF_LOGISTIC = ("location", "scale")


@dataclass(frozen=True)
class LogisticMixture(Family):
    """A mixture of logistic densities in each unit. Parameters: `shares [K, n]`, `location [K, n]`, `scale [K, n]`.

    `fp.Discretized(fp.LogisticMixture(5), 1.0, low=0.0, high=255.0)` is for pixels, as in PixelCNN++.

    >>> import flatpc as fp
    >>> import numpy as np
    >>> unit = {"shares": np.array([[0.5, 0.5]]), "location": np.array([[-9.0, 9.0]]), "scale": np.array([[1.0, 1.0]])}
    >>> float(np.exp(fp.LogisticMixture(2).log_density(unit, np.array([9.0])))[0, 0].round(6))
    0.125

    Parameters
    ----------
    n
        Components of a unit.
    min_scale
        Learning keeps every scale at this or more.

    Raises
    ------
    OptionError
        If `n` is not a whole number of 1 or more, or `min_scale` not a positive number.
    """

    n: int = 2
    min_scale: float = 1e-2
    names: ClassVar[tuple[str, ...]] = ("shares", *_OF_LOGISTIC)
    statistic_names: ClassVar[tuple[str, ...]] = Logistic.statistic_names
    discrete: ClassVar[bool] = False

    def __post_init__(self) -> None:
        put(self, n=whole_number("LogisticMixture: n", self.n, 1))
        what = "the floor of the scales is positive and finite"
        put(self, min_scale=number("LogisticMixture: min_scale", self.min_scale, 0.0, above=True, what=what))

    @property
    def cost(self) -> Cost:  # type: ignore[override]
        """Of each component."""
        return Cost(*(self.n * of_one for of_one in Logistic.cost))

    @property
    def _component(self) -> Logistic:
        return Logistic(self.min_scale)

    def parameter_shapes(self, width: int) -> dict[str, tuple[int, ...]]:
        """`[width, n]` each."""
        return dict.fromkeys(self.names, (width, self.n))

    def statistic_shapes(self, width: int) -> dict[str, tuple[int, ...]]:
        """`[width, n]` each."""
        return dict.fromkeys(self.statistic_names, (width, self.n))

    def check_parameters(self, parameters: Parameters, where: str) -> None:
        """Shares on the simplex, finite locations, positive scales."""
        check_shares(parameters["shares"], where)
        self._component.check_parameters(_flat(parameters), where)

    def initialize(self, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        """Shares by the scheme `spread`; standard normal locations, scales of 1."""
        shape = (width, self.n)
        return {"shares": random_simplex(shape, rng, spread), "location": rng.standard_normal(shape), "scale": np.ones(shape)}

    def initialize_from(self, x: Array, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        """Clusters of the values: each unit gets n that are neighbours."""
        own = self._component.initialize_from(x, width * self.n, rng, spread)
        order = np.argsort(own["location"], kind="stable")
        return {
            "shares": random_simplex((width, self.n), rng, spread),
            **{name: value[order].reshape(width, self.n) for name, value in own.items()},
        }

    # ---- densities --------------------------------------------------------------------------------------------------------

    def _parts(self, parameters: Parameters, logs: Array) -> Array:
        """`[N, K, n]`: logarithms of shares, and those of components `[N, K n]`, added up."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(parameters["shares"]) + logs.reshape(len(logs), *parameters["shares"].shape))

    def log_density(self, parameters: Parameters, x: Array) -> Array:
        """Of the mixture; 0 where x is NaN."""
        parts = self._parts(parameters, self._component.log_density(_flat(parameters), x))
        return np.where(np.isnan(x)[:, None], 0.0, logsumexp(parts, axis=2))

    def log_between(self, parameters: Parameters, start: Array, end: Array) -> Array:
        """Of the mixture."""
        return np.asarray(logsumexp(self._parts(parameters, self._component.log_between(_flat(parameters), start, end)), axis=2))

    def torch_log_density(self, parameters: Mapping[str, Any], x: Any) -> Any:
        """The same."""
        import torch

        own = Logistic(self.min_scale).torch_log_density({name: parameters[name] for name in _OF_LOGISTIC}, x[..., None])
        return torch.logsumexp(torch.log(parameters["shares"]) + own, dim=-1)

    # ---- learning ---------------------------------------------------------------------------------------------------------

    def statistics(self, parameters: Parameters, x: Array, flow: Array) -> Statistics:
        """A logistic's own of each component, with the flow that it is responsible for."""
        flow = np.where(np.isnan(x)[:, None], 0.0, flow)
        parts = self._parts(parameters, self._component.log_density(_flat(parameters), x))
        own = self._component.statistics(_flat(parameters), x, _divided(flow, parts))
        return {name: value.reshape(parameters["shares"].shape) for name, value in own.items()}

    def statistics_between(self, parameters: Parameters, start: Array, end: Array, flow: Array) -> Statistics:
        """The same of intervals."""
        parts = self._parts(parameters, self._component.log_between(_flat(parameters), start, end))
        own = self._component.statistics_between(_flat(parameters), start, end, _divided(flow, parts))
        return {name: value.reshape(parameters["shares"].shape) for name, value in own.items()}

    def count(self, statistics: Statistics) -> Array:
        """Of all components."""
        return np.asarray(statistics["count"].sum(axis=1))

    def update(self, parameters: Parameters, statistics: Statistics, pseudocount: float = 0.0) -> dict[str, Array]:
        """Shares of the counts; a logistic's own step of each component."""
        shares = shares_of(statistics["count"], parameters["shares"], pseudocount)
        return {"shares": shares, **self._component.update(parameters, statistics)}

    def interpolate(self, old: Parameters, new: Parameters, step: float | Array) -> dict[str, Array]:
        """Averages of shares; a logistic's own of each component."""
        part = np.reshape(step, (*np.shape(step), 1)) if np.ndim(step) else step
        return {"shares": between(old["shares"], new["shares"], step), **self._component.interpolate(old, new, part)}

    def restate(self, statistics: Statistics, old: Parameters, new: Parameters) -> Statistics:
        """A logistic's own of each component."""
        return self._component.restate(statistics, old, new)

    def unconstrain(self, parameters: Parameters) -> dict[str, Array]:
        """Logarithms of shares; a logistic's own."""
        return {"shares": logs_of(parameters["shares"]), **self._component.unconstrain(parameters)}

    def constrain(self, free: Parameters) -> dict[str, Array]:
        """Their softmax; a logistic's own."""
        return {"shares": shares_from(free["shares"]), **self._component.constrain(free)}

    def gradient(self, parameters: Parameters, statistics: Statistics) -> dict[str, Array]:
        """What was counted less what was to be expected; a logistic's own."""
        by_shares = pull(statistics["count"], parameters["shares"])
        return {"shares": by_shares, **self._component.gradient(parameters, statistics)}

    # ---- answers ----------------------------------------------------------------------------------------------------------

    def mode(self, parameters: Parameters) -> Array:
        """The best of the peaks, to which one climbs from each location by steps that never lead down."""
        x, units = np.array(parameters["location"]), np.arange(len(parameters["shares"]))
        for _ in range(200):
            pulls = [self._pull(parameters, x[:, j], units) for j in range(self.n)]
            x = np.stack(pulls, axis=1)
        logs = np.stack([self.log_density(parameters, x[:, j])[units, units] for j in range(self.n)], axis=1)
        return np.asarray(x[units, np.argmax(logs, axis=1)])

    def _pull(self, parameters: Parameters, x: Array, units: NDArray[np.int64]) -> Array:
        """One step up from `x[k]` in every unit k: the weighted mean of locations."""
        parts = self._parts(parameters, self._component.log_density(_flat(parameters), x))[units, units]
        z = (x[:, None] - parameters["location"]) / parameters["scale"]
        weight = softmax(parts, axis=1) * self._component.weight(parameters, z) / parameters["scale"] ** 2
        return np.asarray((weight * parameters["location"]).sum(axis=1) / weight.sum(axis=1))

    def mean(self, parameters: Parameters) -> Array:
        """Of the locations."""
        return np.asarray((parameters["shares"] * parameters["location"]).sum(axis=1))

    def variance(self, parameters: Parameters) -> Array:
        """Within components and between them."""
        within = self._component.variance(parameters)
        between = (parameters["location"] - self.mean(parameters)[:, None]) ** 2
        return np.asarray((parameters["shares"] * (within + between)).sum(axis=1))

    def cdf(self, parameters: Parameters, x: Array) -> Array:
        """Of the mixture."""
        own = self._component.cdf(_flat(parameters), x)
        return np.asarray((own.reshape(len(own), *parameters["shares"].shape) * parameters["shares"]).sum(axis=2))

    def quantile(self, parameters: Parameters, q: Array) -> Array:
        """By bisection between the smallest and the largest of the components'."""
        own = self._component.quantile(_flat(parameters), q).reshape(len(q), *parameters["shares"].shape)
        low, high = own.min(axis=2), own.max(axis=2)
        width = low.shape[1]
        for _ in range(100):
            with np.errstate(invalid="ignore"):
                middle = np.where(low == high, low, (low + high) / 2)
            reached = np.stack([self.cdf(parameters, middle[:, k])[:, k] for k in range(width)], axis=1)
            below = reached < np.asarray(q, np.float64)[:, None]
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.asarray(high)

    def sample(self, parameters: Parameters, units: NDArray[np.int64], rng: np.random.Generator) -> Array:
        """A component, and the logistic's own."""
        cumulative = np.cumsum(parameters["shares"], axis=1)
        u = rng.random(len(units)) * cumulative[units, -1]
        chosen = (cumulative[units, :-1] <= u[:, None]).sum(axis=1)
        return self._component.sample(_flat(parameters), units * self.n + chosen, rng)

    def rescaled(self, parameters: Parameters, shift: float, scale: float) -> tuple[LogisticMixture, dict[str, Array]]:
        """Locations and scales, and the floor of scales."""
        _, moved = self._component.rescaled(parameters, shift, scale)
        return replace(self, min_scale=self.min_scale * scale), {**moved, "shares": np.asarray(parameters["shares"])}

    @property
    def floor(self) -> float | None:
        """The square of `min_scale`."""
        return self._component.floor

    @property
    def chosen_floor(self) -> float:
        """The floor, unless it is the default."""
        return self._component.chosen_floor

    def with_floor(self, floor: float) -> LogisticMixture:
        """With `min_scale` of its root."""
        return replace(self, min_scale=float(np.sqrt(floor)))


def _flat(parameters: Parameters) -> dict[str, Array]:
    """Those of all components `[K n]`, as units of a logistic family."""
    return {name: np.ravel(parameters[name]) for name in _OF_LOGISTIC}


def _divided(flow: Array, parts: Array) -> Array:
    """`[N, K n]`: flow, divided among components by their parts of the density; evenly where that is 0."""
    top = parts.max(axis=2, keepdims=True)
    weight = np.where(np.isfinite(top), np.exp(parts - np.where(np.isfinite(top), top, 0.0)), 1.0)
    divided = flow[:, :, None] * weight / weight.sum(axis=2, keepdims=True)
    return np.asarray(divided.reshape(len(divided), divided.shape[1] * divided.shape[2]))
