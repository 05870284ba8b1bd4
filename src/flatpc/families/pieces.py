"""What densities made of pieces share: one probability for each piece, on the simplex."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from flatpc._options import ascending, put
from flatpc._typing import Array
from flatpc.families.base import Family, Parameters, Statistics
from flatpc.families.initialize import random_simplex
from flatpc.families.shares import check_shares, logs_of, pull, shares_from, shares_of


@dataclass(frozen=True)
class Pieces(Family):
    """Parameters: `p [K, n]`, rows on the simplex; `edges` in ascending order say where pieces begin and end."""

    edges: tuple[float, ...] = (0.0, 1.0)
    names: ClassVar[tuple[str, ...]] = ("p",)
    statistic_names: ClassVar[tuple[str, ...]] = ("counts",)
    discrete: ClassVar[bool] = False

    def __post_init__(self) -> None:
        put(self, edges=ascending(f"{type(self).__name__}: edges", self.edges, 2))

    @property
    def n_pieces(self) -> int:
        """How many probabilities a unit has."""
        return len(self.edges) - 1

    def parameter_shapes(self, width: int) -> dict[str, tuple[int, ...]]:
        """`p [width, n]`."""
        return {"p": (width, self.n_pieces)}

    def statistic_shapes(self, width: int) -> dict[str, tuple[int, ...]]:
        """`counts [width, n]`."""
        return {"counts": (width, self.n_pieces)}

    def check_parameters(self, parameters: Parameters, where: str) -> None:
        """Rows on the simplex."""
        check_shares(parameters["p"], where, "probabilities")

    def outside(self, x: Array) -> NDArray[np.bool_]:
        """Numbers below the first or above the last edge."""
        return np.asarray((x < self.edges[0]) | (x > self.edges[-1]))

    def support(self) -> str:
        """The values in words."""
        return f"numbers from {self.edges[0]:g} to {self.edges[-1]:g}"

    @property
    def bounds(self) -> tuple[float, float]:
        """The first and the last edge."""
        return self.edges[0], self.edges[-1]

    def initialize(self, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        """By the scheme `spread`."""
        return {"p": random_simplex((width, self.n_pieces), rng, spread)}

    # ---- intervals, for those whose numbers are rounded ---------------------------------------------------------------------

    def _log_between(self, parameters: Parameters, masses: Array) -> Array:
        """Of intervals that hold `masses [N, n]`, shares of each piece's probability."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(masses @ parameters["p"].T))

    def _statistics_between(self, parameters: Parameters, masses: Array, flow: Array) -> Statistics:
        """Flow, divided among pieces by their probabilities inside."""
        p = parameters["p"]
        whole = masses @ p.T
        share = np.divide(flow, whole, out=np.zeros_like(flow), where=whole > 0)
        return {"counts": p * (share.T @ masses)}

    def count(self, statistics: Statistics) -> Array:
        """The sum of all counts."""
        return np.asarray(statistics["counts"].sum(axis=1))

    def update(self, parameters: Parameters, statistics: Statistics, pseudocount: float = 0.0) -> dict[str, Array]:
        """Shares of the counts, `pseudocount` of them spread evenly."""
        return {"p": shares_of(statistics["counts"], parameters["p"], pseudocount)}

    def unconstrain(self, parameters: Parameters) -> dict[str, Array]:
        """Logarithms."""
        return {"p": logs_of(parameters["p"])}

    def constrain(self, free: Parameters) -> dict[str, Array]:
        """Their softmax."""
        return {"p": shares_from(free["p"])}

    def gradient(self, parameters: Parameters, statistics: Statistics) -> dict[str, Array]:
        """What was counted less what was to be expected."""
        return {"p": pull(statistics["counts"], parameters["p"])}
