"""The twenty binary data sets, if they are there: `FLATPC_DATA` names the folder."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

NAMES = (
    *("nltcs", "msnbc", "kdd", "plants", "baudio", "jester", "bnetflix", "accidents", "tretail", "pumsb_star"),
    *("dna", "kosarek", "msweb", "book", "tmovie", "cwebkb", "cr52", "c20ng", "bbc", "ad"),
)


def folder() -> Path | None:
    """The folder with the packed data sets, or None."""
    given = os.environ.get("FLATPC_DATA")
    path = Path(given) / "debd" if given else None
    return path if path is not None and path.is_dir() else None


def train_rows(name: str) -> NDArray[np.float64]:
    """The training split of one data set."""
    path = folder()
    assert path is not None, "set FLATPC_DATA"
    with np.load(path / f"{name}.npz") as packed:
        return np.unpackbits(packed["train"], axis=1, count=int(packed["num_vars"])).astype(np.float64)
