"""The demo's numbers and words."""

import dataclasses
import io

import numpy as np
import pytest
from rich.console import Console

import flatpc as fp
from flatpc.pages.demo import Model, bar_pictures, bars, compare, findings, run


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    out = io.StringIO()
    path = run(folder, quick=True, console=Console(file=out, width=80))
    return folder, path, out.getvalue()


def test_it_prints_tables_that_fit_a_terminal(told):
    _, path, said = told
    assert said.count("stopped early") == 4
    for word in ("Spiral", "Bars", "train", "valid", "test", "overfit", "sharpness", "time"):
        assert word in said
    assert "…" not in said
    assert path.name in said


def test_it_leaves_models_that_load(told):
    folder, _, _ = told
    circuits = [fp.load(path) for path in sorted(folder.glob("*.safetensors"))]
    assert [circuit.n_variables for circuit in circuits] == [64, 64, 2, 2]


def test_the_numbers_are_those_of_the_models():
    """Recomputed from the circuits, not taken from the runs."""
    comparison = compare(bars(quick=True))
    data = comparison.example.data
    for model in comparison.models:
        test = -model.circuit.log_prob(data.test).mean()
        assert model.test_nll == pytest.approx(test, rel=1e-12)
        assert model.sharpness == pytest.approx(
            np.trace(fp.curvature.hessian(model.circuit, data.train, reduction="mean")), rel=1e-9
        )
    last, best = comparison.models[:2]
    history = comparison.runs["plain"].history
    assert last.valid_nll == pytest.approx(history["valid_nll"][-1], rel=1e-9)
    assert best.valid_nll == pytest.approx(history["valid_nll"].min(), rel=1e-9)
    assert best.seconds <= last.seconds


def test_it_says_so_when_the_penalty_loses():
    model = Model("plain", "plain", bars(quick=True).circuit, 10, 1.0, 1.0, 5.0, 5.0, 400.0, 50.0)
    stopped, good, bad = (dataclasses.replace(model, test_nll=nll) for nll in (3.0, 2.0, 6.0))
    assert "its test NLL is better, 2.00 instead of 5.00" in findings([model, stopped, good])
    assert "is better than that by 1.00" in findings([model, stopped, good])
    assert "its test NLL is worse, 6.00 instead of 5.00" in findings([model, stopped, bad])
    assert "is worse than that by 3.00" in findings([model, stopped, bad])


def test_pictures_hold_a_bar():
    pictures = bar_pictures(500, seed=0).reshape(-1, 8, 8)
    filled = np.maximum(pictures.sum(1).max(1), pictures.sum(2).max(1))
    assert (filled >= 5).all()
    assert pictures.mean() == pytest.approx(0.25 * 0.95 + 0.75 * 0.05, abs=0.01)
