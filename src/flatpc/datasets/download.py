"""Downloading a benchmark: text from its public repository, checked, packed eight variables to a byte, and kept in a cache."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from flatpc.errors import DataError

if TYPE_CHECKING:
    from flatpc.datasets.debd import Benchmark, Bits

TIMEOUT = 30.0
"""Seconds without an answer after which a download is given up."""


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
    path.parent.mkdir(parents=True, exist_ok=True)
    # Beside the destination: a rename is one step only within one file system.
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".download-") as folder:
        splits = {split: np.packbits(_download(benchmark, split, url, folder, retries), axis=1) for split in benchmark.sha256}
        packed = Path(folder) / path.name
        with packed.open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, num_vars=np.int64(benchmark.n_variables), **splits)
        packed.replace(path)


def _download(benchmark: Benchmark, split: str, url: str, folder: str, retries: int) -> Bits:
    import pooch
    import requests

    name = f"{benchmark.name}.{split}.data"
    address = f"{url}/{benchmark.name}/{name}"
    remedy = f"Try again later, or set FLATPC_DATA to a folder with {benchmark.folder}/{benchmark.name}.npz."
    manager = pooch.create(
        path=folder, base_url="", registry={name: f"sha256:{benchmark.text_sha256[split]}"}, urls={name: address},
        retry_if_failed=retries,
    )  # fmt: skip
    try:
        file = Path(manager.fetch(name, downloader=pooch.HTTPDownloader(timeout=TIMEOUT)))
    except (requests.RequestException, OSError) as error:
        raise DownloadError(f"Can't download {address} ({_reason(error)}). {remedy}") from None
    except ValueError:
        # This is how pooch says that the hash is another one.
        raise DownloadError(
            f"What came from {address} is not the {split} split of {benchmark.name}: wrong SHA-256. {remedy}"
        ) from None
    # The hash has vouched for the form: a digit and a comma or an end of line for each value.
    text = np.frombuffer(file.read_bytes(), dtype=np.uint8)
    file.unlink()
    return text.reshape(benchmark.rows[split], 2 * benchmark.n_variables)[:, ::2] - ord("0")


def _reason(error: Exception) -> str:
    import requests

    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"the server says {error.response.status_code} {error.response.reason}"
    if isinstance(error, requests.Timeout):
        return f"no answer within {TIMEOUT:.0f} seconds"
    if isinstance(error, requests.ConnectionError):
        return "no connection"
    return type(error).__name__
