"""Tables as nobody should have them: in memory, by name, and files of all sorts of bytes."""

from __future__ import annotations

import datetime as dt
import gzip
import io
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import torch

N = 12
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 2))
B = RNG.integers(0, 2, (N, 3))
DAY = dt.date(2024, 1, 1)


def objects(*values: Any) -> np.ndarray:
    """A column of objects, beside one of numbers."""
    out = np.empty((N, 2), dtype=object)
    for i in range(N):
        out[i] = [values[i % len(values)], float(i)]
    return out


def beside(column: Any) -> pd.DataFrame:
    """A pandas frame of it and of numbers."""
    return pd.DataFrame({"a": column, "b": X[:, 0]})


def polars(values: list[Any], dtype: Any = None, strict: bool = True) -> pl.DataFrame:
    """A polars frame of it and of numbers."""
    cycled = [values[i % len(values)] for i in range(N)]
    return pl.DataFrame({"a": pl.Series(cycled, dtype=dtype, strict=strict), "b": X[:, 0]})


def cycle(*values: Any) -> list[Any]:
    """N of them."""
    return [values[i % len(values)] for i in range(N)]


def read_only(array: np.ndarray) -> np.ndarray:
    """It, frozen."""
    array = array.copy()
    array.setflags(write=False)
    return array


