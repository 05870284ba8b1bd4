"""Gradients of a family's density in numbers without constraints, and in its parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from flatpc._typing import Array
from flatpc.families.base.arithmetic import Parameters, Statistics
from flatpc.families.base.description import Description

if TYPE_CHECKING:
    from flatpc.families.base.family import Family


class Gradients(Description):
    """The unconstrained map and derivatives."""

    def unconstrain(self, parameters: Parameters) -> dict[str, Array]:
        """Numbers without constraints, of the names and shapes of the parameters; what `constrain` takes back.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> family, units = fp.Poisson(), {"rate": np.array([2.0])}
        >>> family.constrain(family.unconstrain(units))["rate"].round(6).tolist()
        [2.0]

        Parameters
        ----------
        parameters
            Name -> array with the units first.

        Returns
        -------
        dict
            Name -> array with the units first.
        """
        raise self.lacks("unconstrain")

    def constrain(self, free: Parameters) -> dict[str, Array]:
        """Parameters from numbers without constraints.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> fp.Poisson().constrain({"rate": np.array([0.0])})["rate"].round(3).tolist()
        [1.0]

        Parameters
        ----------
        free
            What `unconstrain` returns, or any numbers of these shapes.

        Returns
        -------
        dict
            Name -> array with the units first.
        """
        raise self.lacks("constrain")

    def gradient(self, parameters: Parameters, statistics: Statistics) -> dict[str, Array]:
        """Σ flow · ∂ log density / ∂z, z being `unconstrain(parameters)`.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> units, taken = {"rate": np.array([2.0])}, {"count": np.array([2.0]), "sum": np.array([6.0])}
        >>> fp.Poisson().gradient(units, taken)["rate"].round(3).tolist()
        [2.0]

        Linear in the statistics. A family whose statistics don't tell may add its score to them.

        Parameters
        ----------
        parameters
            Name -> array with the units first.
        statistics
            Statistics taken at these parameters.

        Returns
        -------
        dict
            Name -> array with the units first.
        """
        raise self.lacks("gradient")

    def derivatives(self, parameters: Parameters, x: Array) -> tuple[Array, Array]:
        """First and second derivatives of the log-density in z, z being `unconstrain(parameters)`; here: by differences.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> units = {"mean": np.array([1.0]), "variance": np.array([4.0])}
        >>> score, curvature = fp.Gaussian().derivatives(units, np.array([3.0]))
        >>> score[0, 0].round(3).tolist()                                       # (x - mean) / variance, z² - 1
        [0.5, 0.0]

        Parameters
        ----------
        parameters
            Name -> array with the units first.
        x
            `[N]`: values.

        Returns
        -------
        tuple of arrays
            `[N, K, Q]` and `[N, K, Q, Q]`: for each value, unit, and number of a unit, by name and then in the order of its axes.
        """
        from flatpc.families.differences import derivatives

        return derivatives(cast("Family", self), parameters, x)
