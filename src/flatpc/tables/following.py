"""Numbers that follow from others, as a brightness from three colours: their rare atoms are no states of their own.

An atom has a probability, and its column a variable of its own: no correlation reaches it. Where the values at the atom follow
from the other columns as the rest do, that would throw away what the others tell.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from flatpc._row_groups import parted
from flatpc._typing import Array, Ints
from flatpc.tables.reading import RawColumn
from flatpc.tables.traits import Traits

UNEXPLAINED = 0.0025
"""Of a column's variance, the most that the others may leave open, of all rows as of those at atoms: three nats per row."""
MOST_AT_ATOMS = 0.1
"""Of the rows; more of them are worth a state of their own."""
FAR = 0.1
"""Of the range of all other values, from where an atom is a code."""
FEWEST_ROWS, MOST_ROWS, MOST_COLUMNS = 50, 5000, 64
"""By which it is told."""
MOST = 1e6
"""Deviations from the mean, beyond which there is no telling."""
RIDGE = 1e-9
"""Of a variance; more than a rounding error, and less than what is looked for."""


def following(columns: Sequence[RawColumn], groups: Ints | None = None) -> frozenset[str]:
    """The names of those columns of numbers with rare atoms that are linear in the others, at their atoms too.

    Half of the rows, or of their `groups`, judge what the others say.

    >>> rng = np.random.default_rng(0)
    >>> red, green, alone = np.maximum(rng.normal(1.5, 1, size=(3, 400)), 0)
    >>> table = {"red": red, "both": red + green, "green": green, "alone": alone}
    >>> sorted(following([RawColumn(name, "float", x) for name, x in table.items()]))
    ['green', 'red']
    """
    numbers = [c for c in columns if c.dtype in ("integer", "float") and not c.problem and not np.isinf(c.values).any()]
    if not 2 <= len(numbers) <= MOST_COLUMNS:
        return frozenset()
    atomic = {place: atoms for place, column in enumerate(numbers) if (atoms := _rare_atoms(column.values)).any()}
    values = np.stack([column.values for column in numbers], axis=1)
    whole = np.flatnonzero(~np.isnan(values).any(axis=1))
    if not atomic or len(whole) < FEWEST_ROWS:
        return frozenset()
    order = np.random.default_rng(0).permutation(whole)[:MOST_ROWS]
    learnt, judges = parted(order, (len(order) + 1) // 2, groups)
    if len(learnt) == 0:
        return frozenset()
    left = unexplained(values[learnt], values[judges])
    return frozenset(
        numbers[place].name
        for place, atoms in atomic.items()
        if atoms[judges].any() and max(left[:, place].mean(), left[atoms[judges], place].mean()) < UNEXPLAINED
    )


def _rare_atoms(x: Array) -> NDArray[np.bool_]:
    """`[N]`: which values are atoms; none if many are, or one is far from all others, as a code is."""
    found = Traits.of(x).atoms
    atoms = np.isin(x, found)
    rest = x[~np.isnan(x) & ~atoms]
    codes = [atom for atom in found if len(rest) == 0 or abs(rest - atom).min() > FAR * (rest.max() - rest.min())]
    many = atoms.sum() > MOST_AT_ATOMS * (~np.isnan(x)).sum()
    return np.zeros_like(atoms) if many or codes else atoms


def unexplained(learnt: Array, judges: Array) -> Array:
    """`[judges, D]`: squared errors of the regression of each column on all others, in variances of the column.

    >>> x = np.random.default_rng(0).normal(size=(400, 2))
    >>> both = np.column_stack([x, x.sum(axis=1), x[:, 0] ** 2])
    >>> abs(unexplained(both[:200], both[200:]).mean(axis=0).round(2))
    array([0.  , 0.  , 0.  , 1.23])
    """
    # In units of the largest number, so that no square overflows.
    largest = np.maximum(abs(learnt).max(axis=0), abs(judges).max(axis=0))
    unit = np.where((largest > 0) & np.isfinite(largest), largest, 1.0)
    learnt, judges = learnt / unit, judges / unit
    spread = learnt.std(axis=0)
    scale = np.where(spread > 0, spread, 1.0)
    z, asked = (np.clip(np.nan_to_num((rows - learnt.mean(axis=0)) / scale), -MOST, MOST) for rows in (learnt, judges))
    # Errors are rows times the inverse covariance, over its diagonal.
    inverse = np.linalg.inv(z.T @ z / len(z) + RIDGE * np.eye(z.shape[1]))
    return np.asarray((asked @ inverse / np.diag(inverse)) ** 2)
