"""Any table, column by column: NumPy, torch, pandas, polars or nested lists become columns of numbers or of text.

What is missing (None, NaN, null, masked) is NaN among numbers and None among text.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from flatpc._options import shown
from flatpc.errors import DataError, ShapeError
from flatpc.tables.matrix import from_torch, is_torch

_NUMBERS = (int, float, Decimal, np.number, np.bool_)

LARGEST_WHOLE = 1 << 53
"""Whole numbers up to here are exact in float64."""

DType = Literal["boolean", "integer", "float", "text"]


class ColumnTypeError(DataError, TypeError):
    """A column that holds neither numbers nor text."""


@dataclass(frozen=True)
class RawColumn:
    """One column as it was given."""

    name: str
    dtype: DType
    values: NDArray[Any]
    """float64 with NaN where missing; for text, objects: `str`, and None where missing."""
    problem: str = ""
    """Why it can't be a variable, if it can't; who leaves it out needn't care."""

    def check(self) -> None:
        """Raise if it can't be a variable."""
        if self.problem:
            raise ColumnTypeError(self.problem)

    @property
    def label(self) -> str:
        """How messages call it."""
        return f"Column {self.name!r}"

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Where there is no value."""
        if self.dtype == "text":
            return np.array([value is None for value in self.values], dtype=bool)
        return np.asarray(np.isnan(self.values))


@dataclass(frozen=True)
class RawTable:
    """Columns of equal length, and what they came in."""

    columns: tuple[RawColumn, ...]
    container: str
    """`numpy`, `torch`, `pandas`, `polars` or another library that narwhals knows."""
    native: Any = None
    """The frame itself, if it was one."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def __len__(self) -> int:
        return len(self.columns[0].values)


def read_raw(X: Any) -> RawTable:
    """The columns of X; columns of an array are called x0, x1, ..."""
    if is_torch(X) and hasattr(X, "detach"):
        return _from_array(from_torch(X), "torch")
    if isinstance(X, np.ndarray):
        return _from_array(X, "numpy")
    if isinstance(X, list | tuple):
        return _from_array(_from_lists(X), "numpy")
    if type(X).__module__.startswith("scipy.sparse"):
        raise ColumnTypeError("The table is a sparse matrix, and circuits take dense ones; write X.toarray().")
    return _from_frame(X)


def _from_lists(X: Any) -> NDArray[Any]:
    try:
        array = np.asarray(X)
        # NumPy would turn numbers beside text into text.
        return np.array(X, dtype=object) if array.dtype.kind in "US" else array
    except ValueError:
        raise ShapeError("The rows are lists of different lengths; give each one value per column.") from None


def _from_array(X: NDArray[Any], container: str) -> RawTable:
    if X.ndim != 2:
        hint = "; for one column write X[:, None], for one row X[None]. Reshape your data" if X.ndim == 1 else ""
        raise ShapeError(f"Rows must be a table of two dimensions, but the shape is {X.shape}{hint}.")
    _check_size(*X.shape)
    if X.dtype.kind == "c":
        raise ColumnTypeError("Complex data not supported: give the real and imaginary parts columns of their own.")
    names = [f"x{j}" for j in range(X.shape[1])]
    if X.dtype.kind in "OUS":
        table = np.ma.getdata(X).astype(object)
        table[np.ma.getmaskarray(X)] = None
        return RawTable(tuple(_from_objects(name, table[:, j]) for j, name in enumerate(names)), container)
    if X.dtype.kind not in "biuf":
        raise ColumnTypeError(f"The table holds {X.dtype}; give numbers or text.")
    dtype: DType = "boolean" if X.dtype.kind == "b" else "integer" if X.dtype.kind in "iu" else "float"
    if dtype == "integer":
        for name, column in zip(names, np.ma.getdata(X).T, strict=True):
            problem = _beyond_floats(name, column)
            if problem:
                raise ColumnTypeError(problem)
    rows = np.asfortranarray(np.ma.getdata(X), dtype=np.float64)
    if isinstance(X, np.ma.MaskedArray):
        rows = np.where(np.ma.getmaskarray(X), np.nan, rows)
    return RawTable(tuple(RawColumn(name, dtype, rows[:, j]) for j, name in enumerate(names)), container)


