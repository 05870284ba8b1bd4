"""A tree-shaped Bayesian network with its tables: what a Chow-Liu tree is before it becomes a circuit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flatpc.structures.mutual_information import PairCounts
from flatpc.structures.trees import RootedTree, centre, maximum_spanning_tree, root_at

Array = NDArray[np.float64]


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


def fit_tree(counts: PairCounts, smoothing: float, information: Array | None = None) -> TreeModel:
    """The tree with the largest total of mutual information (or of the matrix given instead) and its smoothed tables.

    >>> model = fit_tree(PairCounts(np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 1.0]]), sizes=[2, 2]), smoothing=0.0)
    >>> model.tables[1].tolist()
    [[1.0, 0.0], [0.0, 1.0]]

    The root is the centre of the tree.
    """
    edges = maximum_spanning_tree(counts.mutual_information(smoothing) if information is None else information)
    tree = root_at(edges, centre(edges))
    return TreeModel(tree, tree_tables(tree, counts, smoothing))


def tree_tables(tree: RootedTree, counts: PairCounts, smoothing: float) -> tuple[Array, ...]:
    """The conditionals along the tree; a value of the parent that was never seen gives a uniform row."""
    tables = []
    for v, parent in enumerate(tree.parent):
        joint = counts.marginal(v, smoothing)[None] if parent < 0 else counts.joint(parent, v, smoothing)
        total = joint.sum(axis=1, keepdims=True)
        tables.append(np.where(total > 0, joint / np.where(total > 0, total, 1), 1 / joint.shape[1]))
    return tuple(tables)
