"""Hidden Chow-Liu trees: enumeration of the latents, shapes, counts, size."""

import itertools
import time

import numpy as np
import pytest

import flatpc as fp
from flatpc.errors import DataError, OptionError, SupportError
from flatpc.structures.options import read_columns
from flatpc.structures.trees.mutual_information import PairCounts, binned
from flatpc.structures.trees.spanning import maximum_spanning_tree
from tests.oracles.evaluate import assignments, log_prob
from tests.structures.test_chow_liu import spanning_trees
from tests.structures.test_mutual_information import information_by_loops


def chain(n_rows, n_variables, seed=0):
    """Bits that change from one variable to the next with probability 0.1: their Chow-Liu tree is the path."""
    return np.cumsum(np.random.default_rng(seed).random((n_rows, n_variables)) < 0.1, axis=1) % 2


def test_a_path_of_five_equals_the_sum_over_latents():
    X = chain(2000, 5)
    K = 3
    circuit = fp.structures.hclt(X, n_latents=K)
    # Centre 2; latents of the inner variables 1, 2, 3; the leaves 0 and 4 hang on z1 and z3.
    inputs = {node.variable: i for i, node in enumerate(circuit.nodes) if isinstance(node, fp.Input)}
    p = {v: circuit.parameters[i]["p"] for v, i in inputs.items()}
    sums = {circuit.scopes[i]: circuit.parameters[i] for i, node in enumerate(circuit.nodes) if isinstance(node, fp.Sum)}
    assert {scope: w.shape for scope, w in sums.items()} == {0b00011: (K, K), 0b11000: (K, K), 0b11111: (1, K)}
    rows = assignments(circuit)
    emit = {v: np.where(rows[:, v, None] == 1, p[v], 1 - p[v]) for v in range(5)}
    want = np.zeros(len(rows))
    for z1, z2, z3 in itertools.product(range(K), repeat=3):
        prior = sums[0b11111][0, z2] * sums[0b00011][z2, z1] * sums[0b11000][z2, z3]
        want += prior * emit[0][:, z1] * emit[1][:, z1] * emit[2][:, z2] * emit[3][:, z3] * emit[4][:, z3]
    got = np.exp(log_prob(circuit, rows))
    assert np.allclose(got, want, rtol=1e-13, atol=0)
    assert got.sum() == pytest.approx(1, abs=1e-13)


def test_counts_of_nodes_and_parameters():
    circuit = fp.structures.hclt(chain(2000, 9), n_latents=4)
    kinds = [type(node).__name__ for node in circuit.nodes]
    # 9 inputs, and 7 inner variables with a product and a sum each.
    assert (kinds.count("Input"), kinds.count("Product"), kinds.count("Sum")) == (9, 7, 7)
    # Weights: six inner variables below the root, 4 x 4 each, and 4 at the root; 9 x 4 Bernoulli probabilities.
    assert circuit.n_parameters == 6 * 16 + 4 + 36


def test_leaves_have_no_latent():
    rng = np.random.default_rng(0)
    hub = rng.integers(0, 2, 3000)
    X = np.stack([hub] + [hub ^ (rng.random(3000) < 0.2) for _ in range(5)], axis=1)
    circuit = fp.structures.hclt(X, n_latents=7)
    assert [type(node).__name__ for node in circuit.nodes] == ["Input"] * 6 + ["Product", "Sum"]
    assert circuit.n_parameters == 7 + 6 * 7


@pytest.mark.parametrize("n_variables", [1, 2, 3])
def test_few_variables(n_variables):
    circuit = fp.structures.hclt(chain(50, n_variables), n_latents=2)
    # The centre is the only latent.
    assert circuit.n_parameters == 2 + 2 * n_variables
    assert np.exp(log_prob(circuit, assignments(circuit))).sum() == pytest.approx(1, abs=1e-14)