TABLES: dict[str, Callable[[], Any]] = {
    # numbers
    "plain": lambda: X.copy(),
    "binary": lambda: B.copy(),
    "no rows": lambda: np.empty((0, 2)),
    "no columns": lambda: np.empty((5, 0)),
    "nothing": lambda: np.empty((0, 0)),
    "one row": lambda: X[:1].copy(),
    "one column": lambda: X[:, :1].copy(),
    "one cell": lambda: np.array([[1.5]]),
    "two rows": lambda: X[:2].copy(),
    "constant": lambda: np.full((N, 2), 7.0),
    "zeros": lambda: np.zeros((N, 2)),
    "all missing": lambda: np.full((N, 2), np.nan),
    "one column missing": lambda: np.column_stack([X[:, 0], np.full(N, np.nan)]),
    "one row missing": lambda: np.vstack([X, [[np.nan, np.nan]]]),
    "half missing": lambda: np.where(np.arange(2 * N).reshape(N, 2) % 3 == 0, np.nan, X),
    "infinite": lambda: np.where(np.arange(2 * N).reshape(N, 2) == 3, np.inf, X),
    "minus infinite": lambda: np.where(np.arange(2 * N).reshape(N, 2) == 3, -np.inf, X),
    "huge": lambda: X * 1e308,
    "large": lambda: X * 1e100,
    "tiny": lambda: X * 1e-300,
    "subnormal": lambda: np.full((N, 2), 5e-324) * np.arange(1, N + 1)[:, None],
    "one outlier": lambda: np.vstack([X, [[1e100, 0]]]),
    "minus zero": lambda: np.where(B[:, :2] == 1, -0.0, 0.0),
    "large offset": lambda: X + 1e15,
    "counts": lambda: RNG.poisson(50, (N, 2)),
    "large counts": lambda: RNG.integers(0, 999, (N, 2)),
    "negative whole numbers": lambda: -np.arange(2 * N).reshape(N, 2),
    "identifiers": lambda: np.arange(2 * N).reshape(N, 2) + 2**53,
    "int64's ends": lambda: np.array([[np.iinfo(np.int64).min], [np.iinfo(np.int64).max]] * 6),
    "uint64's end": lambda: np.full((N, 2), np.iinfo(np.uint64).max),
    "int8": lambda: B.astype(np.int8),
    "uint8": lambda: (B * 255).astype(np.uint8),
    "bool": lambda: B.astype(bool),
    "float16": lambda: X.astype(np.float16),
    "longdouble": lambda: X.astype(np.longdouble),
    "big endian": lambda: X.astype(">f8"),
    "complex": lambda: X + 1j,
    "many columns": lambda: np.tile(B, (1, 40)),
    # shapes and layouts
    "0-d": lambda: np.array(3.0),
    "1-d": lambda: X[:, 0].copy(),
    "3-d": lambda: X[None].copy(),
    "Fortran": lambda: np.asfortranarray(X),
    "negative strides": lambda: X[::-1, ::-1],
    "strided": lambda: np.tile(X, (2, 2))[::2, ::2],
    "broadcast": lambda: np.broadcast_to(X[:1], (N, 2)),
    "read-only": lambda: read_only(X),
    "read-only counts": lambda: read_only(B),
    "masked": lambda: np.ma.masked_array(X, mask=np.arange(2 * N).reshape(N, 2) % 5 == 0),
    "all masked": lambda: np.ma.masked_all((N, 2)),
    "structured": lambda: np.zeros(N, dtype=[("a", float), ("b", int)]),
    "recarray": lambda: np.rec.fromarrays([X[:, 0], X[:, 1]], names="a,b"),
    "void": lambda: np.zeros((N, 2), dtype="V8"),
    "matrix": lambda: np.asmatrix(X),
    # text and objects
    "unicode": lambda: np.array([["ä", "b"], ["c", "d"]] * 6),
    "bytes dtype": lambda: np.array([[b"a", b"b"], [b"c", b"d"]] * 6),
    "datetime64": lambda: np.full((N, 2), np.datetime64("2024-01-01")),
    "timedelta64": lambda: np.full((N, 2), np.timedelta64(1, "D")),
    "text and numbers": lambda: objects("a", 1.0),
    "None and text": lambda: objects(None, "a", "b"),
    "None": lambda: objects(None),
    "empty text": lambda: objects("", "a"),
    "long text": lambda: objects("a" * 100_000, "b"),
    "surrogate": lambda: objects("\ud800", "b"),
    "nul": lambda: objects("a\0b", "c"),
    "escape": lambda: objects("\x1b[2J", "c"),
    "emoji": lambda: objects("👩‍👩‍👧‍👦", "🦆"),
    "right to left": lambda: objects("\u202eabc", "c"),
    "numbers as text": lambda: objects("1", "2", "3"),
    "decimals": lambda: objects(Decimal("1.5"), Decimal("2.25"), Decimal("3.125")),
    "decimal NaN": lambda: objects(Decimal("NaN"), Decimal("2.25")),
    "decimal sNaN": lambda: objects(Decimal("sNaN"), Decimal("2.25")),
    "decimal infinity": lambda: objects(Decimal("Infinity"), Decimal("2.25")),
    "fractions": lambda: objects(Fraction(1, 3), Fraction(2, 3)),
    "huge whole number": lambda: objects(10**400, 1),
    "dates": lambda: objects(DAY, DAY + dt.timedelta(1)),
    "times": lambda: objects(dt.time(1), dt.time(2)),
    "bytes": lambda: objects(b"a", b"b"),
    "lists in cells": lambda: objects([1], [2]),
    "dicts in cells": lambda: objects({"a": 1}, {"b": 2}),
    "tuples in cells": lambda: objects((1, 2), (3, 4)),
    "arrays in cells": lambda: objects(np.array(1.0), np.array(2.0)),
    "complex in cells": lambda: objects(1j, 2j),
    "functions": lambda: objects(len, print),
    "booleans and numbers": lambda: objects(True, 2.5, False),
    "numpy scalars": lambda: objects(np.float32(1.5), np.int8(2)),
    "pandas NA": lambda: objects(pd.NA, 1.5),
    "pandas NaT": lambda: objects(pd.NaT, 1.5),
    # lists
    "list": lambda: X.tolist(),
    "tuples": lambda: tuple(map(tuple, X.tolist())),
    "ragged": lambda: [[1.0, 2.0], [3.0]],
    "empty list": lambda: [],
    "list of empty": lambda: [[], []],
    "flat list": lambda: [1.0, 2.0],
    "deep list": lambda: [[[1.0], [2.0]]],
    "mixed list": lambda: [[1, "a"], [2, "b"]] * 6,
    "list with None": lambda: [[1.0, None], [2.0, 3.0]] * 6,
    "list of bytes": lambda: [[b"a", 1]] * N,
    # what is no table
    "a number": lambda: 3,
    "text": lambda: "table",
    "nothing at all": lambda: None,
    "dict": lambda: {"a": [1, 2], "b": [3, 4]},
    "set": lambda: {1, 2},
    "generator": lambda: (row for row in X),
    "series": lambda: pd.Series(X[:, 0]),
    "polars series": lambda: pl.Series(X[:, 0]),
    "lazy": lambda: pl.LazyFrame({"a": X[:, 0]}),
    # pandas
    "pandas": lambda: pd.DataFrame(X, columns=["a", "b"]),
    "pandas without rows": lambda: pd.DataFrame({"a": [], "b": []}),
    "pandas without columns": lambda: pd.DataFrame(index=range(3)),
    "pandas duplicate names": lambda: pd.DataFrame(X, columns=["a", "a"]),
    "pandas number names": lambda: pd.DataFrame(X),
    "pandas mixed names": lambda: pd.DataFrame(X, columns=["a", 1]),
    "pandas name None": lambda: pd.DataFrame(X, columns=[None, "b"]),
    "pandas tuple names": lambda: pd.DataFrame(X, columns=pd.MultiIndex.from_tuples([("a", 1), ("b", 2)])),
    "pandas alike names": lambda: pd.DataFrame(X, columns=["1", 1]),
    "pandas empty name": lambda: pd.DataFrame(X, columns=["", "b"]),
    "pandas escape name": lambda: pd.DataFrame(X, columns=["\x1b[31m", "b"]),
    "pandas unicode name": lambda: pd.DataFrame(X, columns=["größe", "名前"]),
    "pandas odd index": lambda: pd.DataFrame(X, columns=["a", "b"], index=[7] * N),
    "pandas Int64": lambda: beside(pd.array(cycle(1, 2, None), dtype="Int64")),
    "pandas UInt8": lambda: beside(pd.array(cycle(1, 2, 3), dtype="UInt8")),
    "pandas Float32": lambda: beside(pd.array(cycle(1.5, 2.5, None), dtype="Float32")),
    "pandas boolean": lambda: beside(pd.array(cycle(True, False, None), dtype="boolean")),
    "pandas bool": lambda: beside(cycle(True, False)),
    "pandas bool and None": lambda: beside(pd.Series(cycle(True, None), dtype=object)),
    "pandas string": lambda: beside(pd.array(cycle("a", "b", None), dtype="string")),
    "pandas category": lambda: beside(pd.Categorical(cycle("a", "b", None))),
    "pandas category of numbers": lambda: beside(pd.Categorical(cycle(1, 2, 3))),
    "pandas ordered category": lambda: beside(pd.Categorical(cycle("a", "b"), categories=["c", "b", "a"], ordered=True)),
    "pandas datetime": lambda: beside(pd.date_range("2024-01-01", periods=N)),
    "pandas zoned": lambda: beside(pd.date_range("2024-01-01", periods=N, tz="UTC")),
    "pandas timedelta": lambda: beside(pd.timedelta_range("1D", periods=N)),
    "pandas period": lambda: beside(pd.period_range("2024-01", periods=N, freq="M")),
    "pandas interval": lambda: beside(pd.interval_range(0, N)),
    "pandas sparse": lambda: beside(pd.arrays.SparseArray(cycle(0.0, 1.5))),
    "pandas complex": lambda: beside(X[:, 0] + 1j),
    "pandas objects": lambda: beside(cycle([1], {})),
    "pandas decimals": lambda: beside(cycle(Decimal("1.5"), None)),
    # polars
    "polars": lambda: pl.DataFrame(X, schema=["a", "b"]),
    "polars without rows": lambda: pl.DataFrame(schema={"a": pl.Float64}),
    "polars without columns": lambda: pl.DataFrame(),
    "polars decimal": lambda: polars([Decimal("1.5"), Decimal("2.25"), None]),
    "polars struct": lambda: polars([{"x": 1}, {"x": 2}]),
    "polars list": lambda: polars([[1], [2, 3]]),
    "polars array": lambda: polars([[1, 2], [3, 4]], pl.Array(pl.Int64, 2)),
    "polars date": lambda: polars([DAY, None]),
    "polars datetime": lambda: polars([dt.datetime(2024, 1, 1)]),
    "polars time": lambda: polars([dt.time(1)]),
    "polars duration": lambda: polars([dt.timedelta(1)]),
    "polars categorical": lambda: polars(["a", "b", None], pl.Categorical),
    "polars enum": lambda: polars(["a", "b", None], pl.Enum(["b", "a", "c"])),
    "polars null": lambda: polars([None], pl.Null),
    "polars binary": lambda: polars([b"a", b"b"]),
    "polars boolean": lambda: polars([True, False, None]),
    "polars boolean null": lambda: polars([None], pl.Boolean),
    "polars object": lambda: polars([len, print], pl.Object),
    "polars int128": lambda: polars([2**100, 1], pl.Int128),
    "polars uint64": lambda: polars([2**64 - 1, 1], pl.UInt64),
    "polars float32": lambda: polars([1.5, None, float("nan")], pl.Float32),
    "polars infinity": lambda: polars([1.5, float("inf")]),
    # torch
    "torch": lambda: torch.from_numpy(X.copy()),
    "torch bool": lambda: torch.from_numpy(B.astype(bool)),
    "torch half": lambda: torch.from_numpy(X).half(),
    "torch bfloat16": lambda: torch.from_numpy(X).bfloat16(),
    "torch sparse": lambda: torch.from_numpy(X).to_sparse(),
    "torch csr": lambda: torch.from_numpy(X).to_sparse_csr(),
    "torch complex": lambda: torch.complex(torch.from_numpy(X), torch.from_numpy(X)),
    "torch conjugate": lambda: torch.complex(torch.from_numpy(X), torch.from_numpy(X)).conj(),
    "torch negative": lambda: torch.complex(torch.from_numpy(X), torch.from_numpy(X)).conj().imag,
    "torch meta": lambda: torch.empty(3, 2, device="meta"),
    "torch quantised": lambda: torch.quantize_per_tensor(torch.from_numpy(X).float(), 0.1, 0, torch.qint8),
    "torch nested": lambda: torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]),
    "torch gradient": lambda: torch.from_numpy(X.copy()).requires_grad_(),
    "torch empty": lambda: torch.empty(0, 2),
    "torch scalar": lambda: torch.tensor(1.0),
    "torch transposed": lambda: torch.from_numpy(np.ascontiguousarray(X.T)).T,
}


