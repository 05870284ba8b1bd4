"""Tables that come in blocks: choice, estimator and command line learn from all rows, and score them as they come."""

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

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


@pytest.fixture
def fitted(folder):
    """A density of the rows, the rows as a source, and as a table."""
    source = fp.tables.scan(folder, block_rows=400)
    return fp.CircuitDensity(effort=0.5, verbose=False).fit(source), source, pl.read_parquet(folder / "*.parquet")


def test_answers_for_a_source_are_those_for_its_rows(fitted):
    model, source, table = fitted
    for ask in (
        lambda X: model.predict(X, "smokes"),
        lambda X: model.predict(X, "age"),
        lambda X: model.predict_proba(X, "city"),
        lambda X: model.quantile(X, "age", q=[0.1, 0.9]),
        lambda X: model.column_log_density(X, "age"),
        lambda X: model.anomaly_score(X, explain=True)[1],
        lambda X: model.anomaly_score(X, explain=True)[0],
        model.anomaly_score,
        model.bic,
    ):
        one, other = np.asarray(ask(source)), np.asarray(ask(table))
        assert one.shape == other.shape
        if one.dtype.kind == "f":
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)
        else:
            assert (one == other).all()


def test_values_that_the_sample_did_not_have_are_rare(fitted):
    model, _, table = fitted
    odd = table.with_columns(city=pl.when(pl.int_range(N) == 2500).then(pl.lit("Nowhere")).otherwise("city"))
    source = fp.tables.source(odd, block_rows=400)
    np.testing.assert_allclose(model.score_samples(source), model.score_samples(odd), rtol=1e-12)
    assert np.isclose(model.score(source), model.score(odd), rtol=1e-12)
    assert model.score(source) < model.score(table)
    with pytest.raises(fp.errors.DataError, match=r"rows 2400 to 2799: .*'Nowhere'"):
        model.set_params(unseen="raise").score(source)


def test_imputing_a_source_gives_a_source(fitted):
    model, _, table = fitted
    holes = table.with_columns(
        age=pl.when(pl.int_range(N) % 3 == 0).then(None).otherwise("age"),
        city=pl.when(pl.int_range(N) % 5 == 0).then(None).otherwise("city"),
    )
    source = fp.tables.source(holes, block_rows=400)
    for how in ("mean", "mode"):
        found = model.impute(source, how=how)
        assert found.n_rows == N
        assert_frame_equal(pl.concat(found.blocks()), model.impute(holes, how=how), rel_tol=1e-10)
    drawn = model.impute(source, how="draw", random_state=1)
    one = pl.concat(drawn.blocks())
    assert one.equals(pl.concat(drawn.blocks()))
    assert one.null_count().sum_horizontal().item() == 0
    assert one.filter(holes["age"].is_not_null())["age"].equals(holes["age"].drop_nulls())
    # Blocks have draws of their own.
    gaps = fp.tables.source(holes.with_columns(age=None, city=None, smokes=None)[:800], block_rows=400)
    first, second = model.impute(gaps, how="draw", random_state=1).blocks()
    assert not first.equals(second)


def test_learning_on_from_a_source_is_learning_on_from_its_rows(folder):
    source, table = fp.tables.scan(folder, block_rows=1000), pl.read_parquet(folder / "*.parquet")
    start = table[:500]
    one, other = (fp.CircuitDensity(effort=0.3, verbose=False).fit(start) for _ in range(2))
    one.partial_fit(source)
    other.partial_fit(table)
    assert one.n_rows_ == other.n_rows_ == 500 + N
    np.testing.assert_allclose(one.score_samples(table), other.score_samples(table), rtol=1e-12)
    assert one.curvature_.n_rows == 1000
    with pytest.raises(fp.errors.ShapeError, match="no rows"):
        one.partial_fit(table.lazy().filter(pl.col("age") < 0))


def test_a_source_judges_by_a_sample(folder):
    source, table = fp.tables.scan(folder), pl.read_parquet(folder / "*.parquet")
    one, other = (
        fp.CircuitDensity(effort=0.3, verbose=False).fit(table[:400], valid=valid) for valid in (source, source.sample(300))
    )
    assert one.summary_ == other.summary_
    assert one.score(table) == other.score(table)
    with pytest.raises(OptionError, match="validation rows that are in memory"):
        fp.CircuitDensity().fit(table, valid=source, valid_weight=np.ones(N))


def test_what_needs_a_table_names_the_remedy(fitted):
    model, source, table = fitted
    for ask in (lambda: model.tune(source, "smokes"), lambda: model.probability({"age": (40, 50)}, given=source)):
        with pytest.raises(fp.errors.ColumnTypeError, match=r"needs a table in memory; pass fp.tables.source\(X\).sample\(n\)"):
            ask()
    with pytest.raises(fp.errors.ShapeError, match="has the column 'town', which was not learnt"):
        model.score(fp.tables.source(table.rename({"city": "town"})))


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
