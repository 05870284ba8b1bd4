"""A family's variable in other units, and the least variance that learning allows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from flatpc._typing import Array
from flatpc.families.base.arithmetic import Parameters
from flatpc.families.base.description import Description

if TYPE_CHECKING:
    from flatpc.families.base.family import Family


class Units(Description):
    """Other units, and floors of the variance."""

    def rescaled(self, parameters: Parameters, shift: float, scale: float) -> tuple[Family, dict[str, Array]]:
        """Family and parameters of `shift + scale · z` if these are those of z.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> units = {"mean": np.array([1.0]), "variance": np.array([4.0])}
        >>> fp.Gaussian().rescaled(units, shift=10.0, scale=2.0)[1]
        {'mean': array([12.]), 'variance': array([16.])}

        Parameters
        ----------
        parameters
            Name -> array with the units first.
        shift, scale
            The numbers of the formula; of a family over d variables, `[d]` each.

        Returns
        -------
        tuple
            The family, whose options may change too, and the parameters.
        """
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
        """The family with another floor of its variance; here: the same, as it has none.

        >>> import flatpc as fp
        >>> fp.Gaussian().with_floor(0.5).floor
        0.5

        Parameters
        ----------
        floor
            The least variance that learning allows.

        Returns
        -------
        Family
            With that floor.
        """
        return cast("Family", self)

    def with_floors(self, floors: Sequence[float]) -> Family:
        """The family with a floor for each of its variables; here: with the highest one.

        >>> import flatpc as fp
        >>> fp.MultivariateGaussian(2).with_floors([0.5, 0.1]).min_variance
        (0.5, 0.1)

        Parameters
        ----------
        floors
            The least variances that learning allows.

        Returns
        -------
        Family
            With these floors.
        """
        return self.with_floor(max(floors))

    def with_lower_floor(self, share: float) -> Family:
        """The family with this share of its floor, or of all its floors.

        >>> import flatpc as fp
        >>> fp.Gaussian(min_variance=0.5).with_lower_floor(0.1).floor
        0.05

        Parameters
        ----------
        share
            Above 0.

        Returns
        -------
        Family
            Of the same parameters.
        """
        return cast("Family", self) if self.floor is None else self.with_floor(share * self.floor)
