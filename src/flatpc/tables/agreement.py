"""Parts of a source agree in what their columns hold: numbers of any width, text, dates, times of day or durations."""

from __future__ import annotations

from typing import Any

import numpy as np

from flatpc.errors import ColumnTypeError
from flatpc.tables.forms import TEMPORAL
from flatpc.tables.reading import DType, read_raw


def sort_in_words(dtype: DType) -> str:
    """What values of a type are for people.

    >>> sort_in_words("integer"), sort_in_words("datetime")
    ('numbers', 'dates')
    """
    if dtype in TEMPORAL:
        return {"time": "times of day", "duration": "durations"}.get(dtype, "dates")
    return "text" if dtype == "text" else "numbers"


def sorts_of_schema(schema: dict[str, Any]) -> dict[str, str]:
    """What columns of a file hold, by the types of polars; columns that can hold nothing else say nothing."""
    import narwhals as nw
    import polars as pl

    empty = nw.from_native(pl.DataFrame(schema=schema))
    found = {name: _by_type(kind) for name, kind in empty.schema.items()}
    return {name: sort for name, sort in found.items() if sort}


def sorts_of_block(block: Any) -> dict[str, str]:
    """What columns of a block hold; those without values say nothing."""
    import narwhals as nw

    if isinstance(block, np.ndarray):
        if block.dtype.kind != "O":
            return {}
        columns: Any = ((raw.name, not raw.problem and not raw.missing.all() and raw) for raw in read_raw(block).columns)
        return {name: sort_in_words(raw.dtype) for name, raw in columns if raw}
    out = {}
    for series in nw.from_native(block, eager_only=True).iter_columns():
        if series.null_count() == len(series):
            continue
        sort = "" if series.dtype == nw.Categorical else _by_type(series.dtype)
        if not sort:  # objects, and categories of pandas, which may be numbers: it is up to the values
            raw = read_raw(series.to_frame().to_native()).columns[0]
            sort = "" if raw.problem else sort_in_words(raw.dtype)
        if sort:
            out[str(series.name)] = sort
    return out


def _by_type(kind: Any) -> str:
    import narwhals as nw

    if kind.is_numeric() or kind == nw.Boolean:
        return "numbers"
    if kind in (nw.String, nw.Categorical, nw.Enum):
        return "text"
    if kind in (nw.Date, nw.Datetime):
        zone = getattr(kind, "time_zone", None)
        return f"dates in the time zone {zone}" if zone else "dates"
    return "times of day" if kind == nw.Time else "durations" if kind == nw.Duration else ""


class Agreement:
    """What columns hold by the first part that says so; a part that says otherwise is refused.

    >>> seen = Agreement()
    >>> seen.add("0.csv", {"a": "numbers"})
    >>> seen.add("1.csv", {"a": "text"})
    Traceback (most recent call last):
    flatpc.errors.ColumnTypeError: 1.csv: Column 'a' holds text, and numbers in 0.csv; give a column one type in all parts.
    """

    def __init__(self) -> None:
        self._first: dict[str, tuple[str, str]] = {}

    def add(self, part: str, sorts: dict[str, str]) -> None:
        """What the columns of a further part hold."""
        for column, sort in sorts.items():
            other, where = self._first.setdefault(column, (sort, part))
            if other != sort:
                raise ColumnTypeError(
                    f"{part}: Column {column!r} holds {sort}, and {other} in {where}; give a column one type in all parts."
                )
