"""DATA on the command line: a file or a data set's name becomes rows, and rows become those of a model."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flatpc._messages import about, some_of
from flatpc.cli.application import say
from flatpc.errors import DataError, FlatpcError, OptionError

if TYPE_CHECKING:
    from flatpc._typing import Array
    from flatpc.tables.columns import Columns
    from flatpc.tables.reading import RawTable
    from flatpc.tables.sources import Source as Scanned

FILES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".arrow", ".ipc", ".feather", ".npz")


@dataclass(frozen=True)
class Source:
    """Rows by split; a file without splits has `train` only."""

    name: str
    train: Any
    valid: Any
    test: Any
    scanned: Scanned | None = None
    """All rows, where `train` is a sample of them."""

    @property
    def has_splits(self) -> bool:
        """Whether some rows are set apart."""
        return self.valid is not None or self.test is not None

    def rows(self, split: str | None, default: str = "test") -> tuple[str, Any]:
        """The rows asked for and what they are called; unless asked, those of `default`, or all of a table without splits."""
        if not self.has_splits:
            if split not in (None, "train"):
                raise OptionError(f"{self.name} has no {split} rows: it is one table without splits; leave --split out.")
            return "all", self.train
        chosen = split or (default if getattr(self, default) is not None else "valid")
        found = getattr(self, chosen)
        if found is None:
            raise OptionError(f"{self.name} has no {chosen} rows; choose another --split.")
        return chosen, found


def scanned(data: str) -> Scanned | None:
    """What DATA names as a source that is read in blocks: a folder, a pattern, or a file of more rows than a sample has."""
    from flatpc.tables import scan
    from flatpc.tables.scanning import is_large, is_scannable

    return scan(data) if is_scannable(data) or is_large(data) else None


def read_source(data: str, seed: int = 0, fraction: float = 1.0, *, first: int | None = None, whole: str = "") -> Source:
    """What DATA names: a file if it looks like one, else a data set.

    Of what comes in blocks, `train` is a sample; with `first`, it is the first so many rows. `whole` says who needs all rows at
    once, if somebody does: one file is then read, whatever its size, and folders are refused.
    """
    from flatpc.datasets import fraction_of, load
    from flatpc.tables import read_table
    from flatpc.tables.scanning import is_scannable

    if is_scannable(data) and (whole or fraction != 1.0):
        raise OptionError(f"{whole or '--fraction'} is for a table that is read at once; give one file instead of {data}.")
    source = None if whole or fraction != 1.0 else scanned(data)
    if source is not None:
        return Source(data, source.sample(seed=seed) if first is None else _first(source, first), None, None, source)
    if Path(data).exists() or data.lower().endswith(FILES):
        if not Path(data).exists():
            raise DataError(f"There is no file {data}; check the name and the folder you are in.")
        table = read_table(data)
        train = table.train if fraction == 1.0 else _some(table.train, fraction, seed)
        return Source(data, train, table.valid, table.test)
    if data not in _names():
        near = difflib.get_close_matches(data, _names(), n=1, cutoff=0.75)
        hint = f"did you mean {near[0]}?" if near else f"`flatpc datasets` lists the names, and files end in {', '.join(FILES)}."
        raise DataError(f"There is no file {data} and no data set of that name; {hint}")
    _announce_download(data)
    splits = load(data, seed=seed)
    return Source(data, fraction_of(splits.train, fraction, how="random", seed=seed), splits.valid, splits.test)


def _first(source: Scanned, n: int) -> Any:
    """The first rows of a source."""
    from flatpc.tables.sources import joined

    blocks, found = [], 0
    for block in source.blocks():
        blocks.append(block[: n - found])
        found += len(blocks[-1])
        if found >= n:
            break
    return joined(blocks) if blocks else source.sample(1)  # which says that there are no rows


def _announce_download(name: str) -> None:
    """One line in place of the downloader's own."""
    from flatpc.datasets.debd import registry
    from flatpc.datasets.local_files import is_local

    benchmark = registry().sets.get(name)
    if benchmark is not None and not os.environ.get("FLATPC_DATA") and not is_local(benchmark.file):
        import pooch

        pooch.get_logger().setLevel("ERROR")
        say(f"Downloading {name}, which is then kept for the next time.")


