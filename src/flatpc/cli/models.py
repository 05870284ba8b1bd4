"""A model and rows for it: in at one end as the user's columns, out at the other as the user's columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc.cli.sources import Source, aligned, read_columns
from flatpc.errors import FlatpcError, OptionError
from flatpc.estimator.model_files import Model, load_model
from flatpc.tables.columns import Column, Columns
from flatpc.tables.reading import RawTable

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Asked:
    """Rows that a model is asked about."""

    model: Model
    table: RawTable
    """As it was given, with columns that the model doesn't know."""
    rows: Array
    """As the circuit takes them, NaN where missing."""
    split: str


class Reader:
    """Reads rows for the model in a file."""

    def __init__(self, model: Path, missing: str, unseen: str, ignore_extra: bool = False) -> None:
        self.model = load_model(model)
        self._options = missing, unseen
        self._ignore_extra = ignore_extra

    def read(self, source: Source, split: str | None, default: str = "test") -> Asked:
        """The rows of a split in the model's columns; see `Source.rows`."""
        name, rows = source.rows(split, default)
        table = read_columns(rows, source.name)
        try:
            mine = aligned(table, self.model.columns, source.name, self._ignore_extra)
            encoded = self.model.columns.encode(mine, *self._options)
        except FlatpcError as error:
            raise type(error)(str(error) if source.name in str(error) else f"{source.name}: {error}") from None
        return Asked(self.model, table, encoded, name)


def read_given(given: Sequence[str], columns: Columns) -> Array:
    """One row of known values, NaN elsewhere, from texts `column=value`."""
    row = np.full(len(columns.columns), np.nan)
    for text in given:
        name, sign, value = text.partition("=")
        if not sign:
            raise OptionError(f"--given {text}; write a column and its value, such as --given {columns.names[0]}=VALUE.")
        j = columns.position(name)
        if not np.isnan(row[j]):
            raise OptionError(f"--given {name} stands there twice; give a column one value.")
        row[j] = _code(columns.columns[j], value)
    return row


def _code(column: Column, text: str) -> float:
    if column.is_discrete:
        codes = {str(category).lower(): float(code) for code, category in enumerate(column.categories)}
        if text.lower() not in codes:
            raise OptionError(
                f"--given {column.name}={text}; the values of {column.name} are {', '.join(map(str, column.categories))}."
            )
        return codes[text.lower()]
    try:
        value = float(text)
    except ValueError:
        raise OptionError(f"--given {column.name}={text}; {column.name} is {column.kind}, so give a number.") from None
    column.family.check(np.array([value]), f"--given {column.name}")
    return value


def filled(asked: Asked, full: Array) -> Any:
    """The table as it was given, in its own order; only what was missing is new."""
    from flatpc.tables.filling import fill_in

    columns, names = asked.model.columns, asked.table.names
    by_position = not set(names) >= set(columns.names)
    values = {}
    for j, column in enumerate(columns.columns):
        at = j if by_position else names.index(column.name)
        values[at] = column.decode(full[:, j], asked.table.columns[at].dtype == "integer")
    return fill_in(asked.table, values)
