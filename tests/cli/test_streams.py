"""Folders, patterns and large files on the command line: all rows are read, some at a time."""

import numpy as np
import polars as pl
import pytest

from flatpc.tables import files, sources
from tests.cli.running import Answer, people, run, with_holes

N, SAMPLE = 900, 120


def said(answer):
    return " ".join(answer.err.split())


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    place = tmp_path_factory.mktemp("model")
    people(300).write_csv(place / "people.csv")
    told = ("--structure", "hclt", "--latents", 3, "--epochs", 3)
    run("fit", place / "people.csv", "-o", place / "a.model", *told)
    return place / "a.model"


@pytest.fixture
def holes(tmp_path, monkeypatch):
    """A table of more rows than a sample has, in three files and in one."""
    frame = with_holes(people(N, seed=5)).with_columns(id=pl.int_range(N))
    (tmp_path / "rows").mkdir()
    for i in range(3):
        frame[300 * i : 300 * (i + 1)].write_parquet(tmp_path / "rows" / f"{i}.parquet")
    frame.write_parquet(tmp_path / "one.parquet")
    frame.write_ipc(tmp_path / "one.arrow")
    frame.write_csv(tmp_path / "one.csv")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sources, "SAMPLE_ROWS", SAMPLE)
    monkeypatch.setattr(sources.Source.sample, "__defaults__", (SAMPLE,))
    return frame


def whole(monkeypatch):
    """From here on tables are read at once."""
    monkeypatch.setattr(sources, "SAMPLE_ROWS", 100_000)


def not_whole(monkeypatch):
    """From here on no table may be read at once."""

    def fail(path):
        raise AssertionError(f"{path} was read as a whole")

    monkeypatch.setattr(files, "read_table", fail)
    monkeypatch.setattr("flatpc.tables.read_table", fail)


@pytest.mark.parametrize("how", ["mean", "mode"])
def test_impute_fills_all_rows_of_what_it_streams(model, holes, monkeypatch, how):
    with monkeypatch.context() as now:
        not_whole(now)
        for data, output in (
            ("rows", "a.parquet"),
            ("rows/*.parquet", "a.csv"),
            ("one.arrow", "b.parquet"),
            ("one.csv", "b.csv"),
        ):
            answer = run("impute", model, data, "--how", how, "-o", output, "--ignore-extra")
            assert f"of {N} rows" in said(answer)
            assert f"Wrote {N} rows to {output}" in said(answer)
        printed = run("impute", model, "one.parquet", "--how", how, "--ignore-extra").out
    whole(monkeypatch)
    run("impute", model, "one.parquet", "--how", how, "-o", "all.parquet", "--ignore-extra")
    expected = pl.read_parquet("all.parquet")
    assert expected.height == N
    assert expected.drop("id").null_count().sum_horizontal().item() == 0
    for name in ("a", "b"):
        assert pl.read_parquet(f"{name}.parquet").equals(expected)
        assert pl.read_csv(f"{name}.csv").equals(pl.read_csv(expected.write_csv().encode()))
    assert printed == expected.write_csv()


def test_draws_of_a_stream_are_by_seed_and_differ_from_block_to_block(model, holes):
    for i, seed in enumerate((1, 1, 2)):
        run("impute", model, "rows", "--how", "draw", "--seed", seed, "-o", f"{i}.parquet", "--ignore-extra")
    one, again, other = (pl.read_parquet(f"{i}.parquet") for i in range(3))
    assert one.equals(again)
    assert not one.equals(other)
    known = holes["height"].is_not_null()
    assert one.filter(known)["height"].equals(holes.filter(known)["height"])
    # The same block three times: what is drawn is not the same three times.
    block = pl.read_parquet("rows/0.parquet").with_columns(height=pl.lit(None, dtype=pl.Float64))
    for i in range(3):
        block.write_parquet(f"rows/{i}.parquet")
    run("impute", model, "rows", "--how", "draw", "-o", "same.parquet", "--ignore-extra")
    drawn = pl.read_parquet("same.parquet")["height"].to_numpy().reshape(3, -1)
    assert (drawn[0] != drawn[1]).mean() > 0.9
    assert (drawn[1] != drawn[2]).mean() > 0.9


@pytest.mark.parametrize("data", ["rows", "one.parquet", "one.arrow", "one.csv"])
def test_score_streams_one_file_as_it_does_folders(model, holes, monkeypatch, data):
    options = ("--missing", "marginalize", "--ignore-extra")
    with monkeypatch.context() as now:
        not_whole(now)
        streamed = run("score", model, data, *options, "--json").json
        run("score", model, data, *options, "--per-row", "-o", "a.csv")
    whole(monkeypatch)
    expected = run("score", model, "one.parquet", *options, "--json").json
    for name in ("rows", "mean_log_likelihood", "standard_error", "bits_per_value"):
        assert np.isclose(streamed[name], expected[name], rtol=1e-9)
    run("score", model, "one.parquet", *options, "--per-row", "-o", "b.csv")
    np.testing.assert_allclose(pl.read_csv("a.csv").to_numpy(), pl.read_csv("b.csv").to_numpy(), rtol=1e-12)


