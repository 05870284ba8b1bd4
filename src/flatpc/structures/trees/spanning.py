"""Trees over variables: maximum spanning tree, centre, and the order from the root down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order

Edges = NDArray[np.int64]


@dataclass(frozen=True)
class RootedTree:
    """`order` lists the variables from the root down; `parent[v]` is -1 for the root."""

    order: tuple[int, ...]
    parent: tuple[int, ...]

    @property
    def root(self) -> int:
        return self.order[0]

    def children(self) -> list[list[int]]:
        """For each variable its children."""
        out: list[list[int]] = [[] for _ in self.order]
        for v in self.order[1:]:
            out[self.parent[v]].append(v)
        return out


def maximum_spanning_tree(weights: NDArray[Any]) -> Edges:
    """Edges `[n-1, 2]` of the spanning tree with the largest total of the symmetric `weights [n, n]`.

    >>> maximum_spanning_tree(np.array([[0.0, 1.0, 3.0], [1.0, 0.0, 2.0], [3.0, 2.0, 0.0]])).tolist()
    [[0, 2], [2, 1]]

    Prim's algorithm on the dense matrix: n vectorised steps, each adding the heaviest edge out of the tree. Edges of
    weight 0 are edges like any other. Of equal edges the one to the smallest variable is taken.
    """
    n = len(weights)
    edges = np.empty((n - 1, 2), dtype=np.int64)
    best, nearest = weights[0].copy(), np.zeros(n, dtype=np.int64)
    best[0] = -np.inf
    outside = np.ones(n, dtype=bool)
    outside[0] = False
    for step in range(n - 1):
        v = int(np.argmax(best))
        edges[step] = nearest[v], v
        outside[v] = False
        best[v] = -np.inf
        better = outside & (weights[v] > best)
        best[better] = weights[v][better]
        nearest[better] = v
    return edges


def root_at(edges: Edges, root: int) -> RootedTree:
    """The tree with the given edges, hung up at `root`."""
    order, parent = _search(edges, root)
    return RootedTree(tuple(order.tolist()), tuple(np.where(parent < 0, -1, parent).tolist()))


def centre(edges: Edges) -> int:
    """The variable with the smallest distance to the farthest one; of two, the smaller.

    It is in the middle of a longest path, and the ends of such a path are found by two searches: the variable farthest
    from any is one end, the variable farthest from that end the other.
    """
    order, _ = _search(edges, 0)
    order, parent = _search(edges, int(order[-1]))
    path = [int(order[-1])]
    while parent[path[-1]] >= 0:
        path.append(int(parent[path[-1]]))
    return min(path[(len(path) - 1) // 2], path[len(path) // 2])


def _search(edges: Edges, root: int) -> tuple[Edges, Edges]:
    """Breadth first: variables in order of their distance from `root`, and each one's parent (negative for the root)."""
    n = len(edges) + 1
    graph = csr_array((np.ones(n - 1), (edges[:, 0], edges[:, 1])), shape=(n, n))
    order, parent = breadth_first_order(graph, root, directed=False)
    return order, parent
