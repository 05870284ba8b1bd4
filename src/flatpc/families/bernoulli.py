"""Two values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, logit

from flatpc._typing import Array
from flatpc.families.base import Parameters, Statistics, check_probability, ratio
from flatpc.families.finite import Finite
from flatpc.families.initialize import random_simplex


@dataclass(frozen=True)
class Bernoulli(Finite):
    """Two values: P(x=1) = p. Parameters of a unit: `p [K]`.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> fp.Bernoulli().mean({"p": np.array([0.25])}).tolist()
    [0.25]
    """

    names: ClassVar[tuple[str, ...]] = ("p",)

    @property
    def n_categories(self) -> int:
        """2."""
        return 2

    def check_parameters(self, parameters: Parameters, where: str) -> None:
        """Probabilities."""
        check_probability(parameters["p"], where)

    def initialize(self, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        """By the scheme `spread`."""
        return {"p": random_simplex((width, 2), rng, spread)[:, 1].copy()}

    def table(self, parameters: Parameters) -> Array:
        """`[1 - p, p]`."""
        return np.stack([1 - parameters["p"], parameters["p"]], axis=1)

    def from_table(self, table: Array) -> dict[str, Array]:
        """The second column."""
        return {"p": np.array(table[:, 1])}

    def update(self, parameters: Parameters, statistics: Statistics, pseudocount: float = 0.0) -> dict[str, Array]:
        """The share of ones."""
        counts = statistics["counts"] + pseudocount / 2
        return {"p": ratio(counts[:, 1], counts.sum(axis=1), parameters["p"])}

    def unconstrain(self, parameters: Parameters) -> dict[str, Array]:
        """Log-odds."""
        return {"p": logit(np.clip(parameters["p"], 1e-12, 1 - 1e-12))}

    def constrain(self, free: Parameters) -> dict[str, Array]:
        """1 / (1 + exp(-z))."""
        return {"p": expit(free["p"])}

    def gradient(self, parameters: Parameters, statistics: Statistics) -> dict[str, Array]:
        """Ones less those expected."""
        counts = statistics["counts"]
        return {"p": counts[:, 1] - parameters["p"] * counts.sum(axis=1)}

    def torch_table(self, parameters: Mapping[str, Any]) -> Any:
        """`[1 - p, p]`."""
        import torch

        return torch.stack([1 - parameters["p"], parameters["p"]], dim=-1)
