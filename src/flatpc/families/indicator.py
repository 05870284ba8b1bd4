"""One value each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from flatpc._options import put, whole_number
from flatpc._typing import Array
from flatpc.errors import ParameterError
from flatpc.families.base import Parameters, Statistics
from flatpc.families.finite import Finite


@dataclass(frozen=True)
class Indicator(Finite):
    """One value: unit k is 1 where x equals `value[k]` and 0 elsewhere. Parameters of a unit: `value [K]`, not learnt.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> fp.Indicator(3).table({"value": np.array([2.0])}).tolist()
    [[0.0, 0.0, 1.0]]

    Parameters
    ----------
    n
        Number of values that the variable has.

    Raises
    ------
    OptionError
        Unless `n` is a positive whole number.
    """

    n: int = 2
    names: ClassVar[tuple[str, ...]] = ("value",)
    n_beyond_largest: ClassVar[int | None] = 1
    learnable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        put(self, n=whole_number("Indicator: n", self.n, 1, why="the values that the variable has"))

    @property
    def n_categories(self) -> int:
        """The option n."""
        return self.n

    def check_parameters(self, parameters: Parameters, where: str) -> None:
        """Whole numbers below n."""
        value = parameters["value"]
        if not ((value == np.floor(value)) & (value >= 0) & (value < self.n)).all():
            raise ParameterError(f"{where}: an indicator's values are whole numbers from 0 to {self.n - 1}.")

    def initialize(self, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        """0, 1, ... in turn."""
        return {"value": np.arange(width, dtype=np.float64) % self.n}

    def table(self, parameters: Parameters) -> Array:
        """1 at each unit's value."""
        return np.asarray(parameters["value"][:, None] == np.arange(self.n), dtype=np.float64)

    def update(self, parameters: Parameters, statistics: Statistics, pseudocount: float = 0.0) -> dict[str, Array]:
        """The same."""
        return dict(parameters)

    def unconstrain(self, parameters: Parameters) -> dict[str, Array]:
        """The same."""
        return dict(parameters)

    def constrain(self, free: Parameters) -> dict[str, Array]:
        """The nearest values."""
        return {"value": np.clip(np.round(free["value"]), 0.0, self.n - 1.0)}

    def gradient(self, parameters: Parameters, statistics: Statistics) -> dict[str, Array]:
        """None: values are not learnt."""
        return {"value": np.zeros_like(parameters["value"])}

    def torch_table(self, parameters: Mapping[str, Any]) -> Any:
        """1 at each unit's value."""
        import torch

        value = parameters["value"]
        return (value[..., None] == torch.arange(self.n, device=value.device)).double()