def _csv(text: str, encoding: str = "utf-8") -> bytes:
    return text.encode(encoding)


def _lines(header: str, row: str, n: int = N, end: str = "\n") -> str:
    return end.join([header, *([row] * n)]) + end


def _npz(**arrays: Any) -> bytes:
    data = io.BytesIO()
    np.savez(data, **arrays)
    return data.getvalue()


def _parquet(frame: pl.DataFrame) -> bytes:
    data = io.BytesIO()
    frame.write_parquet(data)
    return data.getvalue()


_TWO = "\n".join(["a,b", *(f"{i % 3},{i / 7:.3f}" for i in range(N))]) + "\n"

FILES: dict[str, tuple[str, bytes]] = {
    "csv": (".csv", _csv(_TWO)),
    "empty csv": (".csv", b""),
    "one line feed": (".csv", b"\n"),
    "blank lines": (".csv", b"\n\n\n"),
    "header only": (".csv", b"a,b\n"),
    "one cell": (".csv", b"a\n1\n"),
    "no end of line": (".csv", _csv(_TWO).rstrip()),
    "mark": (".csv", b"\xef\xbb\xbf" + _csv(_TWO)),
    "utf-16": (".csv", _csv(_TWO, "utf-16")),
    "latin-1": (".csv", _csv(_lines("größe,b", "1,2"), "latin-1")),
    "nul bytes": (".csv", b"a,b\n1,\0\n2,3\n"),
    "random bytes": (".csv", np.random.default_rng(1).bytes(4000)),
    "semicolons": (".csv", _csv(_TWO.replace(",", ";"))),
    "decimal commas": (".csv", _csv(_lines("a;b", "1,5;2,25"))),
    "tabs": (".csv", _csv(_TWO.replace(",", "\t"))),
    "bars": (".csv", _csv(_TWO.replace(",", "|"))),
    "carriage returns": (".csv", _csv(_TWO.replace("\n", "\r"))),
    "both ends": (".csv", _csv(_TWO.replace("\n", "\r\n"))),
    "mixed ends": (".csv", b"a,b\r\n1,2\n3,4\r5,6\n"),
    "ragged short": (".csv", b"a,b\n1,2\n3\n4,5\n"),
    "ragged long": (".csv", b"a,b\n1,2\n3,4,5\n"),
    "quotes": (".csv", b'a,"b, c"\n"1","x ""y"""\n"2","z"\n'),
    "open quote": (".csv", b'a,b\n1,"2\n3,4\n'),
    "line feed in quotes": (".csv", b'a,b\n1,"x\ny"\n2,z\n'),
    "duplicate names": (".csv", b"a,a\n1,2\n"),
    "blank names": (".csv", b",\n1,2\n3,4\n"),
    "numbers for names": (".csv", b"1,2\n3,4\n5,6\n"),
    "escape in names": (".csv", b"\x1b[2Ja,b\n1,2\n3,4\n"),
    "formula": (".csv", _csv(_lines("=cmd|x,b", "@SUM(1),2"))),
    "missing marks": (".csv", b"a,b,c\n1,NA,?\n2,null,x\n3,4,y\n"),
    "only missing": (".csv", b"a,b\nNA,NA\n?,?\n"),
    "infinity": (".csv", b"a,b\n1,inf\n2,-inf\n"),
    "huge number": (".csv", b"a,b\n1e999,1\n2,3\n"),
    "identifiers": (".csv", _csv("id,b\n" + "".join(f"{2**60 + i},{i}.5\n" for i in range(N)))),
    "thousands": (".csv", _csv("a,b\n" + "".join(f'"{i + 1},{i:03d}",{i}\n' for i in range(N)))),
    "dates": (".csv", _csv("a,b\n" + "".join(f"2024-01-{i + 1:02d},{i}\n" for i in range(N)))),
    "booleans": (".csv", _csv("a,b\n" + "true,1\nfalse,2\n" * 6)),
    "comments": (".csv", b"# made by hand\na,b\n1,2\n"),
    "wide": (".csv", _csv(",".join(f"c{i}" for i in range(500)) + "\n" + (",".join(["0", "1"] * 250) + "\n") * N)),
    "tsv": (".tsv", _csv(_TWO.replace(",", "\t"))),
    "tsv of commas": (".tsv", _csv(_TWO)),
    "gzip": (".csv.gz", gzip.compress(_csv(_TWO))),
    "gzip with carriage returns": (".csv.gz", gzip.compress(_csv(_TWO.replace("\n", "\r")))),
    "gzip cut": (".csv.gz", gzip.compress(_csv(_TWO * 50))[:-20]),
    "no gzip": (".csv.gz", _csv(_TWO)),
    "unknown ending": (".xlsx", b"PK\x03\x04"),
    "parquet": (".parquet", _parquet(pl.DataFrame(X, schema=["a", "b"]))),
    "parquet of lists": (".parquet", _parquet(pl.DataFrame({"a": [[1], [2]], "b": [1.0, 2.0]}))),
    "parquet of decimals": (".parquet", _parquet(polars([Decimal("1.5"), None]))),
    "parquet without rows": (".parquet", _parquet(pl.DataFrame(schema={"a": pl.Float64}))),
    "parquet cut": (".parquet", _parquet(pl.DataFrame(X, schema=["a", "b"]))[:-30]),
    "no parquet": (".parquet", b"PAR1"),
    "npz": (".npz", _npz(X=B)),
    "npz of text": (".npz", _npz(X=np.array([["a", "b"]] * N))),
    "npz flat": (".npz", _npz(X=np.zeros(3))),
    "npz without rows": (".npz", _npz(X=np.zeros((0, 2)))),
    "npz of many": (".npz", _npz(a=B, b=B)),
    "npz of splits": (".npz", _npz(train=B, valid=B, test=B)),
    "npz of uneven splits": (".npz", _npz(train=B, valid=B[:, :2])),
    "npz of bits": (".npz", _npz(X=np.packbits(B, axis=1), num_vars=3)),
    "npz of wrong bits": (".npz", _npz(X=np.packbits(B, axis=1), num_vars=30)),
    "npz with text for num_vars": (".npz", _npz(X=np.packbits(B, axis=1), num_vars="three")),
    "npz with many num_vars": (".npz", _npz(X=np.packbits(B, axis=1), num_vars=[3, 4])),
    "npz of nothing": (".npz", _npz()),
    "empty npz": (".npz", b""),
    "npy": (".npz", b"\x93NUMPY\x01\x00" + b"x" * 100),
    "npz of objects": (".npz", _npz(X=objects(None, "a"))),
}
