"""Several circuits as one, against the weighted sum of their probabilities."""

import numpy as np
import pytest

import flatpc as fp
from flatpc.errors import OptionError
from tests.oracles.evaluate import assignments, log_prob


def test_mixes_any_circuits_over_the_same_variables():
    X = np.random.default_rng(0).integers(0, 2, (40, 5)).astype(float)
    parts = [
        fp.structures.factorized(X),
        fp.structures.chow_liu(X, family="bernoulli"),
        fp.structures.hclt(X, 3, n_trees=2),
        fp.structures.hmm(5, 2, family="bernoulli", homogeneous=True),
    ]
    weights = [0.1, 0.2, 0.3, 0.4]
    got = fp.structures.mix(parts, np.array(weights) * 7)
    rows = assignments(got)
    want = sum(w * np.exp(log_prob(part, rows)) for w, part in zip(weights, parts, strict=True))
    assert np.exp(log_prob(got, rows)) == pytest.approx(want, abs=1e-15)
    assert got.has_tied_parameters
    even = np.mean([np.exp(log_prob(part, rows)) for part in parts], axis=0)
    assert np.exp(log_prob(fp.structures.mix(parts), rows)) == pytest.approx(even, abs=1e-15)


def test_one_circuit_is_itself():
    circuit = fp.structures.factorized([[0, 1]])
    assert fp.structures.mix([circuit]) is circuit


@pytest.mark.parametrize("weights", [[1.0], [-1.0, 2.0], [0.0, 0.0], [np.nan, 1.0]])
def test_bad_weights_are_named(weights):
    circuit = fp.structures.factorized([[0, 1]])
    with pytest.raises(OptionError, match="weights="):
        fp.structures.mix([circuit, circuit], weights)


def test_bad_circuits_are_named():
    with pytest.raises(OptionError, match="no circuits"):
        fp.structures.mix([])
    with pytest.raises(OptionError, match="2, 3"):
        fp.structures.mix([fp.structures.factorized([[0, 1]]), fp.structures.factorized([[0, 1, 1]])])
