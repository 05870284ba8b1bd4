"""Probabilities of the values of one variable given the rest, against conditional log-likelihoods of each value."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import flatpc as fp
from flatpc.errors import DataError, OptionError
from tests.oracles.random_circuits import circuits
from tests.oracles.random_circuits import rows as rows_of


@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data())
def test_each_value_has_its_conditional_likelihood(data):
    circuit = data.draw(circuits(max_variables=4))
    finite = [v for v, family in enumerate(circuit.families) if family.n_categories is not None]
    assume(finite)
    rows = data.draw(rows_of(circuit, max_rows=4))
    v = data.draw(st.sampled_from(finite))
    rest = [i for i in range(rows.shape[1]) if i != v]
    rows[:, v] = np.nan
    assume(len(rows) and np.isfinite(circuit.log_prob(rows, missing="marginalize")).all())
    found = circuit.conditional_proba(rows, variable=v)
    assert found.shape == (len(rows), circuit.families[v].n_categories)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-10)
    for value in range(found.shape[1]):
        asked = rows.copy()
        asked[:, v] = value
        with np.errstate(all="ignore"):
            wanted = np.exp(circuit.conditional_log_prob(asked, rest, missing="marginalize"))
        np.testing.assert_allclose(found[:, value], wanted, rtol=1e-9, atol=1e-12)


def test_tensors_and_mistakes():
    circuit = fp.structures.hclt(np.random.default_rng(0).integers(0, 2, (50, 3)).astype(float), 2)
    rows = np.array([[0.0, np.nan, 1.0]])
    found = circuit.conditional_proba(torch.tensor(rows), variable=1)
    assert isinstance(found, torch.Tensor)
    np.testing.assert_array_equal(found.numpy(), circuit.conditional_proba(rows, variable=1))
    with pytest.raises(OptionError, match="variable"):
        circuit.conditional_proba(rows, variable=3)
    with pytest.raises(DataError):
        circuit.conditional_proba(rows, variable=0, missing="raise")
    with pytest.raises(OptionError, match="infinitely many"):
        fp.Circuit([fp.Input(0, fp.Gaussian())]).conditional_proba([[0.0]], variable=0)
