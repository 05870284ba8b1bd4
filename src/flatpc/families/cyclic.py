"""Numbers whose likelihood comes and goes with a cycle: days of the week, hours of the day, months of the year."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

from flatpc._options import instance, number, put, several, whole_number, wrong
from flatpc._typing import Array
from flatpc.errors import OptionError
from flatpc.families.base import Cost, Family, Parameters, Statistics, ratio
from flatpc.families.discretized import Discretized
from flatpc.families.hurdle import Hurdle
from flatpc.families.initialize import random_simplex
from flatpc.families.shares import between, check_shares, logs_of, pull, shares_from, shares_of
from flatpc.families.wrapping import Wrapping, refuse_unsuited

NEAR = 1e-9
"""Of a step: numbers so little below a border are beyond it, but for rounding errors."""


@dataclass(frozen=True)
class Cyclic(Wrapping):
    """Numbers that run in cycles: a continuous family says how probable each cycle is, and shares how probable its parts are.

    A cycle has `parts[0]` parts of equal length, each of these `parts[1]`, and so on down to parts of the length `step`, in which
    the density is constant: `fp.Cyclic(parts=(7, 24), step=3600.0, origin=4 * 86400.0)` knows days of the week and hours of the
    day of seconds since 1970, which began on a Thursday. Parameters of a unit: `parts0 [K, n]`, `parts1`, ..., on the simplex,
    one for each entry of `parts`; and the family's own.

    >>> import flatpc as fp
    >>> import numpy as np
    >>> shares = np.array([[0.19, 0.19, 0.19, 0.19, 0.19, 0.025, 0.025]])
    >>> unit = {"parts0": shares, "mean": np.array([3.5]), "variance": np.array([1e-4])}
    >>> np.exp(fp.Cyclic(parts=(7,)).log_density(unit, np.array([0.5, 6.5, 7.5])))[:, 0].round(3).tolist()
    [0.19, 0.025, 0.0]

    Parameters
    ----------
    family
        Any continuous family with a cdf and quantiles.
    parts
        How many parts a cycle has, and each part of it.
    step
        The length of the smallest parts.
    origin
        Where a cycle begins.

    Raises
    ------
    OptionError
        If the family is discrete, has atoms or cycles, or is over several variables; if `parts` are not whole numbers of at least
        2, or the step is not positive.
    """

    parts: tuple[int, ...] = (7,)
    step: float = 1.0
    origin: float = 0.0
    discrete: ClassVar[bool] = False

    def __post_init__(self) -> None:
        instance("Cyclic: family", self.family, Family, "a continuous family, such as fp.Gaussian()")
        refuse_unsuited("Cyclic", self.family)
        if self.family.discrete or self.family.runs_in_cycles:
            which = "is discrete" if self.family.discrete else "has cycles already"
            raise OptionError(f"Cyclic: family is {self.family}, which {which}; give another, such as fp.Gaussian().")
        numbers = "one or more whole numbers, such as (7,)"
        given = several("Cyclic: parts", self.parts, numbers)
        if not given:
            raise wrong("Cyclic: parts", self.parts, f"give {numbers}.")
        put(self, parts=tuple(whole_number("Cyclic: parts", n, 2, 10_000) for n in given))
        put(self, step=number("Cyclic: step", self.step, 0.0, above=True), origin=number("Cyclic: origin", self.origin))

    @property
    def _n(self) -> int:
        """Smallest parts of a cycle."""
        return math.prod(self.parts)

    @property
    def _length(self) -> float:
        return self.step * self._n

    @property
    def _cycles(self) -> Discretized:
        """Which cycle: its middle stands for it."""
        return Discretized(self.family, self._length, self.origin + self._length / 2)

    @property
    def _shares(self) -> tuple[str, ...]:
        return tuple(f"parts{i}" for i in range(len(self.parts)))

    @property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        """The shares, then the family's own."""
        return (*self._shares, *self.family.names)

    @property
    def statistic_names(self) -> tuple[str, ...]:  # type: ignore[override]
        """Counts of parts, then the family's own."""
        return (*self._shares, *self.family.statistic_names)

    @property
    def cost(self) -> Cost:  # type: ignore[override]
        """That of the cycles, and as much for the parts as NumPy takes for any."""
        return Cost(*(own + more for own, more in zip(self._cycles.cost, Cost(), strict=True)))

    def _own(self, values: Parameters) -> dict[str, Array]:
        return {name: value for name, value in values.items() if name not in self._shares}

    def parameter_shapes(self, width: int) -> dict[str, tuple[int, ...]]:
        """`parts0 [width, n]` and so on, then the family's own."""
        shares = {name: (width, n) for name, n in zip(self._shares, self.parts, strict=True)}
        return {**shares, **self.family.parameter_shapes(width)}

    def statistic_shapes(self, width: int) -> dict[str, tuple[int, ...]]:
        """`parts0 [width, n]` and so on, then the family's own."""
        shares = {name: (width, n) for name, n in zip(self._shares, self.parts, strict=True)}
        return {**shares, **self.family.statistic_shapes(width)}

    def check_parameters(self, parameters: Parameters, where: str) -> None:
        """Shares on the simplex; the family's own."""
        for name in self._shares:
            check_shares(parameters[name], where, f"shares {name}")
        self.family.check_parameters(self._own(parameters), where)

    # ---- values -----------------------------------------------------------------------------------------------------------

    def _place(self, x: Array) -> tuple[Array, Array]:
        """The middle of the cycle that x is in, and how many smallest parts of it are behind."""
        with np.errstate(invalid="ignore"):
            steps = (np.where(np.isfinite(x), x, self.origin) - self.origin) / self.step + NEAR
            cycle = np.floor(steps / self._n)
            middle = self.origin + self._length * (cycle + 0.5)
        return middle, np.clip(steps - cycle * self._n, 0.0, np.nextafter(self._n, 0.0))

    def _digits(self, part: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Which one of each of `parts` a smallest part belongs to."""
        return [np.asarray(digit) for digit in np.unravel_index(part, self.parts)]

    def _joint(self, parameters: Parameters) -> Array:
        """`[K, n]`: the shares of all smallest parts."""
        shares = [np.asarray(parameters[name], np.float64) for name in self._shares]
        return reduce(lambda a, b: (a[:, :, None] * b[:, None, :]).reshape(len(a), -1), shares)

    def outside(self, x: Array) -> NDArray[np.bool_]:
        """Infinite numbers, and those of cycles that the family doesn't reach."""
        return self._beyond(x, self._place(x)[0])

    def _beyond(self, x: Array, middle: Array) -> NDArray[np.bool_]:
        return np.asarray(~np.isnan(x) & (np.isinf(x) | self._cycles.outside(middle)))

    def support(self) -> str:
        """The values in words."""
        return f"cycles of {self._length:g} with {self.family.support()}"

    @property
    def bounds(self) -> tuple[float, float]:
        """Where the first cycle begins and the last one ends."""
        low, high = self._cycles.bounds
        return low - self._length / 2, high + self._length / 2

    @property
    def runs_in_cycles(self) -> bool:
        """Yes."""
        return True

    def initialize(self, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        """Shares by the scheme `spread`; the family's own."""
        shares = {name: random_simplex((width, n), rng, spread) for name, n in zip(self._shares, self.parts, strict=True)}
        return {**shares, **self.family.initialize(width, rng, spread)}

    def initialize_from(self, x: Array, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        """Shares around those of the values; the family's own."""
        known = x[~np.isnan(x)]
        digits = self._digits(self._place(known)[1].astype(np.int64))
        shares = {}
        for name, n, digit in zip(self._shares, self.parts, digits, strict=True):
            drawn = random_simplex((width, n), rng, spread) * (np.bincount(digit, minlength=n) + 1.0)
            shares[name] = drawn / drawn.sum(axis=1, keepdims=True)
        return {**shares, **self.family.initialize_from(known, width, rng, spread)}

    # ---- density ----------------------------------------------------------------------------------------------------------

    def log_density(self, parameters: Parameters, x: Array) -> Array:
        """Of the cycle, of the part in it, and of a place in the part; 0 where x is NaN."""
        middle, phase = self._place(x)
        beyond = self._beyond(x, middle)
        with np.errstate(divide="ignore"):
            within = np.log(self._joint(parameters))[:, phase.astype(np.int64)].T - np.log(self.step)
        out = self._cycles.log_density(self._own(parameters), np.where(beyond, np.nan, middle)) + within
        return np.where(np.isnan(x)[:, None], 0.0, np.where(beyond[:, None], -np.inf, out))

    def statistics(self, parameters: Parameters, x: Array, flow: Array) -> Statistics:
        """Flow of parts; the family's own of cycles."""
        known = ~np.isnan(x)
        x, flow = x[known], flow[known]
        middle, phase = self._place(x)
        counts = {}
        for name, n, digit in zip(self._shares, self.parts, self._digits(phase.astype(np.int64)), strict=True):
            counted = np.zeros((n, flow.shape[1]))
            np.add.at(counted, digit, flow)
            counts[name] = counted.T.copy()
        return {**counts, **self._cycles.statistics(self._own(parameters), middle, flow)}

    def count(self, statistics: Statistics) -> Array:
        """Of all parts."""
        return np.asarray(statistics[self._shares[0]].sum(axis=1))

    def update(self, parameters: Parameters, statistics: Statistics, pseudocount: float = 0.0) -> dict[str, Array]:
        """Shares of the counts, `pseudocount` of them spread evenly; the family's own."""
        shares = {name: shares_of(statistics[name], parameters[name], pseudocount) for name in self._shares}
        return {**shares, **self.family.update(self._own(parameters), self._own(statistics), pseudocount)}

    def interpolate(self, old: Parameters, new: Parameters, step: float | Array) -> dict[str, Array]:
        """Averages of shares; the family's own."""
        shares = {name: between(old[name], new[name], step) for name in self._shares}
        return {**shares, **self.family.interpolate(self._own(old), self._own(new), step)}

    def restate(self, statistics: Statistics, old: Parameters, new: Parameters) -> Statistics:
        """The family's own."""
        own = self.family.restate(self._own(statistics), self._own(old), self._own(new))
        return {**{name: statistics[name] for name in self._shares}, **own}

    def unconstrain(self, parameters: Parameters) -> dict[str, Array]:
        """Logarithms of shares; the family's own."""
        shares = {name: logs_of(parameters[name]) for name in self._shares}
        return {**shares, **self.family.unconstrain(self._own(parameters))}

    def constrain(self, free: Parameters) -> dict[str, Array]:
        """Their softmax; the family's own."""
        shares = {name: shares_from(free[name]) for name in self._shares}
        return {**shares, **self.family.constrain(self._own(free))}

    def gradient(self, parameters: Parameters, statistics: Statistics) -> dict[str, Array]:
        """What was counted less what was to be expected; the family's own."""
        by_shares = {name: pull(statistics[name], parameters[name]) for name in self._shares}
        return {**by_shares, **self.family.gradient(self._own(parameters), self._own(statistics))}

    # ---- answers ----------------------------------------------------------------------------------------------------------

    def _middles(self) -> Array:
        """Of the smallest parts, seen from the middle of the cycle."""
        return np.asarray(self.step * (np.arange(self._n) + 0.5) - self._length / 2, np.float64)

    def mode(self, parameters: Parameters) -> Array:
        """The middle of the most probable part of the most probable cycle."""
        best = self._joint(parameters).argmax(axis=1)
        return np.asarray(self._cycles.mode(self._own(parameters)) + self._middles()[best])

    def mean(self, parameters: Parameters) -> Array:
        """Of the cycle, and of the place in it."""
        return np.asarray(self._cycles.mean(self._own(parameters)) + self._joint(parameters) @ self._middles())

    def variance(self, parameters: Parameters) -> Array:
        """Of the cycle, of the part in it, and of the place in the part."""
        joint, at = self._joint(parameters), self._middles()
        parts = joint @ at**2 - (joint @ at) ** 2 + self.step**2 / 12
        return np.asarray(self._cycles.variance(self._own(parameters)) + parts)

    def entropy(self, parameters: Parameters) -> Array:
        """Of the cycle, of the part in it, and of the place in the part."""
        parts = sum(entr(parameters[name]).sum(axis=1) for name in self._shares)
        return np.asarray(self._cycles.entropy(self._own(parameters)) + parts + np.log(self.step))

    def _passed(self, parameters: Parameters) -> Array:
        """`[K, n + 1]`: the shares of the parts before each border."""
        joint = self._joint(parameters)
        passed = np.concatenate([np.zeros((len(joint), 1)), np.cumsum(joint, axis=1)], axis=1)
        return np.asarray(passed / passed[:, -1:])

    def _ends(self, own: Parameters, middle: Array) -> tuple[Array, Array]:
        """`[N, K]`: the family's cdf where a cycle begins, and where it ends."""
        low, high = self.family.bounds
        borders = (np.clip(middle + side * self._length / 2, low, high) for side in (-1, 1))
        start, end = (self.family.cdf(own, border) for border in borders)
        return start, end

    def cdf(self, parameters: Parameters, x: Array) -> Array:
        """Of the cycles before, and of the parts before in this one."""
        x = np.asarray(x, np.float64)
        middle, phase = self._place(x)
        start, end = self._ends(self._own(parameters), middle)
        part, place = phase.astype(np.int64), phase % 1
        passed = self._passed(parameters)
        share = passed[:, part] + (passed[:, part + 1] - passed[:, part]) * place
        found = start + (end - start) * share.T
        return np.where(np.isinf(x)[:, None], (x > 0)[:, None].astype(np.float64), found)

    def quantile(self, parameters: Parameters, q: Array) -> Array:
        """The cycle, and the place in it."""
        q, own = np.asarray(q, np.float64), self._own(parameters)
        cycles, passed = self._cycles.quantile(own, q), self._passed(parameters)
        out = np.empty(cycles.shape)
        for k in range(cycles.shape[1]):
            one = {name: value[k : k + 1] for name, value in own.items()}
            start, end = (side[:, 0] for side in self._ends(one, cycles[:, k]))
            share = np.clip(ratio(q - start, end - start, np.zeros(len(q))), 0.0, 1.0)
            level = np.concatenate([[True], np.diff(passed[k]) > 0])  # where the cdf is level, its left end
            at = np.interp(share, passed[k][level], np.arange(self._n + 1)[level])
            out[:, k] = cycles[:, k] - self._length / 2 + self.step * at
        return out

    def sample(self, parameters: Parameters, units: NDArray[np.int64], rng: np.random.Generator) -> Array:
        """A cycle, a part of it, and a place in the part."""
        cycle = self._cycles.sample(self._own(parameters), units, rng)
        chosen = (self._passed(parameters)[units, 1:-1] <= rng.random(len(units))[:, None]).sum(axis=1)
        return np.asarray(cycle - self._length / 2 + self.step * (chosen + rng.random(len(units))))

    def rescaled(self, parameters: Parameters, shift: float, scale: float) -> tuple[Cyclic, dict[str, Array]]:
        """The family's own; step and origin."""
        family, moved = self.family.rescaled(self._own(parameters), shift, scale)
        shares = {name: np.asarray(parameters[name]) for name in self._shares}
        return Cyclic(family, self.parts, self.step * scale, shift + scale * self.origin), {**shares, **moved}


def with_cycles(family: Family, parts: tuple[int, ...], step: float, origin: float) -> Family | None:
    """A continuous family with these cycles, beside its atoms if it has any; None for a discrete one.

    >>> from flatpc.families import Gaussian, Poisson
    >>> with_cycles(Hurdle((0.0,), Gaussian()), (7,), 1.0, 0.0).family.parts, with_cycles(Poisson(), (7,), 1.0, 0.0)
    ((7,), None)
    """
    if family.discrete:
        return None
    if not isinstance(family, Hurdle):
        return Cyclic(family, parts, step, origin)
    inner = with_cycles(family.family, parts, step, origin)
    return None if inner is None else Hurdle(family.atoms, inner)
