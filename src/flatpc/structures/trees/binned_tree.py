"""A tree over columns of any kind: each state of a column stands for a category, a value, or a bin of values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

from flatpc._options import count, number, whole_number
from flatpc._row_weights import quantiles
from flatpc._typing import Array
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.nodes import Input, Node, Product, Sum
from flatpc.errors import OptionError
from flatpc.families import Family, asking
from flatpc.structures.factorized import fit_columns
from flatpc.structures.options import FamilyLike, read_weighted_columns
from flatpc.structures.trees.mutual_information import PairCounts
from flatpc.structures.trees.tree_models import best_tree, tree_tables

_ROUNDS = 2
"""In which inputs are fitted: the second measures deviations from the means that the first one found."""


def binned_tree(
    X: Any,
    *,
    bins: int = 24,
    spread: float = 0.5,
    smoothing: float = 2.0,
    share: float = 0.003,
    ordered: Collection[int] = (),
    family: FamilyLike = "gaussian",
    sample_weight: Any = None,
) -> Circuit:
    """A tree-shaped model of columns of any kind, counted rather than trained.

    >>> import flatpc as fp
    >>> import numpy as np
    >>> x = np.arange(200) % 20
    >>> circuit = fp.structures.binned_tree(np.stack([x, x // 2], axis=1), bins=20, family="poisson")
    >>> circuit.n_variables, circuit.is_structured_decomposable
    (2, True)

    It is the Chow-Liu tree of columns in bins: p(x, z) = p(z_r) Π p(z_v | z_parent(v)) Π p(x_v | z_v), where state z_v says in
    which bin x_v is, and x_v has its own family within a bin. Neighbouring bins of a number are alike, and few rows fall into
    each pair of bins, so that a row counts a little for the neighbours of its own bin too (`spread`). A column that no other
    depends on has no bins: its family is fitted for each state of its parent, to the rows in that state and near it.

    Parameters
    ----------
    X
        Rows. Where values are missing (NaN), each pair of columns is counted over the rows that have both.
    bins
        Of a number, at the most. One with no more different values has a bin for each; others have bins of about equally many
        rows. A category is always a bin of its own.
    spread
        Standard deviation, in bins, by which rows are spread over the neighbouring bins of numbers; 0 leaves them where they are.
    smoothing
        Number of additional rows in each state of a parent, distributed as all rows are: the tree becomes independent columns as
        it grows.
    share
        Of all rows in what a bin's input is fitted to, above 0 and up to 1: none is surer than its few rows allow.
    ordered
        Columns of categories, by number, whose neighbours are alike too, as those of numbers are.
    family
        A family or its name, for all columns, or a list with one for each. `"categorical"` takes as many values as the column
        shows.
    sample_weight
        How often each row counts: one number of 0 or more per row. None counts each once.

    Returns
    -------
    Circuit
        A hidden tree whose states stand for bins; `fp.fit` learns it further.

    Raises
    ------
    OptionError
        For an option out of its range, or an unknown family.
    DataError
        For rows that the families don't allow, or a column without values; `TooLargeError` for more variables or values than fit.
    """
    bins, spread = whole_number("bins", bins, 1), number("spread", spread, 0.0)
    smoothing, share = count("smoothing", smoothing), number("share", share, 0.0, 1.0, above=True)
    rows, families, counted = read_weighted_columns(X, family, sample_weight)
    near = _have_neighbours(families, ordered)
    weights = np.ones(len(rows)) if counted is None else counted
    codes, sizes = _binned(rows, families, counted, bins)
    kernels = [_kernel(size, spread if each else 0.0) for size, each in zip(sizes, near, strict=True)]
    counts = PairCounts(codes, sizes, counted).spread(kernels)
    tree = best_tree(counts.mutual_information(1.0))
    tables = tree_tables(tree, counts, smoothing, "marginals")
    all_rows = (weights / weights.sum())[:, None]
    overall = fit_columns(rows, families, weights, 1.0)
    children = tree.children()
    nodes: list[Node] = []
    parameters: dict[int, Any] = {}
    message: dict[int, int] = {}
    for v in reversed(tree.order):
        parent = tree.parent[v]
        if children[v] or parent < 0:
            here = _rows_of_states(codes[:, v], np.eye(sizes[v]), weights)
            mine = (1 - share) * here / np.maximum(here.sum(axis=0), 1e-300) + share * all_rows
        else:
            mine = _rows_of_states(codes[:, parent], kernels[parent], weights) + smoothing * all_rows
        nodes.append(Input(v, families[v], mine.shape[1]))
        parameters[len(nodes) - 1] = _fitted(families[v], overall[v], rows[:, v], mine)
        if children[v]:
            nodes.append(Product((len(nodes) - 1, *(message[c] for c in children[v]))))
        if children[v] or parent < 0:
            nodes.append(Sum((len(nodes) - 1,), width=len(tables[v])))
            parameters[len(nodes) - 1] = tables[v]
        message[v] = len(nodes) - 1
    return Circuit(nodes, parameters)


def _have_neighbours(families: Sequence[Family], ordered: Any) -> list[bool]:
    """Columns whose states are in order: numbers, and categories that are said to be."""
    listed = isinstance(ordered, Iterable) and not isinstance(ordered, str | bytes)
    given: list[Any] = list(ordered) if listed else [ordered]
    known = [listed and isinstance(v, int | np.integer) and 0 <= v < len(families) for v in given]
    if not all(known):
        text = f"ordered has {given[known.index(False)]!r}; give a list of columns, from 0 to {len(families) - 1}."
        raise OptionError(text, option="ordered")
    return [v in ordered or not kind.is_free_table for v, kind in enumerate(families)]


def _binned(rows: Array, families: Sequence[Family], weights: Array | None, bins: int) -> tuple[Array, list[int]]:
    """Which state each value is in, NaN where it is missing, and how many states there are."""
    codes, sizes = rows.copy(), []
    for v, kind in enumerate(families):
        if kind.is_free_table:
            sizes.append(kind.n_categories or 0)
            continue
        seen = ~np.isnan(rows[:, v])
        values = np.unique(rows[seen, v])
        if len(values) > bins:
            known = None if weights is None else weights[seen]
            values = np.unique(quantiles(rows[seen, v], np.arange(1, bins) / bins, known))
            codes[seen, v] = np.searchsorted(values, rows[seen, v], side="right")
            used, codes[seen, v] = np.unique(codes[seen, v], return_inverse=True)
            sizes.append(len(used))
        else:
            codes[seen, v] = np.searchsorted(values, rows[seen, v])
            sizes.append(max(len(values), 1))
    return codes, sizes


def _kernel(size: int, spread: float) -> Array:
    """`[states, states]`: column a says over which states a row in state a is spread."""
    if spread == 0:
        return np.eye(size)
    apart = np.subtract.outer(np.arange(size), np.arange(size)) / spread
    near = np.exp(-(apart**2) / 2)
    return np.asarray(near / near.sum(axis=0))


def _rows_of_states(codes: Array, kernel: Array, weights: Array) -> Array:
    """`[rows, states]`: how much each row counts for each state; nothing where its own is not known."""
    seen = ~np.isnan(codes)
    out = np.zeros((len(codes), len(kernel)))
    out[seen] = kernel.T[codes[seen].astype(np.intp)] * weights[seen, None]
    return out


def _fitted(family: Family, overall: Any, x: Array, weights: Array) -> Any:
    """Parameters of one unit for each column of the weights `[rows, units]`."""
    fitted = {name: np.repeat(value, weights.shape[1], axis=0) for name, value in overall.items()}
    for _ in range(_ROUNDS):
        fitted = family.update(fitted, asking.statistics(family, fitted, x, weights), 1e-2)
    return fitted
