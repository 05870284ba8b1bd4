"""Where the file of a data set lies: below a folder of the user's, or in the cache of downloads.

The folder is the one that is passed, or else the one named by the environment variable `FLATPC_DATA`. With neither, the file is
in the user's cache, where a download puts it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flatpc._options import file_path, flag
from flatpc.errors import DataError


def find(below: Path, folder: str | os.PathLike[str] | None, download: bool, fetch: Callable[[Path], None]) -> Path:
    """The file `below` the folder that holds the data sets; fetched to the cache if it may and must be."""
    flag("download", download)
    home = os.environ.get("FLATPC_DATA") if folder is None else file_path("folder", folder)
    if home:
        path = Path(home) / below
        if not path.is_file():
            raise DataError(
                f"There is no {path}. FLATPC_DATA (or folder=...) names the folder above {below.parent}/; "
                f"unset it to download {below.stem}."
            )
        return path
    path = _cached(below)
    if not path.is_file():
        if not download:
            raise DataError(
                f"{below.stem} is not on this machine; allow the download, or set FLATPC_DATA to a folder that has it."
            )
        fetch(path)
    return path


def is_local(below: Path) -> bool:
    """Whether a file would be found without a download."""
    home = os.environ.get("FLATPC_DATA")
    return (Path(home) / below if home else _cached(below)).is_file()


def check_rows(path: Path, name: str, splits: Mapping[str, Any], sha256: Mapping[str, str]) -> None:
    """An error unless the rows of every split have the digest that is known of them."""
    for split, rows in splits.items():
        if hashlib.sha256(rows.tobytes()).hexdigest() != sha256[split]:
            raise DataError(f"{path}: the {split} rows are not those of {name}; delete the file and fetch it again.")


def _cached(below: Path) -> Path:
    from flatpc.datasets.download import cache_folder

    return cache_folder() / below
