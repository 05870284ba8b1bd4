"""`scan`: files as a source of rows. Parquet and Arrow files are read in slices, csv files from their beginning."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flatpc._options import file_path, several, whole_number
from flatpc.errors import DataError
from flatpc.tables import sources
from flatpc.tables.agreement import Agreement, sorts_of_schema
from flatpc.tables.files import NULLS, TextLayout, Tidied, first_line, text_layout, tidied
from flatpc.tables.sources import BLOCK_ROWS, Source

if TYPE_CHECKING:
    import polars as pl

SLICED = {".parquet": "parquet", ".arrow": "ipc", ".ipc": "ipc", ".feather": "ipc"}
"""Files of which any rows can be read without those before them."""
READ_THROUGH = (".csv", ".tsv")
ENDINGS = (*SLICED, *READ_THROUGH)
_ENDS = 1 << 16
"""Bytes of both ends of a file by which it is known again: a parquet file's last ones tell all about its columns."""


def scan(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    columns: Sequence[str] | None = None,
    block_rows: int = BLOCK_ROWS,
) -> Source:
    """Files as a source of rows, which is read in blocks and never as a whole.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import polars as pl
    >>> import flatpc as fp
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for part in range(3):
    ...         pl.DataFrame({"a": [0, 1, 1], "b": [1, 1, 0]}).write_parquet(f"{folder}/{part}.parquet")
    ...     rows = fp.tables.scan(f"{folder}/*.parquet")
    ...     circuit = fp.structures.hclt(rows, n_latents=2)
    ...     learnt = fp.fit(circuit, rows, epochs=2, progress=False).circuit
    ...     rows.n_rows, learnt.log_prob(rows).shape
    (9, (9,))

    Parameters
    ----------
    path
        A file, a folder (all its files that end as below), a pattern such as `"rows/*.parquet"`, or a list of files. Files end in
        .parquet, .arrow, .ipc, .feather, .csv or .tsv, and have the same columns; a csv is as `read_table` says. Files are
        taken in the order of their names.
    columns
        Which columns to read, in this order; those of the first file unless given.
    block_rows
        Rows that are read at a time.

    Returns
    -------
    Source
        Of parquet and Arrow files only the numbers of rows have been read, of csv files the types of columns.

    Raises
    ------
    DataError
        If there is no such file, one can't be read, or its columns are not those of the first or hold something else there:
        numbers of any width are the same, and text, dates, times of day and durations are not.
    """
    files = _files(path)
    size = whole_number("block_rows", block_rows, 1)
    wanted = None if columns is None else tuple(str(name) for name in several("columns", columns, "a list of names"))
    parts: list[Slice | Text] = []
    schemas: list[dict[str, Any]] = []
    for file in files:
        found, schema = _parts(file, size)
        wanted = tuple(schema) if wanted is None else wanted
        _check_columns(file, tuple(schema), wanted, files[0], columns is not None)
        parts.extend(found)
        schemas.append({name: schema[name] for name in wanted})
    assert wanted is not None
    _check_types(files, schemas)
    return Source(tuple(replace(part, columns=wanted) for part in parts), wanted)


def is_scannable(text: str) -> bool:
    """Whether a text names a folder, or several files by a pattern, rather than one file."""
    return Path(text).is_dir() or (any(sign in text for sign in "*?[") and not Path(text).exists())


def is_large(text: str) -> bool:
    """Whether a file that can be scanned has more rows than a sample of a source."""
    import polars as pl

    file = Path(text)
    if file.suffix.lower() not in ENDINGS or not file.is_file():
        return False
    try:
        frame = _scan_text(file, text_layout(file), {}) if file.suffix.lower() in READ_THROUGH else _scan(file)
        return int(frame.select(pl.len()).collect().item()) > sources.SAMPLE_ROWS
    except (DataError, pl.exceptions.PolarsError, OSError):
        return False  # whoever reads it says what is wrong with it


def _files(path: Any) -> list[Path]:
    if isinstance(path, list | tuple):
        files = [file_path("path", each) for each in path]
        if not files:
            raise DataError("There are no files in the list.")
        for file in files:
            _check_file(file)
        return files
    one = file_path("path", path)
    if one.is_dir():
        files = sorted(file for file in one.iterdir() if file.suffix.lower() in ENDINGS and not file.name.startswith((".", "_")))
        if not files:
            raise DataError(f"{one} has no files that end in {', '.join(ENDINGS)}.")
        return files
    if one.is_file():
        _check_file(one)
        return [one]
    files = [Path(name) for name in sorted(glob.glob(str(one), recursive=True)) if Path(name).is_file()]
    if not files:
        pattern = any(sign in str(one) for sign in "*?[")
        raise DataError(f"No file is called {one}; check the pattern." if pattern else f"There is no file {one}.")
    for file in files:
        _check_file(file)
    return files


def _check_file(file: Path) -> None:
    if not file.is_file():
        raise DataError(f"There is no file {file}.")
    if file.suffix.lower() not in ENDINGS:
        raise DataError(f"{file}: rows are scanned from {', '.join(ENDINGS)} files; save it as one of these.")


def _check_columns(file: Path, names: tuple[str, ...], wanted: tuple[str, ...], first: Path, chosen: bool) -> None:
    lost = [name for name in wanted if name not in names]
    if lost:
        raise DataError(
            f"{file} has no column {lost[0]!r}" + ("." if chosen else f", which {first} has; give all files the same columns.")
        )
    extra = [name for name in names if name not in wanted]
    if extra and not chosen:
        raise DataError(
            f"{file} has a column {extra[0]!r}, which {first} doesn't have; give all files the same columns, or name those to "
            f"read: columns=[...]."
        )


