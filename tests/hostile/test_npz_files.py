"""npz archives that are none, or not of numbers, or not as large as they say; and results that aren't."""

import io
import json
import zipfile

import numpy as np
import pytest

import flatpc as fp
from flatpc.errors import DataError, FlatpcError
from flatpc.paper.cells import Cell, Result
from flatpc.paper.results import Results
from flatpc.tables.npz import read_npz
from tests.hostile.tally import Tally, how_many

X = np.random.default_rng(0).integers(0, 2, (30, 9)).astype(np.uint8)


def _npy(array, **options):
    data = io.BytesIO()
    np.lib.format.write_array(data, array, **options)
    return data.getvalue()


def _archive(path, **members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name.replace("__", "."), data)
    return path


def _huge():
    """A header that declares a hundred terabytes."""
    data = io.BytesIO()
    np.lib.format.write_array_header_1_0(data, {"descr": "<f8", "fortran_order": False, "shape": (10**7, 10**6)})
    return data.getvalue() + b"\0" * 80


def test_archives_that_are_none(tmp_path):
    file = tmp_path / "table.npz"
    np.save(tmp_path / "table.npy", X)
    packed = np.packbits(X, axis=1)
    for data in (b"", b"PK", (tmp_path / "table.npy").read_bytes(), b"\0" * 1000):
        file.write_bytes(data)
        with pytest.raises(DataError, match=r"table\.npz can't be read as an npz archive"):
            fp.tables.read_table(file)
    for members in (
        {"X__npy": _huge()},
        {"X__npy": _npy(np.array([None, 1], object), allow_pickle=True)},
        {"X__npy": _npy(np.array(["a", "b"]))},
        {"notes__txt": b"no array"},
        {"X__npy": _npy(X), "notes__txt": b"no array"},
        {"X__npy": b"\x93NUMPY\x09\x09junk"},
        {"X__npy": _npy(X)[:-7]},
        {"X__npy": b""},
        {"train__npy": _npy(packed), "num_vars__npy": _npy(np.array("nine"))},
        {"train__npy": _npy(packed), "num_vars__npy": _npy(np.array([9, 9]))},
        {"train__npy": _npy(packed), "num_vars__npy": _npy(np.array(-9))},
        {"train__npy": _npy(packed), "num_vars__npy": _npy(np.array(np.nan))},
        {"train__npy": _npy(packed), "num_vars__npy": _npy(np.array(10**6))},
    ):
        with pytest.raises(DataError, match=r"table\.npz"):
            fp.tables.read_table(_archive(file, **members))
    right = fp.tables.read_table(_archive(file, train__npy=_npy(packed), num_vars__npy=_npy(np.array(9))))
    np.testing.assert_array_equal(right.train, X)


def test_mutated_archives(tmp_path):
    file, rng = tmp_path / "table.npz", np.random.default_rng(31)
    good = []
    for save in (np.savez, np.savez_compressed):
        save(file, X=X, Y=X.astype(float).T)
        good.append(file.read_bytes())
    with Tally("mutated npz archives") as tally:
        for number in range(how_many(300, 2000)):
            data = bytearray(good[number % 2])
            for _ in range(1 + int(rng.integers(3))):
                at = int(rng.integers(len(data)))
                if rng.random() < 0.7:
                    data[at] = int(rng.integers(256))
                else:
                    del data[at : at + int(rng.integers(1, 50))]
            file.write_bytes(bytes(data))
            with tally.case(f"archive {number} of seed 31"):
                read_npz(file)


@pytest.mark.parametrize(
    "change",
    [
        {"seconds": "12"},
        {"seconds": None},
        {"metrics": {"nll": "low"}},
        {"metrics": None},
        {"metrics": []},
        {"cell": 3},
        {"more": 1},
    ],
)
def test_results_that_are_none(change, tmp_path):
    results = Results(tmp_path, "toy")
    result = Result(Cell("toy", "nltcs", 1.0, 0, "plain", "text"), "key", "1", 2.0, {"nll": 3.0})
    results.add(result)
    assert results.all() == {"key": result}
    path = results.runs / "key.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(FlatpcError, match=r"key\.json is not a result"):
        results.all()
