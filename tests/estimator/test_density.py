"""What CircuitDensity answers: against integrals, enumeration and closed forms."""

import copy
import pickle
import signal

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy import integrate
from sklearn.base import clone

import flatpc as fp
from flatpc.errors import DataError, MissingValueError, OptionError
from flatpc.search import training
from flatpc.tables.column import UnseenCategoryError

QUICK = {"structure": "mixture", "n_latents": 3, "mu": 0.1, "average": False, "effort": 0.3, "verbose": False}


def people(n=300, seed=0):
    """A mixed table in which everything depends on a hidden group."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n)
    return pd.DataFrame({
        "city": np.where(rng.random(n) < np.where(group, 0.9, 0.1), "Ulm", np.where(rng.random(n) < 0.5, "Bonn", "Köln")),
        "smoker": rng.random(n) < np.where(group, 0.8, 0.2),
        "income": rng.normal(np.where(group, 70_000, 30_000), 5_000),
        "visits": rng.poisson(np.where(group, 40, 3)),
    })  # fmt: skip


@pytest.fixture(scope="module")
def mixed():
    return fp.CircuitDensity(**{**QUICK, "structure": "hclt"}, kinds={"visits": "count"}).fit(people())


# ---- densities -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("structure", ["mixture", "rat_spn", "hclt", "factorized"])
def test_density_integrates_to_one_in_the_users_units(structure):
    """Over a table whose columns have scales of 1000 and 0.01."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2)) @ [[1000, 0.005], [0, 0.01]] + [5000, -3]
    density = fp.CircuitDensity(**{**QUICK, "structure": structure}).fit(X)
    middle, spread = X.mean(axis=0), X.std(axis=0)
    x, y = (np.linspace(m - 10 * s, m + 10 * s, 401) for m, s in zip(middle, spread, strict=True))
    grid = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2)
    p = np.exp(density.score_samples(grid)).reshape(401, 401)
    total = integrate.simpson(integrate.simpson(p, x=y, axis=1), x=x)
    assert total == pytest.approx(1, abs=1e-6)


def test_mixed_density_sums_and_integrates_to_one(mixed):
    x = np.linspace(-50_000, 150_000, 4001)
    total = 0.0
    for city in mixed.categories("city"):
        for smoker in mixed.categories("smoker"):
            table = pd.DataFrame({"city": city, "smoker": smoker, "income": x, "visits": np.nan})
            total += integrate.simpson(np.exp(open_to_missing(mixed).score_samples(table)), x=x)
    assert total == pytest.approx(1, abs=1e-9)
    # With the counts summed instead of marginalised, at one income:
    at = pd.DataFrame({"city": "Ulm", "smoker": True, "income": 60_000.0, "visits": np.arange(200)})
    summed = np.exp(mixed.score_samples(at)).sum()
    one = open_to_missing(mixed).score_samples(at[:1].assign(visits=np.nan))
    assert np.log(summed) == pytest.approx(one[0], abs=1e-9)


def open_to_missing(density):
    """The same fitted density, with missing values allowed."""
    return copy.copy(density).set_params(missing="marginalize")


