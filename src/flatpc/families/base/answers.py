"""What queries ask of a family: mode, moments, entropy, probabilities of ranges, samples."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flatpc._typing import Array
from flatpc.families.base.arithmetic import Parameters
from flatpc.families.base.description import Description


class Answers(Description):
    """Mode, moments, entropy, cdf, quantiles and samples."""

    def mode(self, parameters: Parameters) -> Array:
        """The most probable value of each unit.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> units = {"mean": np.array([1.0]), "variance": np.array([4.0])}
        >>> fp.Gaussian().mode(units).tolist()
        [1.0]

        Parameters
        ----------
        parameters
            Name -> array with the units first.

        Returns
        -------
        array
            `[K]`.
        """
        raise self.lacks("mode")

    def mean(self, parameters: Parameters) -> Array:
        """The mean of each unit.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> units = {"mean": np.array([1.0]), "variance": np.array([4.0])}
        >>> fp.Gaussian().mean(units).tolist()
        [1.0]

        Parameters
        ----------
        parameters
            Name -> array with the units first.

        Returns
        -------
        array
            `[K]`.
        """
        raise self.lacks("mean")

    def variance(self, parameters: Parameters) -> Array:
        """The variance of each unit.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> units = {"mean": np.array([1.0]), "variance": np.array([4.0])}
        >>> fp.Gaussian().variance(units).tolist()
        [4.0]

        Parameters
        ----------
        parameters
            Name -> array with the units first.

        Returns
        -------
        array
            `[K]`.
        """
        raise self.lacks("variance")

    def entropy(self, parameters: Parameters) -> Array:
        """The entropy of each unit, in nats; of a density the differential entropy.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> fp.Bernoulli().entropy({"p": np.array([0.5])}).round(3).tolist()
        [0.693]

        Parameters
        ----------
        parameters
            Name -> array with the units first.

        Returns
        -------
        array
            `[K]`.
        """
        raise self.lacks("entropy")

    def cdf(self, parameters: Parameters, x: Array) -> Array:
        """The probability of values up to and with `x`.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> units = {"mean": np.array([1.0]), "variance": np.array([4.0])}
        >>> fp.Gaussian().cdf(units, np.array([1.0])).tolist()
        [[0.5]]

        Parameters
        ----------
        parameters
            Name -> array with the units first.
        x
            `[N]`: values.

        Returns
        -------
        array
            `[N, K]`.
        """
        raise self.lacks("cdf")

    def quantile(self, parameters: Parameters, q: Array) -> Array:
        """The smallest value whose cdf is at least `q`.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> units = {"mean": np.array([1.0]), "variance": np.array([4.0])}
        >>> fp.Gaussian().quantile(units, np.array([0.5])).tolist()
        [[1.0]]

        Parameters
        ----------
        parameters
            Name -> array with the units first.
        q
            `[N]`: probabilities.

        Returns
        -------
        array
            `[N, K]`.
        """
        raise self.lacks("quantile")

    def sample(self, parameters: Parameters, units: NDArray[np.int64], rng: np.random.Generator) -> Array:
        """One value for each entry of `units`, drawn from that unit's density; here: by its quantiles.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> p = {"p": np.array([0.0, 1.0])}
        >>> fp.Bernoulli().sample(p, np.array([0, 1, 1]), np.random.default_rng(0)).tolist()
        [0.0, 1.0, 1.0]

        Parameters
        ----------
        parameters
            Name -> array with the units first.
        units
            `[n]`: numbers of units.
        rng
            Source of random numbers.

        Returns
        -------
        array
            `[n]`.
        """
        if not self.defines("quantile"):
            raise self.lacks("sample")
        out, u = np.empty(len(units)), rng.random(len(units))
        for unit in np.unique(units):
            mine = units == unit
            out[mine] = self.quantile({name: value[unit : unit + 1] for name, value in parameters.items()}, u[mine])[:, 0]
        return out
