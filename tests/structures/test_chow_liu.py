"""Chow-Liu trees, against the formula and against all trees."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flatpc as fp
from flatpc.errors import MissingValueError, OptionError, SupportError
from tests.oracles.evaluate import assignments, log_prob
from tests.structures.test_mutual_information import information_by_loops
from tests.structures.test_trees import is_spanning_tree


def spanning_trees(n):
    pairs = list(itertools.combinations(range(n), 2))
    return [some for some in itertools.combinations(pairs, n - 1) if is_spanning_tree(n, some)]


def tree_log_prob(X, sizes, edges, smoothing, rows):
    """Σ over edges log p(x_u, x_v) minus, for each variable, (degree - 1) times log p(x_v); X has no missing values."""
    total = len(X) + smoothing
    out = []
    for row in rows:
        value = 0.0
        for u, v in edges:
            both = np.sum((X[:, u] == row[u]) & (X[:, v] == row[v])) + smoothing / (sizes[u] * sizes[v])
            value += np.log(both / total)
        for v, n in enumerate(sizes):
            degree = sum(v in edge for edge in edges)
            value -= (degree - 1) * np.log((np.sum(X[:, v] == row[v]) + smoothing / n) / total)
        out.append(value)
    return np.array(out)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(2, 3), min_size=1, max_size=4), st.integers(0, 2**32 - 1), st.sampled_from([0.1, 1.0, 5.0]))
def test_log_prob_is_the_formula_of_the_best_tree(sizes, seed, smoothing):
    X = np.stack([np.random.default_rng([seed, v]).integers(0, n, 25) for v, n in enumerate(sizes)], axis=1).astype(float)
    circuit = fp.structures.chow_liu(X, smoothing=smoothing, family=[fp.Categorical(n) for n in sizes])
    rows = assignments(circuit)
    got = log_prob(circuit, rows)
    information = {
        edges: sum(information_by_loops(X, sizes, u, v, smoothing) for u, v in edges) for edges in spanning_trees(len(sizes))
    }
    # With equally good trees any of them will do.
    best = [edges for edges, total in information.items() if total > max(information.values()) - 1e-12]
    assert any(np.allclose(got, tree_log_prob(X, sizes, edges, smoothing, rows), rtol=0, atol=1e-12) for edges in best)
    assert np.exp(got).sum() == pytest.approx(1, abs=1e-12)


def test_properties():
    X = np.random.default_rng(0).integers(0, 3, (100, 12))
    circuit = fp.structures.chow_liu(X)
    assert circuit.is_deterministic
    assert circuit.is_structured_decomposable
    assert not circuit.has_tied_parameters
    # A root with 3 probabilities and 11 tables of 3 x 3; indicators have nothing to learn.
    assert circuit.n_parameters == 3 + 11 * 9


def test_no_other_tree_fits_the_rows_better():
    X = np.random.default_rng(3).integers(0, 2, (40, 4)).astype(float)
    X[:, 3] = X[:, 1] * X[:, 2]
    circuit = fp.structures.chow_liu(X, smoothing=0.0)
    best = max(tree_log_prob(X, [2] * 4, edges, 0.0, X).sum() for edges in spanning_trees(4))
    assert log_prob(circuit, X).sum() == pytest.approx(best, abs=1e-10)


def test_without_smoothing_impossible_rows_have_probability_zero():
    circuit = fp.structures.chow_liu([[0, 0], [1, 1], [1, 1]], smoothing=0.0)
    assert np.exp(log_prob(circuit, [[0, 0], [1, 1], [0, 1], [1, 0]])) == pytest.approx([1 / 3, 2 / 3, 0, 0], abs=1e-15)
    assert circuit.is_deterministic


def test_a_value_never_seen_leaves_a_distribution():
    circuit = fp.structures.chow_liu([[0, 0], [0, 1]], smoothing=0.0, family=fp.Categorical(3))
    assert np.exp(log_prob(circuit, assignments(circuit))).sum() == pytest.approx(1, abs=1e-14)


def test_towards_marginals_it_goes_from_the_tree_to_independent_variables():
    X = np.array([[0, 0], [0, 0], [0, 1], [1, 1], [1, 1]], dtype=float)
    rows = assignments(fp.structures.chow_liu(X))

    def at(smoothing):
        return np.exp(log_prob(fp.structures.chow_liu(X, smoothing=smoothing, family="bernoulli", prior="marginals"), rows))

    # Two rows for each value of x0 (the centre of an edge is its smaller end), of which 7/12 are 1: p(1) is (3 + 1/2) / (5 + 1).
    child, root = np.array([[3 - 1, 1], [0, 2]]) + 2 * np.array([5 / 12, 7 / 12]), np.array([7 / 12, 5 / 12])
    want = {(a, b): root[a] * child[a, b] / child[a].sum() for a in (0, 1) for b in (0, 1)}
    assert at(2.0) == pytest.approx([want[int(a), int(b)] for a, b in rows], abs=1e-14)
    apart = fp.structures.factorized(X, family="bernoulli", smoothing=1.0)
    assert at(1e12) == pytest.approx(np.exp(log_prob(apart, rows)), abs=1e-9)


def test_missing_values_are_counted_pair_by_pair():
    X = np.array([[0, 0, np.nan], [1, 1, 1], [np.nan, 1, 1], [1, np.nan, 0], [0, 0, 0], [1, 1, 0]], dtype=float)
    circuit = fp.structures.chow_liu(X, smoothing=0.0)
    # Variables 0 and 1 agree in the four rows that have both, so 1 is their tie's other end; 2 hangs on 1 (four rows:
    # 11, 11, 00, 10) rather than on 0 (11, 10, 00, 10). The centre is 1: rates 3/5, then 1 given 1 in 2 rows of 3.
    assert log_prob(circuit, [[1, 1, 1]])[0] == pytest.approx(np.log(3 / 5 * 1 * 2 / 3), abs=1e-14)


@pytest.mark.parametrize(
    ("X", "options", "error", "match"),
    [
        ([[0, 1]], {"smoothing": -0.5}, OptionError, "smoothing"),
        ([[0, 1]], {"prior": "flat"}, OptionError, "prior='flat'"),
        ([[0, 2]], {"family": "bernoulli"}, SupportError, "Column 'x1' has the value 2"),
        ([[0.2, 1.0]], {}, SupportError, "0.2"),
        ([[0.2, 1.0]], {"family": "gaussian"}, OptionError, "Variable 0"),
        ([[np.nan, 1.0]], {}, MissingValueError, "Column 'x0'"),
    ],
)
def test_bad_input_is_named(X, options, error, match):
    with pytest.raises(error, match=match):
        fp.structures.chow_liu(X, **options)
