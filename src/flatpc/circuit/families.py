"""Families of input distributions.

A family is a small immutable description; its parameters live in the circuit, one entry per unit, as named arrays of
float64 with the unit on the first axis. Every family gives

- `log_density(parameters, x)`: `[N, K]`, with 0 where x is NaN (a missing value is integrated out);
- `statistics(parameters, x, flow)`: sufficient statistics of rows weighted by `flow [N, K]`; they add up over batches
  taken at the same parameters;
- `update(parameters, statistics, pseudocount)`: the maximum-likelihood (EM) update; a unit without flow keeps its parameters;
- `mode`, `mean`, `variance`: `[K]`; `sample(parameters, units, rng)`;
- `check(x, column)`: raises `SupportError` for a value outside the support.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlog1py, xlogy

from flatpc.errors import OptionError, ParameterError, SupportError

Array = NDArray[np.float64]
Parameters = Mapping[str, Array]
Statistics = dict[str, Array]

SIMPLEX_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Family(ABC):
    """What every family has. `names` are its parameters, `learnable` whether EM changes them."""

    names: ClassVar[tuple[str, ...]] = ()
    learnable: ClassVar[bool] = True
    discrete: ClassVar[bool] = True

    @property
    def n_categories(self) -> int | None:
        """How many values a variable of this family takes (0, 1, ..., n-1); None if infinitely many."""
        return None

    def parameter_shapes(self, width: int) -> dict[str, tuple[int, ...]]:
        return dict.fromkeys(self.names, (width,))

    @abstractmethod
    def check_parameters(self, parameters: Parameters, where: str) -> None:
        """Raise `ParameterError` unless every value is in range."""

    @abstractmethod
    def initialize(self, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        """Random parameters; `spread` is the name of the scheme that draws points of a simplex."""

    @abstractmethod
    def log_density(self, parameters: Parameters, x: Array) -> Array: ...

    @abstractmethod
    def statistics(self, parameters: Parameters, x: Array, flow: Array) -> Statistics: ...

    @abstractmethod
    def update(self, parameters: Parameters, statistics: Statistics, pseudocount: float = 0.0) -> dict[str, Array]: ...

    @abstractmethod
    def mode(self, parameters: Parameters) -> Array: ...

    @abstractmethod
    def mean(self, parameters: Parameters) -> Array: ...

    @abstractmethod
    def variance(self, parameters: Parameters) -> Array: ...

    @abstractmethod
    def sample(self, parameters: Parameters, units: NDArray[np.int64], rng: np.random.Generator) -> Array:
        """One value for each entry of `units`, drawn from that unit's density."""

    def check(self, x: Array, column: str) -> None:
        """Raise `SupportError` for the first finite value outside the support."""
        bad = self._outside(x)
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise SupportError(
                f"{column} has the value {x[row]:g} in row {row}, but {self} allows only {self._support()}. "
                f"Recode the column or use another family."
            )

    @abstractmethod
    def _outside(self, x: Array) -> NDArray[np.bool_]: ...

    @abstractmethod
    def _support(self) -> str: ...


def _masked(x: Array) -> tuple[Array, NDArray[np.bool_]]:
    """X with NaN replaced by 0, and where it was observed."""
    seen = ~np.isnan(x)
    return np.where(seen, x, 0.0), seen


def _check_probability(p: Array, where: str) -> None:
    if not ((p >= 0) & (p <= 1)).all():
        bad = p[~((p >= 0) & (p <= 1))].ravel()[0]
        raise ParameterError(f"{where}: p holds {bad:g}; probabilities lie between 0 and 1.")


def _check_count(family: Categorical | Indicator | Binomial, rule: str) -> None:
    if not isinstance(family.n, int | np.integer) or family.n < 1:
        raise OptionError(f"{type(family).__name__}(n={family.n!r}): n is a whole number, and {rule}.")


def _ratio(numerator: Array, denominator: Array, otherwise: Array) -> Array:
    out = np.array(otherwise, dtype=np.float64)
    np.divide(numerator, denominator, out=out, where=denominator > 0)
    return out


