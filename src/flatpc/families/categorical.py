"""Finitely many values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from flatpc._options import put, whole_number
from flatpc._typing import Array
from flatpc.families.base import Family, Parameters, Statistics
from flatpc.families.finite import Finite
from flatpc.families.initialize import random_simplex
from flatpc.families.shares import check_shares, logs_of, pull, shares_from, shares_of


@dataclass(frozen=True)
class Categorical(Finite):
    """Finitely many values: P(x=j) = p_j for j = 0, ..., n-1. Parameters of a unit: `p [K, n]`, rows on the simplex.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> fp.Categorical(3).mode({"p": np.array([[0.2, 0.5, 0.3]])}).tolist()
    [1.0]

    Parameters
    ----------
    n
        Number of values.

    Raises
    ------
    OptionError
        Unless `n` is a positive whole number.
    """

    n: int = 2
    names: ClassVar[tuple[str, ...]] = ("p",)
    n_beyond_largest: ClassVar[int | None] = 1

    def __post_init__(self) -> None:
        put(self, n=whole_number("Categorical: n", self.n, 1, why="the values that the variable has"))

    @property
    def n_categories(self) -> int:
        """The option n."""
        return self.n

    @classmethod
    def for_parameters(cls, values: Sequence[Any]) -> Family:
        """As many values as there are probabilities."""
        return cls(n=np.size(values[0])) if len(values) == 1 else cls()

    def parameter_shapes(self, width: int) -> dict[str, tuple[int, ...]]:
        """`p [width, n]`."""
        return {"p": (width, self.n)}

    def check_parameters(self, parameters: Parameters, where: str) -> None:
        """Rows on the simplex."""
        check_shares(parameters["p"], where, "probabilities")

    def initialize(self, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        """By the scheme `spread`."""
        return {"p": random_simplex((width, self.n), rng, spread)}

    def table(self, parameters: Parameters) -> Array:
        """The parameters themselves."""
        return np.asarray(parameters["p"])

    def from_table(self, table: Array) -> dict[str, Array]:
        """The table itself."""
        return {"p": np.array(table)}

    def update(self, parameters: Parameters, statistics: Statistics, pseudocount: float = 0.0) -> dict[str, Array]:
        """Shares of the counts."""
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

    def torch_table(self, parameters: Mapping[str, Any]) -> Any:
        """The parameters themselves."""
        return parameters["p"]
