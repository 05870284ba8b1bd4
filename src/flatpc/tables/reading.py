"""The one reader of tables: NumPy, torch, pandas, polars or nested lists become columns of numbers or of text, or a matrix.

What is missing (None, NaN, null, masked) is NaN among numbers and None among text. Columns without names are called x0, x1, ...
"""

from __future__ import annotations

import os
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from flatpc._messages import DROP, Message, Option
from flatpc._options import shown
from flatpc._typing import Array
from flatpc.errors import ColumnTypeError, DataError, MissingValueError, ShapeError
from flatpc.tables.forms import SECONDS_PER_DAY, TEMPORAL, Form, Temporal, number_of, numbers_of_numpy, type_of_moments, zone_of

_NUMBERS = (int, float, Decimal, Fraction, np.integer, np.floating, np.bool_)

MISSING = ("raise", "marginalize")
"""What may be done with missing values."""
LARGEST_WHOLE = 1 << 53
"""Whole numbers up to here are exact in float64."""

DType = Literal["boolean", "integer", "float", "text", "date", "datetime", "time", "duration"]


@dataclass(frozen=True)
class RawColumn:
    """One column as it was given."""

    name: str
    dtype: DType
    values: NDArray[Any]
    """float64 with NaN where missing; for text, objects: `str`, and None where missing. Dates are days since 1970, datetimes
    seconds since then, times seconds since midnight, durations seconds."""
    problem: str = ""
    """Why it can't be a variable; empty if it can. It matters only if the column is used."""
    form: Form = field(default_factory=Form)
    """How the values are written in the table."""
    levels: tuple[Any, ...] = ()
    """The values that a category may have, in order; none if it is no category."""

    def check(self) -> None:
        """Raise if it can't be a variable."""
        if self.problem:
            raise ColumnTypeError(self.problem)

    @property
    def label(self) -> str:
        """How messages call it."""
        return _label(self.name)

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Where there is no value."""
        if self.dtype == "text":
            return np.array([value is None for value in self.values], dtype=bool)
        return np.asarray(np.isnan(self.values))

    def numbers(self) -> Array:
        """The values, if they are numbers."""
        self.check()
        if self.dtype in TEMPORAL:
            text = f"{self.label} holds dates or times ({self.dtype}); turn them into numbers, such as days, or {DROP}."
            raise ColumnTypeError(Message(text, DROP))
        if self.dtype == "text":
            row = int(np.flatnonzero(~self.missing)[0])
            text = f"{self.label} holds {shown(self.values[row])} in row {row}, which is not a number; "
            raise ColumnTypeError(Message(f"{text}encode it as 0, 1, 2, ... or {DROP}.", DROP))
        return self.values


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

    def some(self, which: NDArray[np.bool_]) -> RawTable:
        """Some of the rows."""
        return replace(self, columns=tuple(replace(column, values=column.values[which]) for column in self.columns))

    def with_gaps(self, names: Iterable[str]) -> RawTable:
        """The table with columns of these names, too: empty ones where it has none."""
        empty = np.full(len(self), np.nan)
        return replace(
            self, columns=(*self.columns, *(RawColumn(name, "float", empty) for name in names if name not in self.names))
        )


def read_raw(X: Any) -> RawTable:
    """The columns of X.

    Parameters
    ----------
    X
        A NumPy array, a torch tensor, nested lists, or a frame of pandas, polars or another library that narwhals knows.

    Returns
    -------
    RawTable
        A column that can't be a variable (objects) is in it too, and says so when it is used.

    Raises
    ------
    ShapeError
        X has not two dimensions, or no rows, or no columns.
    ColumnTypeError
        X is no table, or holds neither numbers nor text.
    """
    array, container = _as_array(X)
    if array is None:
        return _from_frame(X)
    _check_shape(array)
    names = _unnamed(array.shape[1])
    if array.dtype.kind in "OUS":
        table = np.ma.getdata(array).astype(object)
        table[np.ma.getmaskarray(array)] = None
        return RawTable(tuple(_from_objects(name, table[:, j]) for j, name in enumerate(names)), container)
    if array.dtype.kind in "mM":
        given = np.where(np.ma.getmaskarray(array), np.array("NaT", array.dtype), np.ma.getdata(array))
        return RawTable(tuple(_moments(name, given[:, j]) for j, name in enumerate(names)), container)
    dtype: DType = "boolean" if array.dtype.kind == "b" else "integer" if array.dtype.kind in "iu" else "float"
    rows = _floats(array, "F")
    return RawTable(tuple(RawColumn(name, dtype, rows[:, j]) for j, name in enumerate(names)), container)


def read_matrix(X: Any) -> tuple[Array, list[str]]:
    """The table X as a matrix, all of whose columns are numbers.

    Parameters
    ----------
    X
        As for `read_raw`.

    Returns
    -------
    rows
        `[N, D]` float64, contiguous, NaN where a value is missing. It is X itself where nothing had to be done.
    labels
        How messages call the columns.

    Raises
    ------
    DataError
        As `read_raw` does, and for a column of text, and for infinities.
    """
    array, _ = _as_array(X)
    whole = _numbers_of_polars(X) if array is None else None
    if whole is not None:
        rows, labels = whole, [_label(name) for name in X.columns]
    elif array is None or array.dtype.kind in "OUS":
        table = read_raw(X)
        rows = np.ascontiguousarray(np.stack([column.numbers() for column in table.columns], axis=1))
        labels = [column.label for column in table.columns]
    else:
        _check_shape(array)
        rows = _floats(array, "C")
        labels = [_label(name) for name in _unnamed(rows.shape[1])]
    refuse_infinite(rows, labels)
    return rows, labels


def refuse_infinite(rows: Array, labels: Sequence[str]) -> None:
    """Raise for the first infinity among the rows."""
    infinite = np.isinf(rows)
    if infinite.any():
        row, column = (int(i) for i in np.argwhere(infinite)[0])
        raise DataError(
            f"{labels[column]} is {rows[row, column]} in row {row}; "
            f"replace infinities by numbers, or by NaN if the value is unknown."
        )


def refuse_missing(absent: NDArray[np.bool_], labels: Sequence[str]) -> None:
    """Raise for the first row and column of which a value is missing."""
    if absent.any():
        row, column = (int(i) for i in np.argwhere(absent)[0])
        option = Option("missing", "marginalize")
        text = f"{labels[column]} is missing (NaN) in row {row}. Pass {option} to integrate missing values out, or fill them in."
        raise MissingValueError(Message(text, option))


def only_missing(label: str) -> MissingValueError:
    """The error for a column without a single value."""
    return MissingValueError(Message(f"{label} has only missing values, so nothing can be learnt about it; {DROP}.", DROP))


def is_torch(X: Any) -> bool:
    """Whether X is a torch tensor, without importing torch."""
    return type(X).__module__.split(".")[0] == "torch" and hasattr(X, "detach")


def from_torch(X: Any) -> NDArray[Any]:
    """A tensor of any kind as an array; one that holds no values, or none that float64 has, is refused."""
    try:
        X = X.detach()
        X = X.dequantize() if X.is_quantized else X
        X = X.cpu().to_dense().resolve_conj().resolve_neg()
        # NumPy has no bfloat16.
        return np.asarray((X.double() if X.is_floating_point() else X).numpy())
    except (RuntimeError, TypeError, NotImplementedError):
        what = "nested" if X.is_nested else X.device.type
        raise DataError(f"Can't read a table from a {what} tensor of {X.dtype}; give a dense one that holds numbers.") from None


# ---- arrays -----------------------------------------------------------------------------------------------------------


def _as_array(X: Any) -> tuple[NDArray[Any] | None, str]:
    """X as an array and what it came in, unless it is a frame."""
    if is_torch(X):
        return from_torch(X), "torch"
    if isinstance(X, np.ndarray):
        return X, "numpy"
    if isinstance(X, list | tuple):
        return _from_lists(X), "numpy"
    if type(X).__module__.startswith("scipy.sparse"):
        raise ColumnTypeError("The table is a sparse matrix, and circuits take dense ones; write X.toarray().")
    return None, ""


def _from_lists(X: Any) -> NDArray[Any]:
    try:
        array = np.asarray(X)
        # NumPy would turn numbers beside text into text.
        return np.array(X, dtype=object) if array.dtype.kind in "US" else array
    except (ValueError, TypeError, RuntimeError):  # the last two from objects that can't be turned into arrays
        raise ShapeError("The rows are lists of different lengths; give each one value per column.") from None


def _unnamed(n: int) -> list[str]:
    return [f"x{j}" for j in range(n)]


def _label(name: str) -> str:
    return f"Column {name!r}"


def _check_shape(X: NDArray[Any]) -> None:
    if X.ndim != 2:
        hint = "; for one row write X[None], for one column X[:, None]. Reshape your data" if X.ndim == 1 else ""
        raise ShapeError(f"Rows must be a table of two dimensions, but the shape is {X.shape}{hint}.")
    _check_size(*X.shape)


def _floats(X: NDArray[Any], order: Literal["C", "F"]) -> Array:
    """An array of numbers as float64, masked entries as NaN."""
    if X.dtype.kind == "c":
        raise ColumnTypeError("Complex data not supported: give the real and imaginary parts columns of their own.")
    if X.dtype.kind not in "biuf":
        raise ColumnTypeError(f"The table holds {X.dtype}; give numbers or text.")
    given = np.ma.getdata(X)
    if X.dtype.kind in "iu" and X.dtype.itemsize == 8 and not -LARGEST_WHOLE <= given.min() <= given.max() <= LARGEST_WHOLE:
        for name, column in zip(_unnamed(X.shape[1]), given.T, strict=True):
            problem = _beyond_floats(name, column)
            if problem:
                raise ColumnTypeError(problem)
    rows = np.asarray(given, dtype=np.float64, order=order)
    return np.where(np.ma.getmaskarray(X), np.nan, rows) if isinstance(X, np.ma.MaskedArray) else rows


# ---- frames -----------------------------------------------------------------------------------------------------------


def _from_frame(X: Any) -> RawTable:
    import narwhals as nw

    try:
        frame: Any = nw.from_native(X, eager_only=True)
    except TypeError:
        if hasattr(X, "collect"):
            raise ColumnTypeError(f"A {type(X).__name__} has no rows yet; pass X.collect().") from None
        if hasattr(X, "to_frame") and not isinstance(X, type):
            remedy = "pass X.to_frame() for a column, frame[i : i + 1] for a row"
            raise ShapeError(f"A {type(X).__name__} is one column or row of a table; {remedy}.") from None
        if hasattr(X, "__array__") and not isinstance(X, type):
            return read_raw(np.asarray(X))
        if _is_source(X):
            raise ColumnTypeError(
                f"A {type(X).__name__} comes in blocks, and this needs a table in memory; pass fp.tables.source(X).sample(n)."
            ) from None
        hint = ""
        if isinstance(X, str | os.PathLike):
            hint = " Of a file: fp.tables.read_table(path).rows."
        elif isinstance(X, Mapping):
            hint = " Of a dict: pandas.DataFrame(X)."
        taken = "a NumPy array, a torch tensor, or a pandas or polars frame"
        raise ColumnTypeError(f"Can't read a table from a {type(X).__name__}; pass {taken}.{hint}") from None
    except nw.exceptions.DuplicateError:
        raise DataError("Two columns of the frame have the same name; rename one of them.") from None
    container = str(frame.implementation).rsplit(".", maxsplit=1)[-1].lower()
    # Column by column and not by name: pandas columns may be called 0, 1, 2.
    columns = [_from_series(series) for series in frame.iter_columns()]
    _check_size(len(frame), len(columns))
    return RawTable(tuple(columns), container, X)


def _is_source(X: Any) -> bool:
    from flatpc.tables.sources import is_source

    return is_source(X)


def _from_series(series: Any) -> RawColumn:
    import narwhals as nw

    name, kind = str(series.name), series.dtype
    form = Form(str(series.to_native().dtype))
    if kind.is_numeric() or kind == nw.Boolean:
        dtype: DType = "boolean" if kind == nw.Boolean else "integer" if kind.is_integer() else "float"
        problem = _beyond_floats(name, series.drop_nulls()) if dtype == "integer" else ""
        form = replace(form, digits=getattr(kind, "scale", None))
        return RawColumn(name, dtype, np.asarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64), problem, form)
    if kind.is_temporal():
        values = series.to_numpy()
        if values.dtype.kind not in "mM":
            return _with_form(_from_objects(name, series.to_list()), form)
        zone = str(getattr(kind, "time_zone", None) or "")
        return _moments(name, values, replace(form, zone=zone))
    levels, ordered = _levels(series)
    return _with_form(_from_objects(name, series.to_list()), replace(form, ordered=ordered), levels)


def _levels(series: Any) -> tuple[tuple[Any, ...], bool]:
    """What a category of pandas or an Enum of polars may be, and whether that is in order."""
    kind = series.to_native().dtype
    try:
        levels = [value.item() if isinstance(value, np.generic) else value for value in kind.categories]
    except (AttributeError, TypeError):
        return (), False
    if str(kind) == "Categorical":  # of polars: whatever texts came before
        return (), False
    plain = all(isinstance(value, str) for value in levels) or all(type(value) in (int, float) for value in levels)
    return (tuple(levels) if plain else (), bool(getattr(kind, "ordered", True)))


def _with_form(column: RawColumn, form: Form, levels: tuple[Any, ...] = ()) -> RawColumn:
    """The column with what its own type says; what its values say (zones, digits) stays."""
    said = replace(form, digits=column.form.digits, zone=column.form.zone)
    return replace(column, form=said, levels=() if column.dtype == "boolean" else levels)


def _moments(name: str, values: NDArray[Any], form: Form | None = None) -> RawColumn:
    """A column of NumPy's dates or durations."""
    seconds = numbers_of_numpy(values)
    if values.dtype.kind == "m":
        return RawColumn(name, "duration", seconds, form=form or Form())
    if np.datetime_data(values.dtype)[0] in ("Y", "M", "W", "D"):
        return RawColumn(name, "date", seconds / SECONDS_PER_DAY, form=form or Form())
    return RawColumn(name, "datetime", seconds, form=form or Form())


