"""Leave-one-out in closed form: how likely each row is under a model that was counted from all the other rows.

Counts without a row are the counts less one where the row is, so that nothing is counted again. With c rows of n at a value of a
variable with K values, and s rows of smoothing spread evenly, the others give it `(c - 1 + s/K) / (n - 1 + s)`. All rows at that
value get the same, so a column's total takes K terms, not n.

For a tree the edges are held fixed: it is the tree of all rows, that which is left out included. What is measured is therefore
how sure its tables may be, not whether its edges are right; trees are compared by folds, in which both are learnt without the
rows that judge.

A row of weight w is left out as a whole: the counts are less w. So is a group of rows: with a of them at the value and b in all,
in weights, the others give it `(c - a + s/K) / (n - b + s)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flatpc._typing import Array
from flatpc.families import Family
from flatpc.search.samples import Sample
from flatpc.structures.trees.mutual_information import PairCounts
from flatpc.structures.trees.spanning import RootedTree

SMOOTHINGS: Array = np.geomspace(0.1, 100, 31)
"""Among which one is chosen; of equals the one nearest to 1."""
MOST_JUDGES = 4096
"""Rows of a column that are left out in turn where they have weights or groups; of more, every so many."""


def smoothing_of_columns(rows: Sample, families: Sequence[Family]) -> float:
    """The smoothing with which independent columns give the rows the largest leave-one-out likelihood.

    It is that of the columns with free tables, binary and categorical ones; smoothing means something else to others.

    >>> from flatpc import Bernoulli
    >>> rows = Sample(np.repeat([[0.0], [1.0]], [90, 10], axis=0))
    >>> smoothing_of_columns(rows, [Bernoulli()]) < 3 < smoothing_of_columns(rows.some(slice(80, None)), [Bernoulli()])
    True
    """
    total = np.zeros(len(SMOOTHINGS))
    for v, kind in enumerate(families):
        if kind.is_free_table:
            codes, counts = rows.X[:, v], _counts(rows.X[:, v], kind.n_categories or 2, rows.weights)
            total += of_column(counts, SMOOTHINGS) if _alone(rows) else of_weighted_column(codes, counts, rows, SMOOTHINGS)
    return _best(total)


def smoothing_of_tree(tree: RootedTree, counts: PairCounts, rows: Sample) -> float:
    """The same for the tables of a tree that are drawn to its marginals (`tree_tables` with `"marginals"`)."""
    total = np.zeros(len(SMOOTHINGS))
    for v, parent in enumerate(tree.parent):
        # The root's table is a marginal, whose smoothing is fixed.
        if parent >= 0:
            joint, marginal = counts.joint(parent, v), counts.marginal(v)
            if _alone(rows):
                total += of_edge(joint, marginal, SMOOTHINGS)
            else:
                total += of_weighted_edge(rows.X[:, parent], rows.X[:, v], joint, marginal, rows, SMOOTHINGS)
    return _best(total)


def of_column(counts: Array, smoothing: Array) -> Array:
    """Leave-one-out log-likelihood of a column with these counts of its values, for each smoothing."""
    seen, s = counts[counts > 0], smoothing[:, None]
    others = (seen - 1 + s / len(counts)) / (counts.sum() - 1 + s)
    return np.asarray(np.log(others) @ seen)


def of_edge(joint: Array, marginal: Array, smoothing: Array) -> Array:
    """The same of p(child | parent) with counts `[values of the parent, values of the child]`, drawn to the child's marginal.

    The marginal is that of `tree_tables`: one further row, spread evenly. The row is left out of it, too.
    """
    above, below = np.nonzero(joint)
    seen, s = joint[above, below], smoothing[:, None]
    drawn = (marginal[below] - 1 + 1 / len(marginal)) / marginal.sum()
    others = (seen - 1 + s * drawn) / (joint.sum(axis=1)[above] - 1 + s)
    return np.asarray(np.log(others) @ seen)


# ---- rows that count more or less than once, or belong together ----------------------------------------------------------


def of_weighted_column(codes: Array, counts: Array, rows: Sample, smoothing: Array) -> Array:
    """`of_column` with rows of any weight, each of which is left out with its group."""
    own = _Own(rows, ~np.isnan(codes))
    x = codes[own.known].astype(np.intp)
    here, everywhere = counts[x] - own(x), counts.sum() - own()
    return own.total(here, 1 / len(counts), everywhere, smoothing)


def of_weighted_edge(above: Array, below: Array, joint: Array, marginal: Array, rows: Sample, smoothing: Array) -> Array:
    """`of_edge` with rows of any weight, each of which is left out with its group."""
    child = _Own(rows, ~np.isnan(below))
    c = below[child.known].astype(np.intp)
    drawn = np.full(len(rows), np.nan)
    drawn[child.known] = (marginal[c] - child(c) + 1 / len(marginal)) / (marginal.sum() - child() + 1)
    own = _Own(rows, ~np.isnan(above) & ~np.isnan(below))
    a, b = above[own.known].astype(np.intp), below[own.known].astype(np.intp)
    here, everywhere = joint[a, b] - own(a, b), joint.sum(axis=1)[a] - own(a)
    return own.total(here, drawn[own.known], everywhere, smoothing)


class _Own:
    """What a row brings along that is to be left out with it, over the rows of which something is known."""

    def __init__(self, rows: Sample, known: Any) -> None:
        self.known = np.flatnonzero(known)
        self.weights = np.ones(len(self.known)) if rows.weights is None else rows.weights[known]
        self.groups = None if rows.groups is None else rows.groups[known]

    def __call__(self, *codes: Any) -> Array:
        """`[N]`: the weight of its group's rows with the same codes."""
        if self.groups is None:
            return self.weights
        key = self.groups
        for code in codes:
            key = key * (int(code.max(initial=0)) + 1) + code
        place = np.unique(key, return_inverse=True)[1]
        return np.asarray(np.bincount(place, self.weights)[place])

    def total(self, here: Array, spread: Array | float, everywhere: Array, smoothing: Array) -> Array:
        """Σ w log((here + s spread) / (everywhere + s)) for each s, over `MOST_JUDGES` rows at the most."""
        step = -(-len(here) // MOST_JUDGES) if len(here) else 1
        # Differences of sums are rounded: what is left of nothing is nothing.
        here, everywhere = np.maximum(here, 0.0)[::step], np.maximum(everywhere, 0.0)[::step]
        spread = np.broadcast_to(spread, (len(self.known),))[::step]
        # Rows that are alike give the same.
        alike, place = np.unique(np.stack([here, spread, everywhere]), axis=1, return_inverse=True)
        weights = np.bincount(place.ravel(), self.weights[::step])
        s = smoothing[:, None]
        return np.asarray(np.log((alike[0] + s * alike[1]) / (alike[2] + s)) @ weights)


def _alone(rows: Sample) -> bool:
    return rows.weights is None and rows.groups is None


def _counts(column: Array, size: int, weights: Array | None = None) -> Array:
    known = ~np.isnan(column)
    codes = column[known].astype(np.intp)
    return np.bincount(codes, None if weights is None else weights[known], minlength=size).astype(np.float64)


def _best(score: Array) -> float:
    return float(SMOOTHINGS[int(np.argmax(score - 1e-9 * abs(np.log(SMOOTHINGS))))])
