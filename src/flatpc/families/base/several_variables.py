"""What a family over several variables is asked, in which some of a row's entries may be unknown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from flatpc._typing import Array
from flatpc.families.base.arithmetic import Parameters
from flatpc.families.base.description import Description

if TYPE_CHECKING:
    from flatpc.families.base.family import Family
    from flatpc.families.transforms import Transform


class SeveralVariables(Description):
    """Variables taken together, and answers about unknown ones given the known."""

    def marginal_family(self, position: int) -> Family:
        """The family of one of its variables alone, which says what values that variable takes.

        >>> import flatpc as fp
        >>> fp.MultivariateGaussian(3).marginal_family(1)
        Gaussian(min_variance=0.0001, max_variance=None)

        Parameters
        ----------
        position
            Which of its variables, from 0.

        Returns
        -------
        Family
            Of one variable; a family of one variable is its own.
        """
        if self.n_variables > 1:
            raise self.lacks("marginal_family")
        return cast("Family", self)

    def marginal_parameters(self, parameters: Parameters, position: int) -> dict[str, Array]:
        """The parameters of `marginal_family(position)`.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> units = {"mean": np.array([[1.0, 2.0]]), "covariance": np.array([[[4.0, 1.0], [1.0, 9.0]]])}
        >>> fp.MultivariateGaussian(2).marginal_parameters(units, 1)
        {'mean': array([2.]), 'variance': array([9.])}

        Parameters
        ----------
        parameters
            Name -> array with the units first.
        position
            Which of its variables, from 0.

        Returns
        -------
        dict
            Name -> array with the units first.
        """
        if self.n_variables > 1:
            raise self.lacks("marginal_parameters")
        return dict(parameters)

    @property
    def joins(self) -> bool:
        """Whether `together` knows a family over several variables of this one, as it does of Gaussians."""
        own = cast("Family", self)
        return self.together([own, own]) is not None

    def together(self, families: Sequence[Family]) -> Family | None:
        """The family over several variables that takes variables of these families together, this one being the first.

        >>> import flatpc as fp
        >>> fp.Gaussian().together([fp.Gaussian(), fp.Gaussian(min_variance=0.5)])
        MultivariateGaussian(n_variables=2, min_variance=(0.0001, 0.5), rank=None, pooled=None)

        Parameters
        ----------
        families
            Of each variable, two or more.

        Returns
        -------
        Family or None
            None, as here, if there is no such family.
        """
        return None

    def behind(self, transforms: Sequence[Transform | None]) -> Family:
        """The family of variables that have this one after monotone maps.

        >>> import flatpc as fp
        >>> fp.Gaussian().behind([fp.families.Log()]) == fp.Transformed(fp.Gaussian(), fp.families.Log())
        True

        Parameters
        ----------
        transforms
            Of each variable its map, or None.

        Returns
        -------
        Family
            Of the same variables and parameters.
        """
        if self.n_variables > 1:
            raise self.lacks("behind")
        from flatpc.families.transformed import Transformed

        (transform,) = transforms
        return cast("Family", self) if transform is None else Transformed(cast("Family", self), transform)

    def forward(self, x: Array) -> Array:
        """Rows after the maps behind which the family is.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> fp.MultivariateGaussian(2).forward(np.array([[1.0, 7.0]])).tolist()
        [[1.0, 7.0]]

        Parameters
        ----------
        x
            `[N, d]`, within the support; NaN where unknown.

        Returns
        -------
        array
            `[N, d]`; here the rows themselves.
        """
        return x

    def sample_given(self, parameters: Parameters, units: NDArray[np.int64], x: Array, rng: np.random.Generator) -> Array:
        """Rows with every unknown entry drawn given the known ones.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> units = {"mean": np.zeros((1, 2)), "covariance": np.array([[[1.0, 1.0], [1.0, 1.0 + 1e-20]]]) + 1e-9 * np.eye(2)}
        >>> row = np.array([[3.0, np.nan]])
        >>> family = fp.MultivariateGaussian(2)
        >>> family.sample_given(units, np.array([0]), row, np.random.default_rng(0)).round(2).tolist()
        [[3.0, 3.0]]

        Parameters
        ----------
        parameters
            Name -> array with the units first.
        units
            `[n]`: numbers of units.
        x
            `[n, d]`: rows; NaN where unknown.
        rng
            Source of random numbers.

        Returns
        -------
        array
            `[n, d]`, without NaN.
        """
        raise self.lacks("sample_given")

    def mode_given(self, parameters: Parameters, units: NDArray[np.int64], x: Array) -> Array:
        """Rows with every unknown entry at its most probable value given the known ones, all of a row's together.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> units = {"mean": np.zeros((1, 2)), "covariance": np.array([[[1.0, 0.5], [0.5, 1.0]]])}
        >>> fp.MultivariateGaussian(2).mode_given(units, np.array([0]), np.array([[3.0, np.nan]])).tolist()
        [[3.0, 1.5]]

        Parameters
        ----------
        parameters
            Name -> array with the units first.
        units
            `[n]`: numbers of units.
        x
            `[n, d]`: rows; NaN where unknown.

        Returns
        -------
        array
            `[n, d]`, without NaN.
        """
        raise self.lacks("mode_given")

    def log_density_at_mode(self, parameters: Parameters, x: Array) -> Array:
        """The largest log-density of each unit at rows with these known entries.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> units = {"mean": np.zeros((1, 2)), "covariance": np.array([[[1.0, 0.5], [0.5, 1.0]]])}
        >>> family, whole = fp.MultivariateGaussian(2), np.array([[3.0, 1.5]])
        >>> found = family.log_density_at_mode(units, np.array([[3.0, np.nan]]))
        >>> bool(np.allclose(found, family.log_density(units, whole)))
        True

        Parameters
        ----------
        parameters
            Name -> array with the units first.
        x
            `[N, d]`: rows; NaN where unknown.

        Returns
        -------
        array
            `[N, K]`.
        """
        raise self.lacks("log_density_at_mode")

    def moments_given(self, parameters: Parameters, x: Array) -> tuple[Array, Array]:
        """Mean and variance of every entry given the known ones of its row: themselves and 0 where known.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> units = {"mean": np.zeros((1, 2)), "covariance": np.array([[[1.0, 0.5], [0.5, 1.0]]])}
        >>> mean, variance = fp.MultivariateGaussian(2).moments_given(units, np.array([[3.0, np.nan]]))
        >>> mean.tolist(), variance.tolist()
        ([[[3.0, 1.5]]], [[[0.0, 0.75]]])

        Parameters
        ----------
        parameters
            Name -> array with the units first.
        x
            `[N, d]`: rows; NaN where unknown.

        Returns
        -------
        tuple of arrays
            Means and variances, `[N, K, d]`.
        """
        raise self.lacks("moments_given")

    def entry_given(self, parameters: Parameters, x: Array, position: int) -> tuple[Family, dict[str, Array]]:
        """The distribution of one entry given the known others of each row.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> units = {"mean": np.zeros((1, 2)), "covariance": np.array([[[1.0, 0.5], [0.5, 1.0]]])}
        >>> family, given = fp.MultivariateGaussian(2).entry_given(units, np.array([[3.0, np.nan]]), 1)
        >>> family, given["mean"].tolist(), given["variance"].tolist()
        (Gaussian(min_variance=0.0001, max_variance=None), [[1.5]], [[0.75]])

        Parameters
        ----------
        parameters
            Name -> array with the units first.
        x
            `[N, d]`: rows; NaN where unknown. The entry itself is not looked at.
        position
            Which of its variables, from 0.

        Returns
        -------
        tuple
            A family of one variable, whose functions take parameters `[N, K]` for values `[N]`; and such parameters.
        """
        raise self.lacks("entry_given")

    def box_log_prob(self, parameters: Parameters, x: Array, low: Array, high: Array) -> Array:
        """The log-density of known entries, and of the event that others lie between bounds.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> units = {"mean": np.zeros((1, 2)), "covariance": np.array([[[1.0, 0.5], [0.5, 1.0]]])}
        >>> low, high = np.array([0.0, 0.0]), np.array([np.inf, np.inf])
        >>> both = fp.MultivariateGaussian(2).box_log_prob(units, np.full((1, 2), np.nan), low, high)
        >>> np.exp(both).round(5).tolist()
        [[0.33333]]

        Parameters
        ----------
        parameters
            Name -> array with the units first.
        x
            `[N, d]`: rows; NaN where unknown. Entries with a bound are not looked at.
        low, high
            `[d]`: bounds; infinite where there is none.

        Returns
        -------
        array
            `[N, K]`.
        """
        raise self.lacks("box_log_prob")

    def sample_in_box(
        self, parameters: Parameters, units: NDArray[np.int64], x: Array, low: Array, high: Array, rng: np.random.Generator
    ) -> Array:
        """Rows with every unknown entry drawn given the known ones, and given that some lie between bounds.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> units = {"mean": np.zeros((1, 2)), "covariance": np.array([[[1.0, 0.5], [0.5, 1.0]]])}
        >>> low, high = np.array([0.0, -np.inf]), np.array([1.0, np.inf])
        >>> family, nothing = fp.MultivariateGaussian(2), np.full((50, 2), np.nan)
        >>> drawn = family.sample_in_box(units, np.zeros(50, int), nothing, low, high, np.random.default_rng(0))
        >>> bool(((drawn[:, 0] >= 0) & (drawn[:, 0] <= 1)).all())
        True

        Parameters
        ----------
        parameters
            Name -> array with the units first.
        units
            `[n]`: numbers of units.
        x
            `[n, d]`: rows; NaN where unknown. Entries with a bound are not looked at.
        low, high
            `[d]`: bounds; infinite where there is none.
        rng
            Source of random numbers.

        Returns
        -------
        array
            `[n, d]`, without NaN.
        """
        raise self.lacks("sample_in_box")