class _Finite(Family):
    """A family over 0, ..., n-1, seen as a table of probabilities `[K, n]`."""

    @abstractmethod
    def table(self, parameters: Parameters) -> Array: ...

    def log_density(self, parameters: Parameters, x: Array) -> Array:
        value, seen = _masked(x)
        with np.errstate(divide="ignore"):
            log_table = np.log(self.table(parameters))
        return np.where(seen[:, None], log_table[:, value.astype(np.int64)].T, 0.0)

    def statistics(self, parameters: Parameters, x: Array, flow: Array) -> Statistics:
        value, seen = _masked(x)
        n = self.n_categories
        assert n is not None
        counts = np.zeros((n, flow.shape[1]))
        np.add.at(counts, value.astype(np.int64)[seen], flow[seen])
        return {"counts": counts.T.copy()}

    def mode(self, parameters: Parameters) -> Array:
        return np.asarray(self.table(parameters).argmax(axis=1), dtype=np.float64)

    def mean(self, parameters: Parameters) -> Array:
        table = self.table(parameters)
        return np.asarray(table @ np.arange(table.shape[1], dtype=np.float64))

    def variance(self, parameters: Parameters) -> Array:
        table = self.table(parameters)
        deviation = np.arange(table.shape[1]) - self.mean(parameters)[:, None]
        return np.asarray((table * deviation**2).sum(axis=1))

    def sample(self, parameters: Parameters, units: NDArray[np.int64], rng: np.random.Generator) -> Array:
        cumulative = np.cumsum(self.table(parameters), axis=1)
        u = rng.random(len(units)) * cumulative[units, -1]
        return np.asarray((cumulative[units, :-1] <= u[:, None]).sum(axis=1), dtype=np.float64)

    def _outside(self, x: Array) -> NDArray[np.bool_]:
        n = self.n_categories
        assert n is not None
        value, seen = _masked(x)
        return np.asarray(seen & ((value < 0) | (value >= n) | (value != np.floor(value))))

    def _support(self) -> str:
        n = self.n_categories
        return "0 and 1" if n == 2 else f"the whole numbers 0 to {(n or 1) - 1}"