def test_rare_values_of_a_stream_cost_what_they_cost_in_a_table(model, holes, monkeypatch):
    holes = holes.with_columns(colour=pl.when(pl.col("id") == 700).then(pl.lit("violet")).otherwise("colour"))
    holes.write_parquet("one.parquet")
    options = ("--missing", "marginalize", "--ignore-extra", "--per-row", "-o")
    run("score", model, "one.parquet", *options, "a.parquet")
    failed = Answer("score", model, "one.parquet", "--unseen", "raise", *options, "c.parquet")
    assert "one.parquet: Column 'colour' has the value 'violet'" in said(failed)
    whole(monkeypatch)
    run("score", model, "one.parquet", *options, "b.parquet")
    np.testing.assert_allclose(pl.read_parquet("a.parquet").to_numpy(), pl.read_parquet("b.parquet").to_numpy(), rtol=1e-12)


def test_small_arrow_files_are_tables(model, holes, monkeypatch):
    whole(monkeypatch)
    options = ("--missing", "marginalize", "--ignore-extra", "--json")
    one, other = (run("score", model, f"one.{ending}", *options).json for ending in ("arrow", "parquet"))
    assert {**one, "data": ""} == {**other, "data": ""}


def test_columns_of_a_stream_are_the_models(model, holes):
    assert "rows has the column 'id', which the model doesn't know" in said(
        Answer("score", model, "rows", "--missing", "marginalize")
    )
    holes.drop("age").write_parquet("one.parquet")
    for command in ("score", "impute"):
        assert "one.parquet has no column 'age', which the model needs" in said(Answer(command, model, "one.parquet"))
    assert "no splits" in said(Answer("impute", model, "rows", "--split", "test"))
    assert "write a file with --output" in said(Answer("impute", model, "rows", "--json", "--ignore-extra"))


def test_curvature_is_of_the_first_rows_and_explain_needs_one_table(model, holes, monkeypatch):
    options = ("--rows", 350, "--missing", "marginalize", "--ignore-extra", "--json")
    streamed = run("curvature", model, "rows", *options).json
    assert streamed["rows"] == 350
    failed = Answer("explain", model, "rows", "--row", 1, "--missing", "marginalize", "--ignore-extra")
    assert failed.code != 0
    assert "read at once; give one file instead of rows" in said(failed)
    for data, train in (("one.parquet", "rows"), ("rows", "one.parquet")):
        failed = Answer("score", model, data, "--uncertainty", train, "--missing", "marginalize", "--ignore-extra")
        assert "--uncertainty is for a table that is read at once; give one file instead of rows" in said(failed)
    whole(monkeypatch)
    expected = run("curvature", model, "one.parquet", *options).json
    assert streamed["trace"] == expected["trace"]


def test_columns_can_be_dropped_from_what_is_streamed(holes):
    options = ("-o", "a.model", "--structure", "hclt", "--latents", 2, "--epochs", 2, "--missing", "marginalize", "--json")
    for data in ("rows/*.parquet", "one.csv"):
        fitted = run("fit", data, *options, "--drop", "id", "--drop", "visits", "--force").json
        assert fitted["train_rows"] == N
        assert [column["name"] for column in fitted["columns"]] == ["age", "smoker", "colour", "height"]
    assert run("fit", "one.parquet", *options, "--fraction", 0.5, "--force").json["train_rows"] == N // 2
    assert "--weights is for a table that is read at once; give one file" in said(
        Answer("fit", "rows", *options, "--weights", "id", "--force")
    )
    assert run("fit", "one.parquet", *options, "--weights", "id", "--force").json["train_rows"] == N - 1  # the first has weight 0


def test_what_the_search_found_is_kept_if_it_cant_be_learnt_on(model, holes):
    full = people(N, seed=5)
    full.with_columns(height=pl.when(pl.int_range(N) == 431).then(None).otherwise("height")).write_parquet("one.parquet")
    failed = Answer("fit", "one.parquet", "-o", "new.model", "--structure", "hclt", "--latents", 3, "--epochs", 3)
    assert failed.code != 0
    assert "Wrote new.model: the model of a sample of 120 rows" in said(failed)
    assert "one.parquet: Column 'height' is missing" in said(failed)
    full.head(50).write_parquet("few.parquet")
    assert run("score", "new.model", "few.parquet", "--json").json["rows"] == 50


def test_a_sample_judges_and_says_so(holes):
    options = ("--structure", "hclt", "--latents", 3, "--epochs", 3, "--missing", "marginalize", "--drop", "id")
    answer = run("fit", "rows/0.parquet", "-o", "a.model", "--valid", "rows", *options)
    assert "of the rows of rows, a sample of 120 judges" in said(answer)
