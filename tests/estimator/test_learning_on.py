"""Learning on from further rows, and tuning the prediction of a column."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import flatpc as fp
from flatpc.errors import OptionError


def table(n=300, seed=0):
    rng = np.random.default_rng(seed)
    old = rng.random(n) < 0.5
    return pd.DataFrame({
        "age": rng.normal(np.where(old, 60, 30), 9.0),
        "pay": rng.normal(np.where(old, 3, 5), 1.5),
        "city": np.where(rng.random(n) < np.where(old, 0.9, 0.2), "Ulm", "Bonn"),
    })  # fmt: skip


def test_of_independent_columns_it_is_the_fit_to_all_rows():
    first, second = table(200), table(1700, seed=1)
    options = {"structure": "factorized", "average": False, "effort": 0.05, "verbose": False}
    density = fp.CircuitDensity(**options).partial_fit(first).partial_fit(second)
    assert density.n_rows_ == 1900
    both = pd.concat([first, second])
    for j, name in enumerate(("age", "pay")):
        found = {node.variable: density.circuit_.parameters[i] for i, node in enumerate(density.circuit_.nodes[:3])}[j]
        assert found["mean"][0] == pytest.approx(both[name].mean(), rel=1e-6)
        assert found["variance"][0] == pytest.approx(both[name].var(ddof=0), rel=1e-4)
    share = density.probability({"city": "Ulm"})
    assert share == pytest.approx((both["city"] == "Ulm").mean(), abs=2e-3)


def test_new_rows_are_learnt():
    density = fp.CircuitDensity(structure="mixture", n_latents=4, effort=0.2, verbose=False).fit(table())
    moved = table(600, seed=2).assign(age=lambda frame: frame["age"] + 15)
    before = density.score(moved)
    again = density.partial_fit(moved)
    assert again is density
    assert density.score(moved) > before + 0.1
    assert "900 rows" in density.summary_
    density.partial_fit(moved.assign(city="Rom")[:5])  # a city that wasn't there says nothing


def test_a_model_of_a_file_learns_on(tmp_path):
    density = fp.CircuitDensity(structure="factorized", effort=0.05, verbose=False).fit(table())
    density.save(tmp_path / "model")
    again = fp.CircuitDensity.load(tmp_path / "model").partial_fit(table(100, seed=1))
    assert again.n_rows_ == 400
    assert again.score(table()) == density.partial_fit(table(100, seed=1)).score(table())
    density.circuit_.save(tmp_path / "bare")
    with pytest.raises(OptionError, match="how many rows"):
        fp.CircuitDensity.load(tmp_path / "bare").partial_fit(np.zeros((3, 3)))


def numbers(density):
    """Mean and variance of the first column."""
    (found,) = (density.circuit_.parameters[i] for i, node in enumerate(density.circuit_.nodes[:3]) if node.variable == 0)
    return found["mean"][0], found["variance"][0]


@pytest.mark.parametrize("through_a_file", [False, True])
def test_weights_count_rows(through_a_file, tmp_path):
    """Weighted moments in closed form, after a weighted fit and further weighted rows; a weight of 0 is no row."""
    first, second = table(200), table(1700, seed=1)
    rng = np.random.default_rng(0)
    weights = rng.exponential(3.0, 200), rng.exponential(size=1700) * (rng.random(1700) < 0.8)
    options = {"structure": "factorized", "average": False, "effort": 0.05, "verbose": False}
    density = fp.CircuitDensity(**options).partial_fit(first, sample_weight=weights[0])
    if through_a_file:
        density.save(tmp_path / "model")
        density = fp.CircuitDensity.load(tmp_path / "model")
    density.partial_fit(second, sample_weight=weights[1])
    both, every = pd.concat([first, second])["age"], np.concatenate(weights)
    mean, variance = numbers(density)
    assert mean == pytest.approx(np.average(both, weights=every), rel=1e-6)
    assert variance == pytest.approx(np.average((both - mean) ** 2, weights=every), rel=1e-4)
    assert density.n_rows_ == np.count_nonzero(every)


def test_whole_weights_are_repeated_rows():
    times = np.random.default_rng(0).integers(0, 3, 400)
    new = table(400, seed=1)
    found = []
    for rows, weights in ((new, times), (new.loc[new.index.repeat(times)], None)):
        density = fp.CircuitDensity(structure="factorized", effort=0.05, verbose=False).fit(table())
        found.append(density.partial_fit(rows, sample_weight=weights).score_samples(table(50, seed=2)))
    np.testing.assert_allclose(*found, rtol=1e-9)


def test_wrong_weights_of_further_rows():
    density = fp.CircuitDensity(structure="factorized", effort=0.05, verbose=False).fit(table())
    for weights in ([1.0, 2.0], -np.ones(300), np.zeros(300), "many"):
        with pytest.raises(OptionError, match="sample_weight"):
            density.partial_fit(table(), sample_weight=weights)
    with pytest.raises(OptionError, match="leave it out for a source"):
        density.partial_fit(pl.from_pandas(table()).lazy(), sample_weight=np.ones(300))
    assert density.n_rows_ == 300


def test_error_bars_are_not_those_of_further_rows_alone(tmp_path):
    """A file holds no rows, so that what it was fitted to is not known."""
    density = fp.CircuitDensity(structure="factorized", effort=0.05, verbose=False).fit(table())
    density.save(tmp_path / "model")
    again = fp.CircuitDensity.load(tmp_path / "model").partial_fit(table(100, seed=1))
    with pytest.raises(OptionError, match="which a file doesn't hold"):
        again.posterior()
    assert again.posterior(pd.concat([table(), table(100, seed=1)])) is not None


@pytest.mark.parametrize("mu", [0.0, 0.1])
def test_tuned_predictions_are_better_and_other_answers_stay(mu, tmp_path):
    """A mixture of independent columns with too few units describes clusters, not cities."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(900, 3))
    frame = pd.DataFrame(x, columns=list("abc")).assign(side=np.where(x[:, 0] + x[:, 1] > 0, "up", "down"))
    train, test = frame[:600], frame[600:]
    density = fp.CircuitDensity(structure="mixture", n_latents=3, average=False, effort=0.3, verbose=False).fit(train)
    truth = (test["side"] == "up").to_numpy()

    def nll():
        p = density.predict_proba(test, "side")[:, density.categories("side").index("up")]
        return -np.mean(np.log(np.where(truth, p, 1 - p)))

    before, score, other = nll(), density.score(test), density.predict(test, "a")
    density.tune(train, "side", mu=mu)
    assert nll() < before - 0.02
    assert density.score(test) == score
    np.testing.assert_array_equal(density.predict(test, "a"), other)
    assert (density.predict(test, "side") == test["side"]).mean() > 0.8
    density.save(tmp_path / "model")
    again = fp.CircuitDensity.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(test, "side"), density.predict_proba(test, "side"))
    assert again.score(test) == score
    # Error bars are those of the fit, which no longer answers for this column.
    for options in ({"return_std": True}, {"interval": 0.9}):
        with pytest.raises(OptionError, match="Column side was tuned"):
            density.predict_proba(test, "side", **options)


def test_tuning_that_brings_nothing_changes_nothing():
    frame = table()
    density = fp.CircuitDensity(structure="mixture", n_latents=4, effort=0.2, verbose=False).fit(frame)
    before = density.predict_proba(frame, "city")
    np.testing.assert_allclose(density.tune(frame, "city", epochs=0).predict_proba(frame, "city"), before, rtol=1e-9)
    density.tune(frame, "age", epochs=2)
    with pytest.raises(OptionError, match="no column"):
        density.tune(frame, "street")