def test_missing_continuous_values_leave_out_their_unit():
    """Log p(x₁) by marginalising x₂ is the integral of p(x₁, x₂) over x₂, whatever the unit of x₂."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 2)) * [3, 500]
    density = fp.CircuitDensity(**QUICK, missing="marginalize").fit(X)
    y = np.linspace(-8000, 8000, 6001)
    inside = np.exp(density.score_samples(np.column_stack([np.full(6001, 1.5), y])))
    assert density.score_samples([[1.5, np.nan]])[0] == pytest.approx(np.log(integrate.simpson(inside, x=y)), abs=1e-9)
    assert density.score_samples([[np.nan, np.nan]])[0] == pytest.approx(0, abs=1e-12)


def test_the_circuit_itself_is_in_the_users_units(mixed):
    table = people(50, seed=8)
    np.testing.assert_array_equal(mixed.circuit_.log_prob(mixed.columns_.encode(table)), mixed.score_samples(table))


def test_one_gaussian_is_the_closed_form():
    X = np.random.default_rng(0).normal(7, 3, (50, 1))
    density = fp.CircuitDensity(structure="factorized", verbose=False).fit(X)
    expected = -0.5 * ((X[:, 0] - X.mean()) / X.std()) ** 2 - np.log(X.std() * np.sqrt(2 * np.pi))
    np.testing.assert_allclose(density.score_samples(X), expected, atol=1e-12)
    assert density.score(X) == pytest.approx(expected.mean(), abs=1e-12)
    np.testing.assert_allclose(density.anomaly_score(X), -expected, atol=1e-12)
    assert density.n_free_parameters_ == 2
    assert density.bic(X) == pytest.approx(-2 * expected.sum() + 2 * np.log(50), abs=1e-9)
    assert density.aic(X) == pytest.approx(-2 * expected.sum() + 4, abs=1e-9)


def test_strange_rows_stand_out(mixed):
    strange = pd.DataFrame({"city": ["Bonn"], "smoker": [False], "income": [75_000.0], "visits": [90]})
    assert mixed.anomaly_score(strange)[0] > np.quantile(mixed.anomaly_score(people(seed=1)), 0.999)


# ---- conditionals, imputation, samples -------------------------------------------------------------------------------


def test_predict_probabilities_are_those_of_the_joint(mixed):
    table = people(20, seed=2)
    p = mixed.predict_proba(table, "city")
    joint = np.stack([np.exp(mixed.score_samples(table.assign(city=city))) for city in mixed.categories("city")], axis=1)
    np.testing.assert_allclose(p, joint / joint.sum(axis=1, keepdims=True), rtol=1e-9)
    np.testing.assert_allclose(mixed.predict_proba(table.assign(city=None), 0), p, rtol=1e-12)
    np.testing.assert_allclose(mixed.predict_proba(table.assign(city="Atlantis"), 0), p, rtol=1e-12)
    with pytest.raises(MissingValueError, match="'income' is missing"):
        mixed.predict_proba(table.assign(income=np.nan), "city")
    right = np.array(mixed.categories("smoker"))[mixed.predict_proba(people(seed=3), "smoker").argmax(axis=1)]
    assert (right == people(seed=3)["smoker"]).mean() > 0.7  # 0.8 is what the group tells


def test_imputing_means(mixed):
    table = people(6, seed=4)
    gaps = table.astype({"smoker": object})
    gaps.loc[0, "city"], gaps.loc[1, "smoker"], gaps.loc[2, "income"], gaps.loc[3, ["income", "city"]] = None, None, np.nan, None
    filled = mixed.impute(gaps)
    assert isinstance(filled, pd.DataFrame)
    known = ~gaps.isna().to_numpy()
    assert (filled.to_numpy()[known] == table.to_numpy()[known]).all()
    assert filled.loc[0, "city"] == mixed.categories("city")[mixed.predict_proba(table[:1], "city")[0].argmax()]
    assert filled.loc[1, "smoker"] == mixed.categories("smoker")[mixed.predict_proba(table[1:2], "smoker")[0].argmax()]
    # The mean of income given the rest, by integration over the joint density.
    x = np.linspace(-50_000, 150_000, 4001)
    p = np.exp(mixed.score_samples(pd.concat([table[2:3]] * 4001, ignore_index=True).assign(income=x)))
    assert filled.loc[2, "income"] == pytest.approx(integrate.simpson(p * x, x=x) / integrate.simpson(p, x=x), rel=1e-6)


def test_imputing_by_most_probable_rows_is_exact_for_a_chow_liu_tree():
    X = np.cumsum(np.random.default_rng(0).random((200, 4)) < 0.2, axis=1) % 2
    density = fp.CircuitDensity(structure="chow_liu", verbose=False, missing="marginalize").fit(X)
    gaps = np.where(np.random.default_rng(1).random((30, 4)) < 0.5, np.nan, X[:30])
    every = np.array(np.meshgrid(*[[0, 1]] * 4)).reshape(4, -1).T
    p = density.score_samples(every)
    for row, filled in zip(gaps, density.impute(gaps, how="mode"), strict=True):
        fits = (np.isnan(row) | (every == row)).all(axis=1)
        assert density.score_samples(filled[None])[0] == pytest.approx(p[fits].max(), abs=1e-12)


def test_imputing_by_sampling_follows_the_conditional(mixed):
    table = pd.concat([people(1, seed=5)] * 4000, ignore_index=True)
    drawn = mixed.impute(table.assign(city=None), how="draw", random_state=0)["city"]
    p = mixed.predict_proba(table[:1], "city")[0]
    for city, expected in zip(mixed.categories("city"), p, strict=True):
        assert (drawn == city).mean() == pytest.approx(expected, abs=4 * np.sqrt(0.25 / 4000))


@pytest.mark.parametrize("how", ["mean", "mode", "draw"])
def test_columns_keep_their_types_when_filled(how):
    """Whole numbers among integers, categories among categories; and what is known stays to its last digit."""
    rng = np.random.default_rng(0)
    age, big = rng.integers(20, 80, 60), rng.integers(2**60, 2**62, 60)  # a float has 53 bits
    density = fp.CircuitDensity(**QUICK).fit(pl.DataFrame({"age": age, "big": big, "sort": ["a", "b", "c"] * 20}))
    gaps = pl.DataFrame(
        {"age": [None, 30], "big": [2**61 + 1, None], "sort": [None, "b"]},
        schema={"age": pl.Int16, "big": pl.Int64, "sort": pl.Categorical},
    )
    filled = density.impute(gaps, how=how, random_state=0)
    assert filled.schema == gaps.schema
    assert filled.null_count().sum_horizontal().item() == 0
    assert filled.row(1)[0::2] == (30, "b")
    assert filled["big"][0] == 2**61 + 1
    nullable = pd.DataFrame({name: gaps[name].to_list() for name in gaps.columns}, dtype=object).astype(
        {"age": "Int16", "big": "Int64", "sort": pd.CategoricalDtype(["a", "b", "c"])}
    )
    again = density.impute(nullable, how=how, random_state=0)
    assert again.dtypes.to_dict() == nullable.dtypes.to_dict()
    assert again.to_numpy().tolist() == [list(row) for row in filled.rows()]
    # A float column takes the mean itself; what is drawn, or most probable, has the resolution of the ages that were learnt.
    exact = density.impute(gaps.cast({"age": pl.Float64}), how=how, random_state=0)["age"][0]
    assert round(exact) == filled["age"][0]
    assert (exact != filled["age"][0]) == (how == "mean")


def test_samples_of_integers_are_integers():
    table = pl.DataFrame({"age": np.random.default_rng(0).integers(20, 80, 60), "x": np.linspace(0, 1, 60)})
    assert fp.CircuitDensity(**QUICK).fit(table).sample(3).schema == table.schema


def test_samples_look_like_the_table(mixed):
    drawn = mixed.sample(5000, random_state=0)
    table = people(5000, seed=6)
    assert drawn.dtypes.astype(str).to_dict() == table.dtypes.astype(str).to_dict()
    assert set(drawn["city"]) == set(table["city"])
    assert drawn["smoker"].mean() == pytest.approx(table["smoker"].mean(), abs=0.06)
    assert drawn["income"].mean() == pytest.approx(table["income"].mean(), rel=0.05)
    assert drawn[["income", "visits"]].corr().iloc[0, 1] == pytest.approx(table[["income", "visits"]].corr().iloc[0, 1], abs=0.1)


def test_containers_come_back_as_they_went_in():
    X = np.random.default_rng(0).normal(size=(40, 2))
    for make, kind in [
        (lambda: X, np.ndarray), (lambda: torch.from_numpy(X), torch.Tensor), (lambda: X.tolist(), np.ndarray),
        (lambda: pl.DataFrame(X, schema=["a", "b"]), pl.DataFrame), (lambda: pd.DataFrame(X, columns=["a", "b"]), pd.DataFrame),
    ]:  # fmt: skip
        density = fp.CircuitDensity(**QUICK).fit(make())
        assert isinstance(density.sample(2), kind)
        assert isinstance(density.impute(make()), kind)
        assert isinstance(density.score_samples(make()), np.ndarray)


def test_files_hold_all_that_answers_need(mixed, tmp_path):
    mixed.save(tmp_path / "people.safetensors")
    again = fp.CircuitDensity.load(tmp_path / "people.safetensors")
    table = people(20, seed=9)
    np.testing.assert_array_equal(again.score_samples(table), mixed.score_samples(table))
    pd.testing.assert_frame_equal(again.sample(5, random_state=1), mixed.sample(5, random_state=1))
    assert (again.summary_, again.kinds_, again.n_free_parameters_) == (mixed.summary_, mixed.kinds_, mixed.n_free_parameters_)
    assert again.n_parameters_ == mixed.n_parameters_ == mixed.circuit_.n_parameters
    assert again.curvature_ == mixed.curvature_
    assert again.feature_names_in_.tolist() == mixed.feature_names_in_.tolist()
    assert again.score(table.assign(city="Atlantis")) == mixed.score(table.assign(city="Atlantis"))
    # A circuit alone, without columns.
    mixed.circuit_.save(tmp_path / "circuit.safetensors")
    bare = fp.CircuitDensity.load(tmp_path / "circuit.safetensors")
    np.testing.assert_array_equal(bare.score_samples(mixed.columns_.encode(table)), mixed.score_samples(table))


# ---- missing and unseen values ---------------------------------------------------------------------------------------


def test_missing_values_are_refused_unless_allowed():
    X = np.random.default_rng(0).normal(size=(100, 3))
    X[::7, 1] = np.nan
    with pytest.raises(MissingValueError, match=r"Column 'x1' is missing .NaN. in row 0.*missing='marginalize'"):
        fp.CircuitDensity(**QUICK).fit(X)
    density = fp.CircuitDensity(**QUICK, missing="marginalize").fit(X)
    assert np.isfinite(density.score_samples(X)).all()
    assert not np.isnan(density.impute(X)).any()


def test_learning_with_gaps_finds_what_is_behind_them():
    """Two columns that are equal: with a third of the entries gone, one is still imputed from the other."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 1)) * [1, 10] + 0.1 * rng.normal(size=(400, 2)) * [1, 10]
    gaps = np.where(rng.random(X.shape) < 0.3, np.nan, X)
    gaps[np.isnan(gaps).all(axis=1), 0] = 0.0
    density = fp.CircuitDensity(structure="rat_spn", n_latents=8, mu=0.1, effort=3, missing="marginalize", verbose=False).fit(
        gaps
    )
    hidden = np.column_stack([X[:, 0], np.full(400, np.nan)])
    error = density.impute(hidden)[:, 1] - X[:, 1]
    assert error.std() < 4.0  # 10 is what the mean alone would leave


