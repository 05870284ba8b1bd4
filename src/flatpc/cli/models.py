"""A model and rows for it: in at one end as the user's columns, out at the other as the user's columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc.cli.sources import Source, aligned, read_columns
from flatpc.data.columns import Column, Columns
from flatpc.data.model_files import Model, load_model
from flatpc.data.raw import RawTable
from flatpc.errors import FlatpcError, OptionError

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


def fill(model: Model, rows: Array, how: str, seed: int) -> Array:
    """Rows without NaN: means of numbers and the most probable categories, the most probable rows, or draws."""
    circuit = model.circuit
    if how == "mpe":
        return np.asarray(circuit.mpe(rows).values)
    if how == "sample":
        return np.asarray(circuit.sample(1, seed, given=rows)[0])
    out = np.asarray(circuit.expectation(rows))
    for j, column in enumerate(model.columns.columns):
        which = np.flatnonzero(np.isnan(rows[:, j])) if column.is_discrete else ()
        if len(which):
            out[which, j] = _most_probable(model, rows[which], j)
    return out


def _most_probable(model: Model, rows: Array, j: int) -> Array:
    """The category of column j that is most probable given what is known of the row: log p(known, x_j = c) is largest."""
    best = np.zeros(len(rows))
    top = np.full(len(rows), -np.inf)
    for code in range(len(model.columns.columns[j].categories)):
        tried = rows.copy()
        tried[:, j] = code
        log_prob = np.asarray(model.circuit.log_prob(tried, missing="marginalize"))
        best = np.where(log_prob > top, code, best)
        top = np.maximum(top, log_prob)
    return best


def decoded(rows: Array, columns: Columns) -> dict[str, list[Any]]:
    """Columns of categories and numbers by name; where the model learnt from whole numbers, numbers are rounded."""
    out = {}
    for j, column in enumerate(columns.columns):
        values = rows[:, j] if column.is_discrete or column.dtype == "float" else np.round(rows[:, j])
        decoded = column.decode(values)
        out[column.name] = [int(value) for value in decoded] if column.dtype == "integer" and not column.is_discrete else decoded
    return out


def filled_columns(asked: Asked, full: Array) -> dict[str, list[Any]]:
    """The columns of the table as it was given, in its own order; only what was missing is new."""
    columns = asked.model.columns
    values = decoded(full, columns)
    by_position = not set(asked.table.names) >= set(columns.names)
    out: dict[str, list[Any]] = {}
    for j, raw in enumerate(asked.table.columns):
        name = columns.names[j] if by_position else raw.name
        known = [None if absent else _typed(value, raw.dtype) for value, absent in zip(raw.values, raw.missing, strict=True)]
        filled = values.get(name, [None] * len(known))
        out[raw.name] = [new if old is None else old for old, new in zip(known, filled, strict=True)]
    return out


def _typed(value: Any, dtype: str) -> Any:
    if dtype == "text":
        return str(value)
    return bool(value) if dtype == "boolean" else int(value) if dtype == "integer" else float(value)
