"""Independent variables: each column's parameters by hand."""

import numpy as np
import pytest

import flatpc as fp
from flatpc.errors import MissingValueError, OptionError, ShapeError, SupportError
from tests.oracles.evaluate import assignments, log_prob


def test_bernoulli_parameters_are_smoothed_frequencies():
    X = np.array([[0, 1], [1, 1], [1, 1]])
    circuit = fp.structures.factorized(X, smoothing=1.0)
    # (2 + 1/2) / (3 + 1) and (3 + 1/2) / (3 + 1)
    assert circuit.parameters[0]["p"].tolist() == [0.625]
    assert circuit.parameters[1]["p"].tolist() == [0.875]
    assert log_prob(circuit, [[1, 0]])[0] == pytest.approx(np.log(0.625 * 0.125), abs=1e-15)


def test_missing_values_are_left_out_of_their_column():
    X = np.array([[0.0, np.nan], [1.0, 1.0], [np.nan, 0.0], [1.0, 1.0]])
    circuit = fp.structures.factorized(X, smoothing=0.0)
    assert circuit.parameters[0]["p"] == pytest.approx([2 / 3], abs=1e-15)
    assert circuit.parameters[1]["p"] == pytest.approx([2 / 3], abs=1e-15)


def test_each_variable_can_have_its_own_family():
    rng = np.random.default_rng(0)
    columns = [
        rng.integers(0, 2, 50),
        rng.integers(0, 4, 50),
        1e8 + rng.standard_normal(50),
        rng.poisson(3, 50),
        np.arange(50) % 6,
    ]
    X = np.stack(columns, axis=1)
    circuit = fp.structures.factorized(X, family=["bernoulli", "categorical", "gaussian", "poisson", "binomial"], smoothing=0.0)
    assert circuit.families == (fp.Bernoulli(), fp.Categorical(4), fp.Gaussian(), fp.Poisson(), fp.Binomial(5))
    assert circuit.parameters[1]["p"][0] == pytest.approx(np.bincount(columns[1], minlength=4) / 50, abs=1e-15)
    assert circuit.parameters[2]["mean"][0] == pytest.approx(columns[2].mean(), abs=1e-7)
    # In one pass around 0 the squares of 1e8 would leave no digit of this variance.
    assert circuit.parameters[2]["variance"][0] == pytest.approx(columns[2].var(), rel=1e-8)
    assert circuit.parameters[3]["rate"][0] == pytest.approx(columns[3].mean(), rel=1e-14)
    assert circuit.parameters[4]["p"][0] == pytest.approx(columns[4].mean() / 5, rel=1e-14)
    assert circuit.is_tree
    assert circuit.is_structured_decomposable


def test_sums_to_one():
    circuit = fp.structures.factorized(np.random.default_rng(0).integers(0, 3, (9, 5)), family="categorical")
    assert np.exp(log_prob(circuit, assignments(circuit))).sum() == pytest.approx(1, abs=1e-13)


def test_one_column_needs_no_product():
    circuit = fp.structures.factorized([[0], [1]])
    assert len(circuit.nodes) == 1
    assert log_prob(circuit, [[1]])[0] == pytest.approx(np.log(0.5), abs=1e-15)


@pytest.mark.parametrize(
    ("X", "options", "error", "match"),
    [
        ([[0, 2]], {}, SupportError, "Column 'x1' has the value 2"),
        ([[0.5]], {"family": "categorical"}, SupportError, "0.5"),
        ([[-1.0]], {"family": "categorical"}, SupportError, "-1"),
        ([[0, 1]], {"smoothing": -1.0}, OptionError, "smoothing"),
        ([[0, 1]], {"smoothing": np.nan}, OptionError, "smoothing"),
        ([[0, 1]], {"family": ["bernoulli"]}, OptionError, "2 variables but 1"),
        ([[0, 1]], {"family": "normal"}, OptionError, "normal"),
        ([0, 1], {}, ShapeError, "two dimensions"),
        ([[0, np.nan], [1, np.nan]], {}, MissingValueError, "Column 'x1' has only missing"),
    ],
)
def test_bad_input_is_named(X, options, error, match):
    with pytest.raises(error, match=match):
        fp.structures.factorized(X, **options)
