"""Gradients of a family's density in numbers without constraints, and in its parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

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

    def scores(self, parameters: Parameters, x: Array) -> Array:
        """The first of `derivatives` alone, of a family over several variables, whose second would be too many numbers.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> units = {"mean": np.zeros((1, 2)), "covariance": np.eye(2)[None] / 4}
        >>> fp.MultivariateGaussian(2).scores(units, np.array([[1.0, np.nan]]))[0, 0, :2].tolist()
        [4.0, 0.0]

        Parameters
        ----------
        parameters
            Name -> array with the units first.
        x
            `[N, d]`: rows, with NaN at unknown entries.

        Returns
        -------
        array
            `[N, K, Q]`.
        """
        raise self.lacks("scores")

    def bends(self, parameters: Parameters, x: Array, flow: Array) -> Array:
        """The second of `derivatives`, of a family over several variables, summed over rows with weights.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> units = {"mean": np.zeros((1, 2)), "covariance": np.eye(2)[None] / 4}
        >>> found = fp.MultivariateGaussian(2).bends(units, np.array([[1.0, np.nan]]), np.ones((1, 1)))
        >>> np.abs(found[0, :2, :2]).tolist()
        [[4.0, 0.0], [0.0, 0.0]]

        Parameters
        ----------
        parameters
            Name -> array with the units first.
        x
            `[N, d]`: rows, with NaN at unknown entries.
        flow
            `[N, K]`: the weight of each row for each unit.

        Returns
        -------
        array
            `[K, Q, Q]`.
        """
        raise self.lacks("bends")

    def information(self, parameters: Parameters) -> Array:
        """What one value of a unit's own tells of its unconstrained numbers: Fisher's information.

        A family that doesn't say so is asked for its scores at the values that there are.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> units = {"mean": np.zeros((1, 2)), "covariance": np.eye(2)[None] / 4}
        >>> fp.MultivariateGaussian(2).information(units)[0, :2, :2].tolist()
        [[4.0, 0.0], [0.0, 4.0]]

        Parameters
        ----------
        parameters
            Name -> array with the units first.

        Returns
        -------
        array
            `[K, Q, Q]`.
        """
        raise self.lacks("information")

    def log_prior(self, parameters: Parameters, statistics: Statistics) -> tuple[Array, Array] | None:
        """First and second derivatives of the log prior that `update` supposes without a pseudocount, if it does.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> fp.Gaussian().log_prior({}, {}) is None
        True

        Parameters
        ----------
        parameters
            Name -> array with the units first.
        statistics
            Of all rows, at these parameters.

        Returns
        -------
        tuple of arrays or None
            `[K, Q]` and `[K, Q, Q]`.
        """
        return None

    def reached(self, parameters: Parameters) -> dict[str, NDArray[np.bool_]]:
        """Which units' parameters `constrain` can give: not those at a bound, such as a variance at its floor.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> units = {"mean": np.array([1.0, 1.0]), "variance": np.array([4.0, 0.5])}
        >>> fp.Gaussian(min_variance=0.5).reached(units)["variance"].tolist()
        [True, False]

        Parameters
        ----------
        parameters
            Name -> array with the units first.

        Returns
        -------
        dict
            Name -> `[K]`.
        """
        back = self.constrain(self.unconstrain(parameters))
        near = {name: np.isclose(back[name], value, rtol=1e-6, atol=0) for name, value in parameters.items()}
        return {name: np.asarray(each.reshape(len(each), -1).all(axis=1)) for name, each in near.items()}
