"""A family that is made of another one, as values that are rounded or mapped are."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from flatpc._typing import Array
from flatpc.errors import OptionError
from flatpc.families.base import Cost, Family, Parameters, Statistics
from flatpc.families.gaussian import Gaussian


def refuse_unsuited(wrapper: str, family: Family) -> None:
    """Raise `OptionError` for families over several variables and those with atoms, which are wrapped first."""
    if family.n_variables > 1:
        raise OptionError(
            f"{wrapper}: family is {family}, which is over {family.n_variables} variables; give one over a single variable, "
            f"such as fp.Gaussian().",
            option="family",
        )
    if family.set_apart and wrapper != "Hurdle":
        raise OptionError(
            f"{wrapper}: family is {family}, which has atoms; write them around it: fp.Hurdle({family.set_apart}, "
            f"fp.{wrapper}(...)).",
            option="family",
        )
    if family.set_apart:
        raise OptionError(f"Hurdle: family is {family}, which has atoms of its own; give all of them at once.", option="family")


@dataclass(frozen=True)
class Wrapping(Family):
    """Has the parameters of another family, learnt as that one learns them."""

    family: Family = field(default_factory=Gaussian)

    @property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        """The family's own."""
        return self.family.names

    @property
    def statistic_names(self) -> tuple[str, ...]:  # type: ignore[override]
        """The family's own."""
        return self.family.statistic_names

    @property
    def cost(self) -> Cost:  # type: ignore[override]
        """The family's own."""
        return self.family.cost

    @property
    def learnable(self) -> bool:  # type: ignore[override]
        """The family's own."""
        return self.family.learnable

    def parameter_shapes(self, width: int) -> dict[str, tuple[int, ...]]:
        """The family's own."""
        return self.family.parameter_shapes(width)

    def statistic_shapes(self, width: int) -> dict[str, tuple[int, ...]]:
        """The family's own."""
        return self.family.statistic_shapes(width)

    def check_parameters(self, parameters: Parameters, where: str) -> None:
        """The family's own."""
        self.family.check_parameters(parameters, where)

    def initialize(self, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        """The family's own."""
        return self.family.initialize(width, rng, spread)

    def update(self, parameters: Parameters, statistics: Statistics, pseudocount: float = 0.0) -> dict[str, Array]:
        """The family's own."""
        return self.family.update(parameters, statistics, pseudocount)

    def interpolate(self, old: Parameters, new: Parameters, step: float | Array) -> dict[str, Array]:
        """The family's own."""
        return self.family.interpolate(old, new, step)

    def restate(self, statistics: Statistics, old: Parameters, new: Parameters) -> Statistics:
        """The family's own."""
        return self.family.restate(statistics, old, new)

    def count(self, statistics: Statistics) -> Array:
        """The family's own."""
        return self.family.count(statistics)

    def unconstrain(self, parameters: Parameters) -> dict[str, Array]:
        """The family's own."""
        return self.family.unconstrain(parameters)

    def constrain(self, free: Parameters) -> dict[str, Array]:
        """The family's own."""
        return self.family.constrain(free)

    def gradient(self, parameters: Parameters, statistics: Statistics) -> dict[str, Array]:
        """The family's own."""
        return self.family.gradient(parameters, statistics)

    @property
    def floor(self) -> float | None:
        """The family's own."""
        return self.family.floor

    @property
    def chosen_floor(self) -> float:
        """The family's own."""
        return self.family.chosen_floor

    def with_floor(self, floor: float) -> Self:
        """The family's own."""
        return replace(self, family=self.family.with_floor(floor))
