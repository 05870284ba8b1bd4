"""Rows as rivals read them, and the two scores of a density.

Continuous columns are standardised by the training rows. `plain` is the log-density of a row, in the table's own units; `bounded`
is log P(x ± r/2) / r with r the column's resolution, which no spike can bring above log 1/r. Discrete columns add the logarithm
of a probability to both, missing values nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from flatpc._typing import Array
from flatpc.datasets.table_splits import TableSplits
from flatpc.errors import MissingValueError

SCORES = ("plain", "bounded")
LEAST_DEVIATION = 0.01
"""Of a rival that is kept from spikes, in units of a column's own: where the default's search begins, too."""


@dataclass(frozen=True)
class Rows:
    """`y [N, C]`: standardised continuous columns; `codes [N, D]`: those of discrete columns, -1 where missing."""

    y: Array
    codes: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, which: slice | NDArray[np.int64]) -> Rows:
        return Rows(self.y[which], self.codes[which])

    def joined(self, other: Rows) -> Rows:
        """These and those."""
        return Rows(np.concatenate([self.y, other.y]), np.concatenate([self.codes, other.codes]))


class Density(Protocol):
    """What is asked of a rival."""

    def log_density(self, rows: Rows) -> Array:
        """`[N]`: the density of y and probability of codes."""

    def log_cells(self, rows: Rows, r: Array) -> Array:
        """`[N]`: the probability of y ± r/2 and of codes."""


@dataclass(frozen=True)
class Units:
    """How columns are standardised."""

    continuous: NDArray[np.int64]
    discrete: NDArray[np.int64]
    n_values: tuple[int, ...]
    """Of the discrete columns."""
    mean: Array
    scale: Array
    r: Array
    """Resolutions, standardised."""

    @classmethod
    def of(cls, data: TableSplits) -> Units:
        """By the training rows."""
        continuous, discrete = data.continuous, data.discrete
        y = data.train[:, continuous]
        if np.isnan(y).any():
            raise MissingValueError(f"{data.name} has missing values in continuous columns, which these models don't know.")
        scale = y.std(axis=0)
        scale[scale == 0] = 1.0
        n_values = tuple(int(n) for n in data.n_values[discrete])
        return cls(continuous, discrete, n_values, y.mean(axis=0), scale, data.resolutions()[continuous] / scale)

    @property
    def floors(self) -> Array:
        """`[C]`: least standard deviations without spikes, of `LEAST_DEVIATION` or the column's rounding, r / √12."""
        return np.asarray(np.maximum(LEAST_DEVIATION, self.r / np.sqrt(12)))

    def rows(self, rows: Array) -> Rows:
        """Of a split."""
        codes = rows[:, self.discrete]
        return Rows((rows[:, self.continuous] - self.mean) / self.scale, np.where(np.isnan(codes), -1.0, codes).astype(np.int64))

    def score(self, name: str, model: Density, rows: Rows) -> Array:
        """`plain` or `bounded` of each row, in the table's own units."""
        if name == "plain":
            return model.log_density(rows) - float(np.log(self.scale).sum())
        return model.log_cells(rows, self.r) - float(np.log(self.r * self.scale).sum())
