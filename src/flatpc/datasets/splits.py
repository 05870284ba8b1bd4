"""Train, validation and test rows, and the protocol that trains on a fraction of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from flatpc._options import choice, number, seed_number
from flatpc._typing import Array
from flatpc.errors import DataError


@dataclass(frozen=True)
class Splits:
    """Train, validation and test rows of one data set, in float64.

    >>> import flatpc as fp
    >>> data = fp.datasets.load("spiral")
    >>> data.fraction(0.1).train.shape, data.valid.shape
    ((100, 2), (1000, 2))
    """

    name: str
    """Of the data set."""
    train: Array
    """`[N, D]`: rows to learn from."""
    valid: Array
    """`[N, D]`: rows to choose by."""
    test: Array
    """`[N, D]`: rows to judge by."""

    def fraction(self, fraction: float, *, how: str = "first", seed: int = 0) -> Splits:
        """The same validation and test rows with fewer training rows.

        Parameters
        ----------
        fraction, how, seed
            As for `fraction_of`.

        Returns
        -------
        Splits
            With some of the training rows.
        """
        return replace(self, train=fraction_of(self.train, fraction, how=how, seed=seed))


def fraction_of(rows: Any, fraction: float, *, how: str = "first", seed: int = 0) -> Any:
    """`int(fraction · N)` of the rows, at least one, in their old order.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> fp.datasets.fraction_of(np.arange(10), 0.3)
    array([0, 1, 2])

    Parameters
    ----------
    rows
        An array, a tensor or a list.
    fraction
        Share of the rows to keep, greater than 0 and at most 1.
    how
        `"first"`: the first ones. `"random"`: a random subset.
    seed
        Random seed of the subset.

    Returns
    -------
    array, tensor or list
        What was given, with fewer rows.

    Raises
    ------
    OptionError
        For an option out of its range.
    DataError
        If there are no rows, or nothing that has rows.
    """
    fraction = number("fraction", fraction, 0.0, 1.0, above=True, what="it is greater than 0 and at most 1")
    how, seed = choice("how", how, ("first", "random")), seed_number(seed)
    if isinstance(rows, str | bytes | dict | set | type) or not (hasattr(rows, "__len__") and hasattr(rows, "__getitem__")):
        raise DataError(f"Can't take some of the rows of a {type(rows).__name__}; give an array.")
    if np.ndim(rows) == 0 or len(rows) == 0:
        raise DataError("There are no rows; give at least one.")
    # 0.07 · 100 is 7.000000000000001 and 0.29 · 100 is 28.999999999999996: both mean what they say.
    n = max(1, int(fraction * len(rows) + 1e-9))
    kept = np.arange(n) if how == "first" else np.sort(np.random.default_rng(seed).permutation(len(rows))[:n])
    if isinstance(rows, list | tuple):
        return [rows[i] for i in kept]
    try:
        return rows[:n] if how == "first" else rows[kept]
    except RuntimeError as error:  # torch's, of a tensor without rows that are alike
        raise DataError(f"Can't take some of the rows: {error}") from None