def _names() -> list[str]:
    from flatpc.datasets.debd import registry
    from flatpc.datasets.manifolds import MANIFOLDS

    return [*MANIFOLDS, "gaussian_mixture", *registry().sets]


def _some(rows: Any, fraction: float, seed: int) -> Any:
    import numpy as np

    from flatpc.datasets import fraction_of

    chosen = fraction_of(np.arange(len(rows)), fraction, how="random", seed=seed)
    return rows[chosen.tolist()]


def read_columns(rows: Any, name: str) -> RawTable:
    """The columns of a table, with its name in front of what is wrong with it."""
    from flatpc.tables.reading import read_raw

    try:
        return read_raw(rows)
    except FlatpcError as error:
        raise about(name, error) from None


def without(table: RawTable, drop: Sequence[str], name: str) -> RawTable:
    """The table without some of its columns."""
    from flatpc.tables.reading import RawTable

    for column in drop:
        if column not in table.names:
            raise OptionError(f"--drop {column}; {name} has no such column, but {some_of(table.names)}.")
    left = tuple(column for column in table.columns if column.name not in drop)
    if not left:
        raise OptionError(f"--drop leaves no column of {name}; keep at least one.")
    return RawTable(left, table.container, table.native)


def weights_of(table: RawTable, column: str, name: str) -> Array:
    """The column that says how often each row counts."""
    import numpy as np

    from flatpc._row_weights import read_weights
    from flatpc.tables.agreement import sort_in_words

    if column not in table.names:
        raise OptionError(f"--weights {column}; {name} has no such column, but {some_of(table.names)}.")
    raw = next(each for each in table.columns if each.name == column)
    if sort_in_words(raw.dtype) != "numbers":
        raise DataError(f"--weights {column}: the column holds {sort_in_words(raw.dtype)} in {name}; give numbers of 0 or more.")
    given = raw.numbers()
    bad = ~(np.isfinite(given) & (given >= 0))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise DataError(f"--weights {column}: {name} has {given[row]:g} in row {row}; give numbers of 0 or more.")
    found = read_weights(given, len(table), f"--weights {column}")
    assert found is not None
    return found


def aligned(table: RawTable, columns: Columns, name: str, ignore_extra: bool = False) -> RawTable:
    """The table with the model's columns in the model's order; by position where the table has no names of its own."""
    from flatpc.tables.reading import RawTable

    wanted = columns.names
    if _is_nameless(table.names) or (_is_nameless(wanted) and len(table.names) == len(wanted)):
        if len(table.names) != len(wanted):
            raise DataError(
                f"{name} has {len(table.names)} columns and no names for them; the model has {len(wanted)}: {some_of(wanted)}."
            )
        renamed = (replace(column, name=name) for column, name in zip(table.columns, wanted, strict=True))
        return RawTable(tuple(renamed), table.container, table.native)
    names = set(table.names)
    for column in wanted:
        if column not in names:
            raise DataError(
                f"{name} has no column {column!r}, which the model needs; add it, empty where unknown. "
                f"It has {some_of(table.names)}."
            )
    known = set(wanted)
    extra = [column for column in table.names if column not in known]
    if extra and not ignore_extra:
        raise DataError(f"{name} has the column {extra[0]!r}, which the model doesn't know; remove it, or pass --ignore-extra.")
    by_name = {column.name: column for column in table.columns}
    return RawTable(tuple(by_name[column] for column in wanted), table.container, table.native)


def _is_nameless(names: Sequence[str]) -> bool:
    return list(names) == [f"x{j}" for j in range(len(names))]
