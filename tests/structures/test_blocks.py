"""Blocks of correlated columns, mixtures over them, and hidden trees with them as leaves."""

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

import flatpc as fp
from flatpc.errors import OptionError
from flatpc.search.clusters import start_at_clusters
from tests.oracles.evaluate import log_prob as by_hand


def chain(n=600, seed=0):
    """0 - 1 - 2 in a chain, 3 - 4 a pair, 5 alone, 6 a coin that 5 tells of."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 7))
    X[:, 1] += X[:, 0]
    X[:, 2] += X[:, 1]
    X[:, 4] -= 2 * X[:, 3]
    X[:, 6] = X[:, 5] + rng.normal(size=n) > 0
    return X


FAMILIES = ["gaussian"] * 6 + ["bernoulli"]


def test_blocks_are_those_that_depend_on_one_another():
    X = chain()
    assert fp.structures.correlated_blocks(X, family=FAMILIES) == [(0, 1, 2), (3, 4), (5,), (6,)]
    # 0 and 2 are correlated, but not given 1: with two to a block the closest pairs are those of neighbours.
    assert fp.structures.correlated_blocks(X, 2, family=FAMILIES)[:2] in ([(0, 1), (2,)], [(0,), (1, 2)])
    assert fp.structures.correlated_blocks(X, family=FAMILIES, cost=1e6) == [(v,) for v in range(7)]
    assert fp.structures.correlated_blocks(X, family=["gaussian"] * 3 + [fp.Gaussian(1e-4, 9.0)] * 3 + ["bernoulli"]) == [
        (0, 1, 2), (3,), (4,), (5,), (6,),
    ]  # fmt: skip
    repeated = np.repeat(np.array([1.0, 2.0]), 300)
    assert fp.structures.correlated_blocks(X, family=FAMILIES, sample_weight=repeated)[:2] == [(0, 1, 2), (3, 4)]


def test_constant_and_missing_columns_have_no_correlation():
    X = chain()[:, :3]
    X[:, 1] = 7.0
    X[::3, 0] = np.nan
    assert fp.structures.correlated_blocks(X) == [(0, 2), (1,)]
    X[:, 2] = np.random.default_rng(5).normal(size=len(X))
    assert fp.structures.correlated_blocks(X) == [(0,), (1,), (2,)]


def test_a_mixture_is_scikit_learn_s_from_the_same_start():
    """Weights, means, covariances after each of four steps of EM, to 1e-8."""
    X = np.concatenate([chain(150, seed)[:, :3] + 4 * seed for seed in range(3)])
    circuit = fp.structures.mixture(X, 3, family=fp.Gaussian(1e-12))
    start = circuit.parameters
    rival = GaussianMixture(
        3, reg_covar=0.0, weights_init=start[1][0], means_init=start[0]["mean"],
        precisions_init=np.linalg.inv(start[0]["covariance"]), max_iter=1, warm_start=True, tol=0.0,
    )  # fmt: skip
    for _ in range(4):
        with pytest.warns(UserWarning, match="converge"):
            rival.fit(X)
        circuit = fp.fit(circuit, X, epochs=1, batch_size=None, method=fp.EM(1.0), dtype="float64", progress=False).circuit
        np.testing.assert_allclose(circuit.parameters[1][0], rival.weights_, rtol=1e-8)
        np.testing.assert_allclose(circuit.parameters[0]["mean"], rival.means_, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(circuit.parameters[0]["covariance"], rival.covariances_, rtol=1e-8, atol=1e-8)


def test_a_mixture_takes_other_columns_beside():
    X = chain(300)
    X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    circuit = fp.structures.mixture(X, 3, family=FAMILIES)
    assert [node.variables for node in circuit.nodes[:2]] == [(0, 1, 2, 3, 4, 5), (6,)]
    np.testing.assert_allclose(circuit.log_prob(X, missing="marginalize"), by_hand(circuit, X), rtol=1e-10)
    learnt = fp.fit(
        circuit, X, epochs=10, method=fp.EM(1.0), batch_size=None, missing="marginalize", dtype="float64", progress=False
    )
    nll = learnt.history["train_nll"]
    assert (np.diff(nll) <= 1e-9).all()
    assert nll[-1] < nll[0]
    blocks = fp.structures.mixture(X, 2, family=FAMILIES, blocks="auto")
    assert [node.variables for node in blocks.nodes[:4]] == [(0, 1, 2), (3, 4), (5,), (6,)]
    given = fp.structures.mixture(X, 2, family=FAMILIES, blocks=[(4, 3)])
    assert (4, 3) in [node.variables for node in given.nodes if isinstance(node, fp.Input)]
    assert all(len(node.variables) == 1 for node in fp.structures.mixture(X, 2, family=FAMILIES, blocks=None).nodes[:7])
    assert fp.structures.mixture(X, 1, family=FAMILIES).n_variables == 7


def test_whole_weights_are_repeated_rows():
    """But for the clusters of the start, which one component has none of."""
    X, weights = chain(60), np.arange(60) % 3
    once = fp.structures.mixture(X, 1, family=FAMILIES, sample_weight=weights)
    repeated = fp.structures.mixture(np.repeat(X, weights, axis=0), 1, family=FAMILIES)
    np.testing.assert_allclose(once.log_prob(X), repeated.log_prob(X), rtol=1e-9)


def test_a_hidden_tree_has_blocks_as_leaves():
    X = chain()
    circuit = fp.structures.hclt(X, 4, family=FAMILIES, blocks="auto")
    inputs = [node for node in circuit.nodes if isinstance(node, fp.Input)]
    assert sorted(node.variables for node in inputs) == [(0, 1, 2), (3, 4), (5,), (6,)]
    assert circuit.is_structured_decomposable
    plain = fp.structures.hclt(X, 4, family=FAMILIES)
    options = {"epochs": 40, "method": fp.EM(1.0), "batch_size": None, "progress": False}
    train, valid = X[:400], X[400:]
    scores = []
    for each in (circuit, plain):
        learnt = fp.fit(start_at_clusters(each, train, 0, 0.1), train, **options).circuit
        np.testing.assert_allclose(learnt.log_prob(valid), by_hand(learnt, valid), rtol=1e-9)
        scores.append(np.mean(learnt.log_prob(valid)))
    assert scores[0] > scores[1] + 0.1  # the columns of a block are linear in one another: four states can't tell that
    two = fp.structures.hclt(X, 3, family=FAMILIES, blocks=[(3, 4)], n_trees=2)
    assert sum(node.variables == (3, 4) for node in two.nodes if isinstance(node, fp.Input)) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"blocks": "some"}, "'auto', 'all', None"),
        ({"blocks": [(0, 6)]}, "no family takes together"),
        ({"blocks": [(0, 1), (1, 2)]}, "none is twice"),
        ({"blocks": [(0, 9)]}, "from 0 to 6"),
        ({"blocks": [()]}, "none is twice"),
        ({"blocks": 3}, "list of tuples"),
        ({"blocks": [(0, 1)], "trees": "clusters", "n_trees": 2}, "trees='halved'"),
    ],
)
def test_wrong_blocks_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        fp.structures.hclt(chain(50), 2, family=FAMILIES, **options)


@pytest.mark.parametrize("rank", [1, 2])
def test_covariances_of_low_rank_are_factor_analysis(rank):
    """One component: its covariance is that of the rows if its rank allows, and EM ends where scikit-learn's does."""
    from sklearn.decomposition import FactorAnalysis

    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2)) @ rng.normal(size=(2, 6)) + rng.normal(0, 0.5, (400, 6))
    start = fp.structures.mixture(X, 1, rank=rank, smoothing=0.0)
    assert start.nodes[0].family.rank == rank
    learnt = fp.fit(start, X, epochs=2000, batch_size=None, dtype="float64", progress=False).circuit
    theirs = FactorAnalysis(rank, max_iter=20000, tol=1e-12).fit(X)
    assert learnt.log_prob(X).mean() == pytest.approx(theirs.score(X), abs=1e-4)


def test_low_rank_is_for_blocks_of_more_columns():
    X = np.random.default_rng(0).normal(size=(200, 5))
    mixed = fp.structures.mixture(X, 2, blocks=[(0, 1), (2, 3, 4)], rank=2, pooled=7.0)
    found = {node.variables: node.family for node in mixed.nodes if isinstance(node, fp.Input)}
    assert (found[0, 1].rank, found[2, 3, 4].rank) == (None, 2)
    assert found[0, 1].pooled == found[2, 3, 4].pooled == 7.0
    with pytest.raises(fp.errors.OptionError, match="rank"):
        fp.structures.mixture(X, 2, rank=0)
