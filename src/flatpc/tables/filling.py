"""Tables from values: new ones, and the user's own with its gaps filled.

What is known stays as it was given, to the last digit of a number that a float could not hold, and a column keeps its type: a
whole number stands where whole numbers are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np

from flatpc._extras import need
from flatpc.tables.forms import TEMPORAL, Form, bounds_of_type
from flatpc.tables.reading import RawColumn, RawTable

Values = Sequence[Any]
Kept = Sequence[tuple[Form, tuple[Any, ...]]]
"""Of each column, its form and its categories."""
_DECIMAL = re.compile(r"decimal(128|256)\((\d+), (-?\d+)\)\[pyarrow\]")


def new_table(
    names: Sequence[str], values: Sequence[Values], container: Any, kept: Kept | None = None, labels: Any = None
) -> Any:
    """A table of a kind: `numpy`, `torch`, `pandas`, `polars` or another library that narwhals knows.

    Columns of pandas and polars have the types that `kept` tells, where these can hold their values. `labels` are what a pandas
    frame calls its columns, if not as `names` has it.
    """
    if container in ("numpy", "torch"):
        return _array(values, container)
    stored = {name: _storable(column) for name, column in zip(names, values, strict=True)}
    if kept is not None and container in _TYPED:
        typed = _TYPED[container]
        frame = _frame(container, {name: typed(name, stored[name], *how) for name, how in zip(names, kept, strict=True)})
        if labels is not None:
            frame.columns = labels
        return frame
    import narwhals as nw

    return nw.from_dict(stored, backend=container).to_native()


def _frame(container: str, columns: Mapping[str, Any]) -> Any:
    if container == "pandas":
        import pandas as pd

        return pd.DataFrame(columns)
    import polars as pl

    return pl.DataFrame(columns)  # by name: a series without one would be given one


def _pandas_column(name: str, values: Values, form: Form, levels: tuple[Any, ...]) -> Any:
    import pandas as pd

    out = pd.Series(list(values), name=name, dtype=object if form.native == "object" else None)
    if not form.native or (form.native == "category" and not levels):
        return out
    try:
        dtype: Any = pd.CategoricalDtype(levels, form.ordered) if form.native == "category" else _arrow(form.native)
        typed = out.astype(dtype)
    except (TypeError, ValueError, OverflowError, NotImplementedError, ImportError):
        return out
    # What no level is would be missing.
    return typed if typed.isna().sum() <= out.isna().sum() and _holds(form.native, values) else out


def _arrow(native: str) -> Any:
    """Arrow's types that pandas doesn't read by the names that it gives them; others by their name."""
    decimal = _DECIMAL.fullmatch(native)
    if not decimal and native != "string[pyarrow]":
        return native
    import pandas as pd
    import pyarrow as pa

    if not decimal:
        return pd.ArrowDtype(pa.string())
    make = pa.decimal128 if decimal[1] == "128" else pa.decimal256
    return pd.ArrowDtype(make(int(decimal[2]), int(decimal[3])))


def _polars_column(name: str, values: Values, form: Form, levels: tuple[Any, ...]) -> Any:
    import polars as pl

    kind = form.native.split("(")[0]
    dtype: Any = getattr(pl, kind, None) if kind in _POLARS else None
    if kind == "Enum":
        dtype = pl.Enum(list(levels))
    elif kind == "Decimal":
        precision = re.search(r"precision=(\d+)", form.native)
        dtype = pl.Decimal(int(precision[1]) if precision else 38, form.digits or 0)
    elif kind in ("Datetime", "Duration"):
        named = form.native.split("time_unit='")[-1][:2]
        unit: Any = named if named in ("ms", "us", "ns") else "us"
        dtype = pl.Duration(unit) if kind == "Duration" else pl.Datetime(unit, form.zone or None)
    plain = pl.Series(name, values, strict=False)
    try:
        typed = plain if dtype is None else pl.Series(name, values, dtype=dtype, strict=False)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        return plain
    # What a type can't hold would be null.
    return typed if typed.null_count() <= plain.null_count() and _holds(form.native, values) else plain


def _holds(native: str, values: Values) -> bool:
    """Whether values of a type of booleans or whole numbers stay what they are; other types are asked otherwise."""
    kind = native.lower()
    known = [value for value in values if value is not None]
    if kind.startswith("bool"):
        return all(value in (0, 1) for value in known)
    if not kind.startswith(("int", "uint")):
        return True
    low, high = bounds_of_type(native)
    return all(low <= value <= high and (isinstance(value, int) or value.is_integer()) for value in known)


_TYPED: dict[str, Callable[..., Any]] = {"pandas": _pandas_column, "polars": _polars_column}
_POLARS = (
    "Int8", "Int16", "Int32", "Int64", "Int128", "UInt8", "UInt16", "UInt32", "UInt64", "Float32", "Float64", "Boolean",
    "String", "Categorical", "Date", "Time",
)  # fmt: skip
"""Types whose names say all about them."""


def _storable(values: Values) -> Values:
    """Floats in place of whole numbers that 64 bits don't hold."""
    wide = any(isinstance(value, int) and not -(2**63) <= value < 2**63 for value in values)
    return [float(value) for value in values] if wide else values


