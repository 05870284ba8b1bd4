"""Train, validation and test rows of a table whose columns are discrete or continuous."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc._options import choice
from flatpc._typing import Array
from flatpc.datasets.splits import Splits

SAME = 1e-9
"""Values closer than this share of a column's range are one value."""


@dataclass(frozen=True)
class Column:
    """One column of a `TableSplits`."""

    name: str
    """Its name, `x0`, `x1`, ... in a table without names."""
    values: tuple[Any, ...] | None = None
    """What the codes 0, 1, ... of a discrete column stand for; None for a continuous one."""

    @property
    def n_values(self) -> int:
        """Number of values; 0 for a continuous column."""
        return 0 if self.values is None else len(self.values)


@dataclass(frozen=True)
class TableSplits(Splits):
    """Rows of discrete and continuous columns: codes 0, 1, ... in discrete ones, numbers in others, NaN where missing.

    >>> import flatpc as fp
    >>> data = fp.datasets.load("sklearn/iris")
    >>> data.train.shape, data.columns[4].values, data.resolutions()[0].round(3)
    ((105, 5), ('setosa', 'versicolor', 'virginica'), np.float64(0.1))
    >>> data.frame("test").columns
    ['sepal length (cm)', 'sepal width (cm)', 'petal length (cm)', 'petal width (cm)', 'species']
    """

    columns: tuple[Column, ...] = field(default=())
    """One for each column."""

    @property
    def n_values(self) -> NDArray[np.int64]:
        """`[D]`: of each column, 0 for continuous ones."""
        return np.array([column.n_values for column in self.columns], np.int64)

    @property
    def continuous(self) -> NDArray[np.int64]:
        """Positions of the continuous columns."""
        return np.flatnonzero(self.n_values == 0)

    @property
    def discrete(self) -> NDArray[np.int64]:
        """Positions of the discrete columns."""
        return np.flatnonzero(self.n_values)

    def resolutions(self) -> Array:
        """How finely each column was recorded: the smallest gap between its values, of training and validation rows.

        Returns
        -------
        array
            `[D]`: 1 for discrete columns, whose codes are whole, and for those that never change.
        """
        rows = np.concatenate([self.train, self.valid])
        return np.array([1.0 if column.values is not None else _gap(rows[:, i]) for i, column in enumerate(self.columns)])

    def frame(self, split: str) -> Any:
        """The rows of a split as people have them: a polars frame with names, texts, and whole numbers where all are whole.

        Parameters
        ----------
        split
            `"train"`, `"valid"` or `"test"`.

        Returns
        -------
        polars.DataFrame
            With null where a value is missing.

        Raises
        ------
        OptionError
            For another name.
        """
        import polars as pl

        rows = getattr(self, choice("split", split, ("train", "valid", "test")))
        return pl.DataFrame([pl.Series(c.name, self._values(i, rows[:, i]), strict=False) for i, c in enumerate(self.columns)])

    def _values(self, i: int, codes: Array) -> list[Any]:
        values = self.columns[i].values
        if values is not None:
            return [None if np.isnan(code) else values[int(code)] for code in codes]
        everything = np.concatenate([self.train[:, i], self.valid[:, i], self.test[:, i]])
        whole = bool((everything == np.floor(everything)).all())
        return [int(x) for x in codes] if whole else list(codes.tolist())


def _gap(x: Array) -> float:
    distinct = np.unique(x[~np.isnan(x)])
    gaps = np.diff(distinct)
    gaps = gaps[gaps > SAME * (distinct[-1] - distinct[0])] if len(gaps) else gaps
    return float(gaps.min()) if len(gaps) else 1.0
