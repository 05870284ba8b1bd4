"""The twenty binary benchmarks of density estimation, from the folder named by `FLATPC_DATA`.

The folder holds `debd/<name>.npz` with `train`, `valid` and `test`, rows packed eight variables to a byte, and `num_vars`; and
`debd/manifest.json` with a SHA-256 of every unpacked split, against which what is read is checked.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc.data.splits import Splits
from flatpc.errors import DataError, OptionError

DEBD = (
    "nltcs", "msnbc", "kdd", "plants", "baudio", "jester", "bnetflix", "accidents", "tretail", "pumsb_star",
    "dna", "kosarek", "msweb", "book", "tmovie", "cwebkb", "cr52", "c20ng", "bbc", "ad",
)  # fmt: skip


def load_debd(name: str, folder: str | os.PathLike[str] | None = None) -> Splits:
    """The splits of one benchmark; `folder` defaults to the environment variable `FLATPC_DATA`."""
    if name not in DEBD:
        raise OptionError(f"Unknown benchmark {name!r}; choose one of {', '.join(DEBD)}.")
    found = folder or os.environ.get("FLATPC_DATA")
    if not found:
        raise DataError("Set FLATPC_DATA to the folder that holds the benchmarks, or pass folder=...")
    home = Path(found) / "debd"
    path = home / f"{name}.npz"
    if not path.is_file():
        raise DataError(f"There is no {path}; set FLATPC_DATA to the folder above debd/.")
    digests = _digests(home / "manifest.json", name)
    with np.load(path, allow_pickle=False) as file:
        n_variables = int(file["num_vars"])
        splits = {split: np.unpackbits(file[split], axis=1, count=n_variables) for split in ("train", "valid", "test")}
    for split, rows in splits.items():
        if hashlib.sha256(_bytes(rows)).hexdigest() != digests.get(split):
            raise DataError(f"{path}: the {split} rows are not those of the manifest; the file is damaged, fetch it again.")
    return Splits(name, *(splits[split].astype(np.float64) for split in ("train", "valid", "test")))


def _digests(manifest: Path, name: str) -> dict[str, str]:
    try:
        read: dict[str, Any] = json.loads(manifest.read_text())
        return dict(read["datasets"][name]["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        raise DataError(f"{manifest} has no checksums of {name}; fetch the data again.") from None


def _bytes(rows: NDArray[np.uint8]) -> bytes:
    return np.ascontiguousarray(rows).tobytes()
