"""Tables of the user's own, from files: csv, tsv, parquet, Arrow and npz."""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import numpy as np
from numpy.typing import NDArray

from flatpc._options import file_path
from flatpc.errors import DataError, ShapeError
from flatpc.tables.npz import read_npz
from flatpc.tables.reading import is_number

if TYPE_CHECKING:
    import polars as pl

AnyFrame = TypeVar("AnyFrame", "pl.DataFrame", "pl.LazyFrame")
UTF8 = "utf-8-sig"
"""With or without a mark at the beginning."""
NULLS = ["", "NA", "N/A", "NaN", "nan", "null", "?"]
"""What stands for a missing value in text files."""


@dataclass(frozen=True)
class Table:
    """What `read_table` returns: rows to learn from, and rows to judge by if the file says which they are."""

    name: str
    """The file's name, without its ending."""
    train: Any
    """A polars frame (csv, tsv, parquet, Arrow) or an array (npz); all rows unless there are splits."""
    valid: Any = None
    """Rows to choose by, if there are any."""
    test: Any = None
    """Rows to judge by, if there are any."""

    @property
    def rows(self) -> Any:
        """All rows of a file without splits, the training rows of others."""
        return self.train


def read_table(path: str | os.PathLike[str]) -> Table:
    r"""The table in a file.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import flatpc as fp
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "people.csv"
    ...     _ = file.write_text("age,smokes\n31,yes\n54,no\n")
    ...     table = fp.tables.read_table(file)
    >>> table.name, table.rows.shape
    ('people', (2, 2))

    - `.csv`, `.tsv` (also with `.gz`), UTF-8: the first line names the columns, unless it holds numbers only (other than 0, 1, 2,
      3, ...); then it is a row, and columns are called x0, x1, ... Empty fields, NA, N/A, NaN, nan, null and ? are missing
      values. Blanks around values are ignored, and so are blank lines where there are two columns or more. A csv may have
      semicolons, tabs or bars in place of commas, if its first line has no commas outside quotes; with semicolons, decimal
      commas.
    - `.parquet`, and Arrow files (`.arrow`, `.ipc`, `.feather`): missing values are null.
    - `.npz`: one array `X` (or any single array), or the splits `train` and, if there, `valid` and `test`. With `num_vars` they
      are bits, packed eight to a byte as `np.packbits(rows, axis=1)` does.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    Table
        `train` holds all rows, unless the file has splits.

    Raises
    ------
    DataError
        For a file that is not there or can't be read as a table.
    """
    file = file_path("path", path)
    if file.is_dir():
        raise DataError(f"{file} is a folder; give a file in it.")
    readers: dict[str, Callable[[Path], Table]] = {
        ".csv": _read_text, ".tsv": _read_text, ".csv.gz": _read_text, ".tsv.gz": _read_text,
        ".parquet": _read_columnar, ".arrow": _read_columnar, ".ipc": _read_columnar, ".feather": _read_columnar,
        ".npz": _read_npz,
    }  # fmt: skip
    suffix = next((ending for ending in readers if file.name.lower().endswith(ending)), None)
    if suffix is None:
        raise DataError(f"{file}: tables are read from {', '.join(readers)} files; save it as one of these.")
    if not file.is_file():
        raise DataError(f"There is no file {file}.")
    return readers[suffix](file)


@dataclass(frozen=True)
class TextLayout:
    """How a csv or tsv file is written."""

    separator: str
    has_header: bool
    names: tuple[str, ...]
    """Of its columns: x0, x1, ... without a header."""
    has_blank_lines: bool = False
    """Which are no rows of a table of several columns, although polars makes rows without any value of them."""

    def without_blank_lines(self, frame: AnyFrame) -> AnyFrame:
        """The rows of a frame that was read from the file."""
        import polars as pl

        is_row = ~pl.all_horizontal(pl.all().is_null())
        return frame.filter(is_row) if self.has_blank_lines and len(self.names) > 1 else frame


def text_layout(file: Path) -> TextLayout:
    """What the first line of a csv or tsv file tells."""
    try:
        with _opened_text(file) as text:
            first = next((line for line in text if line.strip("\r\n")), "")
            separator = "\t" if ".tsv" in file.name.lower() else _separator(first)
            text.seek(0)
            lines = csv.reader(text, delimiter=separator)
            names = [name.strip() for name in next(filter(None, lines), [])]
        has_blank_lines = _has_blank_lines(file)
    except (UnicodeDecodeError, OSError, csv.Error, EOFError) as error:
        raise _unreadable(file, error) from None
    has_header = not all(is_number(name) for name in names) or _numbers_its_columns(names)
    if has_header and len(set(names)) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise DataError(f"{file}: two columns are called {twice!r}; rename one of them.")
    named = tuple(names if has_header else (f"x{j}" for j in range(len(names))))
    return TextLayout(separator, has_header, named, has_blank_lines)


