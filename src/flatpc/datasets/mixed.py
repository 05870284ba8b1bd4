"""Thirteen tables of discrete and continuous columns, with the splits that papers compare on.

A table is one file `<folder>/mixed/<name>.npz` (`flatpc.datasets.local_files`) with `train`, `valid` and `test`, NaN where a
value is missing. Wherever it comes from, its rows are checked against the SHA-256 digests in `mixed.json`.

Most of the continuous columns are rounded. A density may be as high as one likes at values that repeat; `resolutions` says how
fine a column is, which bounds what a density there can mean.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

import numpy as np

from flatpc._options import choice
from flatpc._typing import Array
from flatpc.datasets import local_files
from flatpc.datasets.debd import SPLITS
from flatpc.datasets.table_splits import Column, TableSplits
from flatpc.errors import DataError
from flatpc.tables.npz import read_npz

MIXED = (
    "abalone", "adult", "anneal-U", "australian", "autism", "breast", "chess", "crx", "dermatology", "diabetes", "german",
    "student", "wine",
)  # fmt: skip
"""The thirteen tables."""
FOLDER = "mixed"


@dataclass(frozen=True)
class MixedTable:
    """What is known of one table without having it."""

    name: str
    dtype: str
    """Of the numbers in the public originals."""
    n_values: list[int]
    """How many values a column has; 0 for a continuous one."""
    first_value: list[int]
    """The first of them; the others follow in steps of one."""
    rows: dict[str, int]
    """Of each split."""
    sha256: dict[str, str]
    """Of each split's rows in float64."""
    original_sha256: dict[str, str]
    """Of each split's public original."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """Discrete ones have whole numbers for values."""
        pairs = zip(self.n_values, self.first_value, strict=True)
        return tuple(Column(f"x{i}", tuple(range(first, first + n)) if n else None) for i, (n, first) in enumerate(pairs))

    @property
    def file(self) -> Path:
        """Where its rows lie below the folder that holds the data."""
        return Path(FOLDER) / f"{self.name}.npz"


@dataclass(frozen=True)
class MixedRegistry:
    """All tables, and the address of their originals."""

    url: str
    """Of the folder; an original is `<url>/<name>PP/<split>.hdf5`."""
    sets: dict[str, MixedTable]


@cache
def mixed_registry() -> MixedRegistry:
    """The tables as `mixed.json` lists them."""
    read = json.loads(resources.files("flatpc.datasets").joinpath("mixed.json").read_text())
    url = f"https://raw.githubusercontent.com/{read['repository']}/{read['commit']}/{read['folder']}"
    return MixedRegistry(url, {name: MixedTable(name, **known) for name, known in read["sets"].items()})


def load_mixed(name: str, folder: str | os.PathLike[str] | None = None, *, download: bool = True) -> TableSplits:
    """The splits of one table of discrete and continuous columns, checked bit by bit.

    >>> import flatpc as fp
    >>> fp.datasets.load_mixed("wine", "/no/such/folder")
    Traceback (most recent call last):
        ...
    flatpc.errors.DataError: There is no /no/such/folder/mixed/wine.npz. ...

    Parameters
    ----------
    name
        One of `MIXED`.
    folder
        The folder that holds `mixed/<name>.npz`; by default the environment variable `FLATPC_DATA`. With neither, the table is
        downloaded once and kept in the user's cache (the environment variable `FLATPC_CACHE` moves it).
    download
        Whether a table that is not here may be downloaded.

    Returns
    -------
    TableSplits
        `train`, `valid` and `test`: codes from 0 in discrete columns, NaN where a value is missing.

    Raises
    ------
    OptionError
        For an unknown name.
    DataError
        For a table that is not there, or whose rows are not those that papers compare on.
    """
    known = mixed_registry().sets
    table = known[choice("name", name, known)]
    path = local_files.find(table.file, folder, download, lambda path: _fetch(table, path))
    splits = read_mixed(path, table)
    first = np.array(table.first_value, float)
    train, valid, test = (splits[split] - first for split in SPLITS)
    return TableSplits(name, train, valid, test, columns=table.columns)


def _fetch(table: MixedTable, path: Path) -> None:
    from flatpc.datasets.download import fetch_mixed

    fetch_mixed(table, mixed_registry().url, path)


def read_mixed(path: Path, table: MixedTable) -> dict[str, Array]:
    """The rows of every split, or an error if they are not the table's."""
    file = read_npz(path)
    if missing := [split for split in SPLITS if split not in file]:
        raise DataError(f"{path} has no {missing[0]} rows; delete it and fetch it again.")
    splits = {split: np.ascontiguousarray(file[split], "<f8") for split in SPLITS}
    local_files.check_rows(path, table.name, splits, table.sha256)
    return splits
