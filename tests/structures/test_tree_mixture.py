"""Mixtures of trees: EM's promise, two clusters found, one tree, weighted counts against loops."""

import numpy as np
import pytest

import flatpc as fp
from flatpc.errors import MissingValueError, OptionError
from flatpc.structures.trees.mutual_information import PairCounts, WeightedCounts
from tests.oracles.evaluate import assignments, log_prob


@pytest.mark.parametrize("sizes", [[2, 2, 2], [3, 1, 2, 4]])
def test_weighted_counts_are_sums_over_rows(sizes):
    rng = np.random.default_rng(0)
    X = np.stack([rng.integers(0, n, 30) for n in sizes], axis=1).astype(float)
    weights = rng.random(30)
    got = WeightedCounts(X, sizes)(weights)
    for u, n in enumerate(sizes):
        assert got.marginal(u) == pytest.approx(np.bincount(X[:, u].astype(int), weights, n), abs=1e-5)
        for v, m in enumerate(sizes):
            if u != v:
                want = [[weights[(X[:, u] == a) & (X[:, v] == b)].sum() for b in range(m)] for a in range(n)]
                assert got.joint(u, v) == pytest.approx(np.array(want), abs=1e-5)


def test_prior_rows_are_those_of_the_prior():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (20, 4)).astype(float)
    prior = PairCounts(X, [3] * 4).smoothed(1.0)
    got = WeightedCounts(X, [3] * 4)(np.ones(20)).plus(prior, 5 / prior.n_rows)
    assert got.n_rows == pytest.approx(25.0, rel=1e-6)
    assert got.joint(0, 2) == pytest.approx(26 / 21 * PairCounts(X, [3] * 4).joint(0, 2) + 5 / 21 / 9, rel=1e-6)
    assert got.marginal(1) == pytest.approx(26 / 21 * PairCounts(X, [3] * 4).marginal(1) + 5 / 21 / 3, rel=1e-6)


def clusters(n_rows, seed=0):
    """Half of the rows repeat the first two bits in pairs, the other half cross them."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, (n_rows, 6))
    flip = rng.random((n_rows, 6)) < 0.02
    first = np.arange(n_rows) % 2 == 0
    X[first, 2:] = X[first][:, [0, 1, 0, 1]]
    X[~first, 2:] = 1 - X[~first][:, [1, 0, 1, 0]]
    return (X ^ flip).astype(float)


def test_two_trees_fit_two_clusters():
    X, new = clusters(1000), clusters(1000, 1)
    one = fp.structures.chow_liu(X).log_prob(new).mean()
    two = fp.structures.tree_mixture(X, 2, seed=1)
    assert two.log_prob(new).mean() > one + 0.15
    rows = assignments(two)
    assert np.exp(log_prob(two, rows)).sum() == pytest.approx(1, abs=1e-12)
    hidden = fp.structures.hclt(X, 2, n_trees=2, trees="clusters", init="chow-liu", noise=0.0, seed=1)
    assert np.allclose(log_prob(hidden, rows), log_prob(two, rows), rtol=0, atol=1e-12)


def test_em_climbs():
    X = clusters(300)
    values = [fp.structures.tree_mixture(X, 3, smoothing=1e-9, steps=steps).log_prob(X).mean() for steps in range(6)]
    # Shares of rows are rounded to float32.
    assert (np.diff(values) > -1e-6).all()
    assert values[-1] > values[0]


def test_one_tree_is_the_chow_liu_tree():
    X = clusters(200)
    rows = assignments(fp.structures.chow_liu(X))
    one = fp.structures.tree_mixture(X, 1, smoothing=1e-9)
    assert np.allclose(
        np.exp(log_prob(one, rows)), np.exp(log_prob(fp.structures.chow_liu(X, smoothing=0.0), rows)), rtol=0, atol=1e-6
    )


def test_more_trees_than_rows():
    X = np.array([[0.0, 1.0], [1.0, 1.0]])
    circuit = fp.structures.tree_mixture(X, 5, family="bernoulli")
    assert np.exp(log_prob(circuit, assignments(circuit))).sum() == pytest.approx(1, abs=1e-12)


def test_bad_input_is_named():
    with pytest.raises(MissingValueError, match="without missing values"):
        fp.structures.tree_mixture([[0, 1], [1, np.nan]], 2)
    with pytest.raises(OptionError, match="n_trees=0"):
        fp.structures.tree_mixture([[0, 1]], 0)
    with pytest.raises(OptionError, match="Gaussian"):
        fp.structures.tree_mixture([[0, 1]], 2, family="gaussian")