def test_categorical_and_mixed_variables():
    rng = np.random.default_rng(1)
    X = np.stack([rng.integers(0, 2, 40), rng.integers(0, 3, 40), rng.integers(0, 4, 40)], axis=1)
    assert fp.structures.hclt(X, 2, family="categorical").families == (fp.Categorical(2), fp.Categorical(3), fp.Categorical(4))
    circuit = fp.structures.hclt(X, 2, family=["bernoulli", "categorical", fp.Categorical(5)])
    assert circuit.families == (fp.Bernoulli(), fp.Categorical(3), fp.Categorical(5))
    assert np.exp(log_prob(circuit, assignments(circuit))).sum() == pytest.approx(1, abs=1e-13)


def test_seeds():
    X = chain(100, 4)
    same = [fp.structures.hclt(X, 3, seed=5) for _ in range(2)]
    other = fp.structures.hclt(X, 3, seed=6)
    assert same[0].nodes == other.nodes
    assert all(np.array_equal(same[0].parameters[i], same[1].parameters[i]) for i in _sums(same[0]))
    assert not any(np.array_equal(same[0].parameters[i], other.parameters[i]) for i in _sums(other))


def test_parameters_follow_the_exponential_scheme():
    circuit = fp.structures.hclt(chain(500, 5), n_latents=50, seed=3)
    for i in _sums(circuit):
        weights = circuit.parameters[i]
        # exp(-4 U) spans a factor of e⁴ within each row.
        assert np.exp(3) < (weights.max(axis=1) / weights.min(axis=1)).max() <= np.exp(4)


def test_properties():
    X = np.random.default_rng(0).integers(0, 2, (60, 8))
    one = fp.structures.hclt(X, 3)
    assert one.is_structured_decomposable
    assert not one.is_deterministic
    assert not one.is_tree
    assert not one.has_tied_parameters


def test_several_trees_are_mixed_at_the_root():
    X = np.random.default_rng(0).integers(0, 2, (60, 8))
    circuit = fp.structures.hclt(X, 3, n_trees=4)
    root = circuit.nodes[-1]
    assert isinstance(root, fp.Sum)
    assert len(root.children) == 4
    assert all(circuit.widths[c] == 1 for c in root.children)
    # Trees that differ have scopes that overlap.
    assert not circuit.is_structured_decomposable
    rows = assignments(circuit)
    assert np.exp(log_prob(circuit, rows)).sum() == pytest.approx(1, abs=1e-13)
    # The first tree is the one that n_trees=1 builds.
    single = fp.structures.hclt(X, 3)
    assert circuit.nodes[: len(single.nodes)] == single.nodes


def edges_of_trees(circuit):
    """For each Sum of width 1 below the root, the edges of its tree: the first factor of a product is its own input."""
    own = [None] * len(circuit.nodes)
    edges, trees = set(), []
    for i, node in enumerate(circuit.nodes):
        if isinstance(node, fp.Input):
            own[i] = node.variable
        elif isinstance(node, fp.Product):
            own[i] = own[node.children[0]]
            edges |= {tuple(sorted((own[i], own[c]))) for c in node.children[1:]}
        else:
            own[i] = own[node.children[0]]
            if circuit.widths[i] == 1 and i != circuit.root:
                trees.append(edges)
                edges = set()
    return trees


@pytest.mark.parametrize("seed", range(8))
def test_further_trees_halve_what_earlier_ones_used(seed):
    X = np.random.default_rng(seed).integers(0, 2, (30, 5)).astype(float)
    X[1:, 3] = X[1:, 1]  # so strong that every tree keeps it
    got = edges_of_trees(fp.structures.hclt(X, 2, n_trees=4))
    information = {pair: information_by_loops(X, [2] * 5, *pair, 1.0) for pair in itertools.combinations(range(5), 2)}
    for tree in got:
        # Totals are compared, not edges: several trees can be equally good.
        best = max(sum(information[pair] for pair in other) for other in spanning_trees(5))
        assert sum(information[pair] for pair in tree) == pytest.approx(best, abs=1e-12)
        for pair in tree:
            information[pair] /= 2
    assert all((1, 3) in tree for tree in got)
    assert got[0] != got[1]


