"""MNIST: 70,000 handwritten digits, 28 × 28 pixels of 256 shades, with their labels.

The images are one file `<folder>/mnist/mnist.npz` (`flatpc.datasets.local_files`) with `train`, `valid`, `test` of bytes and
`y_train`, `y_valid`, `y_test`. A download makes it of the four public originals, each checked against its SHA-256.

Wherever they come from, training images are put in the order of the SHA-256 of their pixels and label: an order that looks like
chance and is the same everywhere. The last 5,000 of them are the validation rows.
"""

from __future__ import annotations

import gzip
import hashlib
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc.datasets import local_files
from flatpc.datasets.splits import Splits, fraction_of
from flatpc.errors import DataError
from flatpc.tables.npz import read_npz

SHAPE = (28, 28)
FILE = Path("mnist") / "mnist.npz"
"""Where the images lie below the folder that holds the data."""
N_VALID = 5_000
URL = "https://ossci-datasets.s3.amazonaws.com/mnist"
ORIGINALS = {
    "train": (
        "train-images-idx3-ubyte.gz", "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "train-labels-idx1-ubyte.gz", "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    ),
    "test": (
        "t10k-images-idx3-ubyte.gz", "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "t10k-labels-idx1-ubyte.gz", "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    ),
}  # fmt: skip
"""Images and labels of both halves of the originals, with their SHA-256."""
SHA256 = {
    "train": "c5e0e27fab6e10d1f63350b4b6fe24932391dfd64f96bb7f42cca90bc4e24229",
    "test": "8fc9fcc885831f49be118bdd7d0d75929b645429c966f316a7c8664f20458995",
}
"""Of each half in the order described above: for each image its label and its pixels."""

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Digits(Splits):
    """Images as rows of pixels from 0 to 255, the top line of the image first, and the digit that each shows.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> black = np.zeros((4, 784))
    >>> data = fp.datasets.Digits("blank", black, black, black, train_labels=np.arange(4))
    >>> data.fraction(0.5).train_labels
    array([0, 1])
    """

    train_labels: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """`[N]`, of the training rows."""
    valid_labels: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """`[N]`, of the validation rows."""
    test_labels: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """`[N]`, of the test rows."""

    def fraction(self, fraction: float, *, how: str = "first", seed: int = 0) -> Digits:
        """The same validation and test rows with fewer training rows, and their labels.

        Parameters
        ----------
        fraction, how, seed
            As for `fraction_of`.

        Returns
        -------
        Digits
            With some of the training rows.
        """
        train, labels = (fraction_of(each, fraction, how=how, seed=seed) for each in (self.train, self.train_labels))
        return replace(self, train=train, train_labels=labels)


def load_mnist(folder: str | os.PathLike[str] | None = None, *, download: bool = True) -> Digits:
    """Handwritten digits: 55,000 training, 5,000 validation and 10,000 test rows of 784 pixels.

    >>> import flatpc as fp
    >>> fp.datasets.load_mnist("/no/such/folder")
    Traceback (most recent call last):
        ...
    flatpc.errors.DataError: There is no /no/such/folder/mnist/mnist.npz. ...

    Parameters
    ----------
    folder
        The folder that holds `mnist/mnist.npz`; by default the environment variable `FLATPC_DATA`. With neither, the images are
        downloaded once (12 MB) and kept in the user's cache (the environment variable `FLATPC_CACHE` moves it).
    download
        Whether images that are not here may be downloaded.

    Returns
    -------
    Digits
        Shades from 0 (background) to 255, and labels.

    Raises
    ------
    DataError
        If the images are not there, or are not those of MNIST.
    """
    return read(local_files.find(FILE, folder, download, fetch))


def fetch(path: Path, *, retries: int = 2) -> None:
    """Download the originals and write them to `path`, in one step."""
    from flatpc.datasets.download import checked_file, kept, write

    remedy = "Try again later, or set FLATPC_DATA to a folder with mnist/mnist.npz."
    with kept(path) as folder:
        found: dict[str, Any] = {}
        for split, (images, images_sha256, labels, labels_sha256) in ORIGINALS.items():
            # The hash has vouched for the form: a head of 16 or 8 bytes, then one byte for each pixel or label.
            pixels = gzip.decompress(checked_file(f"{URL}/{images}", images_sha256, f"{split} images", folder, remedy, retries))
            digits = gzip.decompress(checked_file(f"{URL}/{labels}", labels_sha256, f"{split} labels", folder, remedy, retries))
            found[split] = np.frombuffer(pixels, np.uint8, offset=16).reshape(-1, SHAPE[0] * SHAPE[1])
            found[f"y_{split}"] = np.frombuffer(digits, np.uint8, offset=8)
        write(folder, path, **found)


def read(path: Path) -> Digits:
    """The images of a file, or an error if they are not those of MNIST."""
    stored = read_npz(path)
    if missing := [name for name in ("train", "y_train", "test", "y_test") if name not in stored]:
        raise DataError(f"{path} has no {missing[0]}; delete it and fetch it again.")
    halves = {}
    for split, parts in {"train": ("train", "valid"), "test": ("test",)}.items():
        there = [part for part in parts if part in stored]
        rows, labels = (np.concatenate([stored[prefix + part] for part in there]) for prefix in ("", "y_"))
        halves[split] = in_order(rows, labels)
        if hashlib.sha256(halves[split].tobytes()).hexdigest() != SHA256[split]:
            raise DataError(f"{path}: the {split} images are not those of MNIST; delete the file and fetch it again.")
    cut = len(halves["train"]) - N_VALID
    splits = {"train": halves["train"][:cut], "valid": halves["train"][cut:], "test": halves["test"]}
    pixels: dict[str, Any] = {name: part[:, 1:].astype(np.float64) for name, part in splits.items()}
    digits: dict[str, Any] = {f"{name}_labels": part[:, 0].astype(np.int64) for name, part in splits.items()}
    return Digits("mnist", **pixels, **digits)


def in_order(rows: Any, labels: Any) -> Bytes:
    """`[N, 1 + pixels]`: labels and pixels in the order of their SHA-256."""
    if rows.dtype != np.uint8 or rows.ndim != 2 or labels.shape != rows.shape[:1]:
        return np.empty((0, 1), np.uint8)
    both: Bytes = np.column_stack([labels.astype(np.uint8), rows])
    return both[np.argsort([hashlib.sha256(row.tobytes()).digest() for row in both], kind="stable")]
