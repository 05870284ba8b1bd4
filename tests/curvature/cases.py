"""Circuits and rows that the tests of this folder share."""

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from tests.oracles import derivatives, random_circuits


@st.composite
def problems(draw, max_rows=4, **options):
    """A random circuit and rows whose probability is far from 0."""
    circuit = draw(random_circuits.circuits(max_variables=4, max_width=3, families="all", **options))
    return circuit, draw(comfortable_rows(circuit, max_rows))


@st.composite
def comfortable_rows(draw, circuit, max_rows=4):
    X = draw(random_circuits.rows(circuit, max_rows))
    X = X[derivatives.comfortable(circuit.log_prob(X, missing="marginalize"))]
    assume(len(X))
    return X


def assert_close(found, expected, tolerance):
    """Within `tolerance` of the expected array's largest entry."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape
    if expected.size:
        largest = abs(expected).max()
        assert abs(found - expected).max() <= tolerance * largest, (abs(found - expected).max(), largest)