def fill_in(table: RawTable, values: Mapping[int, Values]) -> Any:
    """The table with `values`, lists by position of the column, where it has none of its own; dates as text beside such text."""
    values = {j: _as_written(table.columns[j], new) for j, new in values.items()}
    if table.native is None:
        known = [_known(column) for column in table.columns]
        for j, new in values.items():
            for i in _gaps(table.columns[j]):
                known[j][i] = new[i]
        return _array(known, table.container)
    gaps = {j: _gaps(table.columns[j]) for j in values}
    if table.container == "pandas":
        frame = table.native.copy()
        for j, rows in gaps.items():
            if rows:
                frame.isetitem(j, _pandas(table.native.iloc[:, j], rows, values[j]))
        return frame
    import narwhals as nw

    frame = nw.from_native(table.native, eager_only=True)
    columns = list(frame.iter_columns())
    for j, rows in gaps.items():
        if rows:
            given = columns[j].to_list()
            read = _like(given)
            for i in rows:
                given[i] = read(values[j][i])
            # A column without any value may have any type, and Decimals bring their own number of digits.
            fits = columns[j].dtype != nw.Boolean or all(isinstance(values[j][i], bool) for i in rows)
            if not fits:
                given = [value if value is None else float(value) for value in given]
            own = fits and len(rows) < len(given) and not columns[j].dtype.is_decimal()
            dtype = columns[j].dtype if own else None
            columns[j] = nw.new_series(columns[j].name, given, dtype=dtype, backend=frame.implementation)
    return frame.with_columns(*columns).to_native()


def _like(given: Values) -> Callable[[Any], Any]:
    """How to make a number one of a column's own: a Decimal with as many digits after the point, if it has Decimals."""
    decimals = [value for value in given if isinstance(value, Decimal)]
    if not decimals:
        return lambda value: value
    digits = max([0, *(-int(value.as_tuple().exponent) for value in decimals if value.is_finite())])
    return lambda value: Decimal(f"{value:.{digits}f}")


def _as_written(column: RawColumn, values: Values) -> Values:
    if column.dtype != "text" or column.missing.all():
        return values
    return [value.isoformat() if isinstance(value, date | time) else value for value in values]


def _gaps(column: RawColumn) -> list[int]:
    return [int(i) for i in np.flatnonzero(column.missing)]


def _pandas(given: Any, rows: list[int], values: Values) -> Any:
    """The column with its gaps filled; as objects, if its type can't hold what fills them."""
    filled = given.astype(object)
    filled.iloc[rows] = [values[i] for i in rows]
    try:
        again = filled.astype(given.dtype)
    except (TypeError, ValueError):
        return filled
    return filled if again.isna().any() else again


def _known(column: RawColumn) -> list[Any]:
    if column.dtype == "text":
        return list(column.values)
    if column.dtype in TEMPORAL:
        rows = zip(column.values.tolist(), column.missing, strict=True)
        return [None if gone else column.form.restored(column.dtype, [value])[0] for value, gone in rows]
    read: Any = {"boolean": bool, "integer": int}.get(column.dtype, float)
    return [None if gone else read(value) for value, gone in zip(column.values, column.missing, strict=True)]


_OBJECTS = (str, date, time, timedelta)
"""What is no number."""


def _array(values: Sequence[Values], container: str) -> Any:
    if any(isinstance(value, _OBJECTS) for column in values for value in column):
        out = np.empty((len(values[0]), len(values)), dtype=object)
        for j, column in enumerate(values):
            out[:, j] = column
        return out
    rows = np.array(values, dtype=np.float64).T.copy()
    if container == "numpy":
        return rows
    need("torch", "torch", "A model that was learnt from tensors, and answers with them,")
    import torch

    return torch.from_numpy(rows)