def _numbers_of_polars(X: Any) -> Array | None:
    """A polars frame that holds nothing but numbers, at once; None for one that has to be looked at column by column."""
    if type(X).__module__.split(".")[0] != "polars" or not hasattr(X, "iter_columns") or 0 in X.shape:
        return None
    if not all(kind.is_float() or kind.is_integer() or str(kind) == "Boolean" for kind in X.dtypes):
        return None
    if any(column.null_count() for column in X.iter_columns()):
        return None
    array = X.to_numpy(order="c")
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        return None
    wide = array.dtype.kind in "iu" and array.dtype.itemsize == 8
    if wide and not -LARGEST_WHOLE <= array.min() <= array.max() <= LARGEST_WHOLE:
        return None
    if array.dtype.kind == "f" and any(kind.is_integer() and str(kind)[-2:] in ("64", "28") for kind in X.dtypes):
        return None  # whole numbers that have been rounded already
    return np.asarray(array, np.float64)


# ---- Python objects ---------------------------------------------------------------------------------------------------


def _useless(name: str, n: int, what: str) -> RawColumn:
    """A column that can't be a variable."""
    return RawColumn(name, "float", np.full(n, np.nan), Message(f"{_label(name)} {what} or {DROP}.", DROP))


def _from_objects(name: str, values: Iterable[Any]) -> RawColumn:
    """A column of Python objects: booleans, numbers or text throughout."""
    given = [None if _is_missing(value) else value for value in values]
    some = [value for value in given if value is not None]
    if all(isinstance(value, _NUMBERS) for value in some):
        dtype: DType = "float"
        if some and all(isinstance(value, bool | np.bool_) for value in some):
            dtype = "boolean"
        elif some and all(isinstance(value, int | np.integer) for value in some):
            dtype = "integer"
        problem = _beyond_floats(name, some) if dtype == "integer" else ""
        if problem:
            return RawColumn(name, "float", np.full(len(given), np.nan), problem)
        return _from_numbers(name, dtype, given)
    moments = type_of_moments(some)
    if moments is not None:
        return _from_moments(name, moments, given, some)
    for row, value in enumerate(given):
        if value is not None and not isinstance(value, str):
            return _useless(
                name,
                len(given),
                f"holds {reprlib.repr(value)}, a {type(value).__name__}, in row {row}; each argument must be a string or a real "
                f"number, and a column has only one of the two. Change it,",
            )
    texts = np.empty(len(given), dtype=object)
    texts[:] = [value if value is None else str(value) for value in given]
    return RawColumn(name, "text", texts)


