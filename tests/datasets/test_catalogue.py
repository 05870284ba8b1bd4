"""The catalogue tells the truth about what it lists."""

import io

import pytest
from rich.console import Console

from flatpc.datasets import DEBD, MANIFOLDS, datasets, load
from flatpc.datasets.catalogue import show
from flatpc.errors import OptionError


def test_every_name_is_listed_once():
    names = [data.name for data in datasets()]
    assert len(names) == len(set(names)) == 8 + 1 + 25 + 13 + 1 + 20
    assert {*MANIFOLDS, "gaussian_mixture", *DEBD} <= set(names)


def test_drawn_sets_are_as_listed():
    for data in datasets():
        if data.source == "drawn by seed":
            splits = load(data.name, seed=1)
            assert data.local
            assert splits.train.shape == (data.rows["train"], data.n_variables)
            assert len(splits.test) == data.rows["test"]


def test_benchmarks_are_local_where_the_folder_has_them(tmp_path, monkeypatch):
    monkeypatch.setenv("FLATPC_DATA", str(tmp_path))
    (tmp_path / "debd").mkdir()
    (tmp_path / "debd" / "dna.npz").write_bytes(b"")
    assert [data.name for data in datasets() if data.local and data.kind == "binary"] == ["dna"]


def test_the_table_and_unknown_names():
    out = io.StringIO()
    Console(file=out, width=150).print(show())
    assert "291,326" in out.getvalue()
    with pytest.raises(OptionError, match=r"name='cifar'.*two_moons.*dna"):
        load("cifar")
