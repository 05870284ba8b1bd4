"""What densities made of pieces share: one probability for each piece, on the simplex."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from flatpc._options import ascending, put
from flatpc._typing import Array
from flatpc.errors import ParameterError
from flatpc.families.base import SIMPLEX_TOLERANCE, Family, Parameters, Statistics, check_probability, ratio
from flatpc.families.initialize import random_simplex


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
        p = parameters["p"]
        check_probability(p, where)
        total = p.sum(axis=1)
        if (abs(total - 1) > SIMPLEX_TOLERANCE).any():
            unit = int(np.argmax(abs(total - 1)))
            raise ParameterError(f"{where}: the probabilities of unit {unit} sum to {total[unit]:.9g}, not 1.")

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
        counts = statistics["counts"]
        counts = counts + pseudocount / counts.shape[1]
        return {"p": ratio(counts, np.broadcast_to(counts.sum(axis=1, keepdims=True), counts.shape), parameters["p"])}

    def unconstrain(self, parameters: Parameters) -> dict[str, Array]:
        """Logarithms."""
        return {"p": np.log(np.maximum(parameters["p"], 1e-300))}

    def constrain(self, free: Parameters) -> dict[str, Array]:
        """Their softmax."""
        return {"p": np.asarray(softmax(free["p"], axis=1))}

    def gradient(self, parameters: Parameters, statistics: Statistics) -> dict[str, Array]:
        """What was counted less what was to be expected."""
        counts = statistics["counts"]
        return {"p": counts - parameters["p"] * counts.sum(axis=1, keepdims=True)}
