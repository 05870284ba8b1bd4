"""What every family of input distributions can be asked. The rest of the library asks, and never looks at a family's class.

A family is a small immutable description; its parameters live in the circuit, one entry per unit, as named arrays of
float64 with the unit on the first axis. `docs/how-to/your-own-family.md` shows how to write one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from flatpc.errors import FamilyError, ParameterError, SupportError

Array = NDArray[np.float64]
Parameters = Mapping[str, Array]
Statistics = dict[str, Array]

SIMPLEX_TOLERANCE = 1e-6
LARGEST_EXPONENT = 600.0
"""Exponents of unconstrained maps stay below, so that even a run that diverges has finite parameters."""


@dataclass(frozen=True)
class Family:
    """Base class of all families.

    A subclass has to define `names` and `log_density`; each further method opens what needs it. What is asked of a family that
    doesn't define it raises `FamilyError`. Options of a family are fields of a frozen dataclass: they make families equal or
    different, and are saved in files.

    Arrays have N rows (values of the variable) and K units. No engine hands a missing value to a family: it is integrated out
    before.

    | opens | define |
    |---|---|
    | likelihoods, marginals, conditionals, on both engines | `log_density` |
    | checks of rows and of parameters | `outside` and `support`, `check_parameters` |
    | random starts; starts from data | `initialize`; `initialize_from` |
    | EM | `statistics`, `statistic_names`, `update` |
    | EM with steps below 1, momentum | `interpolate`, `restate`, where the defaults are wrong |
    | Adam and SGD | `unconstrain`, `constrain`, `gradient`, `statistics` |
    | `sample` | `sample` or `quantile` |
    | `mpe`, `expectation`, `variance`, entropies | `mode`, `mean`, `variance`, `entropy` |
    | probabilities of ranges | `cdf`, `quantile` |
    | gradients in rows and parameters by torch | `torch_log_density` |
    | learning in other units than the user's | `rescaled` |
    """

    names: ClassVar[tuple[str, ...]] = ()
    """Of the parameters."""
    statistic_names: ClassVar[tuple[str, ...]] = ()
    """Of the statistics, in the order in which they are kept."""
    learnable: ClassVar[bool] = True
    """Whether learning changes the parameters."""
    discrete: ClassVar[bool] = True
    """Whether `log_density` is the logarithm of a probability, not of a density."""
    native: ClassVar[str | None] = None
    """The numba engine's formula of this density: `"gaussian"`, `"binomial"`, `"poisson"`; None: it asks the family."""

    @property
    def n_categories(self) -> int | None:
        """How many values a variable of this family takes (0, 1, ..., n-1); None if infinitely many."""
        return None

    @property
    def is_table(self) -> bool:
        """Whether engines look densities up in `table(parameters)`; see `flatpc.families.Finite`."""
        return False

    @property
    def is_free_table(self) -> bool:
        """Whether every table of probabilities is one of its densities, so that the table may be learnt in its place."""
        return False

    @property
    def trials(self) -> int:
        """The whole number that the native formula of a binomial takes."""
        return 0

    def parameter_shapes(self, width: int) -> dict[str, tuple[int, ...]]:
        """Shape of each parameter for `width` units: the units come first."""
        return dict.fromkeys(self.names, (width,))

    def statistic_shapes(self, width: int) -> dict[str, tuple[int, ...]]:
        """Shape of each of the `statistics` for `width` units: the units come first."""
        return dict.fromkeys(self.statistic_names, (width,))

    # ---- what it allows ---------------------------------------------------------------------------------------------

    def check_parameters(self, parameters: Parameters, where: str) -> None:
        """Raise `ParameterError`, beginning with `where`, unless every value is in range; here: finite."""
        for name, values in parameters.items():
            if not np.isfinite(values).all():
                raise ParameterError(f"{where}: every {name} must be a finite number.")

    def outside(self, x: Array) -> NDArray[np.bool_]:
        """`[N]`: which values are outside the support, NaN never; here: infinite ones."""
        return np.isinf(x)

    def support(self) -> str:
        """The values allowed, in words."""
        return "finite numbers"

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest value allowed, or infinities; a sample is never outside."""
        n = self.n_categories
        return (-np.inf, np.inf) if n is None else (0.0, n - 1.0)

    def check(self, x: Array, column: str) -> None:
        """Raise `SupportError` for the first value outside the support."""
        bad = self.outside(x)
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise SupportError(
                f"{column} has the value {x[row]:g} in row {row}, but {self} allows only {self.support()}. "
                f"Recode the column or use another family."
            )

    # ---- density ----------------------------------------------------------------------------------------------------

    def log_density(self, parameters: Parameters, x: Array) -> Array:
        """`[N, K]`: logarithm of each unit's density at each value, `-inf` where it is 0."""
        raise self.lacks("log_density")

    def table(self, parameters: Parameters) -> Array:
        """`[K, n]`: probabilities of all values, of families over finitely many."""
        raise self.lacks("table")

    def from_table(self, table: Array) -> dict[str, Array]:
        """The parameters with this table, of a family with `is_free_table`."""
        raise self.lacks("from_table")

    # ---- where learning starts --------------------------------------------------------------------------------------

    def initialize(self, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        """Random parameters; `spread` is the name of the scheme that draws points of a simplex."""
        raise self.lacks("initialize")

    def initialize_from(self, x: Array, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        """Random parameters for a variable that has the values `x`, NaN where missing; here: without looking at them."""
        return self.initialize(width, rng, spread)

    # ---- EM ---------------------------------------------------------------------------------------------------------

    def statistics(self, parameters: Parameters, x: Array, flow: Array) -> Statistics:
        """What `update` and `gradient` need to know of values weighted by `flow [N, K]`; `{name: [K, ...]}`.

        Linear in `flow`, which may be negative (in the gradient of a penalty), so that they add up over rows, batches and
        machines. They belong to the `parameters` at which they are taken, and may depend on them: a family that is no exponential
        family gives the expected statistics of one step of an inner EM, or sums of derivatives for a Newton step.
        """
        raise self.lacks("statistics")

    def update(self, parameters: Parameters, statistics: Statistics, pseudocount: float = 0.0) -> dict[str, Array]:
        """Parameters that maximise, or at least raise, Σ flow · log density; a unit without flow keeps its own.

        `pseudocount` is a number of further observations, spread evenly over the values of a family that has finitely many.
        """
        raise self.lacks("update")

    def interpolate(self, old: Parameters, new: Parameters, step: float | Array) -> dict[str, Array]:
        """Parameters between `old` (step 0) and `new` (step 1); `step` is one number or `[K]`.

        Here: their average, which is right for *mean parameters* of an exponential family (probabilities, a mean, a rate): then
        no step lowers the expected log-likelihood.
        """
        out = {}
        for name, value in old.items():
            share = np.reshape(step, np.shape(step) + (1,) * (value.ndim - np.ndim(step)))
            out[name] = (1 - share) * value + share * new[name]
        return out

    def restate(self, statistics: Statistics, old: Parameters, new: Parameters) -> Statistics:
        """Statistics taken at `old` as if taken at `new`, for averages over steps; here: unchanged, as sufficient ones are."""
        return statistics

    def count(self, statistics: Statistics) -> Array:
        """`[K]`: the flow that has gone into statistics; here: the one called `"count"`."""
        if "count" not in statistics:
            raise self.lacks("count")
        return statistics["count"]

    # ---- gradients --------------------------------------------------------------------------------------------------

    def unconstrain(self, parameters: Parameters) -> dict[str, Array]:
        """Numbers without constraints, of the names and shapes of the parameters; what `constrain` takes back."""
        raise self.lacks("unconstrain")

    def constrain(self, free: Parameters) -> dict[str, Array]:
        """Parameters from numbers without constraints."""
        raise self.lacks("constrain")

    def gradient(self, parameters: Parameters, statistics: Statistics) -> dict[str, Array]:
        """Σ flow · ∂ log density / ∂z from statistics taken at these parameters, z being `unconstrain(parameters)`.

        Linear in the statistics. A family whose statistics don't tell may add its score to them.
        """
        raise self.lacks("gradient")

    # ---- answers ----------------------------------------------------------------------------------------------------

    def mode(self, parameters: Parameters) -> Array:
        """`[K]`: the most probable value."""
        raise self.lacks("mode")

    def mean(self, parameters: Parameters) -> Array:
        """`[K]`."""
        raise self.lacks("mean")

    def variance(self, parameters: Parameters) -> Array:
        """`[K]`."""
        raise self.lacks("variance")

    def entropy(self, parameters: Parameters) -> Array:
        """`[K]`, in nats; of a density the differential entropy."""
        raise self.lacks("entropy")

    def cdf(self, parameters: Parameters, x: Array) -> Array:
        """`[N, K]`: the probability of values up to and with `x`."""
        raise self.lacks("cdf")

    def quantile(self, parameters: Parameters, q: Array) -> Array:
        """`[N, K]`: the smallest value whose cdf is at least `q`."""
        raise self.lacks("quantile")

    def sample(self, parameters: Parameters, units: NDArray[np.int64], rng: np.random.Generator) -> Array:
        """One value for each entry of `units`, drawn from that unit's density; here: by its quantiles."""
        if not self.defines("quantile"):
            raise self.lacks("sample")
        out, u = np.empty(len(units)), rng.random(len(units))
        for unit in np.unique(units):
            mine = units == unit
            out[mine] = self.quantile({name: value[unit : unit + 1] for name, value in parameters.items()}, u[mine])[:, 0]
        return out

    def rescaled(self, parameters: Parameters, shift: float, scale: float) -> tuple[Family, dict[str, Array]]:
        """Family and parameters of `shift + scale · z` if these are those of z."""
        raise self.lacks("rescaled")

    @property
    def floor(self) -> float | None:
        """The least variance that learning allows; None if the family sets none."""
        return None

    @property
    def chosen_floor(self) -> float:
        """The same, if it is not the one that the family has by default; otherwise 0."""
        return 0.0

    def with_floor(self, floor: float) -> Family:
        """The family with another floor of its variance; here: the same, as it has none."""
        return self

    # ---- torch ------------------------------------------------------------------------------------------------------

    def torch_log_density(self, parameters: Mapping[str, Any], x: Any) -> Any:
        """`[n, B, K]`: `log_density` by torch, of `x [n, B, 1]` from parameters `[n, 1, K, ...]`, differentiable.

        Without it the torch engine asks `log_density`: values are the same, and derivatives in the family's parameters or in
        `x` raise `FamilyError`.
        """
        raise self.lacks("torch_log_density")

    def torch_table(self, parameters: Mapping[str, Any]) -> Any:
        """`[n, K, V]`: `table` by torch, from parameters `[n, K, ...]`; without it the torch engine asks `table`."""
        raise self.lacks("torch_table")

    def torch_density(self, parameters: Mapping[str, Any], x: Any) -> tuple[Any, Any]:
        """The same density as `mantissa · exp(scale)` with the scale detached; here: from its logarithm.

        To be defined where a density has derivatives although its logarithm has none: at a probability of 0.
        """
        import torch

        log = self.torch_log_density(parameters, x)
        possible = log.detach().isfinite()
        log = torch.where(possible, log, 0.0)
        scale = log.detach()
        return torch.where(possible, (log - scale).exp(), 0.0), scale

    def torch_statistics(self, parameters: Mapping[str, Any], x: Any, flow: Any) -> dict[str, Any]:
        """`{name: [n, K, ...]}`: `statistics` by torch of `x [n, B]` with `flow [n, B, K]` from parameters `[n, K, ...]`.

        Without it the torch engine asks `statistics`.
        """
        raise self.lacks("torch_statistics")

    # ---- what it defines --------------------------------------------------------------------------------------------

    def defines(self, *methods: str) -> bool:
        """Whether its class, or one that it inherits from, defines all of these methods."""
        return all(_home(type(self), method) is not Family for method in methods)

    def follows(self, method: str, of: str) -> bool:
        """Whether a method is defined, and no subclass has changed `of`, which it restates, without it."""
        mine = type(self).__mro__
        return self.defines(method) and mine.index(_home(type(self), method)) <= mine.index(_home(type(self), of))

    @property
    def native_formula(self) -> str | None:
        """`native`, unless a subclass has changed the density or its statistics."""
        homes = {_home(type(self), name) for name in ("native", "log_density", "statistics")}
        return self.native if len(homes) == 1 else None

    def lacks(self, method: str) -> FamilyError:
        """The error of a family that doesn't define a method."""
        kind = type(self).__name__
        return FamilyError(f"{kind} has no {method}; define `{method}` in class {kind} (see flatpc.Family.{method}).")

    def require(self, purpose: str, *methods: str) -> None:
        """Raise `FamilyError` unless all of these methods, which `purpose` needs, are defined."""
        absent = [method for method in methods if not self.defines(method)]
        if absent:
            kind, listed = type(self).__name__, ", ".join(f"`{method}`" for method in absent)
            raise FamilyError(f"{purpose} needs {listed} of {kind}, which doesn't define {'them' if absent[1:] else 'it'}.")


_homes: WeakKeyDictionary[type, dict[str, type]] = WeakKeyDictionary()


def _home(kind: type, name: str) -> type:
    """The class among its ancestors that says what an attribute is."""
    known = _homes.setdefault(kind, {})
    if name not in known:
        known[name] = next(base for base in kind.__mro__ if name in base.__dict__)
    return known[name]


# ---- what several families use ----------------------------------------------------------------------------------------


def masked(x: Array) -> tuple[Array, NDArray[np.bool_]]:
    """X with NaN replaced by 0, and where it was observed."""
    seen = ~np.isnan(x)
    return np.where(seen, x, 0.0), seen


def check_probability(p: Array, where: str) -> None:
    """Raise unless all entries are probabilities."""
    if not ((p >= 0) & (p <= 1)).all():
        bad = p[~((p >= 0) & (p <= 1))].ravel()[0]
        raise ParameterError(f"{where}: p holds {bad:g}; probabilities lie between 0 and 1.")


def ratio(numerator: Array, denominator: Array, otherwise: Array) -> Array:
    """The quotient, and `otherwise` where the denominator is not positive."""
    out = np.array(otherwise, dtype=np.float64)
    np.divide(numerator, denominator, out=out, where=denominator > 0)
    return out


def count_and_sum(x: Array, flow: Array) -> Statistics:
    """`{"count", "sum"}`: flow, and flow times value, over the values that are not missing."""
    value, seen = masked(x)
    flow = np.where(seen[:, None], flow, 0.0)
    return {"count": flow.sum(axis=0), "sum": value @ flow}