def _from_frame(X: Any) -> RawTable:
    import narwhals as nw

    try:
        frame: Any = nw.from_native(X, eager_only=True)
    except TypeError:
        if hasattr(X, "collect"):
            raise ColumnTypeError(f"A {type(X).__name__} has no rows yet; pass X.collect().") from None
        if hasattr(X, "__array__"):
            return _from_array(np.asarray(X), "numpy")
        raise ColumnTypeError(
            f"Can't read a table from a {type(X).__name__}; pass a NumPy array, a torch tensor, or a pandas or polars frame."
        ) from None
    except nw.exceptions.DuplicateError:
        raise DataError("Two columns of the frame have the same name; rename one of them.") from None
    columns = []
    # Column by column and not by name: pandas columns may be called 0, 1, 2.
    for series in frame.iter_columns():
        name, kind = str(series.name), series.dtype
        if kind.is_numeric():
            dtype: DType = "integer" if kind.is_integer() else "float"
            problem = _beyond_floats(name, series.drop_nulls()) if dtype == "integer" else ""
            columns.append(RawColumn(name, dtype, np.array(series.cast(nw.Float64).to_numpy(), dtype=np.float64), problem))
        elif kind.is_temporal():
            problem = f"Column {name!r} holds dates or times ({kind}); turn them into numbers, such as days, or drop the column."
            columns.append(RawColumn(name, "float", np.full(len(series), np.nan), problem))
        elif kind == nw.Boolean:
            columns.append(RawColumn(name, "boolean", _numbers(series.to_list())))
        else:
            try:
                columns.append(_from_objects(name, series.to_list()))
            except ColumnTypeError as error:
                columns.append(RawColumn(name, "float", np.full(len(series), np.nan), str(error)))
    _check_size(len(frame), len(columns))
    return RawTable(tuple(columns), str(frame.implementation).rsplit(".", maxsplit=1)[-1].lower(), X)


def _from_objects(name: str, values: Iterable[Any]) -> RawColumn:
    """A column of Python objects: booleans, numbers or text throughout."""
    given = [None if _is_missing(value) else value for value in values]
    some = [value for value in given if value is not None]
    if some and all(isinstance(value, bool | np.bool_) for value in some):
        return RawColumn(name, "boolean", _numbers(given))
    if all(isinstance(value, _NUMBERS) for value in some):
        whole = bool(some) and all(isinstance(value, int | np.integer) for value in some)
        problem = _beyond_floats(name, some) if whole else ""
        if problem:
            raise ColumnTypeError(problem)
        return RawColumn(name, "integer" if whole else "float", _numbers(given))
    for value in some:
        if not isinstance(value, str):
            raise ColumnTypeError(
                f"Column {name!r} holds {reprlib.repr(value)}, a {type(value).__name__}; each argument must be a string or a "
                f"real number, and a column has only one of the two."
            )
    texts = np.empty(len(given), dtype=object)
    texts[:] = [value if value is None else str(value) for value in given]
    return RawColumn(name, "text", texts)


def _beyond_floats(name: str, values: Any) -> str:
    """What is wrong with whole numbers of which float64 can't tell some from others; nothing if it can."""
    if len(values) == 0:
        return ""
    ends = (values.min(), values.max()) if hasattr(values, "min") else (min(values), max(values))
    largest = max(ends, key=lambda end: abs(int(end)))
    if abs(int(largest)) <= LARGEST_WHOLE:
        return ""
    distinct = {int(value) for value in values}
    try:
        if len({float(value) for value in distinct}) == len(distinct):
            return ""
    except OverflowError:
        pass
    return (
        f"Column {name!r} holds whole numbers such as {reprlib.repr(int(largest))}, and beyond 2**53 a float can't tell one from "
        f"the next; turn identifiers into text, subtract what large numbers have in common, or drop the column."
    )


def _is_missing(value: Any) -> bool:
    # Comparisons with pandas' NA are NA themselves, so it goes by the name of its type.
    if isinstance(value, Decimal):
        # Comparing a signalling NaN is an error.
        return value.is_nan()
    return value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, _NUMBERS) and value != value)


def _numbers(values: Iterable[Any]) -> NDArray[np.float64]:
    return np.array([np.nan if _is_missing(value) else _float(value) for value in values], dtype=np.float64)


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        raise DataError(
            f"The table holds {shown(value)}, which no float64 can hold; scale the column, or give its logarithm."
        ) from None


def _check_size(n_rows: int, n_columns: int) -> None:
    if n_rows == 0:
        raise ShapeError("There are no rows: 0 sample(s), while a minimum of 1 is required.")
    if n_columns == 0:
        raise ShapeError(f"There are no columns: 0 feature(s) (shape=({n_rows}, 0)) while a minimum of 1 is required.")


def is_number(text: str) -> bool:
    """Whether a text can be read as a number.

    >>> is_number("1e3"), is_number("north")
    (True, False)
    """
    try:
        float(text)
    except ValueError:
        return False
    return True
