"""Tables that come in blocks: choice, estimator and command line learn from all rows, and score them as they come."""

import numpy as np
import polars as pl
import pytest

import flatpc as fp
from flatpc.errors import OptionError
from flatpc.tables import sources
from tests.cli.running import Answer, run

N = 3000


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Rows of which the sample, made small here, is a tenth."""
    monkeypatch.setattr(sources.Source.sample, "__defaults__", (300,))
    rng = np.random.default_rng(0)
    place = tmp_path / "rows"
    place.mkdir()
    for i in range(3):
        smokes = rng.random(N // 3) < 0.3
        frame = {
            "smokes": np.where(smokes, "yes", "no"),
            "city": rng.choice(["Bonn", "Rome", "Oslo"], N // 3),
            "age": (40 + 10 * smokes + 5 * rng.standard_normal(N // 3)).round(2),
        }
        pl.DataFrame(frame).write_parquet(place / f"{i}.parquet")
    return place


def test_the_estimator_learns_from_a_source_and_scores_it(folder):
    source = fp.tables.scan(folder, block_rows=400)
    model = fp.CircuitDensity(effort=0.5, verbose=False).fit(source)
    assert model.kinds_ == {"smokes": "binary", "city": "categorical", "age": "continuous"}
    table = pl.read_parquet(folder / "*.parquet")
    np.testing.assert_allclose(model.score_samples(source), model.score_samples(table), rtol=1e-12)
    assert np.isclose(model.score(source), model.score(table), rtol=1e-12)
    assert "3,000 rows" in model.summary_
    # All rows were learnt from: they are likelier than under what the sample alone teaches.
    few = fp.CircuitDensity(effort=0.5, verbose=False).fit(source.sample(300))
    assert model.score(source) > few.score(source)


def test_choose_learns_on_from_all_rows(monkeypatch):
    monkeypatch.setattr(sources.Source.sample, "__defaults__", (200,))
    X = np.random.default_rng(0).integers(0, 2, size=(4000, 6))
    X[:, 1] = X[:, 0]
    source = fp.tables.source(X, block_rows=500)
    found = fp.choose(source, effort=0.5, progress=False)
    assert found.n_rows == 4000
    few = fp.choose(source.sample(200), effort=0.5, progress=False)
    assert found.circuit.log_prob(source).mean() > few.circuit.log_prob(X).mean()
    with pytest.raises(OptionError, match="leave them out for a source"):
        fp.choose(source, groups=np.arange(4000), progress=False)


def test_the_command_line_fits_and_scores_patterns(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fitted = run("fit", "rows/*.parquet", "-o", "a.model", "--effort", "quick", "--structure", "factorized", "--json").json
    assert fitted["train_rows"] == N
    said = run("score", "a.model", "rows/*.parquet", "--json").json
    pl.read_parquet("rows/*.parquet").write_parquet("all.parquet")
    other = run("score", "a.model", "all.parquet", "--json").json
    assert said["rows"] == other["rows"] == N
    for name in ("mean_log_likelihood", "standard_error", "bits_per_value"):
        assert np.isclose(said[name], other[name], rtol=1e-9)
    for ending in ("csv", "parquet"):
        run("score", "a.model", "rows", "--per-row", "-o", f"scores.{ending}")
        run("score", "a.model", "all.parquet", "--per-row", "-o", f"one.{ending}")
    assert (tmp_path / "scores.csv").read_text() == (tmp_path / "one.csv").read_text()
    assert pl.read_parquet("scores.parquet").equals(pl.read_parquet("one.parquet"))
    (tmp_path / "rows" / "1.parquet").write_bytes(b"nothing")
    failed = Answer("score", "a.model", "rows", "--per-row", "-o", "more.csv")
    assert failed.code != 0
    assert "1.parquet can't be read" in " ".join(failed.err.split())
    assert not (tmp_path / "more.csv").exists()


def test_the_command_line_refuses_files_of_other_types(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pl.read_parquet("rows/1.parquet").with_columns(pl.col("smokes") == "yes").write_parquet("rows/1.parquet")
    failed = Answer("fit", "rows/*.parquet", "-o", "a.model", "--effort", "quick")
    assert failed.code != 0
    assert "rows/1.parquet: Column 'smokes' holds numbers, and text in rows/0.parquet" in " ".join(failed.err.split())
