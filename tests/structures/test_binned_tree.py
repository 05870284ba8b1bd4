"""Trees of bins, against sums written out and against Chow-Liu trees."""

import itertools

import numpy as np
import pytest

import flatpc as fp
from flatpc.errors import OptionError
from flatpc.structures.trees import judged_tables
from flatpc.structures.trees.binned_tree import _sure_of
from flatpc.structures.trees.judged_tables import SMOOTHINGS, SPREADS, edge_table, gains, kernel, own_table
from flatpc.structures.trees.mutual_information import PairCounts


def grades(n, seed=0):
    """Whole numbers of which each is near the one before, and a category that goes with them."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 20, n)
    second, third = (np.clip(np.rint(first + rng.normal(0, 2, n)), 0, 19) for _ in range(2))
    return np.stack([third > 9, second, first, third], axis=1).astype(float)


WHOLE = [fp.Categorical(2), *[fp.Discretized(fp.Gaussian(min_variance=1e-4), 1.0, low=0.0, high=19.0)] * 3]


def test_of_categories_it_is_a_chow_liu_tree():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (300, 4)).astype(float)
    X[:, 1] = np.where(rng.random(300) < 0.1, X[:, 1], X[:, 0])
    X[:, 2] = np.where(rng.random(300) < 0.4, X[:, 2], X[:, 0])
    X[:, 3] = (X[:, 2] + (rng.random(300) < 0.2)) % 3
    tree = fp.structures.chow_liu(X, smoothing=4.0, prior="marginals")
    binned = fp.structures.binned_tree(X, spread=0.0, smoothing=4.0, family="categorical")
    np.testing.assert_allclose(binned.log_prob(X), tree.log_prob(X), atol=0.05)


def leave_one_out(X, spread, smoothing):
    """Log-likelihood of the second column given the first, each row judged by tables counted without it."""
    near = kernel(4, spread)

    def table(rows):
        counts = np.zeros((4, 4))
        np.add.at(counts, tuple(rows.T.astype(int)), 1.0)
        own = own_table(counts.sum(axis=0), [0.0], 1.0).p
        spread_counts = near @ counts
        return (spread_counts + smoothing * own) / (spread_counts.sum(axis=1, keepdims=True) + smoothing)

    return sum(np.log(table(np.delete(X, i, axis=0))[tuple(X[i].astype(int))]) for i in range(len(X)))


@pytest.mark.parametrize("seed", range(5))
def test_edges_are_judged_as_by_rows_left_out_one_by_one(seed, monkeypatch):
    # Without a row another smoothing of the child's own table might be chosen.
    monkeypatch.setattr(judged_tables, "FURTHER_ROWS", (1.0,))
    rng = np.random.default_rng(seed)
    above = rng.integers(0, 4, 40)
    X = np.stack([above, np.where(rng.random(40) < 0.6, above, rng.integers(0, 4, 40))], axis=1).astype(float)
    counts = PairCounts(X, [4, 4])
    own = own_table(counts.marginal(1), [0.0], 1.0)
    for spread, smoothing in itertools.product((0.0, 0.7), (0.3, 4.0)):
        edge = edge_table(counts.joint(0, 1), own, ([spread], [0.0]), [smoothing], 1.0)
        alone = counts.marginal(1) @ np.log(own.others)
        assert edge.gain + alone == pytest.approx(leave_one_out(X, spread, smoothing), rel=1e-10)
        np.testing.assert_allclose(edge.p.sum(axis=1), 1.0, rtol=1e-12)
        same = gains(counts, [own, own], [kernel(4, spread), np.eye(4)], [smoothing], 1.0)[0, 1]
        assert same == pytest.approx(edge.gain, rel=1e-9)


def test_the_best_of_all_smoothings_is_found():
    rng = np.random.default_rng(0)
    joint = rng.integers(0, 6, (5, 4)).astype(float)
    own = own_table(joint.sum(axis=0), SPREADS, 1.0)
    tried = [edge_table(joint, own, ([a], [b]), [s], 1.0).gain for a in SPREADS for b in SPREADS for s in SMOOTHINGS]
    assert edge_table(joint, own, (SPREADS, SPREADS), SMOOTHINGS, 1.0).gain == pytest.approx(max(tried), rel=1e-12)


def test_columns_that_tell_nothing_of_each_other_are_independent():
    X = np.random.default_rng(0).integers(0, 3, (200, 5)).astype(float)
    circuit = fp.structures.binned_tree(X, family="categorical")
    assert sum(isinstance(node, fp.Product) for node in circuit.nodes) == 1
    assert max(node.width for node in circuit.nodes if isinstance(node, fp.Sum)) == 1


def test_whole_numbers_may_be_heaped():
    """Families of numbers are smooth; a tree of bins knows that odd numbers are rare, and what was never seen is possible."""
    rng = np.random.default_rng(0)
    absences = 2.0 * rng.poisson(3.0, 400) + (rng.random(400) < 0.05)
    X = np.stack([absences, absences > 6], axis=1)
    circuit = fp.structures.binned_tree(X, family=[fp.Poisson(), fp.Categorical(2)])
    many = 2.0 * rng.poisson(3.0, 2000)
    many = np.stack([many, many > 6], axis=1)
    apart = fp.structures.binned_tree(X, bins=3, family=[fp.Poisson(), fp.Categorical(2)])
    assert circuit.log_prob(many).mean() > apart.log_prob(many).mean() + 0.4
    assert np.isfinite(circuit.log_prob([[101.0, 1.0]])).all()
    cells = np.stack(np.meshgrid(np.arange(200.0), [0.0, 1.0], indexing="ij"), axis=-1).reshape(-1, 2)
    assert np.exp(circuit.log_prob(cells)).sum() == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("family", [fp.Binomial(7), fp.Ordinal.of_shares([1.0] * 8)], ids=str)
@pytest.mark.parametrize("largest", [7, 5])
def test_values_of_finite_families_are_bins(family, largest):
    """Beside a column that is not finite; values that were never seen are possible."""
    rng = np.random.default_rng(0)
    level = rng.integers(0, largest + 1, 300)
    X = np.column_stack([level, level + 0.3 * rng.normal(size=300), (level + rng.integers(0, 2, 300)) % (largest + 1)])
    circuit = fp.structures.binned_tree(X, bins=20, family=[family, fp.Gaussian(), family])
    found = np.full((64, 3), np.nan)
    found[:, [0, 2]] = np.stack(np.meshgrid(np.arange(8.0), np.arange(8.0)), axis=-1).reshape(-1, 2)
    shares = np.exp(circuit.log_prob(found, missing="marginalize"))
    assert shares.min() > 0
    assert shares.sum() == pytest.approx(1.0, abs=1e-9)
    # Smoothed shares.
    alone = np.exp(circuit.log_prob(np.column_stack([np.arange(8.0), np.full((8, 2), np.nan)]), missing="marginalize"))
    np.testing.assert_allclose(alone[: largest + 1], np.bincount(level, minlength=largest + 1) / 300, atol=0.03)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.9])
def test_a_value_is_sure_but_for_a_share(share):
    overall = {"p": np.array([[0.6, 0.3, 0.1]])}
    family, units = _sure_of(np.array([0.0, 2.0]), fp.Categorical(3), overall, share)
    assert family == fp.Categorical(3)
    rest = np.array([[0.0, 0.75, 0.25], [2 / 3, 1 / 3, 0.0]])
    np.testing.assert_allclose(units["p"], (1 - share) * np.eye(3)[[0, 2]] + share * rest, atol=1e-12)


def answers(n, seed):
    """Columns that all go a little with something that is not seen."""
    rng = np.random.default_rng(seed)
    return np.clip(np.rint(2 + 0.6 * rng.normal(size=(n, 1)) + rng.normal(size=(n, 12))), 0, 4)


def test_several_trees_are_averaged_and_better_where_none_is_right():
    few, many = answers(150, 0), answers(5000, 1)
    five = fp.Categorical(5)
    one, several, again = (fp.structures.binned_tree(few, n_trees=n, family=five).log_prob(many) for n in (1, 12, 12))
    assert several.mean() > one.mean() + 0.05
    np.testing.assert_array_equal(several, again)
    other = fp.structures.binned_tree(few, n_trees=12, seed=1, family=five).log_prob(many)
    assert not np.array_equal(several, other)


def test_two_columns_are_a_sum_over_bins_written_out():
    rng = np.random.default_rng(0)
    x = np.repeat([0.0, 1.0, 2.0], [30, 20, 50])
    y = 3 * x + rng.normal(size=100)
    X = np.stack([x, y], axis=1)
    circuit = fp.structures.binned_tree(X, smoothing=2.0, family=["categorical", "gaussian"])
    [root] = [i for i, node in enumerate(circuit.nodes) if isinstance(node, fp.Sum)]
    [leaf] = [i for i, node in enumerate(circuit.nodes) if isinstance(node, fp.Input) and node.variable == 1]
    of_y, shares = circuit.parameters[leaf], circuit.parameters[root][0]
    mine = x.astype(int)
    by_hand = np.log(shares[mine]) - (y - of_y["mean"][mine]) ** 2 / (2 * of_y["variance"][mine])
    by_hand -= np.log(2 * np.pi * of_y["variance"][mine]) / 2
    np.testing.assert_allclose(circuit.log_prob(X), by_hand, rtol=1e-10)


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
     ("n_trees", 0), ("n_trees", 1.5), ("seed", -1), ("seed", "one")],
)  # fmt: skip
def test_wrong_options_are_refused_by_name(name, value):
    rng = np.random.default_rng(0)
    with pytest.raises(OptionError, match=name):
        fp.structures.binned_tree(rng.normal(size=(20, 2)), **{name: value})
