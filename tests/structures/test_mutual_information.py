"""Counts and mutual information of all pairs, against loops over rows, values and pairs."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flatpc.errors import DataError
from flatpc.families.categorical import Categorical
from flatpc.families.gaussian import Gaussian
from flatpc.families.poisson import Poisson
from flatpc.structures.trees import joint_codes, pair_kernel
from flatpc.structures.trees import mutual_information as module
from flatpc.structures.trees.mutual_information import PairCounts, binned


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
    monkeypatch.setattr(joint_codes, "_ONE_HOT", 1)
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


@settings(deadline=None)
@given(tables(), st.sampled_from([0.0, 0.01, 1.0, 7.5]), st.sampled_from([0, 2, 16]))
def test_counting_when_asked_equals_the_table(table, smoothing, few):
    """Without a table of all pairs: those of variables with few values by products, the others by joint codes."""
    X, sizes = table
    whole = PairCounts(X, sizes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MAX_TABLE", 0)
        patch.setattr(module, "_FEW_VALUES", few)
        counts = PairCounts(X, sizes)
        assert counts.table is None
        got = counts.mutual_information(smoothing)
        assert np.array_equal(got, got.T)
        np.testing.assert_allclose(got, whole.mutual_information(smoothing), rtol=0, atol=1e-13)
        for u in range(len(sizes)):
            assert np.array_equal(counts.marginal(u, 0.5), whole.marginal(u, 0.5))
            for v in range(len(sizes)):
                assert np.array_equal(counts.joint(u, v, 0.5), whole.joint(u, v, 0.5))


def test_wide_variables_have_the_same_table():
    rng = np.random.default_rng(4)
    sizes = [3, 40, 2, 25, 5]
    X = np.stack([rng.integers(0, n, 300) for n in sizes], axis=1).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    counts = PairCounts(X, sizes)
    for u in range(5):
        for v in range(5):
            want = np.zeros((sizes[u], sizes[v]))
            for row in X[~np.isnan(X[:, u]) & ~np.isnan(X[:, v])]:
                want[int(row[u]), int(row[v])] += 1
            assert np.array_equal(counts.joint(u, v), want)
            if u != v:
                assert counts.mutual_information(1.0)[u, v] == pytest.approx(information_by_loops(X, sizes, u, v, 1.0), abs=1e-13)


def test_many_variables_keep_information_in_float32(monkeypatch):
    X = np.random.default_rng(5).integers(0, 2, (200, 30)).astype(float)
    whole = PairCounts(X, [2] * 30).mutual_information(1.0)
    monkeypatch.setattr(module, "_IN_DOUBLE", 29)
    got = PairCounts(X, [2] * 30).mutual_information(1.0)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, whole, rtol=1e-6)


def test_more_variables_or_values_than_memory_holds_are_refused():
    with pytest.raises(DataError, match="16,385 variables, and a tree is learnt of 16,384 at the most"):
        PairCounts(np.zeros((1, 16385)), [2] * 16385)
    with pytest.raises(DataError, match="Merge rare values"):
        PairCounts(np.zeros((1, 2)), [5000, 5000]).smoothed(1.0)


def test_bins_hold_equally_many_rows_and_missing_values_stay_missing():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(1000)
    x[::10] = np.nan
    rows = np.stack([x, rng.integers(0, 3, 1000).astype(float), np.where(rng.random(1000) < 0.9, 0.0, 7.0)], axis=1)
    codes, sizes = binned(rows, [Gaussian(), Categorical(3), Poisson()])
    assert sizes[0] == 8
    np.testing.assert_array_equal(np.isnan(codes[:, 0]), np.isnan(x))
    counts = np.bincount(codes[~np.isnan(x), 0].astype(int))
    assert counts.max() - counts.min() <= 1
    # A larger value never has a smaller code.
    assert (np.diff(codes[np.argsort(x)[:900], 0]) >= 0).all()
    np.testing.assert_array_equal(codes[:, 1], rows[:, 1])
    # Nine tenths of zeros: the zeros share a bin, and the sevens have their own.
    assert len({(a, b) for a, b in zip(rows[:, 2], codes[:, 2], strict=True)}) == 2


def test_binning_finds_the_information_of_a_gaussian_pair():
    """Between eight bins each, of -log(1 - r²) / 2 = 0.511 nats for r = 0.8, a little is lost."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(20000)
    y = 0.8 * x + 0.6 * rng.standard_normal(20000)
    information = PairCounts(*binned(np.stack([x, y], axis=1), [Gaussian(), Gaussian()])).mutual_information()[0, 1]
    assert 0.40 < information < 0.511


@pytest.mark.parametrize("smoothing", [0.0, 1.0, 7.5])
def test_native_code_equals_the_definition(smoothing, monkeypatch):
    """Both ways to add up cells: few rows and many cells, many rows and few cells; with and without a common value."""
    rng = np.random.default_rng(0)
    for n_rows, sizes, share in ((30, [9, 40, 3, 17], 0.4), (700, [9, 4, 3, 30], 0.4), (60, [90, 300, 5, 17], 0.03),
                                 (2000, [9, 40, 3, 17], 0.03)):  # fmt: skip
        X = np.stack([(rng.geometric(share, n_rows) - 1) % n for n in sizes], axis=1).astype(float)
        X[:, 1] = np.minimum(X[:, 0], sizes[1] - 1)
        expected = PairCounts(X, sizes).mutual_information(smoothing)
        monkeypatch.setattr(module, "_WORTH_COMPILING", 0)
        found = PairCounts(X, sizes).mutual_information(smoothing)
        monkeypatch.undo()
        np.testing.assert_allclose(found, expected, atol=1e-12)
        assert found[0, 2] == pytest.approx(max(information_by_loops(X, sizes, 0, 2, smoothing), 0.0), abs=1e-12)


def test_native_code_samples_rows_beyond_a_bound(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 20, (500, 4)).astype(float)
    X[:, 1] = X[:, 0]
    monkeypatch.setattr(module, "_WORTH_COMPILING", 0)
    monkeypatch.setattr(pair_kernel, "MOST_COUNTS", 6 * 200)
    found = PairCounts(X, [20] * 4).mutual_information()
    kept = np.sort(np.random.default_rng(0).permutation(500)[:200])
    monkeypatch.undo()
    np.testing.assert_allclose(found, PairCounts(X[kept], [20] * 4).mutual_information(), atol=1e-12)


def test_categories_in_bins():
    X = np.column_stack([np.arange(80) % 40, np.arange(80) % 3]).astype(float)
    codes, sizes = binned(X, [Categorical(40), Categorical(3)], None, 4)
    assert sizes == [4, 3]
    assert np.bincount(codes[:, 0].astype(int)).tolist() == [20, 20, 20, 20]
    assert (codes[:, 1] == X[:, 1]).all()
    assert binned(X, [Categorical(40), Categorical(3)])[1] == [40, 3]
