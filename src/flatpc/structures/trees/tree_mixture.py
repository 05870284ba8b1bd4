"""Mixtures of Chow-Liu trees, each with edges and tables of its own (Meilă and Jordan, 2000)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import logsumexp

from flatpc._options import count, seed_number, whole_number
from flatpc._row_weights import mean
from flatpc._typing import Array
from flatpc.circuit.circuit import Circuit
from flatpc.errors import MissingValueError
from flatpc.structures.clusters import spread
from flatpc.structures.options import FamilyLike, read_weighted_columns
from flatpc.structures.trees.chow_liu import table_sizes, tree_circuit
from flatpc.structures.trees.mutual_information import PairCounts, WeightedCounts
from flatpc.structures.trees.tree_models import TreeModel, best_tree, tree_tables


def tree_mixture(
    X: Any,
    n_trees: int = 10,
    *,
    smoothing: float = 1.0,
    family: FamilyLike = "categorical",
    steps: int = 20,
    seed: int = 0,
    sample_weight: Any = None,
) -> Circuit:
    """A mixture of Chow-Liu trees, each with edges and tables of its own, learnt by EM: p(x) = Σ_c w_c p_c(x).

    >>> import numpy as np
    >>> import flatpc as fp
    >>> X = np.random.default_rng(0).integers(0, 2, (100, 5))
    >>> fp.structures.tree_mixture(X, n_trees=3).n_variables
    5

    An E-step shares every row out among the trees by how well each explains it; an M-step makes each tree the Chow-Liu tree of
    its share of the rows: edges and tables both maximise the expected log-likelihood (less what smoothing takes).

    The variables may have 8,192 values altogether: counts of all pairs of values are kept, 256 MiB a copy and six copies or so.

    Parameters
    ----------
    X
        Rows of whole numbers from 0, without missing values.
    n_trees
        Number of trees.
    smoothing
        Number of additional rows for each tree, in which pairs of variables are as common as in all rows together; and as many
        for each value of a parent in the tables, with the child distributed as it is given that value in all rows.
    family
        As for `chow_liu`.
    steps
        Largest number of EM steps; it ends early when a step gains less than 10⁻⁴ of the likelihood.
    seed
        Random seed of the first clusters, which are those of k-means.
    sample_weight
        How often each row counts: one number of 0 or more per row. None counts each once.

    Returns
    -------
    Circuit
        A sum over the trees.

    Raises
    ------
    OptionError
        For an option out of its range.
    DataError
        For rows that the families don't allow; `MissingValueError` for missing values.
    """
    smoothing = count("smoothing", smoothing)
    n_trees = whole_number("n_trees", n_trees, 1)
    rows, families, counted = read_weighted_columns(X, family, sample_weight)
    sizes = table_sizes(families, "a mixture of trees")
    weights, models = fit_tree_mixture(
        rows, sizes, n_trees, smoothing, steps=whole_number("steps", steps, 0), seed=seed_number(seed), row_weights=counted
    )
    return tree_circuit(models, weights)


def fit_tree_mixture(
    rows: Array, sizes: Sequence[int], n_trees: int, smoothing: float, *, steps: int = 20, seed: int = 0,
    row_weights: Array | None = None,
) -> tuple[Array, list[TreeModel]]:  # fmt: skip
    """Weights and trees of the mixture."""
    if np.isnan(rows).any():
        raise MissingValueError("A mixture of trees is learnt from rows without missing values; fill them in or drop them.")
    share = _clusters(rows, n_trees, np.random.default_rng(seed), row_weights)
    whole = PairCounts(rows, sizes, row_weights).smoothed(1.0)
    counts = WeightedCounts(rows, sizes)
    n_rows = float(len(rows) if row_weights is None else row_weights.sum())
    before = -np.inf
    for step in range(steps + 1):
        own = share if row_weights is None else share * row_weights[:, None]
        weights = (own.sum(axis=0) + 1) / (n_rows + n_trees)
        models = [_fit_component(counts(own[:, c]), whole, smoothing) for c in range(n_trees)]
        if step == steps or n_trees == 1:
            break
        joint = np.stack([model.log_prob(rows) for model in models], axis=1) + np.log(weights)
        log_prob = logsumexp(joint, axis=1)
        share = np.exp(joint - log_prob[:, None])
        now = mean(log_prob, row_weights)
        if now - before < 1e-4 * abs(now):
            break
        before = now
    return weights, models


def _fit_component(counts: PairCounts, whole: PairCounts, smoothing: float) -> TreeModel:
    """The tree of a share of the rows, with edges and tables drawn towards those of the whole."""
    pooled = counts.plus(whole, smoothing / whole.n_rows)
    tree = best_tree(pooled.mutual_information())
    tables = []
    for v, everywhere in enumerate(tree_tables(tree, whole, 1.0, "marginals")):
        parent = tree.parent[v]
        own = counts.marginal(v)[None] if parent < 0 else counts.joint(parent, v)
        joint = own + max(smoothing, 1e-9) * everywhere
        tables.append(joint / joint.sum(axis=1, keepdims=True))
    return TreeModel(tree, tuple(tables))


def _clusters(rows: Array, n_clusters: int, rng: np.random.Generator, row_weights: Array | None) -> Array:
    """`[N, clusters]`: k-means of the standardised rows, nine tenths of each row in its cluster and the rest spread evenly.

    A few rounds are enough: EM goes on from here.
    """
    middle, scale = spread(rows, row_weights)
    X = ((rows - middle) / np.where(scale > 0, scale, 1)).astype(np.float32)
    chance = None if row_weights is None else row_weights / row_weights.sum()
    centres = X[rng.choice(len(X), n_clusters, replace=len(X) < n_clusters, p=chance)]
    counted: Any = 1.0 if row_weights is None else (row_weights / row_weights.mean())[:, None].astype(np.float32)
    for _ in range(5):
        distance = (centres**2).sum(axis=1) - 2 * X @ centres.T
        label = distance.argmin(axis=1)
        member = np.zeros((len(X), n_clusters), np.float32)
        member[np.arange(len(X)), label] = 1
        own = np.asarray(member * counted)
        total = own.sum(axis=0)[:, None]
        centres = np.asarray(own.T @ X / np.where(total > 0, total, 1), np.float32)
    return np.asarray(0.9 * member + 0.1 / n_clusters, np.float64)
