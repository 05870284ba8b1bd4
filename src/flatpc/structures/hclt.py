"""Hidden Chow-Liu trees: a Chow-Liu tree whose variables are replaced by latent ones that emit them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flatpc.circuit.circuit import Circuit
from flatpc.circuit.families import Bernoulli, Categorical, Family
from flatpc.circuit.nodes import Input, Node, Product, Sum
from flatpc.errors import OptionError
from flatpc.structures.mutual_information import PairCounts
from flatpc.structures.options import FamilyLike, check_smoothing, random_circuit, read_columns, whole_number
from flatpc.structures.trees import RootedTree, centre, maximum_spanning_tree, root_at


def hclt(
    X: Any,
    n_latents: int = 100,
    family: FamilyLike = "bernoulli",
    n_trees: int = 1,
    smoothing: float = 1.0,
    seed: int = 0,
) -> Circuit:
    """A hidden Chow-Liu tree over the variables of X, or a mixture of several, with random parameters.

    >>> circuit = hclt([[0, 0, 0], [0, 1, 1], [1, 1, 1]], n_latents=4)
    >>> circuit.n_variables, circuit.is_structured_decomposable
    (3, True)

    Every variable v that has children in the Chow-Liu tree gets a latent z_v with `n_latents` states, and
    p(x, z) = p(z_r) Π p(z_v | z_parent(v)) Π p(x_v | z_v). A leaf of the tree hangs on its parent's latent: one of its own
    would add weights but no distribution. With m inner variables and K states, one tree has `(m - 1) K² + K` weights.

    Parameters
    ----------
    X
        Rows from which the tree is learnt; NaN is a missing value, and each pair of variables is then counted over the
        rows that have both.
    n_latents
        States of each latent variable: the width K of the nodes.
    family
        `"bernoulli"`, `"categorical"` (as many values as the column shows), `Categorical(n)`, or a list with one for each
        variable.
    n_trees
        The first tree has the largest total mutual information. For each further one the mutual information of a pair is
        halved as many times as earlier trees have used it as an edge, which leaves strong edges in and makes room for
        others. A sum at the root mixes the trees.
    smoothing
        A number of further rows, spread evenly over the joint values of each pair of variables.
    seed
        Of the parameters; the trees don't depend on it.
    """
    check_smoothing(smoothing)
    n_latents = whole_number("n_latents", n_latents, 1)
    n_trees = whole_number("n_trees", n_trees, 1)
    rows, families = read_columns(X, family)
    sizes = []
    for v, kind in enumerate(families):
        if not isinstance(kind, Bernoulli | Categorical):
            raise OptionError(f"Variable {v} is {kind}; a hidden Chow-Liu tree is over Bernoulli and Categorical variables.")
        sizes.append(kind.n_categories)
    information = PairCounts(rows, sizes).mutual_information(smoothing)
    nodes: list[Node] = []
    roots = []
    for _ in range(n_trees):
        edges = maximum_spanning_tree(information)
        _add_tree(nodes, root_at(edges, centre(edges)), families, n_latents)
        roots.append(len(nodes) - 1)
        for u, v in (edges.T, edges.T[::-1]):
            information[u, v] /= 2
    if n_trees > 1:
        nodes.append(Sum(tuple(roots)))
    return random_circuit(nodes, seed)


def _add_tree(nodes: list[Node], tree: RootedTree, families: Sequence[Family], width: int) -> None:
    """Append the nodes of one tree, the last of which is its root of width 1."""
    children = tree.children()
    message: dict[int, int] = {}
    for v in reversed(tree.order):
        nodes.append(Input(v, families[v], width))
        if children[v]:
            nodes.append(Product((len(nodes) - 1, *(message[c] for c in children[v]))))
        if v == tree.root:
            nodes.append(Sum((len(nodes) - 1,)))
        elif children[v]:
            nodes.append(Sum((len(nodes) - 1,), width))
        message[v] = len(nodes) - 1
