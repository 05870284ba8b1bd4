"""`flatpc explain` and `flatpc score --uncertainty`, against the posterior itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import flatpc as fp
from flatpc.estimator.model_files import load_model
from tests.cli.running import Answer, run


@pytest.fixture(scope="module")
def coins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three columns of which two say the same, and one row that says otherwise."""
    folder = tmp_path_factory.mktemp("coins")
    rng = np.random.default_rng(0)
    a = rng.integers(0, 2, 200)
    b = np.where(rng.random(200) < 0.05, 1 - a, a)
    c = rng.integers(0, 2, 200)
    pl.DataFrame({"a": a, "b": b, "c": c}).write_csv(folder / "train.csv")
    pl.DataFrame({"a": [0, 1, 1], "b": [0, 0, 1], "c": [1, 1, 1]}).write_csv(folder / "new.csv")
    run("fit", folder / "train.csv", "-o", folder / "coins.model", "--structure", "chow-liu")
    return folder


def test_score_with_uncertainty_has_the_posteriors_errors(coins: Path) -> None:
    model = load_model(coins / "coins.model")
    train = pl.read_csv(coins / "train.csv").to_numpy().astype(float)
    new = pl.read_csv(coins / "new.csv").to_numpy().astype(float)
    post = fp.curvature.laplace(model.circuit, train)
    table = ("score", coins / "coins.model", coins / "new.csv", "--uncertainty", coins / "train.csv", "--json")
    per_row = run(*table, "--per-row").json
    np.testing.assert_allclose([each["standard_error"] for each in per_row], post.log_prob(new).error, rtol=1e-9)
    assert run(*table).json["error_of_the_fit"] == pytest.approx(float(post.log_prob(new).mean().error), rel=1e-9)
    assert "standard error of the fit" in run(*table[:-1]).out


def test_explain_lists_the_rows_of_largest_influence(coins: Path) -> None:
    model = load_model(coins / "coins.model")
    train = pl.read_csv(coins / "train.csv").to_numpy().astype(float)
    told = run("explain", coins / "coins.model", coins / "train.csv", "--row", 17, "--json").json
    post = fp.curvature.laplace(model.circuit, train)
    found = fp.curvature.influence(model.circuit, train, on=train[17:18], uncertainty=post)
    assert [e["influence"] for e in told["helpful"]] == pytest.approx(np.sort(found)[::-1][:5], rel=1e-9)
    assert [e["influence"] for e in told["harmful"]] == pytest.approx(np.sort(found)[:5], rel=1e-9)
    assert told["helpful"][0]["values"].keys() == {"a", "b", "c"}
    # Rows like it help it.
    assert [told["helpful"][0]["values"][name] for name in "ab"] == train[17, :2].tolist()
    assert "Most helpful" in run("explain", coins / "coins.model", coins / "train.csv", "--row", 17).out
    other = run("explain", coins / "coins.model", coins / "new.csv", "--row", 1, "--train", coins / "train.csv", "--json").json
    assert other["log_likelihood"] == pytest.approx(model.circuit.log_prob([[1, 0, 1]])[0])


def test_suspicious_rows_are_those_that_say_otherwise(coins: Path) -> None:
    train = pl.read_csv(coins / "train.csv").to_numpy()
    listed = run("explain", coins / "coins.model", coins / "train.csv", "--suspicious", "--top", 3, "--json").json
    assert all(train[e["row"], 0] != train[e["row"], 1] for e in listed)
    circuit, rows = load_model(coins / "coins.model").circuit, train.astype(float)
    left_out, own = fp.curvature.leave_one_out(circuit, rows), fp.curvature.influence(circuit, rows)
    assert [e["left_out_log_likelihood"] for e in listed] == pytest.approx(np.sort(left_out)[:3], rel=1e-9)
    assert [e["self_influence"] for e in listed] == pytest.approx([own[e["row"]] for e in listed], rel=1e-9)
    assert "log-likelihood without the row" in run("explain", coins / "coins.model", coins / "train.csv", "--suspicious").out


def test_mistakes_are_named(coins: Path) -> None:
    for arguments, said in ((("--row", 900), "200 rows"), ((), "--suspicious"), (("--row", 1, "--suspicious"), "one of them")):
        answer = Answer("explain", coins / "coins.model", coins / "train.csv", *arguments)
        assert answer.code == 1
        assert said in answer.err


def test_training_rows_may_have_holes(coins: Path, tmp_path: Path) -> None:
    holes = pl.read_csv(coins / "train.csv").with_columns(b=pl.when(pl.int_range(pl.len()) >= 20).then("b"))
    holes.write_csv(tmp_path / "holes.csv")
    asked = ("explain", coins / "coins.model", tmp_path / "holes.csv", "--row", 0, "--missing", "marginalize", "--top", 200)
    told = run(*asked, "--json").json
    values = {each["row"]: each["values"] for each in (*told["helpful"], *told["harmful"])}
    assert {row for row, found in values.items() if found["b"] is None} == set(values) & set(range(20)) != set()
    assert "b=None" not in run(*asked).out
