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

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from flatpc.errors import ParameterError, SupportError

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


def masked(x: Array) -> tuple[Array, NDArray[np.bool_]]:
    """X with NaN replaced by 0, and where it was observed."""
    seen = ~np.isnan(x)
    return np.where(seen, x, 0.0), seen


def check_probability(p: Array, where: str) -> None:
    if not ((p >= 0) & (p <= 1)).all():
        bad = p[~((p >= 0) & (p <= 1))].ravel()[0]
        raise ParameterError(f"{where}: p holds {bad:g}; probabilities lie between 0 and 1.")


def ratio(numerator: Array, denominator: Array, otherwise: Array) -> Array:
    out = np.array(otherwise, dtype=np.float64)
    np.divide(numerator, denominator, out=out, where=denominator > 0)
    return out


def count_and_sum(x: Array, flow: Array) -> Statistics:
    value, seen = masked(x)
    flow = np.where(seen[:, None], flow, 0.0)
    return {"count": flow.sum(axis=0), "sum": value @ flow}
