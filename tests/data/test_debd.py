"""The loader of the binary benchmarks, on a small folder made here and, if there is one, on the real one."""

import hashlib
import json
import os

import numpy as np
import pytest

from flatpc.data import load_debd
from flatpc.errors import DataError, OptionError


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    splits = {name: rng.integers(0, 2, (n, 11), dtype=np.uint8) for name, n in (("train", 7), ("valid", 3), ("test", 2))}
    home = tmp_path / "debd"
    home.mkdir()
    np.savez(home / "dna.npz", num_vars=11, **{name: np.packbits(rows, axis=1) for name, rows in splits.items()})
    digests = {name: hashlib.sha256(rows.tobytes()).hexdigest() for name, rows in splits.items()}
    (home / "manifest.json").write_text(json.dumps({"datasets": {"dna": {"sha256": digests}}}))
    return tmp_path, splits


def test_rows_come_back(folder, monkeypatch):
    home, splits = folder
    loaded = load_debd("dna", home)
    for name, rows in splits.items():
        np.testing.assert_array_equal(getattr(loaded, name), rows)
    monkeypatch.setenv("FLATPC_DATA", str(home))
    np.testing.assert_array_equal(load_debd("dna").fraction(0.5).train, splits["train"][:3])


def test_a_changed_file_is_noticed(folder):
    home, splits = folder
    other = {name: np.packbits(1 - rows if name == "valid" else rows, axis=1) for name, rows in splits.items()}
    np.savez(home / "debd" / "dna.npz", num_vars=11, **other)
    with pytest.raises(DataError, match="valid rows"):
        load_debd("dna", home)


def test_what_is_not_there(folder, monkeypatch):
    home, _ = folder
    monkeypatch.delenv("FLATPC_DATA", raising=False)
    with pytest.raises(OptionError, match="Unknown benchmark"):
        load_debd("mnist", home)
    with pytest.raises(DataError, match="FLATPC_DATA"):
        load_debd("dna")
    with pytest.raises(DataError, match=r"nltcs\.npz"):
        load_debd("nltcs", home)
    (home / "debd" / "manifest.json").unlink()
    with pytest.raises(DataError, match="checksums"):
        load_debd("dna", home)


@pytest.mark.data
@pytest.mark.skipif(not os.environ.get("FLATPC_DATA"), reason="FLATPC_DATA is not set")
def test_the_real_dna():
    dna = load_debd("dna")
    assert (dna.train.shape, dna.valid.shape, dna.test.shape) == ((1600, 180), (400, 180), (1186, 180))
    assert dna.train.mean() == pytest.approx(0.253469, abs=1e-6)
