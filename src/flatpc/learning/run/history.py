"""What happened, epoch by epoch."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc._options import choice, number
from flatpc._writing import cant_write

Row = dict[str, Any]


class History(list[Row]):
    """One row per epoch, a dict with the same keys in each; `history["valid_nll"]` is a column.

    - `epoch`: 1, 2, ...
    - `train_nll`: mean over the epoch's batches, each before its own step.
    - `valid_nll`: after the epoch; NaN without validation rows.
    - `overfitting`: degree of overfitting in percent, 100 · abs(valid - train) / abs(train).
    - `sharpness`: exact trace of the Hessian per training row after the epoch; NaN where it was not asked for.
    - `mu`, `step_size`: of the last step.
    - `seconds`: since the beginning, earlier parts of a resumed run included.

    Examples
    --------
    >>> import flatpc as fp
    >>> history = fp.learning.History([{"epoch": 1, "train_nll": 2.5}, {"epoch": 2, "train_nll": 2.25}])
    >>> history.column("train_nll")
    array([2.5 , 2.25])
    """

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return self.column(key)
        return super().__getitem__(key)

    def column(self, name: str) -> NDArray[np.float64]:
        """One number per epoch.

        Parameters
        ----------
        name
            Which: a key of the rows.

        Returns
        -------
        array
            `[epochs]`.

        Raises
        ------
        OptionError
            If rows have no such key.
        """
        if self:
            choice("name", name, tuple(self[0]))
        return np.array([row[name] for row in self], np.float64)


def degree_of_overfitting(train_nll: float, valid_nll: float) -> float:
    """The overfitting in percent, `100 · |valid - train| / |train|`.

    Parameters
    ----------
    train_nll
        Mean negative log-likelihood of training rows.
    valid_nll
        That of validation or test rows.

    Returns
    -------
    float
        NaN if one of them is not finite, or the first is 0.

    Raises
    ------
    OptionError
        If one of them is no number.

    Examples
    --------
    >>> import flatpc as fp
    >>> fp.learning.degree_of_overfitting(2.0, 2.5)
    25.0
    """
    train_nll, valid_nll = _nll("train_nll", train_nll), _nll("valid_nll", valid_nll)
    if not (math.isfinite(train_nll) and math.isfinite(valid_nll)) or train_nll == 0:
        return math.nan
    return 100.0 * abs(valid_nll - train_nll) / abs(train_nll)


def _nll(name: str, value: Any) -> float:
    return value if isinstance(value, float) else number(name, value)


def to_json(value: Any) -> Any:
    """The value with numbers that JSON lacks as text."""
    if isinstance(value, dict):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def row_from_json(row: Row) -> Row:
    """A row that `to_json` made."""
    return {key: float(value) if isinstance(value, str) else value for key, value in row.items()}


class JsonLines:
    """A file with one line of JSON per epoch. A resumed run writes the earlier rows anew, then goes on."""

    def __init__(self, path: str | os.PathLike[str], rows: Iterable[Row]) -> None:
        self.path = Path(path)
        self._write("w", "".join(_line(row) for row in rows))

    def __call__(self, row: Row) -> None:
        """Add a row; a `WriteError` if that is impossible, and no half of it stays."""
        self._write("a", _line(row))

    def _write(self, mode: str, text: str) -> None:
        try:
            size = self.path.stat().st_size if mode == "a" and self.path.exists() else 0
            try:
                with self.path.open(mode) as file:
                    file.write(text)
            except OSError:
                with suppress(OSError):
                    os.truncate(self.path, size)
                raise
        except OSError as error:
            raise cant_write(self.path, error) from error


def _line(row: Row) -> str:
    return json.dumps(to_json(row)) + "\n"
