"""Values that stand out from the rest: zeros, caps, codes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, xlogy

from flatpc._options import ascending, instance, put
from flatpc._typing import Array
from flatpc.families.base import Cost, Family, Parameters, Statistics
from flatpc.families.gaussian import Gaussian
from flatpc.families.initialize import random_simplex
from flatpc.families.shares import between, check_shares, logs_of, pull, shares_from, shares_of
from flatpc.families.wrapping import refuse_unsuited

_MINE = ("shares", "shared")
_THEIRS = {f"own_{name}": name for name in _MINE}
"""What a family's parameters and statistics of these names are called in a hurdle."""


@dataclass(frozen=True)
class Hurdle(Family):
    """Values that stand out (zeros, caps, codes), each with a probability of its own, and a family for all the others.

    Parameters of a unit: `shares [K, n + 1]`, the probabilities of the n atoms and of the rest; and the family's own, whose
    shares, if it has any, are `own_shares`. `log_density` is that of a probability at an atom and of the family elsewhere. A
    discrete family is cut: its own probability of the atoms is spread over the other values, so that atoms may be rarer than the
    family says, too.

    >>> import flatpc as fp
    >>> import numpy as np
    >>> unit = {"shares": np.array([[0.25, 0.75]]), "mean": np.array([2.0])}
    >>> np.exp(fp.Hurdle((0.0,), fp.Exponential()).log_density(unit, np.array([0.0, 2.0])))[:, 0].round(3).tolist()
    [0.25, 0.138]

    Parameters
    ----------
    atoms
        The values that stand out, in ascending order.
    family
        For all others.

    Raises
    ------
    OptionError
        If the atoms are not finite and in ascending order, or the family has atoms itself or is over several variables.
    """

    atoms: tuple[float, ...] = (0.0,)
    family: Family = field(default_factory=Gaussian)

    def __post_init__(self) -> None:
        put(self, atoms=ascending("Hurdle: atoms", self.atoms, 1))
        instance("Hurdle: family", self.family, Family, "a family, such as fp.Gaussian()")
        refuse_unsuited("Hurdle", self.family)

    @property
    def cost(self) -> Cost:  # type: ignore[override]
        """The family's own, and as much for the atoms as NumPy takes for any."""
        return Cost(*(own + more for own, more in zip(self.family.cost, Cost(), strict=True)))

    @property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        """The shares, then the family's own."""
        return ("shares", *map(_outside_name, self.family.names))

    @property
    def statistic_names(self) -> tuple[str, ...]:  # type: ignore[override]
        """Counts of atoms and the rest, then the family's own."""
        return ("shared", *map(_outside_name, self.family.statistic_names))

    @property
    def discrete(self) -> bool:  # type: ignore[override]
        """The family's own."""
        return self.family.discrete

    def parameter_shapes(self, width: int) -> dict[str, tuple[int, ...]]:
        """`shares [width, n + 1]`, then the family's own."""
        return {"shares": (width, len(self.atoms) + 1), **_named(self.family.parameter_shapes(width))}

    def statistic_shapes(self, width: int) -> dict[str, tuple[int, ...]]:
        """`shared [width, n + 1]`, then the family's own."""
        return {"shared": (width, len(self.atoms) + 1), **_named(self.family.statistic_shapes(width))}

    def _own(self, parameters: Parameters) -> dict[str, Array]:
        """The family's, by its own names."""
        return {_THEIRS.get(name, name): value for name, value in parameters.items() if name not in _MINE}

    def check_parameters(self, parameters: Parameters, where: str) -> None:
        """Shares on the simplex; the family's own."""
        check_shares(parameters["shares"], where)
        self.family.check_parameters(self._own(parameters), where)

    def _atom(self, x: Array) -> NDArray[np.int64]:
        """Which atom x is; -1 for others."""
        at = np.clip(np.searchsorted(self.atoms, x), 0, len(self.atoms) - 1)
        return np.where(np.asarray(self.atoms)[at] == x, at, -1)

    def outside(self, x: Array) -> NDArray[np.bool_]:
        """What is neither an atom nor one of the family's values."""
        return np.asarray((self._atom(x) < 0) & self.family.outside(x))

    def support(self) -> str:
        """The values in words."""
        return f"{', '.join(f'{atom:g}' for atom in self.atoms)}; {self.family.support()}"

    @property
    def bounds(self) -> tuple[float, float]:
        """The family's own, or an atom beyond."""
        low, high = self.family.bounds
        return min(low, self.atoms[0]), max(high, self.atoms[-1])

    @property
    def grid(self) -> tuple[float, float] | None:
        """The family's own."""
        return self.family.grid

    @property
    def set_apart(self) -> tuple[float, ...]:
        """The atoms."""
        return self.atoms

    @property
    def runs_in_cycles(self) -> bool:
        """The family's own."""
        return self.family.runs_in_cycles

    def initialize(self, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        """Shares by the scheme `spread`; the family's own."""
        shares = random_simplex((width, len(self.atoms) + 1), rng, spread)
        return {"shares": shares, **_named(self.family.initialize(width, rng, spread))}

    def initialize_from(self, x: Array, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        """Shares around those of the values; the family's own from the rest."""
        shares = random_simplex((width, len(self.atoms) + 1), rng, spread)
        known = x[~np.isnan(x)]
        at = self._atom(known)
        seen = np.bincount(np.where(at < 0, len(self.atoms), at), minlength=len(self.atoms) + 1) + 1.0
        shares = shares * seen / (shares * seen).sum(axis=1, keepdims=True)
        return {"shares": shares, **_named(self.family.initialize_from(known[at < 0], width, rng, spread))}

    # ---- density ----------------------------------------------------------------------------------------------------------

    def _hidden(self, parameters: Parameters) -> tuple[Array, Array]:
        """`[n, K]`: a discrete family's own probabilities of the atoms; `[K]`: what it leaves to the rest."""
        own, atoms = self._own(parameters), np.asarray(self.atoms)
        hidden = np.zeros((len(atoms), len(parameters["shares"])))
        if self.family.discrete:
            allowed = ~self.family.outside(atoms)
            hidden[allowed] = np.exp(self.family.log_density(own, atoms[allowed]))
        return hidden, np.maximum(1 - hidden.sum(axis=0), 1e-12)

    def log_density(self, parameters: Parameters, x: Array) -> Array:
        """An atom's share; the rest's share of the family's own; 0 where x is NaN."""
        at = self._atom(x)
        with np.errstate(divide="ignore"):
            shares = np.log(parameters["shares"])
        out = np.where(np.isnan(x)[:, None], 0.0, shares[:, at].T)
        rest = (at < 0) & ~np.isnan(x)
        if rest.any():
            own = self.family.log_density(self._own(parameters), x[rest])
            out[rest] = shares[:, -1] + own - np.log(self._hidden(parameters)[1])
        return out

    def statistics(self, parameters: Parameters, x: Array, flow: Array) -> Statistics:
        """Flow of atoms and of the rest; the family's own of the rest, and of what it has to spread of the atoms."""
        known = ~np.isnan(x)
        x, flow = x[known], flow[known]
        at = self._atom(x)
        shared = np.zeros((len(self.atoms) + 1, flow.shape[1]))
        np.add.at(shared, at, flow)  # the last is for -1
        own, values, flows = self._own(parameters), x[at < 0], flow[at < 0]
        if self.family.discrete:
            # A cut family is one whose draws were thrown away while they were atoms: so often has it drawn each.
            hidden, left = self._hidden(parameters)
            possible = ~self.family.outside(np.asarray(self.atoms))
            values = np.concatenate([values, np.asarray(self.atoms)[possible]])
            flows = np.concatenate([flows, (shared[-1] * hidden / left)[possible]])
        return {"shared": shared.T.copy(), **_named(self.family.statistics(own, values, flows))}

    def count(self, statistics: Statistics) -> Array:
        """Of atoms and of the rest."""
        return np.asarray(statistics["shared"].sum(axis=1))

    def update(self, parameters: Parameters, statistics: Statistics, pseudocount: float = 0.0) -> dict[str, Array]:
        """Shares of the counts; the family's own."""
        shares = shares_of(statistics["shared"], parameters["shares"], pseudocount)
        own = self.family.update(self._own(parameters), self._own(statistics), pseudocount)
        return {"shares": shares, **_named(own)}

    def interpolate(self, old: Parameters, new: Parameters, step: float | Array) -> dict[str, Array]:
        """Averages of shares; the family's own."""
        shares = between(old["shares"], new["shares"], step)
        return {"shares": shares, **_named(self.family.interpolate(self._own(old), self._own(new), step))}

    def restate(self, statistics: Statistics, old: Parameters, new: Parameters) -> Statistics:
        """The family's own."""
        own = self.family.restate(self._own(statistics), self._own(old), self._own(new))
        return {"shared": statistics["shared"], **_named(own)}

    def unconstrain(self, parameters: Parameters) -> dict[str, Array]:
        """Logarithms of shares; the family's own."""
        own = self.family.unconstrain(self._own(parameters))
        return {"shares": logs_of(parameters["shares"]), **_named(own)}

    def constrain(self, free: Parameters) -> dict[str, Array]:
        """Their softmax; the family's own."""
        return {"shares": shares_from(free["shares"]), **_named(self.family.constrain(self._own(free)))}

    def gradient(self, parameters: Parameters, statistics: Statistics) -> dict[str, Array]:
        """What was counted less what was to be expected; the family's own."""
        by_shares = pull(statistics["shared"], parameters["shares"])
        return {"shares": by_shares, **_named(self.family.gradient(self._own(parameters), self._own(statistics)))}

    # ---- answers ----------------------------------------------------------------------------------------------------------

    def mode(self, parameters: Parameters) -> Array:
        """The value of the largest `log_density`: an atom, or the family's mode."""
        candidates = [np.full(len(parameters["shares"]), atom) for atom in self.atoms]
        candidates.append(self.family.mode(self._own(parameters)))
        if self.family.discrete:
            candidates += self._beside(candidates[-1])
        logs = [np.diag(self.log_density(parameters, each)) for each in candidates]
        return np.asarray(np.take_along_axis(np.stack(candidates), np.argmax(logs, axis=0)[None], axis=0)[0])

    def _beside(self, mode: Array) -> list[Array]:
        """The best of the rest where a discrete family's mode is an atom: all values of a table; otherwise neighbours."""
        if self.family.n_categories is not None:
            every = np.arange(float(self.family.n_categories))
            return [np.full(len(mode), each) for each in every[~self.family.outside(every)]]
        step, origin = self.family.grid or (1.0, 0.0)
        at, reach = np.round((mode - origin) / step), len(self.atoms) + 1
        near = [origin + step * (at + k) for k in range(-reach, reach + 1) if k]
        return [np.where(self.family.outside(each), mode, each) for each in near]

    def _moment(self, parameters: Parameters, own: Array, power: int, around: Array) -> Array:
        """Of atoms and of the rest, whose moment is `own` before the family is cut."""
        hidden, left = self._hidden(parameters)
        deviation = (np.asarray(self.atoms)[:, None] - around) ** power
        rest = (own - (hidden * deviation).sum(axis=0)) / left
        return np.asarray((parameters["shares"][:, :-1].T * deviation).sum(axis=0) + parameters["shares"][:, -1] * rest)

    def mean(self, parameters: Parameters) -> Array:
        """Of atoms and of the rest."""
        return self._moment(parameters, self.family.mean(self._own(parameters)), 1, np.zeros(len(parameters["shares"])))

    def variance(self, parameters: Parameters) -> Array:
        """Of atoms and of the rest."""
        own, mean = self._own(parameters), self.mean(parameters)
        square = self.family.variance(own) + (self.family.mean(own) - mean) ** 2
        return self._moment(parameters, square, 2, mean)

    def entropy(self, parameters: Parameters) -> Array:
        """Of the shares, and of the rest."""
        hidden, left = self._hidden(parameters)
        rest = (self.family.entropy(self._own(parameters)) + xlogy(hidden, hidden).sum(axis=0)) / left + np.log(left)
        return np.asarray(entr(parameters["shares"]).sum(axis=1) + parameters["shares"][:, -1] * rest)

    def cdf(self, parameters: Parameters, x: Array) -> Array:
        """Of atoms up to x and of the rest."""
        x = np.asarray(x, np.float64)
        reached = (np.asarray(self.atoms) <= x[:, None]).astype(np.float64)
        hidden, left = self._hidden(parameters)
        rest = (self.family.cdf(self._own(parameters), x) - reached @ hidden) / left
        return np.asarray(reached @ parameters["shares"][:, :-1].T + parameters["shares"][:, -1] * rest)

    def quantile(self, parameters: Parameters, q: Array) -> Array:
        """An atom where the cdf jumps past q; elsewhere the family's own of what is left of q, and of the atoms hidden below."""
        q, own = np.asarray(q, np.float64), self._own(parameters)
        shares, atoms = parameters["shares"], np.asarray(self.atoms)
        at_atoms, (hidden, rest) = self.cdf(parameters, atoms), self._hidden(parameters)
        out = np.empty((len(q), len(shares)))
        for k in range(len(shares)):
            below = at_atoms[:, k] - shares[k, :-1]
            passed = (q[:, None] > at_atoms[:, k]).astype(np.float64)
            left = np.clip((q - passed @ shares[k, :-1]) / max(shares[k, -1], 1e-300), 0.0, 1.0)
            left = np.clip(left * rest[k] + passed @ hidden[:, k], 0.0, 1.0)
            found = self.family.quantile({name: value[k : k + 1] for name, value in own.items()}, left)[:, 0]
            jumps = (q[:, None] > below) & (q[:, None] <= at_atoms[:, k])
            out[:, k] = np.where(jumps.any(axis=1), atoms[np.argmax(jumps, axis=1)], found)
        return out

    def sample(self, parameters: Parameters, units: NDArray[np.int64], rng: np.random.Generator) -> Array:
        """An atom, or the family's own, drawn until it is none."""
        cumulative = np.cumsum(parameters["shares"], axis=1)
        u = rng.random(len(units)) * cumulative[units, -1]
        chosen = (cumulative[units, :-1] <= u[:, None]).sum(axis=1)
        out = np.append(self.atoms, np.nan)[chosen]
        own = self._own(parameters)
        for _ in range(1000):
            wanted = np.isnan(out)
            if not wanted.any():
                break
            drawn = self.family.sample(own, units[wanted], rng)
            out[wanted] = np.where(self._atom(drawn) >= 0, np.nan, drawn)
        return np.where(np.isnan(out), self.atoms[0], out)

    def rescaled(self, parameters: Parameters, shift: float, scale: float) -> tuple[Hurdle, dict[str, Array]]:
        """The family's own; and the atoms."""
        family, moved = self.family.rescaled(self._own(parameters), shift, scale)
        atoms = tuple(shift + scale * atom for atom in self.atoms)
        return Hurdle(atoms, family), {"shares": np.asarray(parameters["shares"]), **_named(moved)}

    @property
    def floor(self) -> float | None:
        """The family's own."""
        return self.family.floor

    @property
    def chosen_floor(self) -> float:
        """The family's own."""
        return self.family.chosen_floor

    def with_floor(self, floor: float) -> Hurdle:
        """The family's own."""
        return replace(self, family=self.family.with_floor(floor))


def _outside_name(name: str) -> str:
    """What a family's parameter or statistic is called in a hurdle: as in the family, unless the hurdle has one of that name."""
    return f"own_{name}" if name in _MINE else name


def _named(own: Mapping[str, Any]) -> dict[str, Any]:
    """A family's arrays or shapes by their names in a hurdle."""
    return {_outside_name(name): value for name, value in own.items()}


def sure_of(values: Array, family: Family, parameters: Parameters, share: float) -> tuple[Family, dict[str, Array]]:
    """One unit for each value, which is sure of it but for `share`: that goes to other values, by the one unit of the family.

    >>> kind, units = sure_of(np.array([0.0, 2.0]), Gaussian(), {"mean": np.zeros(1), "variance": np.ones(1)}, 0.1)
    >>> np.exp(kind.log_density(units, np.array([0.0, 2.0]))).round(3).tolist()
    [[0.9, 0.0], [0.0, 0.9]]
    """
    rest = family.family if isinstance(family, Hurdle) else family
    low, high = rest.bounds
    step = 1.0 if rest.grid is None else rest.grid[0]
    if rest.discrete and len(values) > (high - low) / step:
        share = 0.0  # there are no others
    shares = np.append(np.eye(len(values)) * (1 - share), np.full((len(values), 1), share), axis=1)
    of_rest = family._own(parameters) if isinstance(family, Hurdle) else parameters
    own = {name: np.repeat(of_rest[name], len(values), axis=0) for name in rest.names}
    return Hurdle(tuple(values.tolist()), rest), {"shares": shares, **_named(own)}
