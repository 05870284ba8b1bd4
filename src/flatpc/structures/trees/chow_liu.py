"""The Chow-Liu tree as a deterministic circuit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flatpc._options import count
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.nodes import Input, Node, Product, Sum
from flatpc.errors import OptionError
from flatpc.families.base import Family
from flatpc.families.indicator import Indicator
from flatpc.structures.options import FamilyLike, read_weighted_columns
from flatpc.structures.trees.mutual_information import count_pairs
from flatpc.structures.trees.tree_models import TreeModel, check_prior, fit_tree


def chow_liu(
    X: Any, *, smoothing: float = 1.0, family: FamilyLike = "categorical", prior: str = "even", sample_weight: Any = None
) -> Circuit:
    """The tree-shaped Bayesian network that fits discrete rows best: p(x) = p(x_r) Π p(x_v | x_parent(v)).

    >>> import flatpc as fp
    >>> circuit = fp.structures.chow_liu([[0, 0], [1, 1], [1, 1]], smoothing=0.0)
    >>> circuit.is_deterministic
    True

    A sum over indicators stands for every variable, so the circuit is deterministic and its MPE exact; the conditional
    probabilities are the weights of the sums. The root is the centre of the tree.

    Up to 16,384 variables, and up to 2²⁶ probabilities in all tables together (half a GiB, which the circuit holds once more):
    one for each pair of values of a variable and its parent. Learning takes 1.5 GiB of memory beside rows and tables.

    Parameters
    ----------
    X
        Rows of whole numbers from 0, or a source of them. With missing values (NaN), each pair of variables is counted over the
        rows that have both.
    smoothing
        Number of additional rows, spread evenly over the joint values of each pair of variables.
    family
        `"categorical"`: every variable takes as many values as its column shows, and at least two. `"bernoulli"`,
        `Categorical(n)`, or a list with one for each variable, say otherwise.
    prior
        `"even"`, or `"marginals"`: smoothing adds its rows to each value of the parent, with the child distributed as it is in
        all rows. For sparse or few rows this makes a better model, between the tree and independent variables.
    sample_weight
        How often each row counts: one number of 0 or more per row. None counts each once.

    Returns
    -------
    Circuit
        Deterministic, with one sum per variable.

    Raises
    ------
    OptionError
        For an unknown family or prior, or a negative smoothing.
    DataError
        For rows that the families don't allow; `TooLargeError` for more variables or values than fit.
    """
    smoothing = count("smoothing", smoothing)
    check_prior(prior)
    rows, families, weights = read_weighted_columns(X, family, sample_weight)
    table_sizes(families, "a Chow-Liu tree")
    counts = count_pairs(X, rows, families, weights)
    return tree_circuit([fit_tree(counts, smoothing, prior)])


def tree_circuit(models: Sequence[TreeModel], weights: Any = None) -> Circuit:
    """The tree as a circuit; of several, their mixture."""
    nodes: list[Node] = []
    parameters: dict[int, Any] = {}
    roots = []
    for model in models:
        add_tree(nodes, parameters, model)
        roots.append(len(nodes) - 1)
    if len(models) > 1:
        nodes.append(Sum(tuple(roots)))
        parameters[len(nodes) - 1] = np.asarray(weights)[None]
    return Circuit(nodes, parameters)


def table_sizes(families: Sequence[Family], what: str) -> list[int]:
    """How many values each variable has, or an error for the first one that is not Bernoulli or Categorical."""
    sizes = []
    for v, kind in enumerate(families):
        if not kind.is_free_table:
            raise OptionError(f"Variable {v} is {kind}; {what} is over Bernoulli and Categorical variables.")
        sizes.append(kind.n_categories or 0)
    return sizes


def add_tree(nodes: list[Node], parameters: dict[int, Any], model: TreeModel) -> None:
    """Append the nodes of a tree, the last of which is its root of width 1, and their parameters."""
    message: dict[int, int] = {}
    children = model.tree.children()
    for v in reversed(model.tree.order):
        table = model.tables[v]
        n = table.shape[1]
        nodes.append(Input(v, Indicator(n), width=n))
        parameters[len(nodes) - 1] = {"value": np.arange(n)}
        if children[v]:
            nodes.append(Product((len(nodes) - 1, *(message[c] for c in children[v]))))
        # Unit a of the sum is p(x_v and all below | x_parent = a).
        nodes.append(Sum((len(nodes) - 1,), width=len(table)))
        message[v] = len(nodes) - 1
        parameters[message[v]] = table