def _has_blank_lines(file: Path) -> bool:
    """Whether there is a line without anything in it, outside of quotes."""
    with _opened(file) as data:
        if not _has_line_feeds_in_a_row(data):
            return False
        data.seek(0)
        is_quoted = False
        for line in data:
            if not is_quoted and not line.strip(b"\r\n"):
                return True
            is_quoted ^= line.count(b'"') % 2 == 1
    return False


def _has_line_feeds_in_a_row(data: gzip.GzipFile | io.BufferedReader) -> bool:
    """As a blank line has, and quoted text may have; found by plain search, ten times as fast as by lines."""
    seen = b"\n"
    while part := data.read(1 << 20):
        seen = seen[-2:] + part
        if b"\n\n" in seen or b"\n\r\n" in seen:
            return True
    return False


def _opened(file: Path) -> gzip.GzipFile | io.BufferedReader:
    return gzip.open(file) if file.name.lower().endswith(".gz") else file.open("rb")


def _opened_text(file: Path) -> TextIO:
    return io.TextIOWrapper(_opened(file), encoding=UTF8, newline="")


def _read_text(file: Path) -> Table:
    import polars as pl

    layout = text_layout(file)
    separator, has_header = layout.separator, layout.has_header
    try:
        frame = pl.read_csv(
            _with_line_feeds(file), separator=separator, has_header=has_header, null_values=NULLS, infer_schema_length=None
        )
    except (UnicodeDecodeError, pl.exceptions.PolarsError, OSError, EOFError) as error:
        raise _too_long(file, layout) or _unreadable(file, error) from None
    frame = layout.without_blank_lines(frame)
    if has_header and len(layout.names) == frame.width:
        frame.columns = list(layout.names)
    elif not has_header:
        frame.columns = [f"x{j}" for j in range(frame.width)]
    frame = frame.with_columns(column.expression() for column in tidied(frame.lazy(), separator))
    return Table(file.name.split(".")[0], _checked(file, frame))


def _too_long(file: Path, layout: TextLayout) -> DataError | None:
    """What is wrong with a file of which a line has more values than the first."""
    try:
        with _opened_text(file) as text:
            lines = csv.reader(text, delimiter=layout.separator)
            for line in lines:
                if len(line) > len(layout.names):
                    said = f"{file}: line {lines.line_num} has {len(line)} values, and the first line {len(layout.names)}"
                    return DataError(f"{said}; correct it, or put quotes around values with {layout.separator!r} in them.")
    except (UnicodeDecodeError, OSError, csv.Error, EOFError):
        pass
    return None


def _unreadable(file: Path, error: Exception) -> DataError:
    if isinstance(error, UnicodeDecodeError) or "utf-8" in str(error).lower():
        return DataError(f"{file} is not UTF-8 text; save it again with that encoding (Excel: CSV UTF-8).")
    return DataError(f"{file} can't be read as a table: {first_line(error)}.")


def _separator(line: str) -> str:
    """A comma; if there is none in the first line, a semicolon (where numbers have decimal commas), a tab or a bar."""
    bare = re.sub('"[^"]*"', "", line)
    return next((sign for sign in ",;\t|" if sign in bare), ",")


def _with_line_feeds(file: Path) -> Path | bytes:
    """The file; or its contents, if carriage returns alone end its lines, as on very old computers."""
    if file.name.lower().endswith(".gz"):
        data = gzip.decompress(file.read_bytes())
        return data.replace(b"\r", b"\n") if b"\r" in data and b"\n" not in data else file
    with file.open("rb") as start:
        beginning = start.read(1 << 20)
        if b"\r" not in beginning or b"\n" in beginning:
            return file
        return (beginning + start.read()).replace(b"\r", b"\n")


def _numbers_its_columns(names: list[str]) -> bool:
    """A header 0, 1, 2, 3, ... of a table whose columns have no names, rather than a row; shorter ones may be either."""
    return len(names) >= 4 and names == [str(j) for j in range(len(names))]


_WITH_COMMA = r"^-?\d+(,\d+)?$"
"""A number with or without a decimal comma."""


