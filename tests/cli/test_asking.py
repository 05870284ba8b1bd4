"""`flatpc score`, `sample` and `impute`, against the circuit itself and enumeration."""

from __future__ import annotations

import io
import itertools
import math
from datetime import datetime, time, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import flatpc as fp
from flatpc.estimator.drawing import draw
from flatpc.estimator.model_files import load_model
from tests.cli.running import Answer, bits, names, people, run, with_holes


def rows_of(frame: pl.DataFrame) -> np.ndarray:
    """The rows as the circuit takes them, put together by hand."""
    smoker = {"no": 0.0, "yes": 1.0, None: np.nan}
    colour = {"blue": 0.0, "green": 1.0, "red": 2.0, None: np.nan}
    columns = [
        frame["age"],
        [smoker[v] for v in frame["smoker"]],
        [colour[v] for v in frame["colour"]],
        frame["visits"],
        frame["height"],
    ]
    return np.column_stack([np.array([np.nan if v is None else v for v in column], dtype=float) for column in columns])


# ---- score ----------------------------------------------------------------------------------------------------------


def test_score_is_that_of_the_circuit(desk: Path) -> None:
    log_prob = fp.load(desk / "people.model").log_prob(rows_of(people(60, seed=5)))
    found = run("score", desk / "people.model", desk / "others.csv", "--json").json
    assert found["mean_log_likelihood"] == pytest.approx(log_prob.mean(), abs=1e-12)
    assert found["standard_error"] == pytest.approx(log_prob.std() / math.sqrt(60), abs=1e-12)
    assert found["bits_per_value"] == pytest.approx(-log_prob.mean() / (5 * math.log(2)), abs=1e-12)
    assert (found["rows"], found["split"], found["impossible_rows"]) == (60, "all", 0)
    assert f"{log_prob.mean():,.4f}" in run("score", desk / "people.model", desk / "others.csv").out


def test_score_of_every_row(desk: Path, tmp_path: Path) -> None:
    log_prob = fp.load(desk / "people.model").log_prob(rows_of(people(60, seed=5)))
    printed = pl.read_csv(io.StringIO(run("score", desk / "people.model", desk / "others.csv", "--per-row").out))
    np.testing.assert_allclose(printed["log_likelihood"].to_numpy(), log_prob, atol=1e-12)
    run("score", desk / "people.model", desk / "others.csv", "--per-row", "-o", tmp_path / "scores.parquet")
    np.testing.assert_allclose(pl.read_parquet(tmp_path / "scores.parquet")["log_likelihood"].to_numpy(), log_prob, atol=1e-12)
    as_json = run("score", desk / "people.model", desk / "others.csv", "--per-row", "--json").json
    assert [row["log_likelihood"] for row in as_json] == pytest.approx(log_prob.tolist(), abs=1e-12)


def test_score_with_missing_values_counts_the_known_ones(desk: Path) -> None:
    rows = rows_of(with_holes(people()))
    log_prob = fp.load(desk / "people.model").log_prob(rows, missing="marginalize")
    found = run("score", desk / "people.model", desk / "holes.csv", "--missing", "marginalize", "--json").json
    assert found["mean_log_likelihood"] == pytest.approx(log_prob.mean(), abs=1e-12)
    assert found["bits_per_value"] == pytest.approx(-log_prob.sum() / ((~np.isnan(rows)).sum() * math.log(2)), abs=1e-12)


def test_score_of_a_split(desk: Path) -> None:
    circuit = fp.load(desk / "bits.model")
    for options, seed, n in (((), 2, 40), (("--split", "train"), 0, 80), (("--split", "valid"), 1, 30)):
        found = run("score", desk / "bits.model", desk / "splits.npz", *options, "--json").json
        assert found["mean_log_likelihood"] == pytest.approx(circuit.log_prob(bits(n, seed=seed)).mean(), abs=1e-12)
        assert found["rows"] == n


def test_one_row_has_no_standard_error(desk: Path, tmp_path: Path) -> None:
    people(1).write_csv(tmp_path / "one.csv")
    assert run("score", desk / "people.model", tmp_path / "one.csv", "--json").json["standard_error"] is None
    assert run("score", desk / "people.model", tmp_path, "--json").json["standard_error"] is None  # in blocks
    assert "±" not in run("score", desk / "people.model", tmp_path / "one.csv").out
    assert "±" in run("score", desk / "people.model", desk / "others.csv").out


