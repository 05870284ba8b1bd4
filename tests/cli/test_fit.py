"""`flatpc fit`: every structure and way of learning, what is kept in the file, and how it ends when it is cut short."""

from __future__ import annotations

import math
import signal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import flatpc as fp
from flatpc.cli.candidates import Learner
from flatpc.data.model_files import load_model
from flatpc.learning import auto_training
from tests.cli.conftest import QUICK
from tests.cli.running import Answer, bits, names, people, run


def test_it_shows_columns_candidates_and_numbers(desk: Path, tmp_path: Path) -> None:
    answer = run("fit", desk / "people.csv", "-o", tmp_path / "model", "--latents", 3, "--epochs", 3)
    for text in (
        "smoker",
        "categorical",
        "count",
        "recognised by",
        "factorized",
        "hclt, 3 latents, mu 0.5",
        "chosen",
        "train NLL",
        "sharpness",
    ):
        assert text in answer.out
    assert "Wrote" in answer.err
    assert names(tmp_path) == {"model"}


def test_the_file_speaks_of_columns_and_loads_as_a_circuit(desk: Path) -> None:
    model = load_model(desk / "people.model")
    assert model.columns.kinds == {
        "age": "continuous", "smoker": "binary", "colour": "categorical", "visits": "count", "height": "continuous",
    }  # fmt: skip
    assert model.columns.columns[1].categories == ("no", "yes")
    assert model.about["structure"] == "hclt"
    assert model.about["mu"] == 0.1
    assert fp.load(desk / "people.model").nodes == model.circuit.nodes


def test_one_gaussian_has_the_likelihood_of_the_closed_form(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(5000.0, 250.0, 60)
    pl.DataFrame({"x": x}).write_csv(tmp_path / "x.csv")
    found = run(
        "fit", tmp_path / "x.csv", "-o", tmp_path / "model", "--structure", "factorized", "--valid", 0, "--json"
    ).json  # fmt: skip
    assert found["nll"]["train"] == pytest.approx(0.5 * math.log(2 * math.pi * math.e * x.var()), abs=1e-9)
    score = run("score", tmp_path / "model", tmp_path / "x.csv", "--json").json
    assert score["mean_log_likelihood"] == pytest.approx(-found["nll"]["train"], abs=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        ("--structure", "hclt", *QUICK),
        ("--structure", "rat-spn", *QUICK),
        ("--structure", "rat-spn", "--latents", 2, "--epochs", 3, "--method", "adam", "--mu", "adaptive"),
        ("--structure", "hclt", "--latents", 2, "--epochs", 3, "--method", "sgd", "--mu", 0, "--step-size", 0.01),
        ("--structure", "hclt", "--latents", 2, "--epochs", 3, "--mu", "mean-flow", "--batch-size", 20, "--pseudocount", 1),
        ("--structure", "factorized"),
        ("--mu", 0.1, "--latents", 2, "--epochs", 3, "--valid", 0),
    ],
)
def test_structures_and_methods(desk: Path, tmp_path: Path, options: tuple[object, ...]) -> None:
    found = run("fit", desk / "people.csv", "-o", tmp_path / "model", "--json", *options).json
    judged = "--valid" not in options
    assert (found["train_rows"], found["valid_rows"]) == ((96, 24) if judged else (120, 0))
    assert (found["nll"]["valid"] is None) == (not judged)
    assert 5 < found["nll"]["train"] < 15
    assert run("score", tmp_path / "model", desk / "people.csv", "--json").json["impossible_rows"] == 0


def test_validation_rows_choose(desk: Path, tmp_path: Path) -> None:
    found = run("fit", desk / "splits.npz", "-o", tmp_path / "model", "--latents", 3, "--epochs", 4, "--json").json
    tried = {(c["structure"], c["latents"], c["mu"]): c["valid_nll"] for c in found["candidates"]}
    grid = {("hclt", 3, mu) for mu in (0.0, 0.01, 0.05, 0.1, 0.5, 1.0)}
    assert set(tried) == {("factorized", 0, 0.0), ("chow-liu", 0, 0.0)} | grid
    assert tried[found["structure"], found["latents"], found["mu"]] == min(tried.values())
    assert found["nll"]["valid"] == pytest.approx(min(tried.values()), abs=1e-9)
    circuit = fp.load(tmp_path / "model")
    for split, rows in {"train": bits(80), "valid": bits(30, seed=1), "test": bits(40, seed=2)}.items():
        assert found["nll"][split] == pytest.approx(-circuit.log_prob(rows).mean(), abs=1e-12)
    assert found["sharpness"] == pytest.approx(fp.curvature.trace(circuit, bits(80)).mean(), rel=1e-12)