def test_an_index_among_the_columns_is_noticed():
    with pytest.warns(UserWarning, match="'Unnamed: 0' counts the rows from 0 to 99, as an index does"):
        fp.CircuitDensity(**QUICK).fit(people(100).rename_axis("Unnamed: 0").reset_index())


def test_unseen_categories(mixed):
    table = people(2, seed=7).assign(city=["Ulm", "Atlantis"])
    strict = clone(mixed).set_params(unseen="raise")
    strict.__dict__ |= {name: value for name, value in vars(mixed).items() if name.endswith("_")}
    with pytest.raises(UnseenCategoryError, match=r"Column 'city' has the value 'Atlantis' in row 1"):
        strict.score_samples(table)
    # One that is rare: as probable as half of one more row among 300, whatever the rest of the row is.
    rest = open_to_missing(mixed).score_samples(table.assign(city=["Ulm", None]))
    found = mixed.score_samples(table)
    assert found[1] == pytest.approx(rest[1] + np.log(1 / (2 * 301)), rel=1e-12)
    assert found[1] < min(mixed.score_samples(table.assign(city=city))[1] for city in ("Ulm", "Bonn", "Köln"))
    lenient = fp.CircuitDensity(**QUICK, unseen="missing").fit(people(100))
    marginal = open_to_missing(lenient).score_samples(table.assign(city=["Ulm", None]))
    np.testing.assert_array_equal(lenient.score_samples(table), marginal)
    assert lenient.impute(table)["city"].tolist() == ["Ulm", "Atlantis"]


