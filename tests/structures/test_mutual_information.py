"""Counts and mutual information of all pairs, against loops over rows, values and pairs."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flatpc.errors import DataError
from flatpc.structures import mutual_information as module
from flatpc.structures.mutual_information import PairCounts


def information_by_loops(X, sizes, u, v, smoothing):
    """Σ p(a, b) log p(a, b) / (p(a) p(b)) over the rows that have both, straight from the definition."""
    rows = [(row[u], row[v]) for row in X if not (math.isnan(row[u]) or math.isnan(row[v]))]
    total = len(rows) + smoothing
    if total == 0:
        return 0.0
    cell = smoothing / (sizes[u] * sizes[v])
    p = {(a, b): (rows.count((a, b)) + cell) / total for a in range(sizes[u]) for b in range(sizes[v])}
    left = [sum(p[a, b] for b in range(sizes[v])) for a in range(sizes[u])]
    right = [sum(p[a, b] for a in range(sizes[u])) for b in range(sizes[v])]
    return sum(q * math.log(q / (left[a] * right[b])) for (a, b), q in p.items() if q > 0)


@st.composite
def tables(draw):
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = np.stack([rng.integers(0, n, draw(st.shared(st.integers(1, 12), key="rows"))) for n in sizes], axis=1).astype(float)
    X[rng.random(X.shape) < draw(st.sampled_from([0.0, 0.4]))] = np.nan
    return X, sizes


@settings(deadline=None)
@given(tables(), st.sampled_from([0.0, 0.01, 1.0, 7.5]))
def test_equals_the_definition(table, smoothing):
    X, sizes = table
    got = PairCounts(X, sizes).mutual_information(smoothing)
    for u in range(len(sizes)):
        for v in range(len(sizes)):
            want = 0.0 if u == v else information_by_loops(X, sizes, u, v, smoothing)
            assert got[u, v] == pytest.approx(want, abs=1e-13)


def test_blocks_of_rows_and_variables_add_up(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (700, 20)).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    whole = PairCounts(X, [3] * 20)
    # 60 values: one-hot blocks of the least 256 rows, and blocks of two variables.
    monkeypatch.setattr(module, "_BLOCK", 400)
    parts = PairCounts(X, [3] * 20)
    assert np.array_equal(parts.table, whole.table)
    assert np.array_equal(parts.mutual_information(0.5), whole.mutual_information(0.5))
    assert parts.joint(2, 7)[1, 2] == np.sum((X[:, 2] == 1) & (X[:, 7] == 2))


def test_smoothing_keeps_marginals_consistent():
    X = np.random.default_rng(1).integers(0, 3, (30, 2)).astype(float)
    counts = PairCounts(X, [3, 4])
    assert np.allclose(counts.joint(0, 1, 2.0).sum(axis=1), counts.marginal(0, 2.0), rtol=0, atol=1e-14)
    assert np.allclose(counts.joint(0, 1, 2.0).sum(axis=0), counts.marginal(1, 2.0), rtol=0, atol=1e-14)


def test_exactly_symmetric_and_not_negative():
    X = np.random.default_rng(2).integers(0, 2, (500, 40)).astype(float)
    information = PairCounts(X, [2] * 40).mutual_information(1.0)
    assert np.array_equal(information, information.T)
    assert (information >= 0).all()


def test_too_many_values_are_refused_before_memory_runs_out():
    with pytest.raises(DataError, match="merge rare values"):
        PairCounts(np.zeros((1, 2)), [30_000, 30_000])
