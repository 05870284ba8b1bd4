"""The binary benchmarks of density estimation by name, from a folder of the user's or from their public repository.

A benchmark is one file `<folder>/<name>.npz` (`flatpc.datasets.local_files`) with `train`, `valid` and `test`, rows packed eight
variables to a byte, and `num_vars`. Wherever it comes from, its rows are checked against the SHA-256 digests in `digests.json`.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flatpc._options import choice
from flatpc.datasets import local_files
from flatpc.datasets.splits import Splits
from flatpc.errors import DataError
from flatpc.tables.npz import read_npz

DEBD = (
    "nltcs", "msnbc", "kdd", "plants", "baudio", "jester", "bnetflix", "accidents", "tretail", "pumsb_star",
    "dna", "kosarek", "msweb", "book", "tmovie", "cwebkb", "cr52", "c20ng", "bbc", "ad",
)  # fmt: skip
"""The twenty sets that papers compare on."""
DEBD_EXTRA = ("mushrooms", "ocr_letters", "nips", "moviereview", "voting")
"""Five more, published beside them."""
SPLITS = ("train", "valid", "test")

Bits = NDArray[np.uint8]


@dataclass(frozen=True)
class Benchmark:
    """What is known of one set without having it."""

    name: str
    folder: str
    """`debd` or `debd_extra`: where its file lies, below the folder that holds the data."""
    n_variables: int
    rows: dict[str, int]
    """Of each split."""
    sha256: dict[str, str]
    """Of each split's rows, one byte for each value."""
    text_sha256: dict[str, str]
    """Of each split's public original, comma-separated text."""

    @property
    def file(self) -> Path:
        """Where its packed rows lie below the folder that holds the data."""
        return Path(self.folder) / f"{self.name}.npz"


@dataclass(frozen=True)
class Registry:
    """All benchmarks, and the address of their originals."""

    url: str
    """Of the folder `datasets/`; an original is `<url>/<name>/<name>.<split>.data`."""
    sets: dict[str, Benchmark]


@cache
def registry() -> Registry:
    """The benchmarks as `digests.json` lists them."""
    read = json.loads(resources.files("flatpc.datasets").joinpath("digests.json").read_text())
    url = f"https://raw.githubusercontent.com/{read['repository']}/{read['commit']}/datasets"
    return Registry(url, {name: Benchmark(name, **known) for name, known in read["sets"].items()})


def load_debd(name: str, folder: str | os.PathLike[str] | None = None, *, download: bool = True) -> Splits:
    """The splits of one binary benchmark, checked bit by bit.

    >>> import flatpc as fp
    >>> fp.datasets.load_debd("nltcs", "/no/such/folder")
    Traceback (most recent call last):
        ...
    flatpc.errors.DataError: There is no /no/such/folder/debd/nltcs.npz. ...

    Parameters
    ----------
    name
        One of `DEBD` or `DEBD_EXTRA`.
    folder
        The folder that holds `debd/<name>.npz`; by default the environment variable `FLATPC_DATA`. With neither, the set is
        downloaded once and kept in the user's cache (the environment variable `FLATPC_CACHE` moves it).
    download
        Whether a set that is not here may be downloaded.

    Returns
    -------
    Splits
        `train`, `valid` and `test`, of 0 and 1.

    Raises
    ------
    OptionError
        For an unknown name.
    DataError
        For a set that is not there, or whose rows are not those of the benchmark.
    """
    known = registry().sets
    benchmark = known[choice("name", name, known)]
    path = local_files.find(benchmark.file, folder, download, lambda path: _fetch(benchmark, path))
    splits = read_packed(path, benchmark)
    return Splits(name, *(splits[split].astype(np.float64) for split in SPLITS))


def _fetch(benchmark: Benchmark, path: Path) -> None:
    from flatpc.datasets.download import fetch

    fetch(benchmark, registry().url, path)


def read_packed(path: Path, benchmark: Benchmark) -> dict[str, Bits]:
    """The rows of every split, or an error if they are not the benchmark's."""
    try:
        file = read_npz(path)
        n_variables = int(file["num_vars"])
        splits = {split: np.unpackbits(file[split], axis=1, count=n_variables) for split in SPLITS}
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} can't be read ({error}); delete it and fetch it again.") from None
    local_files.check_rows(path, benchmark.name, splits, benchmark.sha256)
    return splits
