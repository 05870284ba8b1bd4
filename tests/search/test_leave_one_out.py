"""Leave-one-out in closed form against leaving each row out and counting again."""

import numpy as np
import pytest

import flatpc as fp
from flatpc.search import choose
from flatpc.search.counted import Counted, fitted
from flatpc.search.leave_one_out import SMOOTHINGS, of_column, of_edge, smoothing_of_columns, smoothing_of_tree
from flatpc.search.plans import Plan
from flatpc.search.samples import Sample
from flatpc.structures.trees.mutual_information import PairCounts
from flatpc.structures.trees.tree_models import TreeModel, fit_tree, tree_tables

SIZES = [2, 3, 2, 4]
FAMILIES = [fp.Bernoulli(), fp.Categorical(3), fp.Bernoulli(), fp.Categorical(4)]


def table(n, seed=0):
    """Columns that follow the first one more or less; values that only one row has are likely."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 2, n)
    return np.stack([np.where(rng.random(n) < 0.6, first, rng.integers(0, k, n)) for k in SIZES], axis=1).astype(float)


def left_out(rows, log_prob_of):
    """Σ_i log p(row i | all other rows), each model from rows that are counted again."""
    return sum(float(log_prob_of(np.delete(rows, i, axis=0))(rows[[i]])[0]) for i in range(len(rows)))


@pytest.mark.parametrize("n", [2, 7, 40])
@pytest.mark.parametrize("smoothing", [0.1, 1.0, 17.0])
def test_independent_columns(n, smoothing):
    rows = table(n, seed=n)
    counts = [np.bincount(rows[:, v].astype(int), minlength=size).astype(float) for v, size in enumerate(SIZES)]
    closed = sum(of_column(each, np.array([smoothing]))[0] for each in counts)
    brute = left_out(rows, lambda others: fp.structures.factorized(others, family=FAMILIES, smoothing=smoothing).log_prob)
    assert closed == pytest.approx(brute, rel=1e-12)


@pytest.mark.parametrize("n", [2, 7, 40])
@pytest.mark.parametrize("smoothing", [0.1, 1.0, 17.0])
def test_the_tables_of_a_tree_whose_edges_stay(n, smoothing):
    rows = table(n, seed=n)
    counts = PairCounts(rows, SIZES)
    tree = fit_tree(counts, 1.0, "marginals").tree

    def others_tree(others):
        return TreeModel(tree, tree_tables(tree, PairCounts(others, SIZES), smoothing, "marginals")).log_prob

    root = int(np.flatnonzero(np.asarray(tree.parent) < 0)[0])
    closed = of_column(counts.marginal(root), np.array([1.0]))[0]
    for v, parent in enumerate(tree.parent):
        if parent >= 0:
            closed += of_edge(counts.joint(parent, v), counts.marginal(v), np.array([smoothing]))[0]
    assert closed == pytest.approx(left_out(rows, others_tree), rel=1e-12)


def test_the_best_smoothing_is_that_of_the_largest_likelihood():
    rows = table(25)
    brute = [
        left_out(rows, lambda others, s=s: fp.structures.factorized(others, family=FAMILIES, smoothing=s).log_prob)
        for s in SMOOTHINGS[::3]
    ]
    best = smoothing_of_columns(Sample(rows), FAMILIES)
    assert (
        max(brute)
        <= left_out(rows, lambda others: fp.structures.factorized(others, family=FAMILIES, smoothing=best).log_prob) + 1e-9
    )
    # The noisier the columns are, the more a tree is drawn to its marginals.
    clear, noise = (np.cumsum(np.random.default_rng(0).random((60, 6)) < p, axis=1) % 2 for p in (0.05, 0.5))
    found = []
    for each in (clear.astype(float), noise.astype(float)):
        counts = PairCounts(each, [2] * 6)
        found.append(smoothing_of_tree(fit_tree(counts, 1.0, "marginals").tree, counts, Sample(each)))
    assert found[0] < 3 < found[1]


def test_gaps_and_numbers_have_no_part_in_it():
    rows = table(30)
    counted = smoothing_of_columns(Sample(rows), FAMILIES)
    numbers = np.column_stack([rows, np.linspace(0, 1, 30)])
    assert smoothing_of_columns(Sample(numbers), [*FAMILIES, fp.Gaussian()]) == counted
    gap = np.concatenate([rows, np.full((5, 4), np.nan)])
    assert smoothing_of_columns(Sample(gap), FAMILIES) == counted
    # One row says nothing about smoothing: of equals, 1.
    assert smoothing_of_columns(Sample(rows[:1]), FAMILIES) == pytest.approx(1.0)


@pytest.mark.parametrize("structure", ["factorized", "chow_liu"])
def test_a_plan_without_a_smoothing_takes_the_best_of_its_own_rows(structure):
    rows, judges = table(60), table(20, seed=1)
    prior = {"prior": "marginals"} if structure == "chow_liu" else {}
    log_prob, make = Counted(Sample(rows), judges, FAMILIES, 0).fit(Plan(structure, {"smoothing": None, **prior}))
    counts = PairCounts(rows, SIZES)
    tree = fit_tree(counts, 1.0, "marginals").tree
    best = (
        smoothing_of_columns(Sample(rows), FAMILIES)
        if structure == "factorized"
        else smoothing_of_tree(tree, counts, Sample(rows))
    )
    expected = fitted(Plan(structure, {"smoothing": best, **prior}), Sample(rows), FAMILIES, 0)
    np.testing.assert_allclose(log_prob, expected.log_prob(judges), rtol=1e-12)
    np.testing.assert_array_equal(make().log_prob(judges), expected.log_prob(judges))


def test_with_too_few_rows_to_choose_by_leave_one_out_still_chooses_a_smoothing():
    """Nine rows: coins need much of it, columns that are always 0 little."""
    coins = np.random.default_rng(0).integers(0, 2, (9, 12)).astype(float)
    for rows, least, most in ((coins, 3.0, 100.1), (np.zeros((9, 12)), 0.0999, 0.11)):
        choice = choose(rows, progress=False)
        assert "too few rows (9)" in choice.why
        assert least < smoothing_of_columns(Sample(rows), [fp.Bernoulli()] * 12) < most
        smoothing = smoothing_of_columns(Sample(rows), [fp.Bernoulli()] * 12)
        expected = fp.structures.factorized(rows, smoothing=smoothing)
        np.testing.assert_array_equal(choice.circuit.log_prob(coins), expected.log_prob(coins))
