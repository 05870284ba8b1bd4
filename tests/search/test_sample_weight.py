"""`sample_weight` of `choose` and of the estimator: whole numbers are repeated rows."""

import numpy as np
import pytest

import flatpc as fp
from flatpc.errors import OptionError

RNG = np.random.default_rng(0)
X = (RNG.random((60, 5)) < RNG.choice([0.2, 0.8], (60, 1))).astype(float)
VALID = (RNG.random((40, 5)) < RNG.choice([0.2, 0.8], (40, 1))).astype(float)
TIMES = RNG.integers(0, 4, 60)
REPEATED = np.repeat(X, TIMES, axis=0)
QUICK = {"effort": 0.3, "progress": False, "n_threads": 1}


@pytest.mark.parametrize("judged", [{"valid": VALID}, {}])
def test_choose(judged):
    weighted = fp.choose(X, sample_weight=TIMES, **judged, **QUICK)
    copies = {} if judged else {"groups": np.repeat(np.arange(60), TIMES)}
    repeated = fp.choose(REPEATED, **judged, **copies, **QUICK)
    np.testing.assert_allclose(weighted.circuit.log_prob(X), repeated.circuit.log_prob(X), rtol=1e-10)
    assert [c.name for c in weighted.candidates] == [c.name for c in repeated.candidates]
    plain = fp.choose(X, **judged, **QUICK)
    assert abs(plain.circuit.log_prob(X) - weighted.circuit.log_prob(X)).max() > 1e-3


def test_groups_go_with_weights():
    groups = np.arange(60) // 3
    weighted = fp.choose(X, sample_weight=TIMES, groups=groups, **QUICK)
    repeated = fp.choose(REPEATED, groups=np.repeat(groups, TIMES), **QUICK)
    np.testing.assert_allclose(weighted.circuit.log_prob(X), repeated.circuit.log_prob(X), rtol=1e-10)


def test_the_estimator():
    options = {"structure": "chow_liu", "effort": 0.3, "verbose": False}
    weighted = fp.CircuitDensity(**options).fit(X, sample_weight=TIMES, valid=VALID)
    repeated = fp.CircuitDensity(**options).fit(REPEATED, valid=VALID)
    np.testing.assert_allclose(weighted.score_samples(X), repeated.score_samples(X), rtol=1e-10)
    assert weighted.curvature_ == repeated.curvature_


@pytest.mark.parametrize(("weights", "words"), [
    (np.full(60, 0.5), "whole numbers"),
    (np.full(60, 1e6), "10,000,000 at most"),
    (np.ones(59), "59 numbers"),
    (np.zeros(60), "all weights are zero"),
])  # fmt: skip
def test_bad_input(weights, words):
    for ask in (lambda: fp.choose(X, sample_weight=weights, **QUICK), lambda: fp.CircuitDensity().fit(X, sample_weight=weights)):
        with pytest.raises(OptionError, match=words):
            ask()
