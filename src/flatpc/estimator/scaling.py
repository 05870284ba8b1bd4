"""Continuous columns in units in which they have mean 0 and variance 1, and what that does to densities.

With z = (x - m)/s, the density of x is `p(x) = p(z)/s`: a row's log-density is lower by `Σ log s` over its continuous columns,
those that are missing left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Scaling:
    """`shift` and `scale` of every column; 0 and 1 for those that are not continuous."""

    shift: Array
    scale: Array

    @staticmethod
    def learn(rows: Array, continuous: NDArray[np.bool_]) -> Scaling:
        """Mean and standard deviation of the columns marked; a column that never changes keeps its unit."""
        shift, scale = np.zeros(rows.shape[1]), np.ones(rows.shape[1])
        for j in np.flatnonzero(continuous):
            x = rows[~np.isnan(rows[:, j]), j]
            # In units of the largest number, so that no square overflows.
            unit = float(abs(x).max()) or 1.0
            mean, deviation = float((x / unit).mean()), float((x / unit).std())
            shift[j] = unit * mean
            # Below this a deviation is rounding: the numbers are all the same.
            scale[j] = unit * deviation if deviation > 1e-12 else 1.0
        return Scaling(shift, scale)

    def apply(self, rows: Array) -> Array:
        """Rows in the circuit's units."""
        return (rows - self.shift) / self.scale

    def undo(self, rows: Array) -> Array:
        """Rows in the user's units."""
        return rows * self.scale + self.shift

    def log_volume(self, rows: Array) -> Array:
        """`[N]`: Σ log s over the columns that a row has; what the user's log-density is lower by."""
        return np.asarray(~np.isnan(rows) @ np.log(self.scale))