def test_sizes_are_tried_unless_given(desk: Path, tmp_path: Path) -> None:
    found = run("fit", desk / "people.csv", "-o", tmp_path / "model", "--epochs", 2, "--json").json
    tried = [(c["latents"], c["mu"]) for c in found["candidates"] if c["structure"] == "hclt"]
    assert [pair for pair in tried if pair[1] == 0.1] == [(4, 0.1), (16, 0.1), (24, 0.1)]  # a quarter of 96 rows at most
    nll = {(c["latents"], c["mu"]): c["valid_nll"] for c in found["candidates"] if c["mu"] == 0.1}
    best = min(nll, key=lambda pair: nll[pair])[0]
    assert {latents for latents, mu in tried if mu != 0.1} == {best}


def test_a_table_of_categories_is_chosen_for(desk: Path, tmp_path: Path) -> None:
    """With nothing decided, `fp.learning.choose` looks for the best model or an average of several."""
    found = run("fit", desk / "splits.npz", "-o", tmp_path / "model", "--budget", 3, "--json").json
    assert sum(c["weight"] for c in found["candidates"]) == pytest.approx(1.0, abs=1e-9)
    assert found["nll"]["valid"] == pytest.approx(-fp.load(tmp_path / "model").log_prob(bits(30, seed=1)).mean(), abs=1e-9)
    assert found["nll"]["valid"] <= min(c["valid_nll"] for c in found["candidates"]) + 1e-6
    assert {"chow-liu", "factorized"} <= {c["structure"] for c in found["candidates"]}
    assert "validation rows" in found["notes"][0]


def test_a_file_of_validation_rows(desk: Path, tmp_path: Path) -> None:
    shuffled = people(60, seed=5).select(["height", "colour", "age", "visits", "smoker"])
    shuffled.write_csv(tmp_path / "judges.csv")
    found = run("fit", desk / "people.csv", "-o", tmp_path / "model", *QUICK, "--valid", tmp_path / "judges.csv", "--json").json
    assert (found["train_rows"], found["valid_rows"]) == (120, 60)
    score = run("score", tmp_path / "model", tmp_path / "judges.csv", "--json").json
    assert found["nll"]["valid"] == pytest.approx(-score["mean_log_likelihood"], abs=1e-12)


def test_parquet_gives_what_csv_gives(desk: Path, tmp_path: Path) -> None:
    for ending in ("csv", "parquet"):
        run("fit", desk / f"people.{ending}", "-o", tmp_path / ending, *QUICK)
    a, b = (fp.load(tmp_path / ending) for ending in ("csv", "parquet"))
    np.testing.assert_array_equal(a.parameters[len(a.nodes) - 1], b.parameters[len(b.nodes) - 1])


def test_a_data_set_by_name_and_a_fraction_of_it(tmp_path: Path) -> None:
    found = run(
        "fit", "two_moons", "-o", tmp_path / "model", "--fraction", 0.05, "--latents", 3, "--epochs", 3, "--mu", 0.1, "--json"
    ).json  # fmt: skip
    assert found["train_rows"] == 50
    assert found["structure"] == "rat-spn"
    assert [column["kind"] for column in found["columns"]] == ["continuous", "continuous"]
    assert math.isfinite(found["nll"]["test"])


