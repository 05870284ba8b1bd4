"""What commands print and write: JSON for machines, tables for people, files in one step."""

from __future__ import annotations

import io
import json
import math
import sys
from collections.abc import Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flatpc._printable import printable, without_formulas
from flatpc.errors import OptionError

if TYPE_CHECKING:
    from rich.console import Console

LONG = 44
"""Characters from which on a name may be broken into lines."""
TABLES = (".csv", ".tsv", ".parquet", ".npz")
"""Endings of the tables that can be written."""


def print_json(value: Any) -> None:
    """One JSON value on standard output."""
    sys.stdout.write(json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def plain(value: Any) -> Any:
    """The value as JSON holds it: NaN as null, infinities, dates and times as text, durations as seconds.

    >>> plain({"nll": float("inf"), "valid": float("nan"), "path": Path("a/b")})
    {'nll': 'inf', 'valid': None, 'path': 'a/b'}
    >>> plain([date(2020, 1, 31), timedelta(minutes=1), Decimal("1.50")])
    ['2020-01-31', 60.0, 1.5]
    """
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal):
        return float(value)
    return str(value) if isinstance(value, Path) else value


def console() -> Console:
    """Standard output, for people."""
    from rich.console import Console

    return Console(highlight=False)


def shows_progress(json: bool) -> bool:
    """Whether bars of the library, which go to standard output, are welcome there: to people, not to files or programs."""
    return not json and sys.stdout.isatty()


def show_table(title: str, rows: Sequence[Sequence[str]], head: Sequence[str] = ()) -> None:
    """A title and a table; the first column is text, the others are numbers."""
    from rich.table import Table
    from rich.text import Text

    out = Table(*head, show_header=bool(head))
    for _ in range(0 if head else len(rows[0])):
        out.add_column()
    # Names stay whole, unless they are so long that the numbers would have to go.
    out.columns[0].no_wrap = all(len(row[0]) < LONG for row in rows)
    for column in out.columns[1:]:
        column.justify = "right"
    for row in rows:
        out.add_row(*(Text(printable(cell)) for cell in row))
    console().print(printable(title), style="bold", markup=False)
    console().print(out)


def number(value: float, digits: int = 4) -> str:
    """A number for people; an em dash for NaN."""
    return "—" if math.isnan(value) else f"{value:,.{digits}f}"


def check_output(path: Path, force: bool, endings: Sequence[str] = ()) -> None:
    """Refuse a file that could not be written, or that should not be, before any work is done."""
    if endings and path.suffix.lower() not in endings:
        raise OptionError(f"{path}: the name must end in {', '.join(endings)}; the ending says what to write.")
    if path.is_dir():
        raise OptionError(f"{path} is a folder; give the name of a file, such as {path / ('out' + (*endings, '')[0])}.")
    if not path.parent.is_dir():
        raise OptionError(f"There is no folder {path.parent} to write {path.name} into; create it first.")
    if path.exists() and not force:
        raise OptionError(f"{path} is there already; choose another name, or pass --force to replace it.")
    from flatpc._writing import check_target

    check_target(path)


def write_table(frame: Any, path: Path) -> None:
    """A polars frame as csv, tsv, parquet or npz, by the ending of its name."""
    from flatpc._writing import replace_file

    ending = path.suffix.lower()
    data = io.BytesIO()
    if ending == ".parquet":
        frame.write_parquet(data)
    elif ending == ".npz":
        _write_npz(frame, data, path)
    else:
        safe_for_spreadsheets(frame).write_csv(data, separator="\t" if ending == ".tsv" else ",")
    replace_file(path, data.getvalue())


def safe_for_spreadsheets(frame: Any) -> Any:
    """The frame without formulas; a line says so if there were any."""
    safe, changed = without_formulas(frame)
    say_of_formulas(changed)
    return safe


def say_of_formulas(changed: Sequence[str]) -> None:
    """Which columns had texts that a spreadsheet would compute."""
    from flatpc.cli.application import say

    if changed:
        say(
            f"Texts that a spreadsheet would take for formulas have an apostrophe before them in "
            f"{', '.join(map(repr, changed))}; write .parquet to keep them as they are."
        )


def _write_npz(frame: Any, data: io.BytesIO, path: Path) -> None:
    import numpy as np
    import polars as pl

    text = next((name for name, dtype in frame.schema.items() if dtype == pl.String), None)
    if text is not None:
        raise OptionError(f"{path}: an npz file holds numbers, and column {text!r} holds text; write .csv or .parquet.")
    np.savez_compressed(data, allow_pickle=False, X=frame.cast(pl.Float64).to_numpy())
