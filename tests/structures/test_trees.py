"""Spanning trees and centres, against all spanning trees and all roots of small graphs."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flatpc.structures.trees.spanning import centre, maximum_spanning_tree, root_at


def is_spanning_tree(n, edges):
    group = list(range(n))
    for u, v in edges:
        if group[u] == group[v]:
            return False
        group = [group[u] if g == group[v] else g for g in group]
    return len(set(group)) == 1


def eccentricities(edges):
    """For each variable the distance to the farthest one, by Floyd and Warshall."""
    n = len(edges) + 1
    distance = np.full((n, n), np.inf)
    np.fill_diagonal(distance, 0)
    for u, v in edges:
        distance[u, v] = distance[v, u] = 1
    for k in range(n):
        distance = np.minimum(distance, distance[:, k, None] + distance[None, k])
    return distance.max(axis=1)


@given(st.integers(1, 5), st.integers(0, 2**32 - 1), st.booleans())
def test_no_spanning_tree_is_heavier(n, seed, with_ties):
    rng = np.random.default_rng(seed)
    # With ties most weights are 0, which must count as edges too.
    weights = rng.integers(0, 2, (n, n)).astype(float) if with_ties else rng.random((n, n))
    weights = np.triu(weights, 1) + np.triu(weights, 1).T
    edges = maximum_spanning_tree(weights)
    pairs = itertools.combinations(range(n), 2)
    best = max(sum(weights[u, v] for u, v in some) for some in itertools.combinations(pairs, n - 1) if is_spanning_tree(n, some))
    assert is_spanning_tree(n, edges.tolist())
    assert sum(weights[u, v] for u, v in edges) == pytest.approx(best, abs=1e-12)


@given(st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_centre_has_the_smallest_eccentricity(n, seed):
    rng = np.random.default_rng(seed)
    label = rng.permutation(n)
    edges = np.array([[label[rng.integers(v)], label[v]] for v in range(1, n)], dtype=np.int64).reshape(-1, 2)
    distance = eccentricities(edges)
    assert centre(edges) == min(np.flatnonzero(distance == distance.min()))


def test_rooted_tree_goes_down_from_its_root():
    tree = root_at(np.array([[0, 1], [1, 2], [1, 3], [3, 4]]), 3)
    assert tree.root == 3
    assert tree.parent == (1, 3, 1, -1, 3)
    assert [sorted(c) for c in tree.children()] == [[], [0, 2], [], [1, 4], []]
    assert all(tree.order.index(v) > tree.order.index(tree.parent[v]) for v in tree.order[1:])


def test_a_path_of_a_hundred_thousand_variables_has_its_centre_in_the_middle():
    n = 100_001
    edges = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
    assert centre(edges) == n // 2
