"""Tables: numbers aligned and formatted by column, the best in bold, notes below."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from numbers import Real
from typing import Any

from flatpc.errors import OptionError, ShapeError

NOTHING = "–"
TONES = ("", "better", "worse")
LONG = 30
"""Characters, from which on a text is broken into lines."""


@dataclass(frozen=True)
class Column:
    """How a column is shown.

    Parameters
    ----------
    name
        Its head.
    format
        Of numbers, as in `format(value, ".3f")`.
    best
        `"min"` or `"max"`: the smallest or largest number of the column is bold, and all that print the same.
    group
        Columns in a row with the same group share a head above their own.
    hint
        What the head says when pointed at.
    """

    name: str
    format: str = ""
    best: str | None = None
    group: str = ""
    hint: str = ""

    def __post_init__(self) -> None:
        if self.best not in (None, "min", "max"):
            raise OptionError(f"Column(best={self.best!r}); choose 'min', 'max' or None.")


@dataclass(frozen=True)
class Cell:
    """A value with a look of its own.

    Parameters
    ----------
    value
        What it is sorted and saved by: a number, text or None.
    text
        What it shows, if not the value by its column's format: `Cell(2.31, "2.31 ± 0.04")`.
    bold
        True or False; None leaves it to the column.
    note
        The mark of a note below the table.
    tone
        `"better"` or `"worse"` colours it.
    hint
        What it says when pointed at.
    """

    value: Any
    text: str | None = None
    bold: bool | None = None
    note: str = ""
    tone: str = ""
    hint: str = ""

    def __post_init__(self) -> None:
        if self.tone not in TONES:
            raise OptionError(f"Cell(tone={self.tone!r}); choose 'better', 'worse' or none.")

    @property
    def number(self) -> float | None:
        """The value, if it is a finite number."""
        is_number = isinstance(self.value, Real) and not isinstance(self.value, bool)
        return float(self.value) if is_number and math.isfinite(self.value) else None

    @property
    def key(self) -> str:
        """What the page sorts by."""
        return str(self.text if self.number is None else self.number)

    def shown(self, format_: str) -> Cell:
        """With its text."""
        if self.text is not None:
            return self
        if self.value is None or (isinstance(self.value, float) and math.isnan(self.value)):
            return replace(self, text=NOTHING)
        if not isinstance(self.value, Real):
            return replace(self, text=str(self.value))
        text = format(self.value, format_)
        rounds_to_zero = re.fullmatch(r"-0[0.,%]*", text)
        return replace(self, text=text[1:] if rounds_to_zero else text.replace("-", "−"))


@dataclass(frozen=True)
class Table:
    """Columns and rows of cells that know their text."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str
    notes: Mapping[str, str]
    sortable: bool

    @classmethod
    def of(
        cls,
        columns: Sequence[Column | str],
        rows: Sequence[Sequence[Any]],
        caption: str = "",
        notes: Mapping[str, str] | None = None,
        sortable: bool = True,
    ) -> Table:
        """From what a user gives."""
        named = tuple(Column(column) if isinstance(column, str) else column for column in columns)
        notes = notes or {}
        made = []
        for i, row in enumerate(rows):
            if len(row) != len(named):
                raise ShapeError(f"Row {i} of the table has {len(row)} cells, but there are {len(named)} columns.")
            cells = [cell if isinstance(cell, Cell) else Cell(cell) for cell in row]
            for cell in cells:
                if cell.note and cell.note not in notes:
                    raise OptionError(f"Row {i} refers to note {cell.note!r}; give its text in notes=...")
            made.append([cell.shown(column.format) for cell, column in zip(cells, named, strict=True)])
        for j, column in enumerate(named):
            if column.best:
                _embolden(made, j, column.best)
        return cls(named, tuple(map(tuple, made)), caption, notes, sortable)

    @property
    def groups(self) -> list[tuple[str, int]]:
        """Heads above the heads, with how many columns each spans; none if no column has a group."""
        if not any(column.group for column in self.columns):
            return []
        return [(group, len(list(columns))) for group, columns in groupby(column.group for column in self.columns)]

    @cached_property
    def looks(self) -> list[str]:
        """CSS classes by column: numbers stand to the right, long texts are broken into lines, a line sets off groups."""
        looks = []
        for j, column in enumerate(self.columns):
            is_number = any(row[j].number is not None for row in self.rows)
            starts_group = j > 0 and column.group != self.columns[j - 1].group
            is_prose = not is_number and any(len(row[j].text or "") > LONG for row in self.rows)
            looks.append(" ".join(["number"] * is_number + ["prose"] * is_prose + ["line"] * starts_group))
        return looks


def _embolden(rows: list[list[Cell]], j: int, best: str) -> None:
    numbers = {row[j].text: row[j].number for row in rows if row[j].number is not None}
    if len(numbers) < 2:
        return
    winner = (min if best == "min" else max)(numbers, key=lambda text: numbers[text] or 0.0)
    for row in rows:
        if row[j].bold is None and row[j].text == winner:
            row[j] = replace(row[j], bold=True)


def csv_of(table: Table) -> str:
    """The values in full precision."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([f"{column.group} {column.name}".strip() for column in table.columns])
    writer.writerows([["" if cell.value is None else cell.value for cell in row] for row in table.rows])
    return out.getvalue()
