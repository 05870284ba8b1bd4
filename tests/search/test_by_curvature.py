"""Judges that put no rows aside: what they say of a model, and what `choose` makes of it."""

import numpy as np
import pytest

import flatpc as fp
from flatpc.errors import OptionError
from flatpc.search.by_curvature import PRIOR, CurvatureJudge, Round
from flatpc.search.counted import Counted
from flatpc.search.plans import Plan
from flatpc.search.samples import Sample
from tests.search.test_choosing import bits, quick


def test_leaving_a_row_out_of_a_counted_model_is_counting_without_it():
    """Counts with the judge's own prior, so that the model is at its optimum and nothing is approximated."""
    X = bits(60, 4)
    found = CurvatureJudge("loo", "raise").log_prob(_independent(X), X, counted=True)
    again = [_independent(np.delete(X, i, axis=0)).log_prob(X[i : i + 1])[0] for i in range(len(X))]
    np.testing.assert_allclose(found, again, rtol=1e-10)


def _independent(X):
    return fp.structures.factorized(X, smoothing=2 * PRIOR["loo"])


def test_a_model_with_latents_is_charged_for_what_is_missing():
    """Against refits without each row: nearer than one step of EM is, and within a fifth of what they lose."""
    X = bits(150, 5)
    options = {"batch_size": None, "epochs": 300, "dtype": "float64", "progress": False, "n_threads": 1}
    smoothed = fp.learning.Laplace(2 * PRIOR["loo"])

    def refit(start, rows):
        return fp.fit(start, rows, method=fp.EM(1.0), regularizer=smoothed, **options).circuit

    circuit = refit(fp.structures.hclt(X, 2, seed=0), X)
    some = np.arange(0, 150, 6)
    done = np.mean([circuit.log_prob(X[[i]])[0] - refit(circuit, np.delete(X, i, axis=0)).log_prob(X[[i]])[0] for i in some])
    now = circuit.log_prob(X)
    judged = (now - CurvatureJudge("loo", "raise").log_prob(circuit, X, counted=False))[some].mean()
    one_step = (now - CurvatureJudge("loo", "raise").log_prob(circuit, X, counted=True))[some].mean()
    assert one_step < judged
    assert abs(judged - done) < abs(one_step - done)
    assert judged == pytest.approx(done, rel=0.2)


def test_the_evidence_is_the_mean():
    X = bits(80, 4)
    circuit = Counted(Sample(X), X, [fp.Bernoulli()] * 4, 0).fit(Plan("chow_liu", {"smoothing": 1.0, "prior": "even"}))[1]()
    found = CurvatureJudge("evidence", "raise").log_prob(circuit, X, counted=True)
    assert found.sum() == pytest.approx(fp.curvature.evidence(circuit, X, prior=0.5, structure="complete"), rel=1e-12)
    np.testing.assert_allclose(found - found.mean(), circuit.log_prob(X) - circuit.log_prob(X).mean(), atol=1e-12)


def test_a_round_ends_where_its_judge_sees_no_better_model():
    X = bits(20, 6)
    start = fp.structures.hclt(X, 8, seed=0, init="random")
    judged = Round(CurvatureJudge("loo", "raise"), X, 600)
    seen = []

    def watched(row, circuit):
        before = judged.next
        end = judged(row, circuit)
        if row["epoch"] >= before:
            seen.append((row["epoch"], judged.judge.log_prob(circuit(), X, counted=False).mean()))
        return end

    result = judged.of(
        fp.fit(
            start,
            X,
            method=fp.EM(1.0),
            batch_size=None,
            epochs=600,
            progress=False,
            run=fp.learning.Run(callbacks=(watched,)),
            n_threads=1,
        )
    )
    assert result.stopped == "callback"
    assert len(result.history) < 600
    best = max(seen, key=lambda each: each[1])
    assert (result.best_epoch, -result.best_nll) == pytest.approx(best)
    assert seen[-1][1] < best[1]
    assert judged.work > 0


@pytest.mark.parametrize("judge", ["loo", "evidence"])
def test_choose_learns_each_model_once_from_all_rows(judge):
    X = bits(250)
    found = quick(X, judge=judge)
    assert (found.n_rows, found.n_judges, found.refitted) == (250, 250, False)
    assert found.judge in found.why
    assert found.valid_nll <= min(each.valid_nll for each in found.candidates) + 1e-9
    if judge == "evidence":
        assert len(found.chosen) == 1
    # The rows have latents; independent columns are not what is chosen.
    simple = next(each for each in found.candidates if each.structure == "factorized")
    assert found.valid_nll < simple.valid_nll
    # No better than by rows in turn: 3% and 5% worse.
    new = bits(2000, seed=5)
    assert -found.circuit.log_prob(new).mean() < 1.08 * -quick(X).circuit.log_prob(new).mean()
    # The same model again, and with two threads.
    again = quick(X, judge=judge, n_threads=2)
    assert np.array_equal(found.circuit.log_prob(new[:50]), again.circuit.log_prob(new[:50]))


def test_missing_values_and_the_estimator():
    X = bits(120, 5)
    X[::7, 2] = np.nan
    model = fp.CircuitDensity(judge="loo", effort=0.3, missing="marginalize", verbose=False).fit(X)
    assert "left out by curvature" in model.summary_
    assert np.isfinite(model.score_samples(X)).all()


def test_what_they_are_not_for_is_said():
    X = bits(60, 4)
    numbers = np.random.default_rng(0).normal(size=(60, 2))
    with pytest.raises(OptionError, match="categories"):
        quick(numbers, judge="loo", family="gaussian")
    with pytest.raises(OptionError, match="groups"):
        quick(X, judge="evidence", groups=np.arange(60) // 2)
    with pytest.raises(OptionError, match="sample_weight"):
        quick(X, judge="loo", sample_weight=np.arange(60) % 2 + 1)
    with pytest.raises(OptionError, match="leave one out"):
        quick(X, bits(20, 4), judge="loo")