def _from_numbers(name: str, dtype: DType, given: Sequence[Any]) -> RawColumn:
    out = np.full(len(given), np.nan)
    for row, value in enumerate(given):
        if value is not None:
            try:
                out[row] = float(value)
            except OverflowError:
                return _useless(
                    name,
                    len(given),
                    f"holds {shown(value)} in row {row}, which no float64 can hold; scale it, give its logarithm",
                )
    decimals = [value for value in given if isinstance(value, Decimal)]
    known = sum(value is not None for value in given)
    after_point = (-int(value.as_tuple().exponent) for value in decimals if value.is_finite())
    digits = max(after_point, default=0) if len(decimals) == known > 0 else None
    return RawColumn(name, dtype, out, form=Form(digits=None if digits is None else max(digits, 0)))


def _from_moments(name: str, dtype: Temporal, given: Sequence[Any], some: Sequence[Any]) -> RawColumn:
    zone = zone_of(some) if dtype in ("datetime", "time") else ""
    if zone is None:
        return _useless(name, len(given), "holds times with a time zone and times without; give all of them one,")
    values = np.array([np.nan if value is None else number_of(dtype, value) for value in given])
    return RawColumn(name, dtype, values, form=Form(zone="" if dtype == "time" else zone))


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
    return Message(
        f"Column {name!r} holds whole numbers such as {reprlib.repr(int(largest))}, and beyond 2**53 a float can't tell one from "
        f"the next; turn identifiers into text, subtract what large numbers have in common, or {DROP}.",
        DROP,
    )


def _is_missing(value: Any) -> bool:
    # Comparisons with pandas' NA are NA themselves, so it goes by the name of its type.
    if isinstance(value, Decimal):
        # Comparing a signalling NaN is an error.
        return value.is_nan()
    return value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, _NUMBERS) and value != value)


def _check_size(n_rows: int, n_columns: int) -> None:
    if n_columns == 0:
        raise ShapeError(f"There are no columns: 0 feature(s) (shape=({n_rows}, 0)) while a minimum of 1 is required.")
    if n_rows == 0:
        raise ShapeError("There are no rows: 0 sample(s), while a minimum of 1 is required.")


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
