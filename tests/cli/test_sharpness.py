"""`flatpc curvature` and `flatpc landscape`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import flatpc as fp
from tests.cli.running import Answer, bits, run


@pytest.mark.parametrize("space", ["weights", "logits", "simplex"])
def test_curvature_is_the_librarys(desk: Path, space: str) -> None:
    circuit, rows = fp.load(desk / "bits.model"), bits(80)
    found = run("curvature", desk / "bits.model", desk / "splits.npz", "-k", 3, "--space", space, "--json").json
    assert (found["split"], found["rows"]) == ("train", 80)
    assert found["trace"] == pytest.approx(fp.curvature.trace(circuit, rows, space=space).mean(), rel=1e-9)
    assert sum(found["by_layer"].values()) == pytest.approx(found["trace"], rel=1e-9)
    H = fp.curvature.hessian(circuit, rows, space=space, reduction="mean")
    np.testing.assert_allclose(found["eigenvalues"], np.linalg.eigvalsh(H)[::-1][:3], rtol=1e-6)
    assert found["converged"]


def test_curvature_for_people(desk: Path) -> None:
    answer = run("curvature", desk / "people.model", desk / "people.csv", "--rows", 50)
    for text in ("Curvature on 50 rows (all), in weights", "Where it comes from", "Largest eigenvalues"):
        assert text in answer.out
    assert "Largest" not in run("curvature", desk / "people.model", desk / "people.csv", "-k", 0).out


def test_no_weights_no_curvature(desk: Path, tmp_path: Path) -> None:
    run("fit", desk / "bits.npz", "-o", tmp_path / "model", "--structure", "factorized")
    answer = Answer("curvature", tmp_path / "model", desk / "bits.npz")
    assert answer.code == 1
    assert "no weights" in answer.err


@pytest.mark.parametrize(("ending", "start"), [("html", b"<!"), ("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_landscapes_in_every_form(desk: Path, tmp_path: Path, ending: str, start: bytes) -> None:
    path = tmp_path / f"landscape.{ending}"
    answer = run("landscape", desk / "bits.model", desk / "splits.npz", "-o", path, "--steps", 3)
    assert path.read_bytes().lstrip().startswith(start)
    assert "validation loss at the model" in answer.out
    assert str(path) in answer.err


def test_the_middle_of_a_landscape_is_the_model(desk: Path, tmp_path: Path) -> None:
    path = tmp_path / "line.png"
    options = ("--steps", 5, "--dimensions", 1, "--directions", "eigenvectors", "--json")
    found = run("landscape", desk / "bits.model", desk / "splits.npz", "-o", path, *options).json
    circuit = fp.load(desk / "bits.model")
    assert found["loss"] == pytest.approx(-circuit.log_prob(bits(80)).mean(), abs=1e-9)
    assert found["valid_loss"] == pytest.approx(-circuit.log_prob(bits(30, seed=1)).mean(), abs=1e-9)
    assert len(found["train"]) == len(found["valid"]) == len(found["steps"]) == 5


def test_a_landscape_beside_other_rows(desk: Path, tmp_path: Path) -> None:
    options = ("--valid", desk / "others.csv", "--steps", 3, "--kind", "surface")
    answer = run("landscape", desk / "people.model", desk / "people.csv", "-o", tmp_path / "surface.png", *options)
    assert "validation loss" in answer.out
