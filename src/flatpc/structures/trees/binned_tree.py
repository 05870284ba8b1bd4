"""A tree over columns of any kind: each state of a column stands for a category, a value, or a bin of values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from flatpc._options import count, number, seed_number, whole_number
from flatpc._row_weights import quantiles
from flatpc._typing import Array
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.nodes import Input, Node, Product, Sum
from flatpc.errors import TooLargeError
from flatpc.families import Categorical, Family, Indicator, asking
from flatpc.families.hurdle import sure_of
from flatpc.structures.edit.mixing import mix
from flatpc.structures.factorized import fit_columns
from flatpc.structures.options import FamilyLike, read_weighted_columns
from flatpc.structures.trees.judged_tables import SMOOTHINGS, SPREADS, EdgeTable, OwnTable, edge_table, gains, kernel, own_table
from flatpc.structures.trees.mutual_information import MAX_TABLE, PairCounts
from flatpc.structures.trees.tree_models import best_tree

MARGIN = 5.0
"""Nats, over all rows, that an edge gains at the least: less may be chance, of the best of many pairs and smoothings."""
MARGIN_OF_SEVERAL = 3.0
"""The same where several trees, of which each has chance edges of its own, are averaged."""
SAMPLED = 0.75
"""Of the rows, what each of several trees is learnt from."""
_ROUNDS = 2
"""In which inputs are fitted: the second measures deviations from the means that the first one found."""


def binned_tree(
    X: Any,
    *,
    bins: int = 40,
    spread: float | None = None,
    smoothing: float | None = None,
    share: float = 0.003,
    n_trees: int = 1,
    family: FamilyLike = "gaussian",
    seed: int = 0,
    sample_weight: Any = None,
) -> Circuit:
    """A tree-shaped model of columns of any kind, counted rather than trained.

    >>> import flatpc as fp
    >>> import numpy as np
    >>> x = np.arange(200) % 20
    >>> circuit = fp.structures.binned_tree(np.stack([x, x // 2], axis=1), bins=20, family="poisson")
    >>> circuit.n_variables, circuit.is_structured_decomposable
    (2, True)

    It is a tree of columns in bins: p(x, z) = p(z_r) Π p(z_v | z_parent(v)) Π p(x_v | z_v), where state z_v says in which bin x_v
    is, and x_v has its own family within a bin. Neighbouring bins of a number are alike, and few rows fall into each pair of
    bins, so that a row counts a little for the neighbours of its own bin too (`spread`). How much, and how far a table is drawn
    to the child's own distribution (`smoothing`), is chosen for each edge: so that rows are likeliest, each judged by all others.
    The edges are chosen likewise; a column has no parent where knowing it does not pay. A column that no other depends on has
    no bins, unless these are its values: its family is fitted for each state of its parent, to rows in that state and near it.

    Parameters
    ----------
    X
        Rows. Where values are missing (NaN), each pair of columns is counted over the rows that have both.
    bins
        Of a number, at the most. One with no more different values has a bin for each; others have bins of about equally many
        rows. A category is always a bin of its own.
    spread
        Standard deviation, in bins, by which rows are spread over the neighbouring bins of numbers; 0 leaves them where they are.
        None has leave-one-out choose for each pair of columns, those of categories too: in some tables they are in order.
    smoothing
        Number of additional rows in each state of a parent, distributed as all rows are: the tree becomes independent columns as
        it grows. None has leave-one-out choose for each edge.
    share
        Of all rows in what a bin's input is fitted to, above 0 and up to 1: none is surer than its few rows allow. Where bins are
        whole numbers, other numbers have the share of those that were seen once.
    n_trees
        With more than one, each is learnt from three quarters of the rows, drawn by the seed, and the circuit is their average.
    family
        A family or its name, for all columns, or a list with one for each. `"categorical"` takes as many values as the column
        shows.
    seed
        Random seed of the rows of several trees.
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
    n_trees = whole_number("n_trees", n_trees, 1)
    options = _Options(
        whole_number("bins", bins, 1),
        None if spread is None else number("spread", spread, 0.0),
        SMOOTHINGS if smoothing is None else (count("smoothing", smoothing),),
        number("share", share, 0.0, 1.0, above=True),
        MARGIN if n_trees == 1 else MARGIN_OF_SEVERAL,
    )
    rng = np.random.default_rng(seed_number(seed))
    rows, families, given = read_weighted_columns(X, family, sample_weight)
    weights = np.ones(len(rows)) if given is None else given
    if n_trees == 1:
        return _circuit(rows, families, weights, options)
    trees = []
    for _ in range(n_trees):
        left_out = rng.permutation(len(rows))[: int((1 - SAMPLED) * len(rows))]
        kept = weights.copy()
        kept[left_out] = 0.0
        trees.append(_circuit(rows, families, kept if kept.any() else weights, options))
    return mix(trees)


@dataclass(frozen=True)
class _Options:
    bins: int
    spread: float | None
    smoothings: Sequence[float]
    share: float
    margin: float


def _circuit(rows: Array, families: Sequence[Family], weights: Array, options: _Options) -> Circuit:
    """One tree."""
    codes, sizes = _binned(rows, families, weights, options.bins)
    spreads = [SPREADS if options.spread is None else (0.0 if kind.is_free_table else options.spread,) for kind in families]
    tree = _tree(PairCounts(codes, sizes, weights), spreads, options, _one_row(weights))
    columns = [
        _Column(rows[:, v], codes[:, v], sizes[v], kind, fitted, weights, options.share)
        for v, (kind, fitted) in enumerate(zip(families, fit_columns(rows, families, weights, 1.0), strict=True))
    ]
    nodes: list[Node] = []
    parameters: dict[int, Any] = {}
    message: dict[int, int] = {}
    for v in reversed(tree.order):
        column, edge, below = columns[v], tree.edges[v], [message[c] for c in tree.children[v]]
        by_parent = edge is not None and not below and not column.bins_are_values
        if edge is not None and by_parent:
            kind, fitted = families[v], column.given(columns[tree.parent[v]], edge)
        else:
            kind, fitted = column.within_bins
        nodes.append(Input(v, kind, len(next(iter(fitted.values())))))
        parameters[len(nodes) - 1] = fitted
        if below:
            nodes.append(Product((len(nodes) - 1, *below)))
        if not by_parent:
            table = tree.own[v].p[None] if edge is None else edge.p
            nodes.append(Sum((len(nodes) - 1,), width=len(table)))
            parameters[len(nodes) - 1] = table
        message[v] = len(nodes) - 1
    roots = tuple(message[v] for v in tree.order if tree.edges[v] is None)
    if len(roots) > 1:
        nodes.append(Product(roots))
    return Circuit(nodes, parameters)


@dataclass(frozen=True)
class _Tree:
    """Columns from the roots down, and the table of each: that of its edge, or its own."""

    order: list[int]
    parent: list[int]
    own: list[OwnTable]
    edges: list[EdgeTable | None]

    @property
    def children(self) -> list[list[int]]:
        out: list[list[int]] = [[] for _ in self.order]
        for v in self.order:
            if self.edges[v] is not None:
                out[self.parent[v]].append(v)
        return out


def _tree(counts: PairCounts, spreads: Sequence[Sequence[float]], options: _Options, row: float) -> _Tree:
    """The tree whose edges gain most, without those that don't pay."""
    _check(counts)
    own = [own_table(counts.marginal(v), spreads[v], row) for v in range(len(spreads))]
    middle = [each[min(1, len(each) - 1)] for each in spreads]
    kernels = [kernel(int(size), each) for size, each in zip(counts.sizes, middle, strict=True)]
    gained = gains(counts, own, kernels, options.smoothings, row)
    together = np.maximum((gained + gained.T) / 2, 0.0)
    hung = best_tree(together)
    edges: list[EdgeTable | None] = [None] * len(own)
    for v, parent in enumerate(hung.parent):
        if parent >= 0 and together[parent, v] > options.margin:
            found = edge_table(counts.joint(parent, v), own[v], (spreads[parent], spreads[v]), options.smoothings, row)
            edges[v] = found if found.gain > options.margin else None
    return _Tree(list(hung.order), list(hung.parent), own, edges)


def _check(counts: PairCounts) -> None:
    """Raise if the counts of all pairs would not fit."""
    if counts.table is None:
        raise TooLargeError(
            f"The columns have {counts.start[-1]:,} bins altogether, and a tree of bins is learnt of {MAX_TABLE:,} at the most: "
            f"the counts of all pairs would outgrow 256 MiB. Choose fewer bins, or merge rare categories."
        )


def _one_row(weights: Array) -> float:
    """What is left out with one row: itself, or its weight where most rows count for less than one.

    >>> _one_row(np.array([1.0, 1.0, 3.0])), _one_row(np.array([0.5, 0.5]))
    (1.0, 0.5)
    """
    return float(min(1.0, (weights**2).sum() / weights.sum()))


@dataclass
class _Column:
    """A column's rows in bins, and how its family is fitted to some of them."""

    x: Array
    codes: Array
    size: int
    family: Family
    overall: Any
    weights: Array
    share: float

    @cached_property
    def within_bins(self) -> tuple[Family, Any]:
        """The family and its parameters of one unit per bin."""
        if self.family.is_free_table:
            return Indicator(self.size), {"value": np.arange(self.size, dtype=np.float64)}
        if self.bins_are_values:
            seen = ~np.isnan(self.x)
            counts, row = np.bincount(self.codes[seen].astype(np.intp), self.weights[seen]), _one_row(self.weights)
            others = (row * float((counts <= row).sum()) + 0.5) / (counts.sum() + 1)
            return _sure_of(np.unique(self.x[seen]), self.family, self.overall, others)
        here = _rows_of_states(self.codes, np.eye(self.size), self.weights)
        mine = (1 - self.share) * here / np.maximum(here.sum(axis=0), 1e-300) + self.share * self._all_rows
        return self.family, self._fitted(mine)

    @cached_property
    def bins_are_values(self) -> bool:
        """Whether each is a category or a whole number."""
        return self.family.is_free_table or (self.family.discrete and len(np.unique(self.x[~np.isnan(self.x)])) == self.size)

    def given(self, parent: _Column, edge: EdgeTable) -> Any:
        """Parameters of one unit per state of the parent."""
        near = _rows_of_states(parent.codes, edge.kernel, self.weights)
        return self._fitted(near + edge.smoothing * self._all_rows)

    @property
    def _all_rows(self) -> Array:
        return np.asarray((self.weights / self.weights.sum())[:, None])

    def _fitted(self, weights: Array) -> Any:
        """Parameters of one unit for each column of the weights `[rows, units]`."""
        fitted = {name: np.repeat(value, weights.shape[1], axis=0) for name, value in self.overall.items()}
        for _ in range(_ROUNDS):
            fitted = self.family.update(fitted, asking.statistics(self.family, fitted, self.x, weights), 1e-2)
        return fitted


def _sure_of(values: Array, family: Family, overall: Any, share: float) -> tuple[Family, Any]:
    """One unit for each value, which is sure of it but for `share`: that goes to other values, as in `overall`."""
    if not family.is_table:
        return sure_of(values, family, overall, share)
    at = np.eye(family.n_categories or 0)[values.astype(np.intp)]
    rest = family.table(overall) * (1 - at)
    left = rest.sum(axis=1, keepdims=True)
    p = np.where(left > 0, (1 - share) * at + share * rest / np.maximum(left, 1e-300), at)
    return Categorical(at.shape[1]), {"p": p / p.sum(axis=1, keepdims=True)}


def _binned(rows: Array, families: Sequence[Family], weights: Array, bins: int) -> tuple[Array, list[int]]:
    """Which state each value is in, NaN where it is missing, and how many states there are."""
    codes, sizes = rows.copy(), []
    for v, kind in enumerate(families):
        if kind.is_free_table:
            sizes.append(kind.n_categories or 0)
            continue
        seen = ~np.isnan(rows[:, v])
        values = np.unique(rows[seen, v])
        if len(values) > bins:
            values = np.unique(quantiles(rows[seen, v], np.arange(1, bins) / bins, weights[seen]))
            codes[seen, v] = np.searchsorted(values, rows[seen, v], side="right")
            used, codes[seen, v] = np.unique(codes[seen, v], return_inverse=True)
            sizes.append(len(used))
        else:
            codes[seen, v] = np.searchsorted(values, rows[seen, v])
            sizes.append(max(len(values), 1))
    return codes, sizes


def _rows_of_states(codes: Array, kernel: Array, weights: Array) -> Array:
    """`[rows, states]`: how much each row counts for each state; nothing where its own is not known."""
    seen = ~np.isnan(codes)
    out = np.zeros((len(codes), len(kernel)))
    out[seen] = kernel.T[codes[seen].astype(np.intp)] * weights[seen, None]
    return out