def test_columns_go_by_name(desk: Path, tmp_path: Path) -> None:
    people(60, seed=5).select(["colour", "height", "visits", "age", "smoker"]).write_csv(tmp_path / "shuffled.csv")
    a = run("score", desk / "people.model", desk / "others.csv", "--json").json["mean_log_likelihood"]
    b = run("score", desk / "people.model", tmp_path / "shuffled.csv", "--json").json["mean_log_likelihood"]
    assert a == b


def test_unseen_values_may_be_taken_for_missing(desk: Path, tmp_path: Path) -> None:
    frame = people(6, seed=5).with_columns(colour=pl.lit("mauve"))
    frame.write_csv(tmp_path / "mauve.csv")
    rows = rows_of(frame.with_columns(colour=pl.lit(None, dtype=pl.String)))
    expected = fp.load(desk / "people.model").log_prob(rows, missing="marginalize").mean()
    found = run("score", desk / "people.model", tmp_path / "mauve.csv", "--unseen", "missing", "--json").json
    assert found["mean_log_likelihood"] == pytest.approx(expected, abs=1e-12)


def test_rows_of_probability_zero_are_counted(tmp_path: Path) -> None:
    fp.structures.factorized([[1, 0], [1, 1]], smoothing=0.0).save(tmp_path / "model")
    np.savez(tmp_path / "rows.npz", X=[[1, 0], [0, 1], [0, 0]])
    found = run("score", tmp_path / "model", tmp_path / "rows.npz", "--json").json
    assert found["impossible_rows"] == 2
    assert found["mean_log_likelihood"] == "-inf"
    assert "rows of probability 0" in run("score", tmp_path / "model", tmp_path / "rows.npz").out


# ---- sample ---------------------------------------------------------------------------------------------------------


