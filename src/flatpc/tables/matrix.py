"""Reading numbers: whatever table a user has becomes a float64 array, or an error that says what to change."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc._options import shown
from flatpc.errors import DataError, ShapeError

Array = NDArray[np.float64]


def read_matrix(X: Any) -> tuple[Array, list[str]]:
    """A two-dimensional float64 array and a name for each column, from NumPy, torch, pandas, polars or nested lists."""
    rows, names = _to_numpy(X)
    if rows.ndim != 2:
        hint = "; for one row write X[None]" if rows.ndim == 1 else ""
        raise ShapeError(f"Rows must be a table of two dimensions, but the shape is {rows.shape}{hint}.")
    if rows.shape[0] == 0:
        raise ShapeError("There are no rows; give at least one.")
    if rows.shape[1] == 0:
        raise ShapeError("There are no columns; give at least one.")
    names = names or [f"Column {j}" for j in range(rows.shape[1])]
    if np.isinf(rows).any():
        row, column = (int(i) for i in np.argwhere(np.isinf(rows))[0])
        raise DataError(
            f"{names[column]} is {rows[row, column]} in row {row}; "
            f"replace infinities by numbers, or by NaN if the value is unknown."
        )
    return rows, names


def is_torch(X: Any) -> bool:
    """Whether X is a torch tensor, without importing torch."""
    return type(X).__module__.split(".")[0] == "torch"


def _to_numpy(X: Any) -> tuple[Array, list[str] | None]:
    if is_torch(X) and hasattr(X, "detach"):
        return _numbers(from_torch(X)), None
    if isinstance(X, np.ndarray):
        return _numbers(X), None
    if isinstance(X, list | tuple):
        try:
            return _numbers(np.asarray(X)), None
        except DataError:
            raise
        except (ValueError, TypeError, RuntimeError):  # the last two from objects that can't be turned into arrays
            raise ShapeError("The rows are lists of different lengths; give each one value per column.") from None
    import narwhals as nw

    try:
        frame: Any = nw.from_native(X, eager_only=True)
    except TypeError:
        if hasattr(X, "__array__") and not isinstance(X, type):
            return _numbers(np.asarray(X)), None
        raise DataError(
            f"Can't read rows from a {type(X).__name__}; pass a NumPy array, a torch tensor, or a pandas or polars frame."
        ) from None
    except nw.exceptions.DuplicateError:
        raise DataError("Two columns of the frame have the same name; rename one of them.") from None
    columns, names = [], []
    # Column by column and not by name: pandas columns may be called 0, 1, 2.
    for series in frame.iter_columns():
        label = f"Column {series.name!r}"
        if not (series.dtype.is_numeric() or series.dtype == nw.Boolean or series.is_null().all()):
            raise DataError(f"{label} has the type {series.dtype}, not numbers; encode it as 0, 1, 2, ... or drop it.")
        columns.append(series.cast(nw.Float64).to_numpy())
        names.append(label)
    if not columns:
        raise ShapeError("There are no columns; give at least one.")
    # A frame's own missing values arrive as NaN.
    return np.ascontiguousarray(np.stack(columns, axis=1), dtype=np.float64), names


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
        raise DataError(
            f"Can't read rows from a {what} tensor of {X.dtype}; give a dense one, on the CPU, that holds numbers."
        ) from None


def _numbers(X: NDArray[Any]) -> Array:
    if X.dtype == object:
        X = _objects_to_numbers(X)
    if X.dtype.kind in "biuf":
        rows = np.ascontiguousarray(X, dtype=np.float64)
        # A masked entry is a missing value.
        return np.where(np.ma.getmaskarray(X), np.nan, rows) if isinstance(X, np.ma.MaskedArray) else rows
    if X.dtype.kind in "US" and X.size:
        index = next(iter(np.ndindex(X.shape)))
        raise DataError(_not_numbers(index, X[index]))
    raise DataError(f"The rows hold {X.dtype}, not numbers.")


def _objects_to_numbers(X: NDArray[Any]) -> Array:
    """Python objects as numbers, None as NaN; text is refused even where it spells a number, as it is in other arrays."""
    for index, value in np.ndenumerate(X):
        try:
            if isinstance(value, str | bytes):
                raise TypeError
            float(np.nan if value is None else value)
        except (TypeError, ValueError, OverflowError):
            raise DataError(_not_numbers(index, value)) from None
    return X.astype(np.float64)


def _not_numbers(index: tuple[int, ...], value: object) -> str:
    where = f"Column {index[1]}" if len(index) > 1 else "The data"
    row = f" in row {index[0]}" if index else ""
    return f"{where} holds {shown(value)}{row}, which is not a float64 number; encode it as 0, 1, 2, ... or drop the column."