def test_missing_values_are_allowed_in_the_rows():
    X = chain(3000, 6).astype(float)
    X[np.random.default_rng(0).random(X.shape) < 0.3] = np.nan
    assert fp.structures.hclt(X, 2).nodes == fp.structures.hclt(chain(3000, 6), 2).nodes


@pytest.mark.parametrize("kind", ["random bits", "path"])
def test_1556_variables_and_100_latents_build_in_seconds(kind):
    X = np.random.default_rng(0).integers(0, 2, (1000, 1556)) if kind == "random bits" else chain(1000, 1556)
    start = time.perf_counter()
    circuit = fp.structures.hclt(X, n_latents=100)
    seconds = time.perf_counter() - start
    assert seconds < 20  # about 1.5 on one core
    sums = _sums(circuit)
    inner = len(sums)
    weights = sum(circuit.parameters[i].size for i in sums)
    assert weights == (inner - 1) * 100**2 + 100
    assert circuit.n_parameters == weights + 1556 * 100
    if kind == "path":
        # Every variable but the two ends has a latent: as many weights as a tree over 1556 variables can have.
        assert inner == 1554
        assert weights == 15_530_100


@pytest.mark.parametrize(
    ("X", "options", "error", "match"),
    [
        ([[0, 1]], {"n_latents": 0}, OptionError, "n_latents=0"),
        ([[0, 1]], {"n_latents": 2.5}, OptionError, "n_latents=2.5"),
        ([[0, 1]], {"n_trees": 0}, OptionError, "n_trees=0"),
        ([[0, 1]], {"smoothing": -1}, OptionError, "smoothing=-1"),
        ([[0, 1]], {"seed": -1}, OptionError, "seed=-1"),
        ([[0, 3]], {}, SupportError, "Column 'x1' has the value 3"),
        ([[0, 1e9]], {"family": "categorical"}, DataError, "merge rare values"),
    ],
)
def test_bad_input_is_named(X, options, error, match):
    with pytest.raises(error, match=match):
        fp.structures.hclt(X, **options)


def _sums(circuit):
    return [i for i, node in enumerate(circuit.nodes) if isinstance(node, fp.Sum)]


def test_a_tree_over_columns_of_every_kind():
    """A chain of dependence through five families is found, and the circuit is a distribution over them."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(2000)
    yes = (x + 0.3 * rng.standard_normal(2000) > 0).astype(float)
    level = np.digitize(x + 0.1 * rng.standard_normal(2000), [-1, 0, 1]).astype(float)
    count = rng.poisson(np.exp(1 + level)).astype(float)
    hits = rng.binomial(20, 1 / (1 + np.exp(-count / 10))).astype(float)
    rows = np.stack([yes, x, level, count, hits], axis=1)
    families = ["bernoulli", "gaussian", "categorical", "poisson", "binomial"]
    edges = maximum_spanning_tree(PairCounts(*binned(rows, read_columns(rows, families)[1])).mutual_information(1.0))
    assert {tuple(sorted(edge)) for edge in edges.tolist()} == {(0, 1), (1, 2), (2, 3), (3, 4)}
    circuit = fp.structures.hclt(rows, n_latents=3, family=families)
    assert [type(family).__name__.lower() for family in circuit.families] == families
    assert np.isfinite(circuit.log_prob(rows)).all()


def test_a_tree_of_bins():
    """Neighbours along a chain of many values are found from few bins; the inputs keep all values."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 200, (600, 5)).astype(float)
    for v in range(1, 5):
        X[:, v] = np.where(rng.random(600) < 0.9, X[:, v - 1], X[:, v])
    circuit = fp.structures.hclt(X, 3, family=fp.Categorical(200), bins=8)
    assert {node.family for node in circuit.nodes if isinstance(node, fp.Input)} == {fp.Categorical(200)}
    assert {0b00011, 0b11000} <= set(circuit.scopes)  # a chain, rooted in its middle
    with pytest.raises(OptionError, match="bins"):
        fp.structures.hclt(X, 3, family=fp.Categorical(200), bins=1)
    with pytest.raises(OptionError, match="leave bins out"):
        fp.structures.hclt(X, 3, family=fp.Categorical(200), bins=8, init="chow-liu")
