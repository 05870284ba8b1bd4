"""`fp.learning.EMStep`: steps over parts are those of `fit` over the whole, and what is refused."""

import numpy as np
import pytest

import flatpc as fp
from flatpc.errors import MissingValueError, OptionError, ShapeError
from flatpc.learning import Dropout, EMStep, Entropy, Laplace, PruneGrow

RNG = np.random.default_rng(0)
X = (RNG.random((60, 5)) < RNG.choice([0.2, 0.8], (60, 1))).astype(float)
TIMES = RNG.integers(0, 4, 60)
CIRCUIT = fp.structures.hclt(X, 4)


@pytest.mark.parametrize("regularizer", [None, Laplace(0.5), fp.Sharpness(mu=0.3), fp.Sharpness(mu="mean-flow"), Entropy(0.1)])
@pytest.mark.parametrize("method", [fp.EM(1.0), fp.EM(0.3, momentum=0.5)])
def test_parts_are_the_whole(regularizer, method):
    step = EMStep(CIRCUIT, n_rows=float(TIMES.sum()), method=method, regularizer=regularizer, dtype="float64")
    for _ in range(3):
        parts = (slice(0, 7), slice(7, 40), slice(40, 60))
        first, *rest = [step.accumulate(X[part], sample_weight=TIMES[part]) for part in parts]
        step.apply(sum(rest, first))
    whole = fp.fit(
        CIRCUIT, X, sample_weight=TIMES, method=method, regularizer=regularizer, epochs=3, batch_size=None, dtype="float64",
        progress=False,
    )  # fmt: skip
    np.testing.assert_allclose(step.circuit.log_prob(X), whole.circuit.log_prob(X), rtol=1e-10)


def test_statistics_are_not_used_up_and_schedules_follow_progress():
    steps = [EMStep(CIRCUIT, n_rows=60, method=fp.EM(fp.learning.linear(1.0, 0.1))) for _ in range(2)]
    found = steps[0].accumulate(X)
    kept = found.gradient.copy(), found.inputs.copy()
    for step, progress in zip(steps, (0.0, 0.9), strict=True):
        step.apply(found, progress=progress)
        np.testing.assert_array_equal(found.gradient, kept[0])
        np.testing.assert_array_equal(found.inputs, kept[1])
    far, near = (abs(step.circuit.log_prob(X) - CIRCUIT.log_prob(X)).max() for step in steps)
    assert near < far / 2


def test_bad_input():
    other = EMStep(fp.structures.hclt(X, 3), n_rows=60)
    step = EMStep(CIRCUIT, n_rows=60)
    for wrong in (
        {"n_rows": 0},
        {"n_rows": "many"},
        {"method": "adam"},
        {"regularizer": Dropout()},
        {"regularizer": PruneGrow()},
    ):
        with pytest.raises(OptionError):
            EMStep(CIRCUIT, **{"n_rows": 60, **wrong})
    with pytest.raises(OptionError, match="another circuit"):
        step.apply(other.accumulate(X))
    with pytest.raises(OptionError, match="accumulate"):
        step.apply(None)
    with pytest.raises(OptionError, match="progress"):
        step.apply(step.accumulate(X), progress=2.0)
    with pytest.raises(ShapeError):
        step.accumulate(X[:, :3])
    with pytest.raises(MissingValueError):
        step.accumulate(np.where(X == 1, np.nan, X))
