"""Trees of bins, against sums written out and against Chow-Liu trees."""

import numpy as np
import pytest

import flatpc as fp
from flatpc.errors import OptionError
from flatpc.structures.trees.mutual_information import PairCounts


def grades(n, seed=0):
    """Whole numbers of which each is near the one before, and a category that goes with them."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 20, n)
    second, third = (np.clip(np.rint(first + rng.normal(0, 2, n)), 0, 19) for _ in range(2))
    return np.stack([third > 9, second, first, third], axis=1).astype(float)


WHOLE = [fp.Categorical(2), *[fp.Discretized(fp.Gaussian(min_variance=1e-4), 1.0, low=0.0, high=19.0)] * 3]


def test_without_bins_to_share_it_is_the_chow_liu_tree():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (300, 4)).astype(float)
    X[:, 1] = X[:, 0]
    X[:, 3] = (X[:, 2] + (rng.random(300) < 0.2)) % 3
    tree = fp.structures.chow_liu(X, smoothing=4.0, prior="marginals")
    binned = fp.structures.binned_tree(X, smoothing=4.0, share=1e-9, family="categorical")
    np.testing.assert_allclose(binned.log_prob(X), tree.log_prob(X), atol=0.02)


def test_two_columns_are_a_sum_over_bins_written_out():
    rng = np.random.default_rng(0)
    x = np.repeat([0.0, 1.0, 2.0], [3, 2, 5])
    y = rng.normal(size=10)
    X = np.stack([x, y], axis=1)
    circuit = fp.structures.binned_tree(X, spread=0.5, smoothing=2.0, share=0.1, ordered=(0,), family=["categorical", "gaussian"])
    [inner] = [i for i, node in enumerate(circuit.nodes) if isinstance(node, fp.Input) and node.variable == 0]
    [root] = [i for i, node in enumerate(circuit.nodes) if isinstance(node, fp.Sum)]
    of_x, of_y = circuit.parameters[inner]["p"], circuit.parameters[1 - inner]
    assert circuit.parameters[root].shape == (1, 3)
    by_hand = [
        sum(
            p * of_x[a, int(u)] * np.exp(-((v - of_y["mean"][a]) ** 2) / (2 * of_y["variance"][a]))
            / np.sqrt(2 * np.pi * of_y["variance"][a])
            for a, p in enumerate(circuit.parameters[root][0])
        )
        for u, v in X
    ]  # fmt: skip
    np.testing.assert_allclose(np.exp(circuit.log_prob(X)), by_hand, rtol=1e-10)
    apart = np.exp(-(np.subtract.outer(np.arange(3), np.arange(3)) ** 2) / (2 * 0.5**2))
    near = (apart / apart.sum(axis=0))[:, x.astype(int)].T + 2.0 / 10
    np.testing.assert_allclose(of_y["mean"], near.T @ y / near.sum(axis=0), rtol=0.01)


def test_spreading_keeps_rows_and_marginals():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, (50, 3)).astype(float)
    kernels = [rng.dirichlet(np.ones(4), 4).T for _ in range(3)]
    counts = PairCounts(X, [4, 4, 4])
    found = counts.spread(kernels)
    for u in range(3):
        np.testing.assert_allclose(found.marginal(u), kernels[u] @ counts.marginal(u), rtol=1e-6)
        for v in range(3):
            if u != v:
                np.testing.assert_allclose(found.joint(u, v), kernels[u] @ counts.joint(u, v) @ kernels[v].T, rtol=1e-6)
                np.testing.assert_allclose(found.joint(u, v).sum(axis=1), found.marginal(u), rtol=1e-6)


def test_neighbours_tell_of_each_other_where_rows_are_few():
    few, many = grades(100), grades(5000, seed=1)
    trees = [fp.structures.binned_tree(few, spread=spread, smoothing=0.5, family=WHOLE) for spread in (0.0, 0.7)]
    apart, near = (tree.log_prob(many).mean() for tree in trees)
    assert near > apart + 0.1
    alone = fp.structures.factorized(few, family=WHOLE).log_prob(many).mean()
    assert near > alone + 1.0


def test_it_sums_to_one_and_takes_missing_values():
    rng = np.random.default_rng(0)
    X = grades(80)
    X[rng.random(X.shape) < 0.1] = np.nan
    circuit = fp.structures.binned_tree(X, bins=5, family=WHOLE)
    cells = np.stack(np.meshgrid(*[np.arange(2), *[np.arange(20)] * 3], indexing="ij"), axis=-1).reshape(-1, 4).astype(float)
    assert np.exp(circuit.log_prob(cells)).sum() == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("family", [fp.Gaussian(), fp.Gamma(), fp.Poisson(), fp.NegativeBinomial(), fp.StudentT()], ids=str)
def test_columns_of_any_family(family):
    rng = np.random.default_rng(1)
    X = rng.poisson(4.0, (120, 3)) + 1.0
    X[:, 1] += 4 * X[:, 0]
    circuit = fp.structures.binned_tree(X, bins=6, family=family)
    assert np.isfinite(circuit.log_prob(X)).all()
    assert circuit.log_prob(X).mean() > fp.structures.factorized(X, family=family).log_prob(X).mean()


def test_weights_are_repeated_rows():
    rng = np.random.default_rng(0)
    X, weights = grades(40), rng.integers(0, 4, 40)
    weighted = fp.structures.binned_tree(X, sample_weight=weights, family=WHOLE)
    repeated = fp.structures.binned_tree(np.repeat(X, weights, axis=0), family=WHOLE)
    np.testing.assert_allclose(weighted.log_prob(X[weights > 0]), repeated.log_prob(X[weights > 0]), rtol=1e-9)


def test_one_column_and_one_value():
    assert np.isfinite(fp.structures.binned_tree([[1.0], [2.0], [4.0]]).log_prob([[3.0]])).all()
    assert np.isfinite(fp.structures.binned_tree([[1.0, 0.0], [1.0, 2.0], [1.0, 4.0]]).log_prob([[1.0, 3.0]])).all()


@pytest.mark.parametrize(
    ("name", "value"),
    [("bins", 0), ("bins", 2.5), ("spread", -1.0), ("spread", "wide"), ("smoothing", -1.0), ("share", 0.0), ("share", 2.0),
     ("ordered", (7,)), ("ordered", (1.5,)), ("ordered", 3)],
)  # fmt: skip
def test_wrong_options_are_refused_by_name(name, value):
    rng = np.random.default_rng(0)
    with pytest.raises(OptionError, match=name):
        fp.structures.binned_tree(rng.normal(size=(20, 2)), **{name: value})