# ---- what was chosen -------------------------------------------------------------------------------------------------


def test_the_choice_is_said_and_kept(capfd):
    X = np.cumsum(np.random.default_rng(0).random((200, 6)) < 0.1, axis=1) % 2
    density = fp.CircuitDensity(effort=3.0).fit(X)
    said = capfd.readouterr().err
    assert said.count("\n") == 1
    assert density.summary_ in said
    assert "6 columns (6 binary)" in said
    assert "200 rows in turn" in density.summary_
    best = min(density.candidates_, key=lambda candidate: candidate.valid_nll)
    assert {candidate.structure for candidate in density.candidates_} == {"factorized", "chow_liu", "tree_mixture", "hclt"}
    assert any("Sharpness" in candidate.name for candidate in density.candidates_)
    assert best.structure != "factorized"
    assert f"{density.n_free_parameters_:,} free parameters" in density.summary_
    fp.CircuitDensity(verbose=2).fit(X)
    assert "binary" in capfd.readouterr().err


def test_validation_rows_and_groups():
    X = np.cumsum(np.random.default_rng(0).random((150, 6)) < 0.1, axis=1) % 2
    given = fp.CircuitDensity(verbose=False).fit(X[:100], valid=X[100:])
    assert "50 validation rows" in given.summary_
    grouped = fp.CircuitDensity(verbose=False).fit(X, groups=np.arange(150) // 10)
    assert "150 rows in turn" in grouped.summary_
    with pytest.raises(DataError, match="one label for each of the 150 rows"):
        fp.CircuitDensity(verbose=False).fit(X, groups=[1, 2])


@pytest.mark.parametrize(("values", "strange"), [
    (lambda rng: rng.beta(2, 5, 400) ** 0.2, 1.0),
    (lambda rng: rng.negative_binomial(2, 0.1, 400).astype(float), -3.0),
    (lambda rng: rng.negative_binomial(2, 0.1, 400).astype(float), 500.0),
])  # fmt: skip
def test_validation_rows_may_hold_values_that_training_rows_cannot(values, strange):
    rng = np.random.default_rng(0)
    X = pl.DataFrame({"share": values(rng), "y": rng.normal(size=400)})
    valid = X[:100].with_columns(share=pl.Series([strange, *X["share"][1:100]]))
    density = fp.CircuitDensity(effort=0.5, verbose=False).fit(X, valid=valid)
    assert np.isfinite(density.score_samples(valid)).all()


def test_ctrl_c_stops_a_fit_and_who_called_it(monkeypatch):
    """`fp.fit` ends with what it has; the estimator must not go on to the next candidate, nor a grid search to the next fit."""
    real = training.fit
    begun = []

    def interrupted(*arguments, **options):
        begun.append(1)
        run = fp.learning.Run(callbacks=[lambda row, _: signal.raise_signal(signal.SIGINT)])
        return real(*arguments, **{**options, "run": run})

    monkeypatch.setattr(training, "fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fp.CircuitDensity(verbose=False).fit(X)
    assert len(begun) == 1


def test_the_summary_says_when_time_ran_out():
    density = fp.CircuitDensity(time_budget=1e-6, verbose=False).fit(X)
    assert "time_budget ended before all was tried" in density.summary_
    assert "time_budget" not in fp.CircuitDensity(**QUICK).fit(X).summary_


def test_one_column_is_not_said_to_be_asked_for():
    density = fp.CircuitDensity(verbose=False).fit(np.arange(60)[:, None] % 2)
    assert "asked" not in density.summary_
    assert "; 1 free parameter." in density.summary_


def test_what_is_said_of_the_score_is_in_the_users_units():
    X = np.random.default_rng(0).normal(size=(60, 1)) * 1e6
    density = fp.CircuitDensity(structure="factorized", verbose=False).fit(X)
    said = float(density.summary_.split(" nats")[0].rsplit(maxsplit=1)[-1])
    assert said == pytest.approx(density.score(X), abs=0.5)  # about -15; 1.4 in the circuit's units


def test_independent_columns_are_seen_to_be_independent():
    """Nothing to gain from latents: the choice is as good as independent columns."""
    X = np.random.default_rng(0).integers(0, 2, (400, 4))
    density = fp.CircuitDensity(verbose=False).fit(X)
    new = np.random.default_rng(1).integers(0, 2, (1000, 4))
    assert density.score(new) == pytest.approx(-4 * np.log(2), abs=0.03)


def test_a_penalty_relative_to_the_mean_flow():
    density = fp.CircuitDensity(**{**QUICK, "mu": "mean-flow"}).fit(people(100))
    assert "Sharpness(mu='mean-flow')" in density.summary_
    assert density.score(people(100)) != fp.CircuitDensity(**QUICK).fit(people(100)).score(people(100))


def test_curvature(mixed):
    rows = mixed.columns_.encode(people())
    assert mixed.curvature_.sharpness == pytest.approx(fp.curvature.trace(mixed.circuit_, rows).mean(), rel=1e-9)
    assert sum(mixed.curvature_.by_layer.values()) == pytest.approx(mixed.curvature_.sharpness, rel=1e-9)
    assert mixed.curvature_.n_rows == 300
    plain = fp.CircuitDensity(structure="factorized", verbose=False).fit(people())
    assert plain.curvature_.sharpness == 0


def test_free_parameters_by_hand():
    X = np.random.default_rng(0).integers(0, 3, (30, 3))
    tree = fp.structures.chow_liu(X)
    assert tree.n_free_parameters == 2 + 2 * 3 * 2  # a root of 3 values, and two tables of 3 conditionals of 3 values each
    hidden = fp.structures.hclt(X, n_latents=4, family="categorical")
    assert hidden.n_free_parameters == 3 * 4 * 2 + 3  # the centre's latent emits all three; its leaves hang on it


@pytest.mark.parametrize("n", [1, 2, 5, 9, 10, 12])
def test_few_rows(n):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.integers(0, 2, n), "c": ["x"] * n})
    density = fp.CircuitDensity(verbose=False).fit(frame)
    assert np.isfinite(density.score(frame))
    assert ("too few rows" in density.summary_) == (n < 10)


