"""A tree-shaped Bayesian network with its tables: what a Chow-Liu tree is before it becomes a circuit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc._options import choice
from flatpc._typing import Array
from flatpc.errors import TooLargeError
from flatpc.structures.trees.mutual_information import PairCounts
from flatpc.structures.trees.spanning import RootedTree, centre, maximum_spanning_tree, root_at

PRIORS = ("even", "marginals")
MAX_TABLES = 1 << 26
"""Probabilities in the tables of a tree, at the most: half a GiB of them."""


@dataclass(frozen=True)
class TreeModel:
    """p(x) = p(x_r) Π p(x_v | x_parent(v))."""

    tree: RootedTree
    tables: tuple[Array, ...]
    """`tables[v]` is p(x_v | x_parent), `[values of the parent, values of v]`; the root's has one row."""

    def log_prob(self, rows: Array) -> Array:
        """`[N]`, for rows without missing values."""
        values = np.ascontiguousarray(rows.T.astype(np.intp))
        out = np.zeros(len(rows))
        with np.errstate(divide="ignore"):
            for v, table in enumerate(self.tables):
                parent = self.tree.parent[v]
                out += np.log(table)[0 if parent < 0 else values[parent], values[v]]
        return out


def fit_tree(counts: PairCounts, smoothing: float, prior: str = "even") -> TreeModel:
    """The tree with the largest total of mutual information and its smoothed tables.

    >>> model = fit_tree(PairCounts(np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 1.0]]), sizes=[2, 2]), smoothing=0.0)
    >>> model.tables[1].tolist()
    [[1.0, 0.0], [0.0, 1.0]]

    The root is the centre of the tree. See `tree_tables` for `prior`.
    """
    tree = best_tree(counts.mutual_information(smoothing if prior == "even" else 1.0))
    return TreeModel(tree, tree_tables(tree, counts, smoothing, prior))


def best_tree(information: NDArray[Any]) -> RootedTree:
    """The tree with the largest total of mutual information, hung up at its centre."""
    edges = maximum_spanning_tree(information)
    return root_at(edges, centre(edges))


def tree_tables(tree: RootedTree, counts: PairCounts, smoothing: float, prior: str = "even") -> tuple[Array, ...]:
    """The conditionals along the tree.

    With the prior `"even"`, `smoothing` is a number of further rows, spread evenly over the joint values of each pair; a value
    of the parent that was never seen gives a uniform row. With `"marginals"` it is a number of further rows for each value of the
    parent, in which the child is distributed as in all rows: the tree becomes independent variables as it grows.
    """
    _check_size(tree, counts.sizes)
    tables = []
    for v, parent in enumerate(tree.parent):
        if prior == "even":
            joint = counts.marginal(v, smoothing)[None] if parent < 0 else counts.joint(parent, v, smoothing)
        else:
            joint = counts.marginal(v, 1.0)[None]
            if parent >= 0:
                joint = counts.joint(parent, v) + smoothing * joint / joint.sum()
        total = joint.sum(axis=1, keepdims=True)
        joint /= np.where(total > 0, total, 1)
        joint[total[:, 0] == 0] = 1 / joint.shape[1]
        tables.append(joint)
    return tuple(tables)


def _check_size(tree: RootedTree, sizes: NDArray[np.int64]) -> None:
    """Raise if the tables of a tree would not fit into half a GiB; a circuit holds them once more."""
    n = sum(int(sizes[v] * (1 if parent < 0 else sizes[parent])) for v, parent in enumerate(tree.parent))
    if n > MAX_TABLES:
        raise TooLargeError(
            f"The tables of a tree over these variables would have {n:,} probabilities, one for each pair of values of a "
            f"variable and its parent, and {MAX_TABLES:,} is the most. Merge rare values, or choose a hidden tree or "
            f"independent variables."
        )


def check_prior(prior: str) -> None:
    """Raise unless it is known."""
    choice("prior", prior, PRIORS)
