"""Samples have the distribution they should: chi-square tests at level 1e-4 with fixed seeds, and a Kolmogorov-Smirnov test."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import kstest, norm

import flatpc as fp
from flatpc.errors import DataError, OptionError
from tests.queries.cases import BUILD, assert_distributed, case, evidence, joint

LEVEL = 1e-4
N = 20_000


@pytest.mark.parametrize("name", BUILD)
def test_ancestral_samples(name):
    samples = case(name).sample(N, seed=1)
    assert samples.shape == (N, case(name).n_variables)
    assert_distributed(samples, joint(name).X, joint(name).p)


@pytest.mark.parametrize("name", BUILD)
def test_conditional_samples(name):
    circuit = case(name)
    X = evidence(circuit, n=4, seed=3)
    samples = circuit.sample(N // 4, seed=2, given=X)
    assert samples.shape == (N // 4, *X.shape)
    for m, row in enumerate(X):
        known = ~np.isnan(row)
        assert (samples[:, m, known] == row[known]).all()
        assert_distributed(samples[:, m], joint(name).X, joint(name).given(row)[0])


def test_the_test_can_fail():
    p = joint("hclt").p
    with pytest.raises(AssertionError):
        assert_distributed(case("hclt").sample(N, seed=1), joint("hclt").X, 0.9 * p + 0.1 / len(p))


def test_conditional_samples_of_a_mixture_of_gaussians():
    """Given y, x is a mixture with the weights w_k N(y; b_k, t_k); Kolmogorov-Smirnov at the same level."""
    w, a, b, s = np.array([0.3, 0.7]), np.array([-2.0, 1.5]), np.array([0.0, 1.0]), np.array([1.0, 0.25])
    nodes = [fp.Input(0, fp.Gaussian(), 2), fp.Input(1, fp.Gaussian(), 2), fp.Product((0, 1)), fp.Sum((2,))]
    circuit = fp.Circuit(nodes, {0: {"mean": a, "variance": s}, 1: {"mean": b, "variance": s}, 3: w[None]})
    y = 0.2
    weight = w * norm.pdf(y, b, np.sqrt(s))
    weight /= weight.sum()
    samples = circuit.sample(N, seed=0, given=[np.nan, y])
    assert (samples[:, 1] == y).all()
    assert kstest(samples[:, 0], lambda x: norm.cdf(x[:, None], a, np.sqrt(s)) @ weight).pvalue > LEVEL


def test_the_seed_decides():
    circuit = case("hclt")
    np.testing.assert_array_equal(circuit.sample(50, seed=3), circuit.sample(50, seed=3))
    assert (circuit.sample(50, seed=3) != circuit.sample(50, seed=4)).any()
    X = evidence(circuit)
    np.testing.assert_array_equal(circuit.sample(5, seed=3, given=X), circuit.sample(5, seed=3, given=X))


def test_rows_are_drawn_independently_of_each_other():
    """Two completions of the same row differ, and so do those of equal rows."""
    drawn = case("hclt").sample(200, seed=0, given=np.full((2, 6), np.nan))
    assert (drawn[0::2] != drawn[1::2]).any()
    assert (drawn[:, 0] != drawn[:, 1]).any()


def test_one_row_given_drops_its_axis():
    circuit = case("hclt")
    row = np.array([1.0, np.nan, 0.0, np.nan, np.nan, 1.0])
    for given in (row, row.tolist(), pd.Series(row)):
        samples = circuit.sample(3, given=given)
        assert samples.shape == (3, 6)
        np.testing.assert_array_equal(samples, circuit.sample(3, given=row[None])[:, 0])
    assert circuit.sample(3, given=torch.from_numpy(row)).shape == (3, 6)


def test_complete_rows_come_back_as_they_are():
    X = joint("hclt").X[:3]
    np.testing.assert_array_equal(case("hclt").sample(2, given=X), np.stack([X, X]))


def test_tensor_in_tensor_out_and_frames_in():
    X = evidence(case("hclt"))
    assert isinstance(case("hclt").sample(2), np.ndarray)
    drawn = case("hclt").sample(2, given=torch.from_numpy(X))
    assert isinstance(drawn, torch.Tensor)
    np.testing.assert_array_equal(case("hclt").sample(2, given=pd.DataFrame(X)), drawn.numpy())


def test_blocks_keep_the_distribution(monkeypatch):
    """Blocks of a few rows and chunks of a few edges: other draws, the same distribution."""
    monkeypatch.setattr("flatpc.queries.answers.BLOCK_BYTES", 200_000)
    monkeypatch.setattr("flatpc.queries.induced_trees._CHUNK", 20)
    circuit, table = case("every kind"), joint("every kind")
    assert_distributed(circuit.sample(N, seed=1), table.X, table.p)
    X = np.array([[np.nan, 1.0, np.nan], [2.0, np.nan, np.nan], [np.nan, np.nan, 1.0]])
    samples = circuit.sample(N // 4, seed=2, given=X)
    for m, row in enumerate(X):
        assert_distributed(samples[:, m], table.X, table.given(row)[0])


def test_impossible_evidence_names_the_row():
    circuit = fp.Circuit(
        [fp.Input(0, fp.Bernoulli()), fp.Input(1, fp.Bernoulli()), fp.Product((0, 1))], {0: {"p": [1.0]}, 1: {"p": [0.5]}}
    )
    with pytest.raises(DataError, match="row 1 have probability zero"):
        circuit.sample(3, given=[[1, np.nan], [0, np.nan]])


def test_weights_of_zero_are_never_drawn():
    """Also at the ends of a row of weights."""
    circuit = fp.Circuit([fp.Input(0, fp.Indicator(4), 4), fp.Sum((0,))], {0: {"value": range(4)}, 1: [[0, 0.5, 0.5, 0]]})
    assert set(circuit.sample(5000)[:, 0]) == {1.0, 2.0}


@pytest.mark.parametrize("option", [{"n": 0}, {"n": 2.5}, {"n": "3"}, {"seed": -1}, {"seed": None}])
def test_bad_options_are_refused(option):
    with pytest.raises(OptionError, match=next(iter(option))):
        case("hclt").sample(**option)


def test_a_thousand_samples_of_a_wide_circuit_draw_every_variable():
    """700 variables, 64 latents; per node the work is one pass over the weights that are used and a binary search."""
    circuit = fp.structures.hmm(700, n_latents=64, family="bernoulli")
    samples = circuit.sample(1000, seed=0)
    assert np.isin(samples, (0, 1)).all()
