"""`fit(..., sharpness="auto")`: what is chosen is what a loop over candidates finds."""

import numpy as np
import pytest

import flatpc as fp
from flatpc.errors import OptionError
from flatpc.learning.regularizers.auto import LAPLACE, SHARPNESS, candidates
from tests.search.test_choosing import bits


@pytest.mark.parametrize(("which", "tried"), [("sharpness", SHARPNESS), ("regularizer", LAPLACE)])
def test_the_best_of_the_candidates_is_used(which, tried):
    X, valid = bits(40), bits(300, seed=1)
    start = fp.structures.hclt(X, 8)
    options = {"batch_size": None, "method": fp.EM(step_size=1.0), "progress": False}
    got = fp.fit(start, X, valid=valid, epochs=20, **{which: "auto"}, **options)
    judged = {part: fp.fit(start, X, valid=valid, epochs=4, regularizer=part, **options).best_nll for part in (None, *tried)}
    best = min(judged, key=judged.get)
    want = fp.fit(start, X, valid=valid, epochs=20, regularizer=best, **options)
    assert np.array_equal(got.history["train_nll"], want.history["train_nll"])
    assert ("no regulariser" if best is None else type(best).__name__) in got.notes[-1]
    assert f"of {len(tried) + 1} candidates" in got.notes[-1]


def test_gradient_learning_tries_penalties_only():
    X = bits(40)
    result = fp.fit(
        fp.structures.hclt(X, 3),
        X,
        valid=X,
        method=fp.Adam(step_size=0.1),
        epochs=5,
        sharpness="auto",
        regularizer="auto",
        progress=False,
    )
    assert "of 4 candidates" in result.notes[-1]


def test_given_ones_stay_and_those_that_would_not_go_with_them_are_left_out():
    fixed, tried = candidates(fp.learning.Laplace(0.5, on="inputs"), "auto", fp.EM())
    assert fixed == (fp.learning.Laplace(0.5, on="inputs"),)
    assert tried == [(*fixed, part) for part in SHARPNESS]
    fixed, tried = candidates("auto", fp.Sharpness(mu=0.3), fp.EM())
    assert tried == [(fp.Sharpness(mu=0.3), part) for part in LAPLACE]
    # Two penalties in one M-step don't go together.
    assert candidates("entropy", "auto", fp.EM())[1] == []


def test_it_needs_rows_to_judge_by():
    with pytest.raises(OptionError, match="valid="):
        fp.fit(fp.structures.hclt(bits(10), 2), bits(10), sharpness="auto", progress=False)
