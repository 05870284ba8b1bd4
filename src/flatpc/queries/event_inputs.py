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


@dataclass(frozen=True)
class Seen(Family):
    """Whether a variable of a family lies between two bounds, which belong to it, or is one of some values: 1 if so, 0 if not.

    Parameters of a unit are the family's own; `sample` draws the variable itself, given that it does.
    """

    family: Family = field(default_factory=Gaussian)
    low: float = -np.inf
    high: float = np.inf
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

    def _below(self) -> float:
        """The largest number that counts as below the lower bound: just below a value that is rounded to the bound."""
        if self.family.grid is not None:
            return self.low - 1e-6 * self.family.grid[0]
        return float(np.nextafter(self.low, -np.inf))

    def ends(self, parameters: Parameters) -> tuple[Array, Array]:
        """`[K]` each: the cdf below the lower bound, and at the upper one."""
        self.family.require("The probability of a range", "cdf")
        units = len(next(iter(parameters.values())))
        below = np.zeros(units) if self.low == -np.inf else self.family.cdf(parameters, np.array([self._below()]))[0]
        up_to = np.ones(units) if self.high == np.inf else self.family.cdf(parameters, np.array([self.high]))[0]
        return below, np.maximum(below, up_to)

    def mass(self, parameters: Parameters) -> Array:
        """`[K]`: the probability of the event; of values of a density, the density."""
        if self.values:
            return np.asarray(np.exp(asking.log_density(self.family, parameters, np.array(self.values))).sum(axis=0))
        below, up_to = self.ends(parameters)
        return up_to - below

    def log_density(self, parameters: Parameters, x: Array) -> Array:
        """Of the event where x is 1, and of its opposite where x is 0."""
        mass = self.mass(parameters)
        with np.errstate(divide="ignore"):
            return np.where((x == 1)[:, None], np.log(mass), np.log(np.maximum(1 - mass, 0.0)))

    def sample(self, parameters: Parameters, units: NDArray[np.int64], rng: np.random.Generator) -> Array:
        """One of the values, or between the bounds, by quantiles."""
        out, u = np.empty(len(units)), rng.random(len(units))
        for unit in np.unique(units):
            mine, one = units == unit, {name: value[unit : unit + 1] for name, value in parameters.items()}
            if self.values:
                p = np.exp(asking.log_density(self.family, one, np.array(self.values)))[:, 0]
                at = np.searchsorted(np.cumsum(p), u[mine] * p.sum(), side="right")
                out[mine] = np.array(self.values)[np.minimum(at, len(p) - 1)]
            else:
                (below,), (up_to,) = self.ends(one)
                # Never 0, whose quantile is the family's own lower bound.
                q = np.maximum(below + u[mine] * (up_to - below), np.nextafter(below, 1.0))
                out[mine] = np.clip(self.family.quantile(one, q)[:, 0], self.low, self.high)
        return out


@dataclass(frozen=True)
class SeenTogether(Family):
    """Whether some of a family's several variables lie between bounds, or are among some values; the others as they are.

    Where there is an event, an entry of x is 1 or NaN. `sample_given` draws the variables themselves.
    """

    family: Family = field(default_factory=Gaussian)
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    """Of every variable; infinite where there is no range."""
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
        family, listed = self.family.marginal_family(position), dict(self.values)
        if position in listed or np.isfinite([self.low[position], self.high[position]]).any():
            return Seen(family, self.low[position], self.high[position], listed.get(position, ()))
        return family

    def _cases(self, x: Array) -> Iterator[Array]:
        """The rows with each choice of the values, NaN where there is a range."""
        bounded = np.isfinite(self.low) | np.isfinite(self.high)
        for chosen in product(*(values for _, values in self.values)):
            rows = np.where(bounded, np.nan, x)
            for (position, _), value in zip(self.values, chosen, strict=True):
                rows[:, position] = value
            yield rows

    def _log_prob(self, parameters: Parameters, x: Array) -> Array:
        """`[C, N, K]`: of every case."""
        low, high = np.array(self.low), np.array(self.high)
        return np.stack([self.family.box_log_prob(parameters, rows, low, high) for rows in self._cases(x)])

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
        given = np.stack(cases)[chosen, rows]
        return self.family.sample_in_box(parameters, units, given, np.array(self.low), np.array(self.high), rng)