def test_constant_and_huge_columns():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.full(50, 7.5), rng.normal(size=50) * 1e100, rng.normal(size=50) * 1e-100, np.zeros(50)])
    density = fp.CircuitDensity(**QUICK).fit(X)
    assert np.isfinite(density.score_samples(X)).all()
    assert np.isfinite(density.sample(10, random_state=0)).all()
    for unit in (1e300, 1e-300):
        with pytest.raises(DataError, match=r"Column 'x1' has numbers around \de[+-]30\d; state it in a unit"):
            fp.CircuitDensity(**QUICK).fit(np.column_stack([X[:, 0], rng.normal(size=50) * unit]))


def test_large_tables_are_learnt_in_batches():
    X = np.cumsum(np.random.default_rng(0).random((5000, 5)) < 0.1, axis=1) % 2
    density = fp.CircuitDensity(**{**QUICK, "structure": "hclt"}).fit(X)
    # Five independent changes: minus their entropy is the best mean log-likelihood there is.
    assert density.score(X) == pytest.approx(5 * (0.1 * np.log(0.1) + 0.9 * np.log(0.9)), abs=0.05)


# ---- mistakes --------------------------------------------------------------------------------------------------------

X = np.random.default_rng(0).normal(size=(30, 2))


@pytest.mark.parametrize(("options", "match"), [
    ({"structure": "tree"}, "structure='tree'"),
    ({"structure": "chow_liu"}, "binary and categorical columns only"),
    ({"n_latents": 0}, "n_latents=0"),
    ({"n_latents": "many"}, "n_latents='many'"),
    ({"mu": -1}, "mu=-1"),
    ({"mu": "some"}, "mu='some'"),
    ({"missing": "drop"}, "missing='drop'"),
    ({"unseen": "drop"}, "unseen='drop'"),
    ({"effort": "long"}, "effort='long'"),
    ({"effort": -1}, "effort=-1"),
    ({"time_budget": "long"}, "time_budget='long'"),
    ({"kinds": 5}, "kinds=5; give one of binary"),
    ({"time_budget": 0}, "time_budget=0"),
    ({"kinds": {"x9": "binary"}}, "'x9'"),
    ({"random_state": -1}, "random_state=-1"),
])  # fmt: skip
def test_options_out_of_range(options, match):
    with pytest.raises(OptionError, match=match):
        fp.CircuitDensity(**options).fit(X)


