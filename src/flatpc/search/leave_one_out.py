"""Leave-one-out in closed form: how likely each row is under a model that was counted from all the other rows.

Counts without a row are the counts less one where the row is, so that nothing is counted again. With c rows of n at a value of a
variable with K values, and s rows of smoothing spread evenly, the others give it `(c - 1 + s/K) / (n - 1 + s)`. All rows at that
value get the same, so a column's total takes K terms, not n.

For a tree the edges are held fixed: it is the tree of all rows, that which is left out included. What is measured is therefore
how sure its tables may be, not whether its edges are right; trees are compared by folds, in which both are learnt without the
rows that judge.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from flatpc.families import Family
from flatpc.structures.trees.mutual_information import PairCounts
from flatpc.structures.trees.spanning import RootedTree

Array = NDArray[np.float64]

SMOOTHINGS: Array = np.geomspace(0.1, 100, 31)
"""Among which one is chosen; of equals the one nearest to 1."""


def smoothing_of_columns(rows: Array, families: Sequence[Family]) -> float:
    """The smoothing with which independent columns give the rows the largest leave-one-out likelihood.

    It is that of the columns with free tables, binary and categorical ones; smoothing means something else to others.

    >>> from flatpc import Bernoulli
    >>> rows = np.repeat([[0.0], [1.0]], [90, 10], axis=0)
    >>> smoothing_of_columns(rows, [Bernoulli()]) < 3 < smoothing_of_columns(rows[80:], [Bernoulli()])
    True
    """
    counts = [_counts(rows[:, v], kind.n_categories or 2) for v, kind in enumerate(families) if kind.is_free_table]
    return _best(np.sum([of_column(each, SMOOTHINGS) for each in counts], axis=0))


def smoothing_of_tree(tree: RootedTree, counts: PairCounts) -> float:
    """The same for the tables of a tree that are drawn to its marginals (`tree_tables` with `"marginals"`)."""
    total = np.zeros(len(SMOOTHINGS))
    for v, parent in enumerate(tree.parent):
        # The root's table is a marginal, whose smoothing is fixed.
        if parent >= 0:
            total += of_edge(counts.joint(parent, v), counts.marginal(v), SMOOTHINGS)
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


def _counts(column: Array, size: int) -> Array:
    known = column[~np.isnan(column)]
    return np.bincount(known.astype(np.intp), minlength=size).astype(np.float64)


def _best(score: Array) -> float:
    return float(SMOOTHINGS[int(np.argmax(score - 1e-9 * abs(np.log(SMOOTHINGS))))])
