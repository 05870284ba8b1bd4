"""MNIST: a few images from a folder and a local server, the real ones where they are."""

import gzip
import hashlib
import os
from functools import partial

import numpy as np
import pytest

from flatpc.datasets import datasets, load, load_mnist, local_files, mnist
from flatpc.datasets.download import DownloadError
from flatpc.errors import DataError
from tests.datasets.test_debd import served


def digest(content):
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def small(monkeypatch):
    """Nine training and four test images for MNIST, three of which are for validation; the addresses of their originals."""
    rng = np.random.default_rng(0)
    halves = {
        split: (rng.integers(0, 256, (n, 784), dtype=np.uint8), rng.integers(0, 10, n, dtype=np.uint8))
        for split, n in {"train": 9, "test": 4}.items()
    }
    originals, files = {}, {}
    for split, (rows, labels) in halves.items():
        names = [f"{split}-images.gz", f"{split}-labels.gz"]
        contents = [gzip.compress(bytes(16) + rows.tobytes()), gzip.compress(bytes(8) + labels.tobytes())]
        originals[split] = tuple(part for name, content in zip(names, contents, strict=True) for part in (name, digest(content)))
        files |= {f"/{name}": content for name, content in zip(names, contents, strict=True)}
    monkeypatch.setattr(mnist, "ORIGINALS", originals)
    monkeypatch.setattr(mnist, "SHA256", {split: digest(mnist.in_order(*half).tobytes()) for split, half in halves.items()})
    monkeypatch.setattr(mnist, "N_VALID", 3)
    return halves, files


def stored(halves, *, n_valid=0):
    (rows, labels), (test, test_labels) = halves["train"], halves["test"]
    cut = len(rows) - n_valid
    out = {"train": rows[:cut], "y_train": labels[:cut], "test": test, "y_test": test_labels}
    return out if not n_valid else {**out, "valid": rows[cut:], "y_valid": labels[cut:]}


def test_images_come_from_a_folder_in_the_same_order_whatever_the_files(small, tmp_path):
    halves, _ = small
    with pytest.raises(DataError, match=r"no .*mnist/mnist\.npz.*FLATPC_DATA"):
        load_mnist(tmp_path)
    (tmp_path / "mnist").mkdir()
    file = tmp_path / "mnist" / "mnist.npz"
    np.savez(file, **stored(halves))
    found = load_mnist(tmp_path)
    assert (found.train.shape, found.valid.shape, found.test.shape) == ((6, 784), (3, 784), (4, 784))
    for rows, labels, split in (
        (np.concatenate([found.train, found.valid]), np.concatenate([found.train_labels, found.valid_labels]), "train"),
        (found.test, found.test_labels, "test"),
    ):
        pairs = {(label, row.astype(np.uint8).tobytes()) for label, row in zip(labels.tolist(), rows, strict=True)}
        assert pairs == {(label, row.tobytes()) for row, label in zip(halves[split][0], halves[split][1].tolist(), strict=True)}
    # Cut elsewhere and shuffled, the same images give the same rows.
    order = np.random.default_rng(1).permutation(9)
    shuffled = {**halves, "train": tuple(part[order] for part in halves["train"])}
    np.savez(file, **stored(shuffled, n_valid=4))
    again = load_mnist(tmp_path)
    assert (again.train == found.train).all()
    assert (again.valid_labels == found.valid_labels).all()
    half = found.fraction(0.5)
    assert (half.train == found.train[:3]).all()
    assert (half.train_labels == found.train_labels[:3]).all()


def test_other_images_are_refused(small, tmp_path):
    halves, _ = small
    (tmp_path / "mnist").mkdir()
    file = tmp_path / "mnist" / "mnist.npz"
    right = stored(halves)
    for wrong in (
        {"test": right["test"] + np.uint8(1)},
        {"test": right["test"][:, :100]},
        {"test": right["test"].astype(float)},
        {"y_test": right["y_test"][:2]},
    ):
        np.savez(file, **{**right, **wrong})
        with pytest.raises(DataError, match="test images are not those of MNIST"):
            load_mnist(tmp_path)
    np.savez(file, train=right["train"])
    with pytest.raises(DataError, match="no y_train"):
        load_mnist(tmp_path)


def test_originals_are_downloaded_once_and_checked(small, tmp_path, monkeypatch):
    _, files = small
    monkeypatch.setenv("FLATPC_CACHE", str(tmp_path))
    for name in ("FLATPC_DATA", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(mnist, "fetch", partial(mnist.fetch, retries=0))
    with pytest.raises(DataError, match="allow the download"):
        load_mnist(download=False)
    assert not local_files.is_local(mnist.FILE)
    with served({**files, "/test-labels.gz": gzip.compress(b"other")}) as (url, _):
        monkeypatch.setattr(mnist, "URL", url)
        with pytest.raises(DownloadError, match=r"not the test labels: wrong SHA-256.*FLATPC_DATA"):
            load_mnist()
    assert not local_files.is_local(mnist.FILE)
    with served(files) as (url, _):
        monkeypatch.setattr(mnist, "URL", url)
        found = load_mnist()
    assert found.train.shape == (6, 784)
    assert (load_mnist(download=False).train == found.train).all()


def test_the_catalogue_has_it():
    line = next(data for data in datasets() if data.name == "mnist")
    assert (line.kind, line.n_variables, line.rows) == ("image", 784, {"train": 55_000, "valid": 5_000, "test": 10_000})


@pytest.mark.skipif(
    not os.path.isfile(os.path.join(os.environ.get("FLATPC_DATA", ""), "mnist", "mnist.npz")), reason="needs MNIST in FLATPC_DATA"
)
def test_the_real_images():
    found = load("mnist", fraction=0.01)
    assert found.train.shape == (550, 784)
    assert found.test.shape == (10_000, 784)
    # As published: the number of test images of each digit.
    assert np.bincount(found.test_labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
