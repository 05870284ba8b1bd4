"""Means and variances equal enumeration, and the closed form of a mixture of Gaussians."""

import numpy as np
import pytest
import torch
from scipy.stats import norm

import flatpc as fp
from flatpc.errors import DataError
from tests.queries.cases import BUILD, case, evidence, joint


@pytest.mark.parametrize("name", BUILD)
def test_mean_and_variance_equal_enumeration(name):
    circuit, table = case(name), joint(name)
    X = evidence(circuit)
    mean, spread = circuit.expectation(X), circuit.variance(X)
    for row, m, s in zip(X, mean, spread, strict=True):
        p, _ = table.given(row)
        expected = p @ table.X
        np.testing.assert_allclose(m, expected, rtol=0, atol=1e-10)
        np.testing.assert_allclose(s, p @ (table.X - expected) ** 2, rtol=0, atol=1e-10)


def test_known_entries_are_kept_as_they_are():
    X = evidence(case("hclt"))
    known = ~np.isnan(X)
    np.testing.assert_array_equal(case("hclt").expectation(X)[known], X[known])
    np.testing.assert_array_equal(case("hclt").variance(X)[known], 0.0)


def test_mixture_of_gaussians_has_its_closed_form():
    """Given y, component k has weight w_k N(y; b_k, t_k); x has the mixture's mean and variance under these weights."""
    w, a, s = np.array([0.2, 0.5, 0.3]), np.array([-3.0, 0.0, 1000.0]), np.array([0.5, 2.0, 1.0])
    b, t = np.array([0.0, 1.0, 2.0]), np.array([1.0, 0.3, 2.0])
    nodes = [fp.Input(0, fp.Gaussian(), 3), fp.Input(1, fp.Gaussian(), 3), fp.Product((0, 1)), fp.Sum((2,))]
    circuit = fp.Circuit(nodes, {0: {"mean": a, "variance": s}, 1: {"mean": b, "variance": t}, 3: w[None]})
    for y in (-1.0, 0.7, 4.0):
        weight = w * norm.pdf(y, b, np.sqrt(t))
        weight /= weight.sum()
        mean = weight @ a
        row = np.array([[np.nan, y]])
        np.testing.assert_allclose(circuit.expectation(row), [[mean, y]], rtol=1e-12)
        np.testing.assert_allclose(circuit.variance(row), [[weight @ (s + (a - mean) ** 2), 0.0]], rtol=1e-12)
        x = 0.4
        density = np.log(weight @ norm.pdf(x, a, np.sqrt(s)))
        np.testing.assert_allclose(circuit.conditional_log_prob([[x, y]], [1]), [density], rtol=1e-12)


def test_counts_have_their_closed_form():
    """Poisson and Binomial inputs without evidence."""
    nodes = [fp.Input(0, fp.Poisson(), 2), fp.Input(1, fp.Binomial(4), 2), fp.Product((0, 1)), fp.Sum((2,))]
    circuit = fp.Circuit(nodes, {0: {"rate": [1.0, 5.0]}, 1: {"p": [0.5, 0.25]}, 3: [[0.25, 0.75]]})
    unknown = np.full((1, 2), np.nan)
    np.testing.assert_allclose(circuit.expectation(unknown), [[4.0, 1.25]], rtol=1e-12)
    # Variances 1, 5 and 1, 0.75; squared distances of the means to that of the mixture 9, 1 and 0.5625, 0.0625.
    np.testing.assert_allclose(circuit.variance(unknown), [[0.25 * 10 + 0.75 * 6, 0.25 * 1.5625 + 0.75 * 0.8125]], rtol=1e-12)


def test_impossible_evidence_names_the_row_and_complete_rows_pass():
    circuit = fp.Circuit(
        [fp.Input(0, fp.Bernoulli()), fp.Input(1, fp.Bernoulli()), fp.Product((0, 1))], {0: {"p": [1.0]}, 1: {"p": [0.5]}}
    )
    complete = np.array([[0.0, 1.0]])
    np.testing.assert_array_equal(circuit.expectation(complete), complete)
    np.testing.assert_array_equal(circuit.variance(complete), [[0.0, 0.0]])
    for question in (circuit.expectation, circuit.variance):
        with pytest.raises(DataError, match="row 1 have probability zero"):
            question([[1, np.nan], [0, np.nan]])


def test_blocks_of_rows_make_no_difference(monkeypatch):
    X = evidence(case("hclt"))
    expected = case("hclt").expectation(X)
    monkeypatch.setattr("flatpc.queries.answers.BLOCK_BYTES", 1)
    np.testing.assert_allclose(case("hclt").expectation(X), expected, rtol=0, atol=1e-14)


def test_tensor_in_tensor_out():
    X = torch.from_numpy(evidence(case("hclt")))
    assert isinstance(case("hclt").expectation(X), torch.Tensor)
    np.testing.assert_array_equal(case("hclt").variance(X).numpy(), case("hclt").variance(X.numpy()))
