"""`flatpc fit`: every structure and way of learning, what is kept in the file, and how it ends when it is cut short."""

from __future__ import annotations

import math
import re
import signal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import flatpc as fp
from flatpc.estimator.model_files import load_model
from flatpc.search import training
from flatpc.tables.files import read_table
from tests.cli.conftest import QUICK
from tests.cli.running import Answer, bits, names, people, run


def test_it_shows_columns_candidates_and_numbers(desk: Path, tmp_path: Path) -> None:
    answer = run("fit", desk / "people.csv", "-o", tmp_path / "model", "--latents", 3)
    for text in (
        "smoker",
        "categorical",
        "count",
        "recognised by",
        "independent columns",
        "hidden Chow-Liu tree, 3 latents",
        "Sharpness(mu=",
        "train NLL",
        "sharpness",
    ):
        assert text in answer.out
    assert re.search(r"\((chosen|weight 0\.\d\d)\)", answer.out)
    assert "120 rows in turn" in answer.err
    assert "Wrote" in answer.err
    assert names(tmp_path) == {"model"}


def test_what_was_chosen_is_shown_however_many_were_tried(desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flatpc.cli.training.SHOWN", 0)
    answer = run("fit", desk / "people.csv", "-o", tmp_path / "model", "--structure", "factorized")
    assert "(chosen)" in answer.out


def test_the_file_speaks_of_columns_and_loads_as_a_circuit(desk: Path) -> None:
    model = load_model(desk / "people.model")
    assert model.columns.kinds == {
        "age": "continuous", "smoker": "binary", "colour": "categorical", "visits": "count", "height": "continuous",
    }  # fmt: skip
    assert model.columns.columns[1].categories == ("no", "yes")
    assert model.about["structure"] == "hclt"
    assert model.about["mu"] == 0.1
    assert fp.load(desk / "people.model").nodes == model.circuit.nodes


@pytest.mark.parametrize("file", ["people.csv", "holes.csv", "bits.npz"])
def test_a_shell_and_python_learn_the_same_model(desk: Path, tmp_path: Path, file: str) -> None:
    """With nothing decided: `flatpc fit table.csv` is `CircuitDensity().fit(table)`."""
    missing = "marginalize" if file == "holes.csv" else "raise"
    found = run("fit", desk / file, "-o", tmp_path / "model", "--missing", missing, "--json").json
    table = read_table(desk / file).train
    density = fp.CircuitDensity(missing=missing, verbose=False).fit(table)
    again = fp.CircuitDensity.load(tmp_path / "model")
    np.testing.assert_array_equal(again.score_samples(table), density.score_samples(table))
    assert found["summary"] in density.summary_
    assert [c["model"] for c in found["candidates"]] == [c.name for c in density.candidates_]
    assert (found["sharpness"], found["free_parameters"]) == (density.curvature_.sharpness, density.n_free_parameters_)
    assert again.get_params()["missing"] == missing


def test_one_gaussian_has_the_likelihood_of_the_closed_form(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(5000.0, 250.0, 60)
    pl.DataFrame({"x": x}).write_csv(tmp_path / "x.csv")
    found = run(
        "fit", tmp_path / "x.csv", "-o", tmp_path / "model", "--structure", "factorized", "--json"
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
        ("--structure", "mixture", *QUICK),
        ("--structure", "rat-spn", "--depth", 2, *QUICK),
        ("--structure", "hclt", "--mu", 0.1, "--latents", 2, "--epochs", 3, "--valid", 0),
    ],
)
def test_structures_and_methods(desk: Path, tmp_path: Path, options: tuple[object, ...]) -> None:
    found = run("fit", desk / "people.csv", "-o", tmp_path / "model", "--json", *options).json
    judged = "--valid" not in options
    told = "--epochs" in options
    assert (found["train_rows"], found["valid_rows"]) == (120, 0 if not judged else 24 if told else 120)
    assert (found["nll"]["valid"] is None) == (not judged)
    assert 5 < found["nll"]["train"] < 15
    assert run("score", tmp_path / "model", desk / "people.csv", "--json").json["impossible_rows"] == 0


def test_validation_rows_choose(desk: Path, tmp_path: Path) -> None:
    found = run("fit", desk / "splits.npz", "-o", tmp_path / "model", "--json").json
    tried = found["candidates"]
    assert {"factorized", "chow-liu", "tree-mixture", "hclt"} <= {c["structure"] for c in tried}
    assert sum(c["weight"] for c in tried) == pytest.approx(1.0, abs=1e-9)
    assert found["nll"]["valid"] <= min(c["valid_nll"] for c in tried) + 1e-6
    assert "30 validation rows" in found["summary"]
    circuit = fp.load(tmp_path / "model")
    for split, rows in {"train": bits(80), "valid": bits(30, seed=1), "test": bits(40, seed=2)}.items():
        assert found["nll"][split] == pytest.approx(-circuit.log_prob(rows).mean(), abs=1e-12)
    assert found["sharpness"] == pytest.approx(fp.curvature.trace(circuit, bits(80)).mean(), rel=1e-12)


def test_rows_learnt_from_judge_by_curvature(desk: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "bits.npz", train=bits(80))
    options = ("-o", tmp_path / "model", "--effort", "quick", "--json")
    found = run("fit", tmp_path / "bits.npz", "--judge", "evidence", *options).json
    assert "80 rows with weights integrated out" in found["summary"]
    assert sum(c["weight"] > 0 for c in found["candidates"]) == 1
    wrong = Answer("fit", tmp_path / "bits.npz", "--judge", "loo", "--structure", "hclt", "--epochs", 3, *options, "--force")
    assert wrong.code != 0
    assert "--judge is for choosing" in wrong.err


def test_sizes_are_tried_unless_given(desk: Path, tmp_path: Path) -> None:
    found = run("fit", desk / "people.csv", "-o", tmp_path / "model", "--structure", "hclt", "--json").json
    assert {4, 16} <= {c["latents"] for c in found["candidates"]}
    found = run(
        "fit", desk / "people.csv", "-o", tmp_path / "model", "--structure", "hclt", "--latents", 5, "--json", "--force"
    ).json
    assert {c["latents"] for c in found["candidates"]} == {5}


def test_columns_are_dropped(desk: Path, tmp_path: Path) -> None:
    people(60, seed=5).drop("age").write_csv(tmp_path / "judges.csv")
    options = ("--drop", "age", "--drop", "colour", "--valid", tmp_path / "judges.csv", "--structure", "hclt", *QUICK, "--json")
    people(60, seed=5).drop("age", "colour").write_csv(tmp_path / "judges.csv")
    found = run("fit", desk / "people.csv", "-o", tmp_path / "model", *options).json
    assert [column["name"] for column in found["columns"]] == ["smoker", "visits", "height"]
    assert run("score", tmp_path / "model", desk / "people.csv", "--ignore-extra", "--json").json["rows"] == 120


@pytest.mark.parametrize(
    "how", [("--structure", "factorized"), ("--structure", "mixture", "--latents", 2, "--epochs", 2, "--valid", 0)]
)
def test_a_column_of_weights_counts_rows(desk: Path, tmp_path: Path, how: tuple[object, ...]) -> None:
    table = people(60, seed=5)
    weights = np.random.default_rng(0).exponential(size=60)
    table.with_columns(pl.Series("w", weights)).write_csv(tmp_path / "weighted.csv")
    found = run("fit", tmp_path / "weighted.csv", "-o", tmp_path / "model", "--weights", "w", *how, "--json").json
    assert "w" not in [column["name"] for column in found["columns"]]
    density = fp.CircuitDensity.load(tmp_path / "model")
    log_prob = density.score_samples(table)
    assert found["nll"]["train"] == pytest.approx(-np.average(log_prob, weights=weights), rel=1e-9)
    if how[1] == "factorized":
        smoker = np.average((table["smoker"] == "yes").to_numpy(), weights=weights)
        assert density.probability({"smoker": "yes"}) == pytest.approx(smoker, abs=0.05)


def test_columns_that_are_no_variables_may_be_dropped_or_ignored(tmp_path: Path) -> None:
    table = people().with_columns(when=pl.date_range(pl.date(2020, 1, 1), pl.date(2020, 4, 29), eager=True))
    table.write_parquet(tmp_path / "dates.parquet")
    run("fit", tmp_path / "dates.parquet", "-o", tmp_path / "model", "--drop", "when", "--structure", "factorized")
    score = run("score", tmp_path / "model", tmp_path / "dates.parquet", "--ignore-extra", "--json").json
    assert score["rows"] == 120
    table.with_columns(height=None).write_parquet(tmp_path / "holes.parquet")
    run("impute", tmp_path / "model", tmp_path / "holes.parquet", "--ignore-extra", "-o", tmp_path / "filled.parquet")
    filled = pl.read_parquet(tmp_path / "filled.parquet")
    assert filled["when"].equals(table["when"])
    assert filled["height"].null_count() == 0


def test_an_index_among_the_columns_is_noticed(tmp_path: Path) -> None:
    people().with_row_index("").write_csv(tmp_path / "index.csv")
    said = run("fit", tmp_path / "index.csv", "-o", tmp_path / "model", "--structure", "factorized").err
    assert "Note: Column '' counts the rows from 0 to 119, as an index does; leave it out with --drop unless" in said
    again = ("--drop", "", "--structure", "factorized", "--force")
    assert "Note" not in run("fit", tmp_path / "index.csv", "-o", tmp_path / "model", *again).err


@pytest.mark.parametrize("n", [1, 2, 9])
def test_few_rows_are_fitted_without_judges(tmp_path: Path, n: int) -> None:
    people(n).write_csv(tmp_path / "few.csv")
    answer = run("fit", tmp_path / "few.csv", "-o", tmp_path / "model")
    assert f"too few rows ({n}) to compare it with others." in answer.err
    assert "valid NLL" not in answer.out


def test_validation_rows_of_the_data_can_be_left_alone(desk: Path, tmp_path: Path) -> None:
    for options, expected in ((("--valid", 0), 0), (("--valid", 0.25), 20), ((), 30)):
        found = run(
            "fit", desk / "splits.npz", "-o", tmp_path / "model", "--structure", "hclt", *QUICK, *options, "--json", "--force"
        ).json  # fmt: skip
        assert (found["train_rows"], found["valid_rows"]) == (80, expected)


def test_a_file_of_validation_rows(desk: Path, tmp_path: Path) -> None:
    shuffled = people(60, seed=5).select(["height", "colour", "age", "visits", "smoker"])
    shuffled.write_csv(tmp_path / "judges.csv")
    found = run(
        "fit",
        desk / "people.csv",
        "-o",
        tmp_path / "model",
        "--structure",
        "hclt",
        *QUICK,
        "--valid",
        tmp_path / "judges.csv",
        "--json",
    ).json
    assert (found["train_rows"], found["valid_rows"]) == (120, 60)
    score = run("score", tmp_path / "model", tmp_path / "judges.csv", "--json").json
    assert found["nll"]["valid"] == pytest.approx(-score["mean_log_likelihood"], abs=1e-12)


def test_parquet_gives_what_csv_gives(desk: Path, tmp_path: Path) -> None:
    for ending in ("csv", "parquet"):
        run("fit", desk / f"people.{ending}", "-o", tmp_path / ending, "--structure", "hclt", *QUICK)
    a, b = (fp.load(tmp_path / ending) for ending in ("csv", "parquet"))
    np.testing.assert_array_equal(a.parameters[len(a.nodes) - 1], b.parameters[len(b.nodes) - 1])


def test_a_data_set_by_name_and_a_fraction_of_it(tmp_path: Path) -> None:
    found = run(
        "fit", "two_moons", "-o", tmp_path / "model", "--fraction", 0.05, "--latents", 3, "--mu", 0.1, "--json"
    ).json  # fmt: skip
    assert found["train_rows"] == 50
    assert "rat-spn" in {c["structure"] for c in found["candidates"]}
    assert [column["kind"] for column in found["columns"]] == ["continuous", "continuous"]
    assert math.isfinite(found["nll"]["test"])


@pytest.mark.parametrize("file", ["people.csv", "bits.npz"])
def test_a_fraction_of_a_file(desk: Path, tmp_path: Path, file: str) -> None:
    found = run("fit", desk / file, "-o", tmp_path / "model", "--structure", "hclt", *QUICK, "--fraction", 0.5, "--json").json
    n = 60 if file == "people.csv" else 40
    assert (found["train_rows"], found["valid_rows"]) == (n, n // 5)


def test_kinds_are_overruled(desk: Path, tmp_path: Path) -> None:
    run(
        "fit",
        desk / "people.csv",
        "-o",
        tmp_path / "model",
        "--structure",
        "hclt",
        *QUICK,
        "--kind",
        "visits=continuous",
        "--kind",
        "age=count",
    )
    kinds = load_model(tmp_path / "model").columns.kinds
    assert (kinds["visits"], kinds["age"]) == ("continuous", "count")


def test_missing_values_are_integrated_out(desk: Path, tmp_path: Path) -> None:
    found = run(
        "fit", desk / "holes.csv", "-o", tmp_path / "model", "--structure", "hclt", *QUICK, "--missing", "marginalize", "--json"
    ).json
    assert math.isfinite(found["nll"]["valid"])


def test_the_same_seed_gives_the_same_file(desk: Path, tmp_path: Path) -> None:
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        run("fit", desk / "bits.npz", "-o", tmp_path / name, "--structure", "hclt", *QUICK, "--seed", seed)
    a, b, c = ((tmp_path / name).read_bytes() for name in "abc")
    assert a == b
    assert a != c


def test_force_replaces(desk: Path, tmp_path: Path) -> None:
    (tmp_path / "model").write_text("old")
    assert Answer("fit", desk / "bits.npz", "-o", tmp_path / "model", "--structure", "hclt", *QUICK).code == 1
    assert (tmp_path / "model").read_text() == "old"
    run("fit", desk / "bits.npz", "-o", tmp_path / "model", "--structure", "hclt", *QUICK, "--force")
    assert fp.load(tmp_path / "model").n_variables == 5


# ---- cut short ------------------------------------------------------------------------------------------------------


def interrupt_at(monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    """Ctrl-C after an epoch that is announced by these words."""

    def watch(_: Any, name: str, share: float) -> None:
        assert 0 <= share <= 1
        if words in name:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("flatpc.cli.progress.Bar.watch", watch)


@pytest.mark.parametrize("told", [(), ("--structure", "hclt", "--latents", 3, "--epochs", 60, "--patience", 0)])
def test_ctrl_c_keeps_what_was_learnt(
    desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: tuple[object, ...]
) -> None:
    interrupt_at(monkeypatch, "epoch 3")
    answer = Answer("fit", desk / "splits.npz", "-o", tmp_path / "model", *told)
    assert answer.code == 130
    assert answer.error is None or isinstance(answer.error, SystemExit)
    assert "Interrupted: the model is the best so far." in answer.err
    assert "Traceback" not in answer.err
    best = -fp.load(tmp_path / "model").log_prob(bits(30, seed=1)).mean()
    assert f"{best:.4f}" in answer.out


def test_ctrl_c_between_two_models(desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = training.Task.start

    def start(task: Any, plan: Any, *rest: Any) -> Any:
        if plan.trained:
            raise KeyboardInterrupt
        return real(task, plan, *rest)

    monkeypatch.setattr(training.Task, "start", start)
    answer = Answer("fit", desk / "people.csv", "-o", tmp_path / "model")
    assert answer.code == 130
    assert load_model(tmp_path / "model").about["latents"] == 0


def test_ctrl_c_in_the_first_epochs(desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt_at(monkeypatch, "epoch 1")
    answer = Answer("fit", desk / "people.csv", "-o", tmp_path / "model", "--structure", "hclt", "--mu", 0.1, "--epochs", 10**6)
    assert answer.code == 130
    assert load_model(tmp_path / "model").about["epochs"] < 5


def test_a_budget_ends_it(desk: Path, tmp_path: Path) -> None:
    options = ("--structure", "hclt", "--latents", 3, "--epochs", 10**6, "--patience", 0, "--time-budget", 0.5, "--mu", 0.1)
    found = run("fit", desk / "splits.npz", "-o", tmp_path / "model", *options, "--json").json
    assert found["stopped"] == "time budget"
    assert not found["interrupted"]
    assert found["seconds"] < 60
    said = run("fit", desk / "splits.npz", "-o", tmp_path / "model", *options, "--force").err
    assert "Out of time (--time-budget 0.5): the model is the best so far." in said