def _check_types(files: list[Path], schemas: list[dict[str, Any]]) -> None:
    """Columns hold the same sort of values in all files. Those without values have a type, too, which doesn't matter."""
    said = [sorts_of_schema(schema) for schema in schemas]
    mixed = [name for name in schemas[0] if len({sorts[name] for sorts in said if name in sorts}) > 1]
    seen = Agreement()
    for file, sorts in zip(files, said, strict=True):
        mine = [name for name in mixed if name in sorts]
        if mine:
            with _reading(file):
                frame = _scan_text(file, text_layout(file), None) if file.suffix.lower() in READ_THROUGH else _scan(file)
                counts = frame.select(mine).count().collect()
            mine = [name for name in mine if counts[name].item()]
        seen.add(str(file), {name: sorts[name] for name in mine})


def _parts(file: Path, size: int) -> tuple[list[Slice | Text], dict[str, Any]]:
    """The parts of a file, and the types of its columns by name."""
    import polars as pl

    stamp = _stamp(file)
    with _reading(file):
        if file.suffix.lower() in READ_THROUGH:
            layout = text_layout(file)
            frame = _scan_text(file, layout, None)
            schema, columns = dict(frame.collect_schema()), tuple(tidied(frame, layout.separator))
            part = Text(file, stamp, layout, tuple(schema.items()), columns, size, ())
            return [part], schema | {column.name: column.kind for column in columns if column.kind is not None}
        frame = _scan(file)
        schema = dict(frame.collect_schema())
        total = int(frame.select(pl.len()).collect().item())
    return [Slice(file, stamp, i, min(size, total - i), ()) for i in range(0, total, size)], schema


@dataclass(frozen=True)
class Slice:
    """Some rows of a parquet or Arrow file."""

    file: Path
    stamp: tuple[int, int]
    """Size and time of the last change, when the file was found."""
    first: int
    n_rows: int
    columns: tuple[str, ...]

    @property
    def name(self) -> str:
        """The file."""
        return str(self.file)

    def blocks(self) -> Iterator[Any]:
        """All its rows at once."""
        _check_stamp(self.file, self.stamp)
        with _reading(self.file):
            frame = _scan(self.file).select(self.columns).slice(self.first, self.n_rows).collect()
        if len(frame) != self.n_rows:
            raise DataError(f"{self.file} has fewer rows than when it was found; leave files alone while they are read.")
        yield frame

    def identity(self) -> str:
        """By the ends of the file."""
        return f"{_digest(self.file, *self.stamp)} {self.first} {self.n_rows} {self.columns}"


@dataclass(frozen=True)
class Text:
    """A csv or tsv file."""

    file: Path
    stamp: tuple[int, int]
    layout: TextLayout
    schema: tuple[tuple[str, Any], ...]
    tidied: tuple[Tidied, ...]
    size: int
    columns: tuple[str, ...]

    @property
    def name(self) -> str:
        """The file."""
        return str(self.file)

    @property
    def n_rows(self) -> None:
        """Not known before it is read."""

    def blocks(self) -> Iterator[Any]:
        """From the beginning of the file to its end."""
        _check_stamp(self.file, self.stamp)
        frame = _scan_text(self.file, self.layout, dict(self.schema)).select(self.columns)
        bare = [column.expression() for column in self.tidied if column.name in self.columns]
        with _reading(self.file):
            yield from frame.with_columns(bare).collect_batches(chunk_size=self.size, maintain_order=True)
        _check_stamp(self.file, self.stamp)

    def identity(self) -> str:
        """By the ends of the file."""
        return f"{_digest(self.file, *self.stamp)} {self.columns}"


class _reading:
    """`with _reading(file)`: what polars and the system say becomes an error that names the file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        import polars as pl

        if isinstance(error, pl.exceptions.PolarsError | OSError | pl.exceptions.PanicException):
            raise DataError(f"{self.file} can't be read: {first_line(error)}.") from None


def _scan(file: Path) -> pl.LazyFrame:
    import polars as pl

    # glob=False: a name may have brackets in it.
    return pl.scan_parquet(file, glob=False) if SLICED[file.suffix.lower()] == "parquet" else pl.scan_ipc(file)


def _scan_text(file: Path, layout: TextLayout, schema: dict[str, Any] | None) -> pl.LazyFrame:
    """The file; without a schema, all of it is looked at for the types of columns."""
    import polars as pl

    frame = pl.scan_csv(
        file, separator=layout.separator, has_header=layout.has_header, null_values=NULLS, schema=schema,
        new_columns=None if schema is not None else list(layout.names), infer_schema_length=None, glob=False,
    )  # fmt: skip
    return layout.without_blank_lines(frame)


def _stamp(file: Path) -> tuple[int, int]:
    try:
        found = file.stat()
    except OSError as error:
        raise DataError(f"{file} can't be read: {error.strerror or error}.") from None
    return found.st_size, found.st_mtime_ns


def _check_stamp(file: Path, stamp: tuple[int, int]) -> None:
    if _stamp(file) != stamp:
        raise DataError(f"{file} was changed after it was found; scan the files again, and leave them alone while they are read.")


def _digest(file: Path, size: int, changed: int) -> str:
    known = _DIGESTS.get((file, size, changed))
    if known is None:
        with _reading(file), file.open("rb") as data:
            start = data.read(_ENDS)
            data.seek(max(size - _ENDS, 0))
            known = hashlib.sha256(f"{size} ".encode() + start + data.read(_ENDS)).hexdigest()
        _DIGESTS[file, size, changed] = known
    return known


_DIGESTS: dict[tuple[Path, int, int], str] = {}