def test_rows_with_other_columns():
    frame = pl.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    density = fp.CircuitDensity(**QUICK).fit(frame)
    for other, match in [
        (frame.rename({"b": "c"}), "- b\n"),
        (frame.drop("b"), "- b\n"),
        (frame.with_columns(c=1.0), "- c\n"),
        (frame.with_columns(b=pl.lit("text")), "'b'"),
    ]:
        for ask in (density.score, density.score_samples, density.impute, density.bic):
            with pytest.raises(DataError, match=match):
                ask(other)


def test_questions_that_have_no_answer():
    density = fp.CircuitDensity(**QUICK).fit(X)
    for call, kind, match in [
        (lambda: density.categories("x0"), OptionError, "'x0' is continuous"),
        (lambda: density.predict(X, "y"), OptionError, "no column 'y'"),
        (lambda: density.impute(X, how="median"), OptionError, "how='median'"),
        (lambda: density.sample(0), OptionError, "n_samples=0"),
        (lambda: density.score([["a", 1.0]]), DataError, "'x0' holds text"),
    ]:
        with pytest.raises(kind, match=match):
            call()


def test_answers_come_with_standard_errors(tmp_path):
    rng = np.random.default_rng(0)
    a = rng.integers(0, 2, 150)
    X = np.column_stack([a, np.where(rng.random(150) < 0.1, 1 - a, a), rng.integers(0, 2, 150)])
    density = fp.CircuitDensity(structure="chow_liu", effort=0.1, verbose=False).fit(X)
    value, error = density.score_samples(X[:5], return_std=True)
    post = fp.curvature.laplace(density.circuit_, X.astype(float))
    np.testing.assert_allclose(value, density.score_samples(X[:5]))
    np.testing.assert_allclose(error, post.log_prob(X[:5]).error, rtol=1e-9)
    proba, error = density.predict_proba(X[:5], 1, return_std=True)
    np.testing.assert_allclose(proba, density.predict_proba(X[:5], 1))
    np.testing.assert_allclose(error, post.conditional_proba(X[:5], 1).error, rtol=1e-9)
    # Intervals are those of the logit, and stay between 0 and 1.
    proba, low, high = density.predict_proba(X[:5], 1, interval=0.9)
    odds, reach = np.log(proba / (1 - proba)), 1.6448536269514722 * error / (proba * (1 - proba))
    np.testing.assert_allclose(low, 1 / (1 + np.exp(-odds + reach)), rtol=1e-9)
    np.testing.assert_allclose(high, 1 / (1 + np.exp(-odds - reach)), rtol=1e-9)
    assert ((low > 0) & (low < proba) & (proba < high) & (high < 1)).all()
    assert [each.shape for each in density.predict_proba(X[:5], 1, return_std=True, interval=0.5)] == [(5, 2)] * 4
    with pytest.raises(OptionError, match="interval"):
        density.predict_proba(X[:5], 1, interval=90)
    # Rows that come from a file, block by block.
    pl.DataFrame(X, schema=density.columns_.names, orient="row").write_parquet(tmp_path / "rows.parquet")
    streamed = density.score_samples(fp.tables.scan(tmp_path / "rows.parquet"), return_std=True)
    for one, other in zip(streamed, density.score_samples(X, return_std=True), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    # A file has no training rows: they are to be given.
    density.save(tmp_path / "a.model")
    again = fp.CircuitDensity.load(tmp_path / "a.model")
    with pytest.raises(OptionError, match="posterior"):
        again.score_samples(X[:5], return_std=True)
    again.posterior(X)
    np.testing.assert_allclose(again.score_samples(X[:5], return_std=True)[1], post.log_prob(X[:5]).error, rtol=1e-6)
    pickle.loads(pickle.dumps(again))


def test_error_bars_that_are_guesses_come_with_a_warning():
    """Far from an optimum: a fit that random weights took the place of."""
    rng = np.random.default_rng(0)
    a = rng.integers(0, 2, (100, 1))
    X = np.where(rng.random((100, 5)) < 0.1, 1 - a, a)
    density = fp.CircuitDensity(structure="hclt", n_latents=4, average=False, effort=0.1, verbose=False).fit(X)
    density.circuit_ = density.circuit_.randomize(0)
    density.posterior(X)
    assert density.posterior().damping == np.inf
    with pytest.warns(UserWarning, match="are guesses"):
        density.score_samples(X[:3], return_std=True)
    with pytest.warns(UserWarning, match="are guesses"):
        density.predict_proba(X[:3], 1, interval=0.9)