@dataclass(frozen=True)
class Tidied:
    """A column of text without the blanks around it; numbers, if these or decimal commas were all that kept it from that."""

    name: str
    kind: Any = None
    """The type of its numbers; None for text."""
    comma: bool = False

    def expression(self) -> pl.Expr:
        """For polars."""
        import polars as pl

        bare = pl.col(self.name).str.strip_chars()
        bare = pl.when(bare.is_in(NULLS)).then(None).otherwise(bare)
        bare = bare.str.replace(",", ".", literal=True) if self.comma else bare
        return (bare if self.kind is None else bare.cast(self.kind, strict=False)).alias(self.name)


def tidied(frame: pl.LazyFrame, separator: str) -> list[Tidied]:
    """What becomes of the columns of text, for which all of them are looked at."""
    import polars as pl

    texts = [Tidied(name) for name, kind in frame.collect_schema().items() if kind == pl.String]
    odd = [way.expression().ne_missing(pl.col(way.name)).any() for way in texts]
    if separator == ";":
        odd = [one | way.expression().str.contains(_WITH_COMMA).all() for way, one in zip(texts, odd, strict=True)]
    if not texts:
        return []
    is_odd = frame.select(odd).collect(engine="streaming").row(0, named=True)
    return [_as_numbers(frame, way, separator) if is_odd[way.name] else way for way in texts]


def _as_numbers(frame: pl.LazyFrame, text: Tidied, separator: str) -> Tidied:
    """The column as numbers, if all its values are such."""
    import polars as pl

    bare = text.expression()
    ways = [Tidied(text.name, kind, comma) for comma in (False, True) for kind in (pl.Int64, pl.Float64)]
    nulls = {str(i): way.expression().null_count() for i, way in enumerate(ways)}
    asked = frame.select(bare.str.contains(_WITH_COMMA).all().alias("comma"), bare.null_count().alias("bare"), **nulls)
    found = asked.collect(engine="streaming").row(0, named=True)
    comma = separator == ";" and found["comma"]
    suited = (way for i, way in enumerate(ways) if way.comma == comma and found[str(i)] == found["bare"])
    return next(suited, text)


def _read_columnar(file: Path) -> Table:
    import polars as pl

    parquet = file.suffix.lower() == ".parquet"
    try:
        return Table(file.stem, _checked(file, pl.read_parquet(file) if parquet else pl.read_ipc(file)))
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"{file} can't be read as {'parquet' if parquet else 'Arrow'}: {first_line(error)}.") from None


def _read_npz(file: Path) -> Table:
    arrays = read_npz(file)
    bits = arrays.pop("num_vars", None)
    if bits is not None:
        if bits.ndim or bits.dtype.kind not in "iu" or bits < 1:
            raise DataError(f"{file}: num_vars is not a whole number of 1 or more.")
        arrays = {name: _unpacked(file, name, packed, int(bits)) for name, packed in arrays.items()}
    if "train" in arrays:
        found = [arrays.get(split) for split in ("train", "valid", "test")]
    elif "X" in arrays or len(arrays) == 1:
        found = [arrays["X"] if "X" in arrays else next(iter(arrays.values())), None, None]
    else:
        raise DataError(f"{file} holds {', '.join(arrays) or 'nothing'}; call the table X, or its splits train, valid and test.")
    for rows in found:
        if rows is not None and (rows.ndim != 2 or rows.size == 0):
            raise ShapeError(f"{file} holds an array of shape {rows.shape}; a table has two dimensions, with rows in it.")
    return Table(file.stem, *found)


def _unpacked(file: Path, name: str, packed: NDArray[Any], n_variables: int) -> NDArray[Any]:
    if packed.dtype != np.uint8 or packed.ndim != 2 or packed.shape[1] != (n_variables + 7) // 8:
        raise ShapeError(f"{file}: {name} doesn't hold rows of {n_variables} bits, packed eight to a byte, as num_vars says.")
    return np.unpackbits(packed, axis=1, count=n_variables)


def _checked(file: Path, frame: pl.DataFrame) -> pl.DataFrame:
    if frame.height == 0 or frame.width == 0:
        raise ShapeError(f"{file} has {frame.height} rows and {frame.width} columns; a table has at least one of each.")
    return frame


def first_line(error: BaseException) -> str:
    """What an error of another library says, without a full stop."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


def in_words(error: BaseException) -> str:
    """The same after the type of the error, where that tells more: it may be one of somebody else's function.

    >>> in_words(KeyError("a")), in_words(RuntimeError("No such disk."))
    ("KeyError: 'a'", 'No such disk')
    """
    said = first_line(error)
    return said if type(error).__name__ in (said, "RuntimeError") else f"{type(error).__name__}: {said}"
