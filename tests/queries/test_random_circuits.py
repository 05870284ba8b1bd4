"""Random circuits (Hypothesis) over few discrete variables: every answer equals enumeration."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import flatpc as fp
from flatpc.errors import DataError
from tests.oracles.random_circuits import circuits, rows
from tests.queries.cases import Joint, assert_distributed
from tests.queries.test_mpe import induced_trees

# Derandomised, so that a test of level 1e-6 that passes once passes always.
many = settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
few = settings(many, max_examples=40)


@st.composite
def questions(draw, **options):
    """A circuit, rows with missing entries, and the joint distribution."""
    circuit = draw(circuits(**options))
    return circuit, draw(rows(circuit)), Joint(circuit)


@many
@given(questions())
def test_marginals(question):
    circuit, X, table = question
    assert abs(np.exp(circuit.log_prob(table.X)).sum() - 1) < 1e-12
    expected = np.array([table.given(row)[1] for row in X])
    np.testing.assert_allclose(np.exp(circuit.log_prob(X, missing="marginalize")), expected, rtol=1e-10, atol=0)


@many
@given(questions(), st.integers(0, 2**32 - 1))
def test_conditionals(question, seed):
    circuit, X, table = question
    known = np.random.default_rng(seed).random(X.shape) < 0.5
    parts = [(table.given(row)[1], table.given(np.where(mask, row, np.nan))[1]) for row, mask in zip(X, known, strict=True)]
    if any(evidence == 0 for _, evidence in parts):
        with pytest.raises(DataError, match="probability zero"):
            circuit.conditional_log_prob(X, known, missing="marginalize")
        return
    expected = [both / evidence for both, evidence in parts]
    answer = np.exp(circuit.conditional_log_prob(X, known, missing="marginalize"))
    np.testing.assert_allclose(answer, expected, rtol=1e-10, atol=0)


@many
@given(questions())
def test_moments(question):
    circuit, X, table = question
    for row in X:
        p, total = table.given(row)
        if total == 0:
            if np.isnan(row).any():
                with pytest.raises(DataError, match="row 0 have probability zero"):
                    circuit.expectation(row[None])
            continue
        mean = p @ table.X
        np.testing.assert_allclose(circuit.expectation(row[None])[0], mean, rtol=0, atol=1e-10)
        np.testing.assert_allclose(circuit.variance(row[None])[0], p @ (table.X - mean) ** 2, rtol=0, atol=1e-10)


@few
@given(questions(max_variables=4), st.integers(0, 2**32 - 1))
def test_samples(question, seed):
    circuit, X, table = question
    for row in (np.full(circuit.n_variables, np.nan), X[0]):
        p, total = table.given(row)
        if total > 0:
            known = None if np.isnan(row).all() and seed % 2 else row
            assert_distributed(circuit.sample(4000, seed=seed, given=known), table.X, p, level=1e-6)


@many
@given(questions(max_variables=4))
def test_max_product(question):
    """The completion belongs to the best induced tree; in a deterministic circuit that is the best assignment."""
    circuit, X, table = question
    for row in X:
        p, total = table.given(row)
        if total == 0 or not np.isnan(row).any():
            continue
        done = circuit.mpe(row[None])
        trees = induced_trees(circuit, row)
        best = max(q for q, _ in trees)
        taken = done.values[0]
        assert any(all(taken[v] == x for v, x in values.items()) for q, values in trees if q > best * (1 - 1e-12))
        np.testing.assert_allclose(done.log_prob[0], np.log(table.given(taken)[1]), rtol=0, atol=1e-10)
        assert done.exact == circuit.is_deterministic
        if done.exact:
            np.testing.assert_allclose(table.given(taken)[1], p.max() * total, rtol=1e-10)


@few
@given(st.integers(2, 6), st.integers(2, 3), st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_chow_liu_trees_are_completed_exactly(n_variables, n_values, seed, share):
    rng = np.random.default_rng(seed)
    circuit = fp.structures.chow_liu(rng.integers(0, n_values, (30, n_variables)), smoothing=1.0)
    table = Joint(circuit)
    X = table.X[rng.choice(len(table.X), 10)]
    X[rng.random(X.shape) < share] = np.nan
    done = circuit.mpe(X)
    assert done.exact
    best = [table.given(row)[0].max() * table.given(row)[1] for row in X]
    np.testing.assert_allclose(np.exp(done.log_prob), best, rtol=1e-10)
