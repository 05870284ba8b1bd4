"""Mixtures: clusters of rows, within each of which blocks of columns are independent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from flatpc._options import count, seed_number, whole_number
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.nodes import Input, Node, Product, Sum
from flatpc.families import asking
from flatpc.structures.blocks import read_blocks
from flatpc.structures.clusters import cluster_weights
from flatpc.structures.options import FamilyLike, read_weighted_columns


def mixture(
    X: Any,
    n_components: int = 8,
    *,
    family: FamilyLike = "gaussian",
    blocks: Any = "all",
    pooled: float | None = None,
    rank: int | None = None,
    smoothing: float = 1.0,
    seed: int = 0,
    sample_weight: Any = None,
) -> Circuit:
    """A mixture of distributions with independent columns, apart from blocks that share a multivariate Gaussian.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> X[:, 2] = X[:, 2] > 0
    >>> circuit = fp.structures.mixture(X, 2, family=["gaussian", "gaussian", "bernoulli"])
    >>> [node.variables for node in circuit.nodes[:2]]
    [(0, 1), (2,)]

    With Gaussian columns alone it is the mixture of full-covariance Gaussians, with others beside them one of these times
    independent columns. It starts with one unit at each cluster of the rows; `fp.fit` goes on from there by EM.

    Parameters
    ----------
    X
        Rows. Missing values (NaN) are left out of their column's start.
    n_components
        How many distributions are mixed.
    family
        A family or its name, for all columns, or a list with one for each. `"categorical"` takes as many values as the column
        shows.
    blocks
        Which columns are taken together. `"all"`: all Gaussian columns. `"auto"`: those of `correlated_blocks`. None: each column
        alone. Or a list of tuples of columns; those not listed stay alone.
    pooled
        Of the multivariate Gaussians (`fp.MultivariateGaussian`): how much of their common covariance each is learnt with.
    rank
        Of their covariances, beside a diagonal; for blocks of more columns than that. None for any covariance.
    smoothing
        Number of additional observations of every column in each component, spread evenly over its values (families over
        finitely many).
    seed
        Random seed of the clusters.
    sample_weight
        How often each row counts: one number of 0 or more per row. None counts each once.

    Returns
    -------
    Circuit
        Ready for `fp.fit`.

    Raises
    ------
    OptionError
        For an option out of its range, an unknown family, or blocks of families that can't be taken together.
    DataError
        For rows that the families don't allow, or a column without values.
    """
    n_components, seed = whole_number("n_components", n_components, 1), seed_number(seed)
    smoothing = count("smoothing", smoothing)
    rank = None if rank is None else whole_number("rank", rank, 1)
    rows, families, counted = read_weighted_columns(X, family, sample_weight)
    together = read_blocks(blocks, rows, families, n_components, counted)
    weights = cluster_weights(rows, n_components, seed, counted)
    nodes: list[Node] = []
    parameters: dict[int, Any] = {}
    rng = np.random.default_rng(seed)
    for variables, kind in together:
        low = rank is not None and rank < len(variables)
        wanted: dict[str, Any] = {"pooled": pooled, "rank": rank if low else None}
        wanted = {name: value for name, value in wanted.items() if value is not None and hasattr(kind, name)}
        kind = replace(kind, **wanted) if wanted else kind
        node = Input(family=kind, width=n_components, variables=variables)
        fitted = kind.initialize(n_components, rng, "uniform")
        # The second round measures deviations from the means that the first one found, so that large means don't cancel.
        for _ in range(2):
            found = asking.statistics(kind, fitted, rows[:, node.columns], weights)
            fitted = kind.update(fitted, found, smoothing)
        parameters[len(nodes)] = fitted
        nodes.append(node)
    if len(nodes) > 1:
        nodes.append(Product(tuple(range(len(nodes)))))
    if n_components > 1:
        nodes.append(Sum((len(nodes) - 1,)))
        parameters[len(nodes) - 1] = (weights.sum(axis=0) / weights.sum())[None]
    return Circuit(nodes, parameters)
