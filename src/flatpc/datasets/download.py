"""Downloading a benchmark or a table: from its public repository, checked, packed, and kept in a cache."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flatpc.errors import DataError

if TYPE_CHECKING:
    from flatpc._typing import Array
    from flatpc.datasets.debd import Benchmark, Bits
    from flatpc.datasets.mixed import MixedTable

TIMEOUT = 30.0
"""Seconds without an answer after which a download is given up."""
HDF5_HEADER = 2144
"""Bytes before the rows in the originals of mixed tables: files with one array, written without compression by one program."""


class DownloadError(DataError):
    """A benchmark could not be downloaded, or what came was not the benchmark."""


def cache_folder() -> Path:
    """Where downloads are kept: `FLATPC_CACHE`, or else the operating system's place for caches."""
    import pooch

    return Path(os.environ.get("FLATPC_CACHE") or pooch.os_cache("flatpc"))


def fetch(benchmark: Benchmark, url: str, path: Path, *, retries: int = 2) -> None:
    """Download the three splits of a benchmark and write them, packed, to `path`.

    Each text is checked against its SHA-256 before it is read. The file appears in one step: a download that is cut off leaves
    nothing behind that could be taken for the data.
    """
    with kept(path) as folder:
        splits = {split: np.packbits(_download(benchmark, split, url, folder, retries), axis=1) for split in benchmark.sha256}
        write(folder, path, num_vars=np.int64(benchmark.n_variables), **splits)


def fetch_mixed(table: MixedTable, url: str, path: Path, *, retries: int = 2) -> None:
    """Download the three splits of a mixed table and write them to `path`, checked and in one step as in `fetch`."""
    remedy = f"Try again later, or set FLATPC_DATA to a folder with mixed/{table.name}.npz."
    with kept(path) as folder:
        splits: dict[str, Array] = {}
        for split, digest in table.original_sha256.items():
            address = f"{url}/{table.name}PP/{split}.hdf5"
            file = checked_file(address, digest, f"{split} split of {table.name}", folder, remedy, retries)
            # The hash has vouched for the form: numbers, row by row, up to the end of the file.
            rows = np.frombuffer(file, np.dtype(table.dtype).newbyteorder("<"), offset=HDF5_HEADER)
            splits[split] = rows.reshape(table.rows[split], -1).astype(np.float64)
        write(folder, path, **splits)


@contextmanager
def kept(path: Path) -> Iterator[str]:
    """A folder for what comes, beside the destination: a rename is one step only within one file system."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".download-") as folder:
        yield folder


def write(folder: str, path: Path, **arrays: Any) -> None:
    packed = Path(folder) / path.name
    with packed.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)
    packed.replace(path)


def _download(benchmark: Benchmark, split: str, url: str, folder: str, retries: int) -> Bits:
    address = f"{url}/{benchmark.name}/{benchmark.name}.{split}.data"
    remedy = f"Try again later, or set FLATPC_DATA to a folder with {benchmark.folder}/{benchmark.name}.npz."
    what = f"{split} split of {benchmark.name}"
    # The hash has vouched for the form: a digit and a comma or an end of line for each value.
    text = np.frombuffer(checked_file(address, benchmark.text_sha256[split], what, folder, remedy, retries), dtype=np.uint8)
    return text.reshape(benchmark.rows[split], 2 * benchmark.n_variables)[:, ::2] - ord("0")


def checked_file(address: str, sha256: str, what: str, folder: str, remedy: str, retries: int) -> bytes:
    """What is at an address, if it has this hash."""
    import pooch
    import requests

    name = address.rpartition("/")[2]
    manager = pooch.create(
        path=folder, base_url="", registry={name: f"sha256:{sha256}"}, urls={name: address}, retry_if_failed=retries
    )
    try:
        file = Path(manager.fetch(name, downloader=pooch.HTTPDownloader(timeout=TIMEOUT)))
    except (requests.RequestException, OSError) as error:
        raise DownloadError(f"Can't download {address} ({_reason(error)}). {remedy}") from None
    except ValueError:
        # This is how pooch says that the hash is another one.
        raise DownloadError(f"What came from {address} is not the {what}: wrong SHA-256. {remedy}") from None
    found = file.read_bytes()
    file.unlink()
    return found


def _reason(error: Exception) -> str:
    import requests

    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"the server says {error.response.status_code} {error.response.reason}"
    if isinstance(error, requests.Timeout):
        return f"no answer within {TIMEOUT:.0f} seconds"
    if isinstance(error, requests.ConnectionError):
        return "no connection"
    return type(error).__name__
