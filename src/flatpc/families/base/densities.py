"""The density of a family, as a formula or as a table."""

from __future__ import annotations

from flatpc._typing import Array
from flatpc.families.base.arithmetic import Parameters
from flatpc.families.base.description import Description


class Densities(Description):
    """The density, as a formula or as a table."""

    def log_density(self, parameters: Parameters, x: Array) -> Array:
        """The logarithm of each unit's density at each value.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> fp.Poisson().log_density({"rate": np.array([1.0, 2.0])}, np.array([0.0])).tolist()
        [[-1.0, -2.0]]

        Parameters
        ----------
        parameters
            Name -> array with the units first.
        x
            `[N]`: values; NaN where missing.

        Returns
        -------
        array
            `[N, K]`, `-inf` where the density is 0.
        """
        raise self.lacks("log_density")

    def log_between(self, parameters: Parameters, start: Array, end: Array) -> Array:
        """The logarithm of the probability of each interval, exact even far from all that is likely.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> units = {"mean": np.array([0.0]), "variance": np.array([1.0])}
        >>> fp.Gaussian().log_between(units, np.array([30.0]), np.array([np.inf])).round(3).tolist()
        [[-454.321]]

        Parameters
        ----------
        parameters
            Name -> array with the units first.
        start, end
            `[N]`: from where to where; may be infinite.

        Returns
        -------
        array
            `[N, K]`.
        """
        raise self.lacks("log_between")

    def table(self, parameters: Parameters) -> Array:
        """The probabilities of all values, of families over finitely many.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> fp.Bernoulli().table({"p": np.array([0.25])}).tolist()
        [[0.75, 0.25]]

        Parameters
        ----------
        parameters
            Name -> array with the units first.

        Returns
        -------
        array
            `[K, n]`.
        """
        raise self.lacks("table")

    def from_table(self, table: Array) -> dict[str, Array]:
        """The parameters with this table, of a family with `is_free_table`.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> fp.Bernoulli().from_table(np.array([[0.75, 0.25]]))["p"].tolist()
        [0.25]

        Parameters
        ----------
        table
            `[K, n]`: rows on the simplex.

        Returns
        -------
        dict
            Name -> array with the units first.
        """
        raise self.lacks("from_table")