@dataclass(frozen=True)
class Bernoulli(_Finite):
    """P(x=1) = p. Parameters: `p [K]`."""

    names: ClassVar[tuple[str, ...]] = ("p",)

    @property
    def n_categories(self) -> int:
        return 2

    def check_parameters(self, parameters: Parameters, where: str) -> None:
        _check_probability(parameters["p"], where)

    def initialize(self, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        from flatpc.circuit.initialize import random_simplex

        return {"p": random_simplex((width, 2), rng, spread)[:, 1].copy()}

    def table(self, parameters: Parameters) -> Array:
        return np.stack([1 - parameters["p"], parameters["p"]], axis=1)

    def update(self, parameters: Parameters, statistics: Statistics, pseudocount: float = 0.0) -> dict[str, Array]:
        counts = statistics["counts"] + pseudocount / 2
        return {"p": _ratio(counts[:, 1], counts.sum(axis=1), parameters["p"])}


@dataclass(frozen=True)
class Categorical(_Finite):
    """P(x=j) = p_j for j = 0, ..., n-1. Parameters: `p [K, n]`, rows on the simplex."""

    n: int = 2
    names: ClassVar[tuple[str, ...]] = ("p",)

    def __post_init__(self) -> None:
        _check_count(self, "a categorical variable has at least one value")

    @property
    def n_categories(self) -> int:
        return self.n

    def parameter_shapes(self, width: int) -> dict[str, tuple[int, ...]]:
        return {"p": (width, self.n)}

    def check_parameters(self, parameters: Parameters, where: str) -> None:
        p = parameters["p"]
        _check_probability(p, where)
        total = p.sum(axis=1)
        if (abs(total - 1) > SIMPLEX_TOLERANCE).any():
            unit = int(np.argmax(abs(total - 1)))
            raise ParameterError(f"{where}: the probabilities of unit {unit} sum to {total[unit]:.9g}, not 1.")

    def initialize(self, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        from flatpc.circuit.initialize import random_simplex

        return {"p": random_simplex((width, self.n), rng, spread)}

    def table(self, parameters: Parameters) -> Array:
        return np.asarray(parameters["p"])

    def update(self, parameters: Parameters, statistics: Statistics, pseudocount: float = 0.0) -> dict[str, Array]:
        counts = statistics["counts"] + pseudocount / self.n
        return {"p": _ratio(counts, np.broadcast_to(counts.sum(axis=1, keepdims=True), counts.shape), parameters["p"])}


@dataclass(frozen=True)
class Indicator(_Finite):
    """Unit k is 1 where x equals `value[k]` and 0 elsewhere. Parameters: `value [K]`, not learnt."""

    n: int = 2
    names: ClassVar[tuple[str, ...]] = ("value",)
    learnable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check_count(self, "the variable has at least one value")

    @property
    def n_categories(self) -> int:
        return self.n

    def check_parameters(self, parameters: Parameters, where: str) -> None:
        value = parameters["value"]
        if not ((value == np.floor(value)) & (value >= 0) & (value < self.n)).all():
            raise ParameterError(f"{where}: an indicator's values are whole numbers from 0 to {self.n - 1}.")

    def initialize(self, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        return {"value": np.arange(width, dtype=np.float64) % self.n}

    def table(self, parameters: Parameters) -> Array:
        return np.asarray(parameters["value"][:, None] == np.arange(self.n), dtype=np.float64)

    def update(self, parameters: Parameters, statistics: Statistics, pseudocount: float = 0.0) -> dict[str, Array]:
        return dict(parameters)


@dataclass(frozen=True)
class Gaussian(Family):
    """Normal density. Parameters: `mean [K]`, `variance [K]`; EM keeps every variance at `min_variance` or more."""

    min_variance: float = 1e-4
    names: ClassVar[tuple[str, ...]] = ("mean", "variance")
    discrete: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0 < self.min_variance < math.inf:
            raise OptionError(f"Gaussian(min_variance={self.min_variance}): the variance floor must be positive and finite.")

    def check_parameters(self, parameters: Parameters, where: str) -> None:
        if not np.isfinite(parameters["mean"]).all():
            raise ParameterError(f"{where}: every mean must be a finite number.")
        variance = parameters["variance"]
        if not (np.isfinite(variance) & (variance > 0)).all():
            raise ParameterError(f"{where}: every variance must be finite and positive.")

    def initialize(self, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        return {"mean": rng.standard_normal(width), "variance": np.ones(width)}

    def log_density(self, parameters: Parameters, x: Array) -> Array:
        value, seen = _masked(x)
        mean, variance = parameters["mean"], parameters["variance"]
        with np.errstate(over="ignore"):
            z = (value[:, None] - mean) ** 2 / variance
        return np.where(seen[:, None], -0.5 * (z + np.log(variance) + math.log(2 * math.pi)), 0.0)

    def statistics(self, parameters: Parameters, x: Array, flow: Array) -> Statistics:
        # Deviations from the current mean, so that large means don't cancel.
        value, seen = _masked(x)
        flow = np.where(seen[:, None], flow, 0.0)
        deviation = value[:, None] - parameters["mean"]
        return {
            "count": flow.sum(axis=0),
            "deviation": (flow * deviation).sum(axis=0),
            "squares": (flow * deviation**2).sum(axis=0),
        }

    def update(self, parameters: Parameters, statistics: Statistics, pseudocount: float = 0.0) -> dict[str, Array]:
        count = statistics["count"]
        shift = _ratio(statistics["deviation"], count, np.zeros_like(count))
        squares = _ratio(statistics["squares"], count, parameters["variance"])
        variance = np.where(count > 0, squares - shift**2, parameters["variance"])
        return {"mean": parameters["mean"] + shift, "variance": np.maximum(variance, self.min_variance)}

    def mode(self, parameters: Parameters) -> Array:
        return np.asarray(parameters["mean"])

    def mean(self, parameters: Parameters) -> Array:
        return np.asarray(parameters["mean"])

    def variance(self, parameters: Parameters) -> Array:
        return np.asarray(parameters["variance"])

    def sample(self, parameters: Parameters, units: NDArray[np.int64], rng: np.random.Generator) -> Array:
        noise = rng.standard_normal(len(units))
        return np.asarray(parameters["mean"][units] + np.sqrt(parameters["variance"][units]) * noise)

    def _outside(self, x: Array) -> NDArray[np.bool_]:
        return np.isinf(x)

    def _support(self) -> str:
        return "finite numbers"


@dataclass(frozen=True)
class Binomial(Family):
    """Number of successes in `n` trials. Parameters: `p [K]`."""

    n: int = 1
    names: ClassVar[tuple[str, ...]] = ("p",)

    def __post_init__(self) -> None:
        _check_count(self, "there must be at least one trial")

    @property
    def n_categories(self) -> int:
        return self.n + 1

    def check_parameters(self, parameters: Parameters, where: str) -> None:
        _check_probability(parameters["p"], where)

    def initialize(self, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        return {"p": rng.uniform(0.1, 0.9, width)}

    def log_density(self, parameters: Parameters, x: Array) -> Array:
        value, seen = _masked(x)
        p, k = parameters["p"], value[:, None]
        log_choose = gammaln(self.n + 1) - gammaln(k + 1) - gammaln(self.n - k + 1)
        return np.where(seen[:, None], log_choose + xlogy(k, p) + xlog1py(self.n - k, -p), 0.0)

    def statistics(self, parameters: Parameters, x: Array, flow: Array) -> Statistics:
        return _count_and_sum(x, flow)

    def update(self, parameters: Parameters, statistics: Statistics, pseudocount: float = 0.0) -> dict[str, Array]:
        trials = self.n * statistics["count"] + pseudocount
        return {"p": _ratio(statistics["sum"] + pseudocount / 2, trials, parameters["p"])}

    def mode(self, parameters: Parameters) -> Array:
        return np.minimum(np.floor((self.n + 1) * parameters["p"]), self.n)

    def mean(self, parameters: Parameters) -> Array:
        return np.asarray(self.n * parameters["p"])

    def variance(self, parameters: Parameters) -> Array:
        return np.asarray(self.n * parameters["p"] * (1 - parameters["p"]))

    def sample(self, parameters: Parameters, units: NDArray[np.int64], rng: np.random.Generator) -> Array:
        return rng.binomial(self.n, parameters["p"][units]).astype(np.float64)

    def _outside(self, x: Array) -> NDArray[np.bool_]:
        value, seen = _masked(x)
        return np.asarray(seen & ((value < 0) | (value > self.n) | (value != np.floor(value))))

    def _support(self) -> str:
        return f"the whole numbers 0 to {self.n}"


@dataclass(frozen=True)
class Poisson(Family):
    """Counts. Parameters: `rate [K]`; EM keeps every rate at `min_rate` or more."""

    min_rate: float = 1e-6
    names: ClassVar[tuple[str, ...]] = ("rate",)

    def __post_init__(self) -> None:
        if not 0 < self.min_rate < math.inf:
            raise OptionError(f"Poisson(min_rate={self.min_rate}): the floor of the rates must be positive and finite.")

    def check_parameters(self, parameters: Parameters, where: str) -> None:
        rate = parameters["rate"]
        if not (np.isfinite(rate) & (rate > 0)).all():
            raise ParameterError(f"{where}: every rate must be finite and positive.")

    def initialize(self, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        return {"rate": rng.uniform(0.5, 5.0, width)}

    def log_density(self, parameters: Parameters, x: Array) -> Array:
        value, seen = _masked(x)
        rate, k = parameters["rate"], value[:, None]
        log_factorial = gammaln(k + 1)
        possible = np.isfinite(log_factorial)  # beyond all doubles for counts near 1e308
        log_density = xlogy(np.where(possible, k, 0.0), rate) - rate - np.where(possible, log_factorial, np.inf)
        return np.where(seen[:, None], log_density, 0.0)

    def statistics(self, parameters: Parameters, x: Array, flow: Array) -> Statistics:
        return _count_and_sum(x, flow)

    def update(self, parameters: Parameters, statistics: Statistics, pseudocount: float = 0.0) -> dict[str, Array]:
        rate = _ratio(statistics["sum"], statistics["count"], parameters["rate"])
        return {"rate": np.maximum(rate, self.min_rate)}

    def mode(self, parameters: Parameters) -> Array:
        return np.floor(parameters["rate"])

    def mean(self, parameters: Parameters) -> Array:
        return np.asarray(parameters["rate"])

    def variance(self, parameters: Parameters) -> Array:
        return np.asarray(parameters["rate"])

    def sample(self, parameters: Parameters, units: NDArray[np.int64], rng: np.random.Generator) -> Array:
        return rng.poisson(parameters["rate"][units]).astype(np.float64)

    def _outside(self, x: Array) -> NDArray[np.bool_]:
        value, seen = _masked(x)
        return np.asarray(seen & (~np.isfinite(value) | (value < 0) | (value != np.floor(value))))

    def _support(self) -> str:
        return "the whole numbers 0, 1, 2, ..."


def _count_and_sum(x: Array, flow: Array) -> Statistics:
    value, seen = _masked(x)
    flow = np.where(seen[:, None], flow, 0.0)
    return {"count": flow.sum(axis=0), "sum": value @ flow}


FAMILIES: dict[str, type[Family]] = {
    "bernoulli": Bernoulli,
    "categorical": Categorical,
    "gaussian": Gaussian,
    "binomial": Binomial,
    "poisson": Poisson,
    "indicator": Indicator,
}


def family(name: str | Family, **options: Any) -> Family:
    """A family by its name: `family("categorical", n=3)`. A family is returned as it is."""
    if isinstance(name, Family):
        return name
    if name not in FAMILIES:
        raise OptionError(f"Unknown family {name!r}; choose one of {', '.join(sorted(FAMILIES))}.")
    made = FAMILIES[name]
    known = [option.name for option in fields(made)]
    unknown = [option for option in options if option not in known]
    if unknown:
        raise OptionError(f"The family {name!r} has no option {unknown[0]!r}; it has {', '.join(known) or 'none'}.")
    return made(**options)


def family_name(of: Family) -> str:
    """The name by which `family` finds this one."""
    return type(of).__name__.lower()