@pytest.mark.parametrize("file", ["people.csv", "bits.npz"])
def test_a_fraction_of_a_file(desk: Path, tmp_path: Path, file: str) -> None:
    found = run("fit", desk / file, "-o", tmp_path / "model", *QUICK, "--fraction", 0.5, "--json").json
    n = 60 if file == "people.csv" else 40
    assert (found["train_rows"], found["valid_rows"]) == (n - n // 5, n // 5)


def test_kinds_are_overruled(desk: Path, tmp_path: Path) -> None:
    run("fit", desk / "people.csv", "-o", tmp_path / "model", *QUICK, "--kind", "visits=continuous", "--kind", "age=count")
    kinds = load_model(tmp_path / "model").columns.kinds
    assert (kinds["visits"], kinds["age"]) == ("continuous", "count")


def test_missing_values_are_integrated_out(desk: Path, tmp_path: Path) -> None:
    found = run("fit", desk / "holes.csv", "-o", tmp_path / "model", *QUICK, "--missing", "marginalize", "--json").json
    assert math.isfinite(found["nll"]["valid"])


def test_the_same_seed_gives_the_same_file(desk: Path, tmp_path: Path) -> None:
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        run("fit", desk / "bits.npz", "-o", tmp_path / name, "--structure", "hclt", *QUICK, "--seed", seed)
    a, b, c = ((tmp_path / name).read_bytes() for name in "abc")
    assert a == b
    assert a != c


def test_force_replaces(desk: Path, tmp_path: Path) -> None:
    (tmp_path / "model").write_text("old")
    assert Answer("fit", desk / "bits.npz", "-o", tmp_path / "model", *QUICK).code == 1
    assert (tmp_path / "model").read_text() == "old"
    run("fit", desk / "bits.npz", "-o", tmp_path / "model", *QUICK, "--force")
    assert fp.load(tmp_path / "model").n_variables == 5


# ---- cut short ------------------------------------------------------------------------------------------------------


def interrupt_at(monkeypatch: pytest.MonkeyPatch, mu: float, epoch: int) -> None:
    """Ctrl-C after so many epochs of a candidate."""

    def watch(_: Any, plan: Any, row: dict[str, Any]) -> None:
        if (plan.mu, row["epoch"]) == (mu, epoch):
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("flatpc.cli.progress.Bar.watch", watch)


def test_ctrl_c_keeps_what_was_learnt(desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt_at(monkeypatch, 0.05, 3)
    answer = Answer("fit", desk / "splits.npz", "-o", tmp_path / "model", "--latents", 3, "--epochs", 6)
    assert answer.code == 130
    assert answer.error is None or isinstance(answer.error, SystemExit)
    assert "Interrupted: the model is the best so far; 2 of 8 candidates were not tried." in answer.err
    assert "Traceback" not in answer.err
    best = -fp.load(tmp_path / "model").log_prob(bits(30, seed=1)).mean()
    assert f"{best:.4f}" in answer.out


def test_ctrl_c_between_two_models(desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Learner.learn

    def learn(self: Learner, plan: Any) -> Any:
        if plan.latents == 16:
            raise KeyboardInterrupt
        return real(self, plan)

    monkeypatch.setattr(Learner, "learn", learn)
    answer = Answer("fit", desk / "people.csv", "-o", tmp_path / "model", "--structure", "hclt", "--epochs", 2)
    assert answer.code == 130
    assert "7 of 8 candidates were not tried" in answer.err
    assert load_model(tmp_path / "model").about["latents"] == 4


def test_ctrl_c_while_choosing(desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = auto_training.run

    def interrupted(circuit: Any, task: Any, planned: Any, **options: Any) -> Any:
        if planned.epochs > 1:
            options["callbacks"] = [lambda row, _: signal.raise_signal(signal.SIGINT)]
        return real(circuit, task, planned, **options)

    monkeypatch.setattr(auto_training, "run", interrupted)
    answer = Answer("fit", desk / "splits.npz", "-o", tmp_path / "model")
    assert answer.code == 130
    assert "Interrupted: the model is the best so far." in answer.err
    assert fp.load(tmp_path / "model").n_variables == 5


def test_ctrl_c_in_the_first_epochs(desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt_at(monkeypatch, 0.1, 1)
    answer = Answer("fit", desk / "people.csv", "-o", tmp_path / "model", "--structure", "hclt", "--mu", 0.1, "--epochs", 10**6)
    assert answer.code == 130
    assert load_model(tmp_path / "model").about["epochs"] < 5


def test_a_budget_ends_it(desk: Path, tmp_path: Path) -> None:
    options = ("--structure", "hclt", "--latents", 3, "--epochs", 10**6, "--patience", 0, "--budget", 0.5, "--mu", 0.1)
    found = run("fit", desk / "bits.npz", "-o", tmp_path / "model", *options, "--json").json
    assert found["stopped"] == "time budget"
    assert not found["interrupted"]
    assert found["seconds"] < 60
