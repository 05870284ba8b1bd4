"""`flatpc reproduce mnist`, on images of a few shades."""

import json

import numpy as np
import pytest

import flatpc as fp
from flatpc.datasets import Digits
from flatpc.paper import figures
from flatpc.paper.figures import mnist, store

SMALL = {"rows": 60, "judged": 20, "batch": 20, "pseudocount": 1.0, "bins": 4, "noise": 0.3, "seed": 0}


@pytest.fixture(scope="module")
def images():
    """Two hundred images: a digit is a bar whose height and shade tell it."""
    rng = np.random.default_rng(0)
    labels = np.arange(200) % 10
    X = np.zeros((200, 28, 28))
    for row, digit in zip(X, labels, strict=True):
        row[2 * digit : 2 * digit + 4, 5:20] = 100 + 10 * digit + rng.integers(0, 4)
    X = X.reshape(200, 784)
    parts = (slice(0, 100), slice(100, 150), slice(150, 200))
    return Digits("mnist", *(X[part] for part in parts), *(labels[part] for part in parts))


@pytest.fixture
def loaded(images, monkeypatch):
    monkeypatch.setattr(fp.datasets, "load_mnist", lambda: images)


def test_sizes_grow_from_one_another_and_are_learnt_once(loaded, tmp_path):
    small = {"stages": [[2, 2, 0.6, 0.1]], **SMALL}
    large = {"stages": [[2, 2, 0.6, 0.1], [4, 1, 0.3, 0.1]], **SMALL}
    one, two = (store.compact(mnist.compute(piece, tmp_path)) for piece in (small, large))
    assert [row[0] for row in two["curve"]] == [2, 2, 4]
    assert two["curve"][:2] == one["curve"]  # taken from the files of the first
    assert np.all(np.diff([row[1] for row in two["curve"]]) > 0)
    assert two["parameters"] > one["parameters"]
    assert all(50 < row[5] < 50_000 for row in two["curve"])  # MiB
    assert 0 < two["test"] < one["test"] < 8
    assert mnist.unpack(two["samples"]).shape == (mnist.N_SAMPLES, 784)
    known, completed = (mnist.unpack(two[name]) for name in ("known", "completed"))
    assert (known[:, :392] == completed[:, :392]).all()
    assert not (known[:, 392:] == completed[:, 392:]).all()
    found = {"2 latents": one, "4 latents": two}
    page = mnist.as_markdown(found)
    assert f"**{two['test']:.3f}**" in page
    assert "SparsePC (published)" in page
    assert f"| {max(row[5] for row in two['curve']) / 1024:.1f} |" in page
    earlier = {"2 latents": {**one, "curve": [row[:5] for row in one["curve"]]}}  # recorded before peaks were
    assert f"**{one['test']:.3f}**" in mnist.as_markdown(earlier)
    for figure in mnist.plot(found).values():
        figure.canvas.draw()
    assert [len(panel.figures) for panel in mnist.draw(found)] == [1, 2]


def test_a_killed_run_ends_with_the_same_circuit(loaded, images, tmp_path, monkeypatch):
    piece = {"stages": [[3, 3, 0.6, 0.1]], **SMALL}
    whole = mnist.learn(images.train, images.valid, piece, tmp_path / "whole")[0]
    real = mnist.replace_file

    def killed(path, content):
        real(path, content)
        if path.suffix == ".epochs" and len(json.loads(content)) == 2:
            raise MemoryError("killed")

    monkeypatch.setattr(mnist, "replace_file", killed)
    with pytest.raises(MemoryError):
        mnist.learn(images.train, images.valid, piece, tmp_path / "part")
    monkeypatch.setattr(mnist, "replace_file", real)
    again, curve = mnist.learn(images.train, images.valid, piece, tmp_path / "part")
    assert [row[0] for row in curve][-1] == 3
    assert (again.log_prob(images.test) == whole.log_prob(images.test)).all()


def test_digits_are_told_apart(loaded, tmp_path):
    piece = {"classes": 10, "stages": [[2, 2, 0.6, 0.1]], **SMALL, "rows": 100, "batch": 10, "drawn": 4}
    found = store.compact(mnist.compute(piece, tmp_path))
    assert found["test"] > 0.9
    assert np.sum(found["confusion"]) == found["test rows"] == 20
    assert "seen labels" in mnist.as_markdown({"digits": found})
    drawn = mnist.unpack(found["samples"])
    assert drawn.shape == (40, 784)
    for figure in mnist.plot({"digits": found}).values():
        first = figure.axes[0].images[0].get_array()
        assert (first[:28, :28].ravel() == drawn[0]).all()


def test_what_sharing_saves_is_measured(loaded, tmp_path):
    found = store.compact(mnist.compute({"latents": 3, "images": 60, "rows": 60, "bins": 4}, tmp_path))
    assert found["images"] == 60
    assert 0 < found["values"] < 0.2  # most pixels are background, and bars are of few kinds
    assert found["times as fast"] > 1
    assert f"{found['times as fast']:.1f} times as fast" in mnist.as_markdown({"sharing": found})
    assert mnist._sizes({"sharing": found}) == []


def test_the_command_keeps_its_work_beside_the_results(loaded, tmp_path, monkeypatch):
    monkeypatch.setattr(mnist, "pieces", lambda quick=False: {"2 latents": {"stages": [[2, 1, 0.6, 0.1]], **SMALL}})
    assert set(figures.compute("mnist", tmp_path, progress=False)) == {"2 latents"}
    assert list((tmp_path / "work").glob("*.circuit"))
    assert (tmp_path / "figures" / "mnist.json").is_file()
