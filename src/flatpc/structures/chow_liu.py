"""The Chow-Liu tree as a deterministic circuit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc.circuit.circuit import Circuit
from flatpc.circuit.families import Bernoulli, Categorical, Indicator
from flatpc.circuit.nodes import Input, Node, Product, Sum
from flatpc.errors import OptionError
from flatpc.structures.mutual_information import PairCounts
from flatpc.structures.options import FamilyLike, check_smoothing, read_columns
from flatpc.structures.trees import RootedTree, centre, maximum_spanning_tree, root_at

Array = NDArray[np.float64]


def chow_liu(X: Any, smoothing: float = 1.0, family: FamilyLike = "categorical") -> Circuit:
    """The tree-shaped Bayesian network that fits discrete rows best: p(x) = p(x_r) Π p(x_v | x_parent(v)).

    >>> circuit = chow_liu([[0, 0], [1, 1], [1, 1]], smoothing=0.0)
    >>> circuit.is_deterministic
    True

    A sum over indicators stands for every variable, so the circuit is deterministic and its MPE exact; the conditional
    probabilities are the weights of the sums. The root is the centre of the tree.

    Parameters
    ----------
    X
        Rows of whole numbers from 0; NaN is a missing value, and each pair of variables is then counted over the rows
        that have both.
    smoothing
        A number of further rows, spread evenly over the joint values of each pair of variables.
    family
        `"categorical"`: every variable takes as many values as its column shows, and at least two. `"bernoulli"`,
        `Categorical(n)`, or a list with one for each variable, say otherwise.
    """
    check_smoothing(smoothing)
    rows, families = read_columns(X, family)
    sizes = []
    for v, kind in enumerate(families):
        if not isinstance(kind, Bernoulli | Categorical):
            raise OptionError(f"Variable {v} is {kind}; a Chow-Liu tree is over Bernoulli and Categorical variables.")
        sizes.append(kind.n_categories)
    counts = PairCounts(rows, sizes)
    edges = maximum_spanning_tree(counts.mutual_information(smoothing))
    return _circuit(root_at(edges, centre(edges)), counts, smoothing)


def _circuit(tree: RootedTree, counts: PairCounts, smoothing: float) -> Circuit:
    nodes: list[Node] = []
    parameters: dict[int, Any] = {}
    message: dict[int, int] = {}
    children = tree.children()
    for v in reversed(tree.order):
        n = int(counts.sizes[v])
        nodes.append(Input(v, Indicator(n), width=n))
        parameters[len(nodes) - 1] = {"value": np.arange(n)}
        if children[v]:
            nodes.append(Product((len(nodes) - 1, *(message[c] for c in children[v]))))
        # Unit a of the sum is p(x_v and all below | x_parent = a).
        parent = tree.parent[v]
        joint = counts.marginal(v, smoothing)[None] if parent < 0 else counts.joint(parent, v, smoothing)
        nodes.append(Sum((len(nodes) - 1,), width=len(joint)))
        message[v] = len(nodes) - 1
        parameters[message[v]] = _conditional(joint)
    return Circuit(nodes, parameters)


def _conditional(joint: Array) -> Array:
    """Rows divided by their sums; a row of zeros (a value of the parent that was never seen) becomes uniform."""
    total = joint.sum(axis=1, keepdims=True)
    return np.where(total > 0, joint / np.where(total > 0, total, 1), 1 / joint.shape[1])
