"""scikit-learn's own checks of what an estimator promises, and the tools that rely on it."""

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import flatpc as fp

QUICK = {"structure": "mixture", "n_latents": 2, "mu": 0.1, "average": False, "effort": 0.1, "verbose": False}


OTHERWISE = {
    "check_dataframe_column_names_consistency": "columns are matched by name, where scikit-learn asks for an error",
    "check_sample_weight_equivalence_on_dense_data": "models are chosen by random folds; those of repeated rows have copies "
    "of a row on both sides, those of weighted rows never do",
}


@parametrize_with_checks(
    [fp.CircuitDensity(), fp.CircuitDensity(**QUICK, missing="marginalize")], expected_failed_checks=lambda _: OTHERWISE
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.fixture
def blobs():
    rng = np.random.default_rng(0)
    return rng.normal(size=(120, 2)) + np.where(rng.random((120, 1)) < 0.5, -4.0, 4.0)


def test_grid_search_finds_the_number_of_blobs(blobs):
    """By mean log-likelihood, because that is `score`; two blobs on the diagonal need two latents."""
    search = GridSearchCV(fp.CircuitDensity(**QUICK), {"n_latents": [1, 2]}, cv=3).fit(blobs)
    assert search.best_params_ == {"n_latents": 2}
    best = search.best_estimator_
    assert search.score(blobs) == pytest.approx(best.score_samples(blobs).mean(), rel=1e-12)
    one, two = search.cv_results_["mean_test_score"]
    assert two - one > 0.5  # nats; log 2 per row if the blobs don't overlap at all


def test_cross_validation_and_pipeline(blobs):
    plain = cross_val_score(fp.CircuitDensity(**QUICK), blobs, cv=3)
    pipeline = make_pipeline(StandardScaler(), fp.CircuitDensity(**QUICK))
    scaled = cross_val_score(pipeline, blobs, cv=3)
    assert np.isfinite(plain).all()
    # Standardising beforehand changes the unit, not the model: densities differ by the log of the scales of each fold.
    for score, before, (train, _) in zip(scaled, plain, KFold(3).split(blobs), strict=True):
        assert score - before == pytest.approx(np.log(blobs[train].std(axis=0)).sum(), abs=1e-9)
    assert pipeline.fit(blobs).score_samples(blobs).shape == (120,)


def test_clone_and_parameters(blobs):
    density = fp.CircuitDensity(**QUICK, kinds={"x0": "continuous"}).fit(blobs)
    again = clone(density)
    assert again.get_params() == density.get_params()
    assert not hasattr(again, "circuit_")
    np.testing.assert_array_equal(again.fit(blobs).score_samples(blobs), density.score_samples(blobs))
    with pytest.raises(NotFittedError):
        clone(density).sample()


@pytest.mark.parametrize("mmap_mode", [None, "r"])
def test_joblib_keeps_everything(blobs, tmp_path, mmap_mode):
    frame = pd.DataFrame({"a": blobs[:, 0], "sort": np.where(blobs[:, 1] > 0, "up", "down")})
    density = fp.CircuitDensity(**QUICK).fit(frame)
    joblib.dump(density, tmp_path / "density.joblib")
    again = joblib.load(tmp_path / "density.joblib", mmap_mode=mmap_mode)
    np.testing.assert_array_equal(again.score_samples(frame), density.score_samples(frame))
    pd.testing.assert_frame_equal(again.sample(5, random_state=1), density.sample(5, random_state=1))
    assert again.summary_ == density.summary_
    assert again.categories("sort") == ["down", "up"]


def test_names_of_columns_are_kept_and_checked(blobs):
    frame = pd.DataFrame(blobs, columns=["a", "b"])
    density = fp.CircuitDensity(**QUICK).fit(frame)
    assert density.feature_names_in_.tolist() == ["a", "b"]
    assert density.n_features_in_ == 2
    assert density.score(frame[["b", "a"]]) == density.score(frame)
    with pytest.raises(ValueError, match="feature names"):
        density.score(frame.rename(columns={"b": "c"}))
    with pytest.raises(ValueError, match=r"now missing:\n- b"):
        density.score(frame[["a"]])


def test_random_states(blobs):
    for state in (3, np.random.RandomState(3), np.random.default_rng(3), None):
        density = fp.CircuitDensity(**QUICK, random_state=state).fit(blobs)
        assert np.isfinite(density.score(blobs))
    same = [fp.CircuitDensity(**QUICK, random_state=np.random.RandomState(3)).fit(blobs).score(blobs) for _ in range(2)]
    assert same[0] == same[1]
    assert not np.array_equal(density.sample(3), density.sample(3))
    np.testing.assert_array_equal(density.sample(3, random_state=5), density.sample(3, random_state=5))
