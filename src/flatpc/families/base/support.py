"""Which values and parameters a family allows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flatpc._typing import Array
from flatpc.errors import ParameterError, SupportError
from flatpc.families.base.arithmetic import Parameters
from flatpc.families.base.description import Description


class Support(Description):
    """Values and parameters that a family allows."""

    def check_parameters(self, parameters: Parameters, where: str) -> None:
        """Check that every value is in range; here: that it is finite.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> fp.Bernoulli().check_parameters({"p": np.array([0.5])}, "Node 0")

        Parameters
        ----------
        parameters
            Name -> array with the units first.
        where
            What the message begins with.

        Raises
        ------
        ParameterError
            For the first value that is not.
        """
        for name, values in parameters.items():
            if not np.isfinite(values).all():
                raise ParameterError(f"{where}: every {name} must be a finite number.")

    def outside(self, x: Array) -> NDArray[np.bool_]:
        """Which values are outside the support; here: infinite ones.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> fp.Poisson().outside(np.array([0.0, 0.5, np.nan])).tolist()
        [False, True, False]

        Parameters
        ----------
        x
            `[N]`: values; NaN where missing.

        Returns
        -------
        array
            `[N]`, of bool; a missing value is never outside.
        """
        return np.isinf(x)

    def support(self) -> str:
        """The values allowed, in words.

        >>> import flatpc as fp
        >>> fp.Poisson().support()
        'the whole numbers 0, 1, 2, ...'

        Returns
        -------
        str
            To be read after "allows only".
        """
        return "finite numbers"

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest value allowed, or infinities; a sample is never outside."""
        n = self.n_categories
        return (-np.inf, np.inf) if n is None else (0.0, n - 1.0)

    @property
    def grid(self) -> tuple[float, float] | None:
        """Resolution and origin of values that are rounded to steps; None if they are not."""
        return None

    @property
    def set_apart(self) -> tuple[float, ...]:
        """Values that have a probability of their own beside the density of all others, as those of `Hurdle` have."""
        return ()

    @property
    def runs_in_cycles(self) -> bool:
        """Whether parts of a cycle have probabilities of their own, as weekdays have, which other variables may go with."""
        return False

    def check(self, x: Array, column: str) -> None:
        """Check that all values are in the support.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> fp.Poisson().check(np.array([0.0, 3.0]), "Column 0")

        Parameters
        ----------
        x
            `[N]`: values; NaN where missing.
        column
            The name of the column, for the message.

        Raises
        ------
        SupportError
            For the first value outside the support.
        """
        bad = self.outside(x)
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise SupportError(
                f"{column} has the value {x[row]:g} in row {row}, but {self} allows only {self.support()}. "
                f"Recode the column or use another family."
            )