def test_samples_are_the_circuits_in_the_users_terms(desk: Path) -> None:
    density = fp.CircuitDensity.load(desk / "people.model")
    drawn = draw(density.circuit_, density.columns_, 20, 3)
    frame = pl.read_csv(io.StringIO(run("sample", desk / "people.model", "-n", 20, "--seed", 3).out))
    assert frame.columns == ["age", "smoker", "colour", "visits", "height"]
    assert frame["smoker"].to_list() == [["no", "yes"][int(v)] for v in drawn[:, 1]]
    assert frame["colour"].to_list() == [["blue", "green", "red"][int(v)] for v in drawn[:, 2]]
    assert frame["visits"].to_list() == drawn[:, 3].tolist()
    assert frame["age"].to_list() == np.round(drawn[:, 0]).tolist()  # ages are whole in the table
    np.testing.assert_allclose(frame["height"].to_numpy(), drawn[:, 4], rtol=1e-12)


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet"])
def test_samples_in_a_file(desk: Path, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"rows.{ending}"
    answer = run("sample", desk / "people.model", "-n", 7, "-o", path)
    assert answer.out == ""
    read = pl.read_parquet(path) if ending == "parquet" else pl.read_csv(path, separator="\t" if ending == "tsv" else ",")
    assert read.equals(pl.DataFrame(run("sample", desk / "people.model", "-n", 7, "--json").json))
    assert names(tmp_path) == {path.name}


def test_samples_of_numbers_in_an_archive(desk: Path, tmp_path: Path) -> None:
    run("sample", desk / "bits.model", "-n", 7, "-o", tmp_path / "rows.npz")
    with np.load(tmp_path / "rows.npz") as archive:
        np.testing.assert_array_equal(archive["X"], fp.load(desk / "bits.model").sample(7))


def test_names_of_columns_may_have_signs_in_them(tmp_path: Path) -> None:
    people().rename({"height": "height=cm", "age": "height"}).write_csv(tmp_path / "signs.csv")
    run("fit", tmp_path / "signs.csv", "-o", tmp_path / "signs.model", "--structure", "hclt", "--latents", 2, "--epochs", 2)
    given = ("--given", "height=cm=170..171", "--given", "height=40", "--json")
    for row in run("sample", tmp_path / "signs.model", "-n", 5, *given).json:
        assert 170 <= row["height=cm"] <= 171
        assert row["height"] == 40


def test_samples_given_something(desk: Path) -> None:
    rows = run("sample", desk / "people.model", "-n", 40, "--given", "smoker=yes", "--given", "age=50", "--json").json
    assert {(row["smoker"], row["age"]) for row in rows} == {("yes", 50)}
    assert len({row["visits"] for row in rows}) > 1


# ---- impute ---------------------------------------------------------------------------------------------------------


def test_samples_given_a_range_of_categories(tmp_path: Path) -> None:
    np.savez(tmp_path / "grades.npz", X=np.random.default_rng(0).integers(1, 7, (100, 2)))
    run("fit", tmp_path / "grades.npz", "-o", tmp_path / "grades.model", "--structure", "factorized")
    drawn = run("sample", tmp_path / "grades.model", "-n", 50, "--given", "x0=2..4", "--given", "x1=..2", "--json").json
    assert {row["x0"] for row in drawn} == {2, 3, 4}
    assert {row["x1"] for row in drawn} == {1, 2}
    for given, said in (("x0=8..", "x0=8.., whose values are 1, 2"), ("x0=a..", "give a number"), ("x0=nan..", "give a number")):
        answer = Answer("sample", tmp_path / "grades.model", "--given", given)
        assert answer.code == 1
        assert said in answer.err


@pytest.fixture(scope="module")
def born(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model of dates, times and a time zone; and its table, in a file that has types and one that has none."""
    folder = tmp_path_factory.mktemp("born")
    rng = np.random.default_rng(0)
    first = datetime(1990, 1, 1)
    when = [first + timedelta(days=int(k)) for k in rng.integers(0, 9000, 80)]
    table = pl.DataFrame(
        {
            "born": pl.Series([moment.date() for moment in when]),
            "seen": pl.Series([moment + timedelta(hours=int(k)) for moment, k in zip(when, rng.integers(0, 24, 80), strict=True)])
            .dt.replace_time_zone("Europe/Berlin", ambiguous="earliest", non_existent="null")
            .fill_null(strategy="forward"),
            "woke": pl.Series([time(int(k), 30) for k in rng.integers(5, 9, 80)]),
            "smoker": rng.random(80) < 0.3,
        }
    )
    table.write_parquet(folder / "born.parquet")
    table.write_csv(folder / "born.csv")
    run("fit", folder / "born.parquet", "-o", folder / "born.model", "--structure", "hclt", "--latents", 2, "--epochs", 2)
    return folder


def test_dates_of_a_csv_are_those_of_a_parquet_file(born: Path, tmp_path: Path) -> None:
    typed, text = (run("score", born / "born.model", born / f"born.{ending}", "--json").json for ending in ("parquet", "csv"))
    assert typed["mean_log_likelihood"] == text["mean_log_likelihood"]
    run("sample", born / "born.model", "-n", 20, "-o", tmp_path / "drawn.csv")
    run("score", born / "born.model", tmp_path / "drawn.csv")
    holes = pl.read_csv(born / "born.csv").with_columns(pl.when(pl.int_range(pl.len()) > 2).then("born").alias("born"))
    holes.write_csv(tmp_path / "holes.csv")
    run("impute", born / "born.model", tmp_path / "holes.csv", "-o", tmp_path / "filled.csv")
    filled = pl.read_csv(tmp_path / "filled.csv")
    assert filled["born"].str.to_date("%Y-%m-%d").null_count() == 0
    assert filled[3:].equals(pl.read_csv(born / "born.csv")[3:])
    strange = holes.with_columns(born=pl.lit("31.1.2020"))
    strange.write_csv(tmp_path / "strange.csv")
    said = Answer("score", born / "born.model", tmp_path / "strange.csv").err
    assert "'born' holds '31.1.2020' in row 0, but dates when it was learnt; give dates, or text like 2020-01-31." in said


def test_samples_given_dates(born: Path) -> None:
    given = ("--given", "born=2000-01-01..2001-12-31", "--given", "seen=2005-06-01T12:00:00", "--given", "woke=06:00..07:00")
    for row in run("sample", born / "born.model", "-n", 10, *given, "--json").json:
        assert "2000-01-01" <= row["born"] <= "2001-12-31"
        assert row["seen"] == "2005-06-01T12:00:00+02:00"
        assert "06:00" <= row["woke"] <= "07:00:00"
    said = Answer("sample", born / "born.model", "--given", "born=31.1.2020").err
    assert "--given born=31.1.2020; born holds dates, which are written like 2020-01-31." in said


@pytest.mark.parametrize("how", ["mean", "mode", "draw"])
def test_known_values_stay_and_holes_are_filled(desk: Path, tmp_path: Path, how: str) -> None:
    run("impute", desk / "people.model", desk / "holes.csv", "--how", how, "-o", tmp_path / "filled.csv")
    filled, holes = pl.read_csv(tmp_path / "filled.csv"), with_holes(people())
    assert filled.null_count().row(0) == (0,) * 5
    for name in holes.columns:
        assert filled[name].dtype == holes[name].dtype
        known = holes[name].is_not_null()
        assert filled[name].filter(known).equals(holes[name].filter(known))


def test_imputed_means_and_categories(desk: Path) -> None:
    """Numbers are means; categories are the most probable ones, here by enumeration over all that is missing of a row."""
    model = load_model(desk / "people.model")
    rows = rows_of(with_holes(people()))
    filled = run("impute", desk / "people.model", desk / "holes.csv", "--json").json
    mean = model.circuit.expectation(rows)
    checked = 0
    for i, row in enumerate(rows):
        if np.isnan(row[4]):
            assert filled[i]["height"] == pytest.approx(mean[i, 4], rel=1e-12)
        if np.isnan(row[0]):
            assert filled[i]["age"] == round(mean[i, 0])
        if np.isnan(row[2]):
            discrete = [[v] if not np.isnan(v) else list(range(2 + j)) for j, v in enumerate(row[1:3])]
            weight = np.zeros(3)
            for smoker, colour in itertools.product(*discrete):
                tried = row.copy()
                tried[1:3] = smoker, colour
                weight[int(colour)] += np.exp(model.circuit.log_prob(tried[None], missing="marginalize")[0])
            assert filled[i]["colour"] == ["blue", "green", "red"][int(weight.argmax())]
            checked += 1
    assert checked > 3


def test_columns_that_the_model_does_not_know_are_carried_along(desk: Path, tmp_path: Path) -> None:
    frame = (
        with_holes(people(20))
        .select(["height", "smoker", "colour", "visits", "age"])
        .insert_column(0, pl.Series("id", range(20)))
    )
    frame.write_csv(tmp_path / "with-id.csv")
    answer = run("impute", desk / "people.model", tmp_path / "with-id.csv", "--ignore-extra")
    filled = pl.read_csv(io.StringIO(answer.out))
    assert filled.columns == frame.columns
    assert filled["id"].to_list() == list(range(20))
    assert "Filled" in answer.err


def test_answers_are_those_of_the_estimator(desk: Path) -> None:
    density = fp.CircuitDensity.load(desk / "people.model")
    holes = with_holes(people())
    for how in ("mean", "mode", "draw"):
        printed = run("impute", desk / "people.model", desk / "holes.csv", "--how", how).out
        assert pl.read_csv(io.StringIO(printed)).equals(density.impute(holes, how=how, random_state=0))
    assert pl.read_csv(io.StringIO(run("sample", desk / "people.model").out)).equals(density.sample(10, random_state=0))


def test_known_numbers_stay_to_the_last_digit(tmp_path: Path) -> None:
    big = [2**60 + 512 * i + 1 for i in range(40)]
    pl.DataFrame({"big": big, "a": [0, 1] * 20}).write_csv(tmp_path / "big.csv")
    run("fit", tmp_path / "big.csv", "-o", tmp_path / "model", "--structure", "factorized")
    pl.DataFrame({"big": big, "a": [None, 1] * 20}).write_csv(tmp_path / "holes.csv")
    filled = pl.read_csv(io.StringIO(run("impute", tmp_path / "model", tmp_path / "holes.csv").out))
    assert filled["big"].to_list() == big
    assert filled["a"].null_count() == 0


def test_arrays_are_imputed_by_position(desk: Path, tmp_path: Path) -> None:
    rows = bits(10, seed=4).astype(float)
    rows[::2, 1] = np.nan
    np.savez(tmp_path / "holes.npz", X=rows)
    run("impute", desk / "bits.model", tmp_path / "holes.npz", "--how", "mode", "-o", tmp_path / "filled.npz")
    with np.load(tmp_path / "filled.npz") as archive:
        np.testing.assert_array_equal(archive["X"], fp.load(desk / "bits.model").mpe(rows).values)


@pytest.mark.parametrize(("n", "said"), [(1, "Wrote 1 row to"), (2, "Wrote 2 rows to")])
def test_one_row_is_no_rows(desk: Path, tmp_path: Path, n: int, said: str) -> None:
    assert said in run("sample", desk / "bits.model", "-n", n, "-o", tmp_path / "drawn.csv").err


def test_impossible_evidence_is_a_mistake(tmp_path: Path) -> None:
    fp.structures.factorized([[1, 0], [1, 1]], smoothing=0.0).save(tmp_path / "model")
    np.savez(tmp_path / "rows.npz", X=[[1, np.nan], [0, np.nan]])
    answer = Answer("impute", tmp_path / "model", tmp_path / "rows.npz", "-o", tmp_path / "out.csv")
    assert answer.code == 1
    assert "row 1 have probability zero" in answer.err
    assert names(tmp_path) == {"model", "rows.npz"}
