"""A model and rows for it: in at one end as the user's columns, out at the other as the user's columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flatpc._messages import about, some_of
from flatpc._typing import Array
from flatpc.cli.application import say
from flatpc.cli.sources import Source, aligned, read_columns, read_source
from flatpc.errors import FlatpcError, OptionError
from flatpc.estimator.evidence import codes_between, has_numbers, read_evidence
from flatpc.estimator.model_files import Model, load_model
from flatpc.tables.agreement import sort_in_words
from flatpc.tables.column import Column
from flatpc.tables.columns import Columns
from flatpc.tables.forms import WRITTEN, number_of_text
from flatpc.tables.reading import RawTable, is_number

if TYPE_CHECKING:
    from flatpc.curvature import Posterior
    from flatpc.tables.sources import Source as Scanned


@dataclass(frozen=True)
class Asked:
    """Rows that a model is asked about."""

    model: Model
    table: RawTable
    """As it was given, with columns that the model doesn't know."""
    rows: Array
    """As the circuit takes them, NaN where missing."""
    rare: Array
    """`[N]`: the log-probability of values that the model doesn't know."""
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
        return self._asked(rows, source.name, name)

    def stream(self, data: str, source: Scanned) -> Scanned:
        """The source with `Asked` for blocks: all its rows, some at a time. Its columns are checked now."""
        from flatpc.tables.reading import RawColumn

        nothing = np.empty(0)
        empty = RawTable(tuple(RawColumn(name, "float", nothing) for name in source.names), "polars")
        aligned(empty, self.model.columns, data, self._ignore_extra)
        return source.changed(partial(self._asked, name="", split="all"))

    def _asked(self, rows: Any, name: str, split: str) -> Asked:
        table = read_columns(rows, name)
        try:
            mine = aligned(table, self.model.columns, name, self._ignore_extra)
            found = read_evidence(self.model.circuit, self.model.columns, mine, *self._options)
        except FlatpcError as error:
            raise about(name, error) from None
        return Asked(self.model, table, found.rows, found.rare.sum(axis=1), split)


def posterior(reader: Reader, train: str, asking: str) -> Posterior:
    """The posterior around the reader's model, from the table that it was learnt from; a line says if it is rough."""
    from flatpc.curvature import laplace

    rows = reader.read(read_source(train, whole=asking), None, "train").rows
    found = laplace(reader.model.circuit, rows, missing="marginalize")
    if not found.is_optimum:
        say(
            f"The model is no optimum of its likelihood on {train} (a refit would win about {found.gap:.3g} nats, damping "
            f"{found.damping:g}): it was regularised, stopped early, or learnt from other rows. Take what follows as rough."
        )
    return found


def read_given(given: Sequence[str], columns: Columns, option: str = "--given") -> dict[int, Any]:
    """What is known of variables, from texts `column=value` and `column=low..high`."""
    out: dict[int, Any] = {}
    for text in given:
        name, sign, value = _halves(text, columns.names)
        if not sign:
            raise OptionError(f"{option} {text}; write a column and its value, such as --given {columns.names[0]}=VALUE.")
        j = columns.position(name)
        if j in out:
            raise OptionError(f"{option} {name} stands there twice; give a column one value.")
        low, dots, high = value.partition("..")
        column = columns.columns[j]
        if dots and (not column.is_discrete or has_numbers(column)):
            ends = (_number(column, low, option) if low else -np.inf, _number(column, high, option) if high else np.inf)
            if ends[0] > ends[1]:
                raise OptionError(f"{option} {text}; a range begins with its lower end.")
            out[j] = codes_between(column, *ends, f"{option} {text}") if column.is_discrete else ends
        else:
            out[j] = _code(column, value, option)
    return out


def _halves(text: str, names: Sequence[str]) -> tuple[str, str, str]:
    """A name, the sign after it, and a value; the names of columns may have signs of their own.

    >>> _halves("a=b=1", ["a", "a=b"]), _halves("c=1", ["a"])
    (('a=b', '=', '1'), ('c', '=', '1'))
    """
    known = max((name for name in names if text.startswith(f"{name}=")), key=len, default=None)
    return text.partition("=") if known is None else (known, "=", text[len(known) + 1 :])


def _code(column: Column, text: str, option: str) -> float:
    if column.is_discrete:
        names = [str(value).lower() for value in column.values]
        asked = _number(column, text, option) if column.dtype in WRITTEN else None
        for code, (name, category) in enumerate(zip(names, column.categories, strict=True)):
            if name == text.lower() if asked is None else category == asked:
                return float(code)
        raise OptionError(f"{option} {column.name}={text}; the values of {column.name} are {some_of(column.values)}.")
    value = _number(column, text, option)
    column.family.check(np.array([value]), f"{option} {column.name}")
    return value


def _number(column: Column, text: str, option: str) -> float:
    if column.dtype in WRITTEN:
        moment = number_of_text(column.dtype, text, column.form.zone)
        if np.isnan(moment):
            sort, example = sort_in_words(column.dtype), WRITTEN[column.dtype]
            raise OptionError(f"{option} {column.name}={text}; {column.name} holds {sort}, which are written like {example}.")
        return moment
    value = float(text) if is_number(text) else np.nan
    if not np.isfinite(value):
        wanted = "a number of seconds" if column.dtype == "duration" else "a number"
        raise OptionError(f"{option} {column.name}={text}; {column.name} is {column.kind}, so give {wanted}.")
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
