"""Numbers that were rounded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from flatpc._options import instance, number, put
from flatpc._typing import Array
from flatpc.errors import OptionError
from flatpc.families.base import Cost, Family, Parameters, Statistics
from flatpc.families.quadrature import NODE_WEIGHTS, NODES
from flatpc.families.wrapping import Wrapping, refuse_unsuited

SURE = 1e-6
"""Probabilities above this are differences of the cdf; smaller ones, in a tail, where digits cancel, are integrals."""
MOST_VALUES = 100_000


@dataclass(frozen=True)
class Discretized(Wrapping):
    """Numbers that were rounded: a continuous family seen through a resolution r, P(x) = the probability of x ± r/2.

    Values are `origin` plus whole multiples of r. However narrow a unit becomes, its probabilities stay below 1: spikes at
    repeated values win nothing. Parameters of a unit are the family's own. EM takes the expected statistics inside ± r/2: in
    closed form for Gaussians, logistics and pieces, otherwise by 25 points of quadrature for each value that occurs. Pixels are
    `fp.Discretized(fp.LogisticMixture(5), 1.0, low=0.0, high=255.0)`.

    >>> import flatpc as fp
    >>> import numpy as np
    >>> unit = {"mean": np.array([5.0]), "variance": np.array([1e-4])}
    >>> float(np.exp(fp.Discretized(fp.Gaussian(), 1.0).log_density(unit, np.array([5.0])))[0, 0])
    1.0

    Parameters
    ----------
    family
        Any continuous family with a cdf and quantiles.
    resolution
        The step r from one value to the next.
    origin
        One of the values.
    low, high
        The smallest and the largest value: numbers beyond them are rounded to them. None for none; for families that know the
        logarithm of an interval's probability (`log_between`): `fp.Gaussian`, `fp.Logistic`, `fp.LogisticMixture`,
        `fp.Histogram`, `fp.PiecewiseLinear`.

    Raises
    ------
    OptionError
        If the family is discrete, has atoms or is over several variables, the resolution is not a positive number, or bounds are
        not values in order.
    """

    resolution: float = 1.0
    origin: float = 0.0
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        instance("Discretized: family", self.family, Family, "a continuous family, such as fp.Gaussian()")
        refuse_unsuited("Discretized", self.family)
        if self.family.discrete:
            raise OptionError(f"Discretized: family is {self.family}, which is discrete already; give a continuous one.")
        put(self, resolution=number("Discretized: resolution", self.resolution, 0.0, above=True))
        put(self, origin=number("Discretized: origin", self.origin))
        for name in ("low", "high"):
            given = getattr(self, name)
            if given is None:
                continue
            put(self, **{name: number(f"Discretized: {name}", given)})
            if self.outside(np.array([getattr(self, name)]))[0]:
                raise OptionError(f"Discretized: {name} is {given!r}, which is none of the values: {self.support()}.")
            if not self.family.defines("log_between"):
                raise OptionError(f"Discretized: {name} is for families with log_between, which {self.family} lacks.")
        if not self._limits[0] < self._limits[1]:
            raise OptionError(f"Discretized: low is {self.low!r} and high {self.high!r}; give them in ascending order.")

    @property
    def cost(self) -> Cost:  # type: ignore[override]
        """Of an interval in closed form; or of quadrature."""
        if self.family.follows("statistics_between", of="statistics"):
            return Cost(1500.0, 2500.0, self.family.cost.update)
        return Cost(10 * self.family.cost.density, 40 * self.family.cost.density, self.family.cost.update)

    @property
    def _limits(self) -> tuple[float, float]:
        """The bounds that were given, infinite where there is none."""
        return -np.inf if self.low is None else self.low, np.inf if self.high is None else self.high

    def outside(self, x: Array) -> NDArray[np.bool_]:
        """Values between the steps of the resolution, and those whose ± r/2 the family doesn't reach."""
        low, high = self.family.bounds
        with np.errstate(invalid="ignore"):
            steps = (x - self.origin) / self.resolution
            off = abs(steps - np.round(steps)) > 1e-6 * np.maximum(1.0, 1e-9 * abs(steps))
            half, (least, most) = self.resolution / 2, self._limits
            beyond = (x + half <= max(low, least)) | (x - half >= min(high, most))
        return np.asarray(~np.isnan(x) & (np.isinf(x) | off | beyond))

    def support(self) -> str:
        """The values in words."""
        start = f"{self.origin:g} plus " if self.origin else ""
        ends = [f"{word} {end:g}" for word, end in (("from", self.low), ("to", self.high)) if end is not None]
        return " ".join([f"{start}whole multiples of {self.resolution:g}, of {self.family.support()}", *ends])

    @property
    def bounds(self) -> tuple[float, float]:
        """The nearest values to the family's bounds; or its own."""
        low, high = self.family.bounds
        nearest = self._rounded(np.array([low]), np.ceil, 0.5)[0], self._rounded(np.array([high]), np.floor, -0.5)[0]
        return max(nearest[0], self._limits[0]), min(nearest[1], self._limits[1])

    @property
    def grid(self) -> tuple[float, float]:
        """Its own."""
        return self.resolution, self.origin

    def _rounded(self, x: Array, how: Callable[[Array], Array], share: float) -> Array:
        """The value next to x: `how` of the steps after taking off `share` of a step."""
        with np.errstate(invalid="ignore"):
            steps = how((x - self.origin) / self.resolution - share)
            # A bound that lies on the border of two values belongs to neither.
            return np.where(np.isinf(x), x, self.origin + self.resolution * steps)

    def initialize_from(self, x: Array, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        """The family's own, from values inside ± r/2, so that bounds are kept and no two are equal."""
        noise = (rng.random(len(x)) - 0.5) * self.resolution
        low, high = self.family.bounds
        moved = x + noise
        moved = np.where((moved <= low) | (moved >= high), np.clip(x, low + abs(noise) / 2, high - abs(noise) / 2), moved)
        return self.family.initialize_from(moved, width, rng, spread)

    # ---- probabilities --------------------------------------------------------------------------------------------------

    def _ends(self, x: Array) -> tuple[Array, Array]:
        """Of the numbers that are rounded to each value."""
        (low, high), (least, most) = self.family.bounds, self._limits
        half = self.resolution / 2
        start = np.where(x < least + half, low, np.where(x > most + half, high, x - half))
        end = np.where(x > most - half, high, np.where(x < least - half, low, x + half))
        return np.clip(start, low, high), np.clip(end, low, high)

    def log_density(self, parameters: Parameters, x: Array) -> Array:
        """The logarithm of the probability of x ± r/2; 0 where x is NaN."""
        asked = np.where(np.isnan(x), self.origin, x)
        # Rounded numbers repeat: each value is asked for once.
        values, place = np.unique(asked, return_inverse=True)
        return np.where(np.isnan(x)[:, None], 0.0, self._log_probabilities(parameters, values)[place])

    def _log_probabilities(self, parameters: Parameters, values: Array) -> Array:
        start, end = self._ends(values)
        far = (start == end) & ~self.outside(values)
        if not far.any():
            return self._log_between(parameters, start, end)
        # Floating-point numbers out there are further apart than r.
        out = np.asarray(self.family.log_density(parameters, values) + np.log(self.resolution))
        if not far.all():
            out[~far] = self._log_between(parameters, start[~far], end[~far])
        return out

    def _log_between(self, parameters: Parameters, start: Array, end: Array) -> Array:
        if self.family.follows("log_between", of="cdf"):
            return self.family.log_between(parameters, start, end)
        inside = self.family.cdf(parameters, end) - self.family.cdf(parameters, start)
        out = np.log(np.maximum(inside, SURE))
        small = (inside < SURE).any(axis=1)
        if small.any():
            logs = self._tails(parameters, start[small], end[small])
            out[small] = np.where(inside[small] < SURE, logs, out[small])
        return np.asarray(out)

    def _tails(self, parameters: Parameters, start: Array, end: Array) -> Array:
        """The same by quadrature of the density, in logarithms."""
        y = start[:, None] + (end - start)[:, None] * NODES
        density = self.family.log_density(parameters, y.ravel()).reshape(*y.shape, -1)
        return np.asarray(logsumexp(density + np.log(NODE_WEIGHTS)[:, None], axis=1) + np.log(end - start)[:, None])

    def statistics(self, parameters: Parameters, x: Array, flow: Array) -> Statistics:
        """The expected statistics of the number before it was rounded."""
        known = ~np.isnan(x)
        values, flow = _by_value(x[known], flow[known])
        start, end = self._ends(values)
        if self.family.follows("statistics_between", of="statistics"):
            return self.family.statistics_between(parameters, start, end, flow)
        parts = []
        for k in range(flow.shape[1]):
            one = {name: value[k : k + 1] for name, value in parameters.items()}
            y, share = self._inside(one, start, end)
            parts.append(self.family.statistics(one, y.ravel(), (flow[:, k : k + 1] * share).reshape(-1, 1)))
        return {name: np.concatenate([part[name] for part in parts]) for name in self.statistic_names}

    def _inside(self, one: Parameters, start: Array, end: Array) -> tuple[Array, Array]:
        """`[N, 25]`: numbers inside x ± r/2 that stand for the density of one unit there, and their shares."""
        below, up_to = self.family.cdf(one, start), self.family.cdf(one, end)
        sure = (up_to - below)[:, 0] >= SURE
        y = start[:, None] + (end - start)[:, None] * NODES
        share = np.broadcast_to(NODE_WEIGHTS, y.shape).copy()
        if sure.any():
            q = below[sure] + (up_to - below)[sure] * NODES
            y[sure] = np.clip(self.family.quantile(one, q.ravel()).reshape(q.shape), start[sure, None], end[sure, None])
        if not sure.all():
            logs = self.family.log_density(one, y[~sure].ravel()).reshape(-1, len(NODES)) + np.log(NODE_WEIGHTS)
            top = logs.max(axis=1, keepdims=True)
            weight = np.where(np.isfinite(top), np.exp(logs - np.where(np.isfinite(top), top, 0.0)), NODE_WEIGHTS)
            share[~sure] = weight / weight.sum(axis=1, keepdims=True)
        return y, share

    # ---- learning: the family's own ---------------------------------------------------------------------------------------

    # ---- answers ----------------------------------------------------------------------------------------------------------

    def mode(self, parameters: Parameters) -> Array:
        """The best of all values; where r is very small, of those around the family's mode."""
        sums = self._sums(parameters)
        if None not in sums:
            return np.array([values[np.argmax(logs)] for values, logs in sums])  # type: ignore[misc]
        nearest = self._rounded(self.family.mode(parameters), np.round, 0.0)
        around = np.clip(nearest + self.resolution * np.array([[-1.0], [0.0], [1.0]]), *self.bounds)
        logs = [np.diag(self.log_density(parameters, each)) for each in around]
        return np.asarray(np.take_along_axis(around, np.argmax(logs, axis=0)[None], axis=0)[0])

    def _values(self, one: Parameters) -> Array | None:
        """All values of one unit but 1e-13 of their mass on either side; None if there are too many."""
        low, high = (self.quantile(one, np.array([q]))[0, 0] for q in (1e-13, 1 - 1e-13))
        steps = np.round((high - low) / self.resolution)
        return None if not steps < MOST_VALUES else low + self.resolution * np.arange(steps + 1)

    def _sums(self, parameters: Parameters) -> list[tuple[Array, Array] | None]:
        """Values and their log-probabilities, unit by unit."""
        out: list[tuple[Array, Array] | None] = []
        for k in range(len(next(iter(parameters.values())))):
            one = {name: value[k : k + 1] for name, value in parameters.items()}
            values = self._values(one)
            out.append(None if values is None else (values, self.log_density(one, values)[:, 0]))
        return out

    def mean(self, parameters: Parameters) -> Array:
        """Summed over the values; the family's own where r is very small."""
        own = self.family.mean(parameters)
        return np.array([m if s is None else np.exp(s[1]) @ s[0] for m, s in zip(own, self._sums(parameters), strict=True)])

    def variance(self, parameters: Parameters) -> Array:
        """Summed over the values; the family's own and r²/12 where r is very small."""
        own, mean = self.family.variance(parameters) + self.resolution**2 / 12, self.mean(parameters)
        sums = zip(own, mean, self._sums(parameters), strict=True)
        return np.array([v if s is None else np.exp(s[1]) @ (s[0] - m) ** 2 for v, m, s in sums])

    def entropy(self, parameters: Parameters) -> Array:
        """Summed over the values; the family's own less log r where r is very small."""
        sums = self._sums(parameters)
        own = self.family.entropy(parameters) - np.log(self.resolution) if None in sums else np.zeros(len(sums))
        return np.array([h if s is None else -(np.exp(s[1]) @ s[1]) for h, s in zip(own, sums, strict=True)])

    def cdf(self, parameters: Parameters, x: Array) -> Array:
        """The family's own at the upper end of the last value up to x."""
        value = self._rounded(np.asarray(x, np.float64), np.floor, -1e-9)
        return self.family.cdf(parameters, self._ends(value)[1])

    def quantile(self, parameters: Parameters, q: Array) -> Array:
        """The family's own, rounded."""
        return np.clip(self._rounded(self.family.quantile(parameters, q), np.ceil, 0.5), *self.bounds)

    def sample(self, parameters: Parameters, units: NDArray[np.int64], rng: np.random.Generator) -> Array:
        """The family's own, rounded."""
        drawn = self.family.sample(parameters, units, rng)
        return np.clip(self._rounded(drawn, np.round, 0.0), *self.bounds)

    def rescaled(self, parameters: Parameters, shift: float, scale: float) -> tuple[Discretized, dict[str, Array]]:
        """The family's own; and the resolution."""
        family, moved = self.family.rescaled(parameters, shift, scale)
        low, high = (None if end is None else shift + scale * end for end in (self.low, self.high))
        return Discretized(family, self.resolution * scale, shift + scale * self.origin, low, high), moved


def _by_value(x: Array, flow: Array) -> tuple[Array, Array]:
    """The different values, and the flow of each: they are few, so that quadrature inside each costs little."""
    values, place = np.unique(x, return_inverse=True)
    if len(values) == len(x):
        return x, flow
    order = np.argsort(place, kind="stable")
    starts = np.flatnonzero(np.diff(place[order], prepend=-1))
    return values, np.add.reduceat(flow[order], starts, axis=0)
