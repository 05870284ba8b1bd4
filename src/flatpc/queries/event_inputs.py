"""What becomes of an input whose variable is not known by its value: whether an event has happened, 1 if so.

A unit's probability of the event is by the family's cdf; of several variables together, by the family's boxes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from flatpc._typing import Array
from flatpc.families import asking
from flatpc.families.base import Family, Parameters
from flatpc.families.gaussian import Gaussian

Range = tuple[float, float]


@dataclass(frozen=True)
class Seen(Family):
    """Whether a variable of a family lies within ranges, whose ends belong to them, or is one of some values: 1 if so, 0 if not.

    Parameters of a unit are the family's own; `sample` draws the variable itself, given that it does.
    """

    family: Family = field(default_factory=Gaussian)
    ranges: tuple[Range, ...] = ()
    """`(low, high)` of each, which don't overlap."""
    values: tuple[float, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        """The family's own."""
        return self.family.names

    def parameter_shapes(self, width: int) -> dict[str, tuple[int, ...]]:
        """The family's own."""
        return self.family.parameter_shapes(width)

    def check_parameters(self, parameters: Parameters, where: str) -> None:
        """The family's own."""
        self.family.check_parameters(parameters, where)

    def outside(self, x: Array) -> NDArray[np.bool_]:
        """Whatever is neither 0 nor 1."""
        return np.asarray(~np.isnan(x) & (x != 0) & (x != 1))

    def _below(self, low: Array) -> Array:
        """The largest numbers that count as below lower bounds: just below a value that is rounded to the bound."""
        if self.family.grid is not None:
            return np.asarray(low - 1e-6 * self.family.grid[0])
        return np.nextafter(low, -np.inf)

    def ends(self, parameters: Parameters) -> tuple[Array, Array]:
        """`[R, K]` each: the cdf below the lower bounds, and at the upper ones."""
        self.family.require("The probability of a range", "cdf")
        low, high = np.array(self.ranges).T
        shape = (len(self.ranges), len(next(iter(parameters.values()))))
        below, up_to = np.zeros(shape), np.ones(shape)
        if np.isfinite(low).any():
            below[np.isfinite(low)] = self.family.cdf(parameters, self._below(low[np.isfinite(low)]))
        if np.isfinite(high).any():
            up_to[np.isfinite(high)] = self.family.cdf(parameters, high[np.isfinite(high)])
        return below, np.maximum(below, up_to)

    def mass(self, parameters: Parameters) -> Array:
        """`[K]`: the probability of the event; of values of a density, the density."""
        if self.values:
            return np.asarray(np.exp(asking.log_density(self.family, parameters, np.array(self.values))).sum(axis=0))
        below, up_to = self.ends(parameters)
        return np.asarray((up_to - below).sum(axis=0))

    def log_density(self, parameters: Parameters, x: Array) -> Array:
        """Of the event where x is 1, and of its opposite where x is 0."""
        mass = self.mass(parameters)
        with np.errstate(divide="ignore"):
            return np.where((x == 1)[:, None], np.log(mass), np.log(np.maximum(1 - mass, 0.0)))

    def sample(self, parameters: Parameters, units: NDArray[np.int64], rng: np.random.Generator) -> Array:
        """One of the values, or within one of the ranges, by quantiles."""
        out, u = np.empty(len(units)), rng.random(len(units))
        for unit in np.unique(units):
            mine, one = units == unit, {name: value[unit : unit + 1] for name, value in parameters.items()}
            if self.values:
                p = np.exp(asking.log_density(self.family, one, np.array(self.values)))[:, 0]
                out[mine] = np.array(self.values)[_drawn(p, u[mine])[0]]
            else:
                below, up_to = (ends[:, 0] for ends in self.ends(one))
                at, beyond = _drawn(up_to - below, u[mine])
                # Never 0, whose quantile is the family's own lower bound.
                q = np.maximum(below[at] + beyond, np.nextafter(below[at], 1.0))
                out[mine] = np.clip(self.family.quantile(one, q)[:, 0], *np.array(self.ranges)[at].T)
        return out


def _drawn(p: Array, u: Array) -> tuple[NDArray[np.int64], Array]:
    """Which of some events numbers between 0 and 1 stand for, by their probabilities; and what is left of each number then."""
    ends = np.cumsum(p)
    at = np.minimum(np.searchsorted(ends, u * ends[-1], side="right"), len(p) - 1)
    return at, np.asarray(u * ends[-1] - (ends - p)[at])


@dataclass(frozen=True)
class SeenTogether(Family):
    """Whether some of a family's several variables lie within ranges, or are among some values; the others as they are.

    Where there is an event, an entry of x is 1 or NaN. `sample_given` draws the variables themselves.
    """

    family: Family = field(default_factory=Gaussian)
    ranges: tuple[tuple[int, tuple[Range, ...]], ...] = ()
    """Positions with the ranges that they may lie in."""
    values: tuple[tuple[int, tuple[float, ...]], ...] = ()
    """Positions with the values that they may have."""

    @property
    def n_variables(self) -> int:  # type: ignore[override]
        """The family's own."""
        return self.family.n_variables

    @property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        """The family's own."""
        return self.family.names

    def parameter_shapes(self, width: int) -> dict[str, tuple[int, ...]]:
        """The family's own."""
        return self.family.parameter_shapes(width)

    def check_parameters(self, parameters: Parameters, where: str) -> None:
        """The family's own."""
        self.family.check_parameters(parameters, where)

    def marginal_family(self, position: int) -> Family:
        """Of a variable with an event, 1 is allowed."""
        family, ranges, values = self.family.marginal_family(position), dict(self.ranges), dict(self.values)
        if position in ranges or position in values:
            return Seen(family, ranges.get(position, ()), values.get(position, ()))
        return family

    def _cases(self, x: Array) -> Iterator[tuple[Array, Array, Array]]:
        """The rows with each choice of values and ranges, NaN where there is a range; and its bounds, infinite elsewhere."""
        for chosen in product(*(values for _, values in self.values)):
            for within in product(*(ranges for _, ranges in self.ranges)):
                rows, low, high = x.copy(), np.full(x.shape[1], -np.inf), np.full(x.shape[1], np.inf)
                for (position, _), value in zip(self.values, chosen, strict=True):
                    rows[:, position] = value
                for (position, _), ends in zip(self.ranges, within, strict=True):
                    rows[:, position] = np.nan
                    low[position], high[position] = ends
                yield rows, low, high

    def _log_prob(self, parameters: Parameters, x: Array) -> Array:
        """`[C, N, K]`: of every case."""
        return np.stack([self.family.box_log_prob(parameters, *case) for case in self._cases(x)])

    def log_density(self, parameters: Parameters, x: Array) -> Array:
        """Of the known entries and the events."""
        with np.errstate(divide="ignore"):
            return np.asarray(logsumexp(self._log_prob(parameters, x), axis=0))

    def sample_given(self, parameters: Parameters, units: NDArray[np.int64], x: Array, rng: np.random.Generator) -> Array:
        """A case in proportion to its probability, then the entries given it."""
        cases, rows = list(self._cases(x)), np.arange(len(x))
        chosen = np.zeros(len(x), np.int64)
        if len(cases) > 1:
            log = self._log_prob(parameters, x)[:, rows, units]
            p = np.cumsum(np.exp(log - log.max(axis=0)), axis=0)
            chosen = np.minimum((p < rng.random(len(x)) * p[-1]).sum(axis=0), len(cases) - 1)
        out = np.empty_like(x)
        for case, (given, low, high) in enumerate(cases):
            mine = chosen == case
            if mine.any():
                out[mine] = self.family.sample_in_box(parameters, units[mine], given[mine], low, high, rng)
        return out
