"""Blocks of columns that one multivariate input takes together: given, all, or those that depend on one another.

Two columns depend on each other, whatever the others say, as far as their partial correlation r is from 0: knowing it is worth
-log(1 - r²)/2 nats per row. So it is with two blocks, by determinants of their parts of the inverse correlation matrix. To join
them in all K states of a latent takes K covariances more for each pair of their columns, each of which has to gain log(N)/2 nats
over N rows to be worth its while (BIC).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flatpc._options import count, several, whole_number, wrong
from flatpc._typing import Array
from flatpc.families.base import Family
from flatpc.structures.options import FamilyLike, read_weighted_columns

Blocks = list[tuple[int, ...]]
Leaf = tuple[tuple[int, ...], Family]
"""Columns, and the family that takes them."""
SIZE = 6
"""The most columns in a block, unless said otherwise."""
FAR, FEW_FAR = 8.0, 0.01
"""Deviations from the mean, beyond which rows tell nothing of correlations if they are no more than this share."""


def correlated_blocks(
    X: Any, size: int = SIZE, *, family: FamilyLike = "gaussian", cost: float = 1.0, sample_weight: Any = None
) -> Blocks:
    """Columns grouped into blocks that depend on one another, by partial correlation.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> X = np.random.default_rng(0).normal(size=(500, 4))
    >>> X[:, 2] += X[:, 0]
    >>> fp.structures.correlated_blocks(X)
    [(0, 2), (1,), (3,)]

    Blocks are joined, from single columns on, where that is worth most beyond its cost, as long as they stay small.

    Parameters
    ----------
    X
        Rows. Unknown entries (NaN) count as their column's mean.
    size
        The most columns in a block.
    family
        A family or its name, for all columns, or a list with one for each. Columns whose families can't be taken together
        stay alone.
    cost
        How many covariances a pair takes: the number of states, or clusters, that have one each.
    sample_weight
        How often each row counts: one number of 0 or more per row. None counts each once.

    Returns
    -------
    list of tuples
        Numbers of columns, each in one block, ascending; blocks in the order of their first columns.

    Raises
    ------
    OptionError
        For an option out of its range, or an unknown family.
    DataError
        For rows that the families don't allow, or a column without values.
    """
    size, cost = whole_number("size", size, 1), count("cost", cost)
    rows, families, weights = read_weighted_columns(X, family, sample_weight)
    return find_blocks(rows, families, size, cost, weights)


def find_blocks(rows: Array, families: Sequence[Family], size: int, cost: float, weights: Array | None = None) -> Blocks:
    """`correlated_blocks` of rows that have been read."""
    n = float(len(rows) if weights is None else weights.sum())
    joinable = [v for v, family in enumerate(families) if family.joins]
    alone: Blocks = [(v,) for v in range(len(families)) if v not in joinable]
    if len(joinable) < 2 or n <= 1:
        return sorted([*alone, *((v,) for v in joinable)])
    inverse = _inverse_correlations(*_without_far_rows(rows[:, joinable], weights))

    def open_to(first: Blocks, second: Blocks) -> dict[tuple[tuple[int, ...], tuple[int, ...]], float]:
        """What pairs of blocks are worth together, beyond their costs, if they are."""
        pairs = [(a, b) for a in first for b in second if a < b and len(a) + len(b) <= size]
        found = {}
        for (a, b), bits in zip(pairs, _worth(inverse, pairs), strict=True):
            left = n * bits - 0.5 * cost * len(a) * len(b) * np.log(n)
            both = [families[joinable[v]] for v in sorted((*a, *b))]
            if left > 0 and both[0].together(both) is not None:
                found[a, b] = left
        return found

    blocks: Blocks = [(v,) for v in range(len(joinable))]
    worth = open_to(blocks, blocks)
    while worth:
        a, b = max(worth, key=lambda pair: worth[pair])
        both = tuple(sorted((*a, *b)))
        blocks = [block for block in blocks if block not in (a, b)]
        worth = {pair: left for pair, left in worth.items() if not {a, b} & set(pair)}
        worth |= {pair: left for one in blocks for pair, left in open_to(*sorted([[one], [both]])).items()}
        blocks.append(both)
    return sorted([*alone, *(tuple(joinable[v] for v in block) for block in blocks)])


def _worth(inverse: Array, pairs: Sequence[tuple[tuple[int, ...], tuple[int, ...]]]) -> Array:
    """Nats per row that each pair of blocks tells of each other, whatever the other columns say."""
    out = np.zeros(len(pairs))
    for sizes in {(len(a), len(b)) for a, b in pairs}:
        places = [i for i, (a, b) in enumerate(pairs) if (len(a), len(b)) == sizes]
        a, b = (np.array([pairs[i][side] for i in places]) for side in (0, 1))
        logs = [np.linalg.slogdet(inverse[v[:, :, None], v[:, None, :]])[1] for v in (a, b, np.concatenate([a, b], axis=1))]
        out[places] = 0.5 * (logs[0] + logs[1] - logs[2])
    return out


def _without_far_rows(x: Array, weights: Array | None) -> tuple[Array, Array | None]:
    """Rows without those few that are so far out, in some column, that they would tell its correlations alone."""
    for _ in range(2):
        with np.errstate(all="ignore"):
            unit = np.nanmax(abs(x), axis=0, initial=0.0)
            z = x / np.where(unit > 0, unit, 1.0)
            far = abs(z - np.nanmean(z, axis=0)) > FAR * np.nanstd(z, axis=0)
        out = far.any(axis=1)
        if not 0 < out.sum() <= FEW_FAR * len(x):
            break
        x, weights = x[~out], None if weights is None else weights[~out]
    return x, weights


def _inverse_correlations(x: Array, weights: Array | None) -> Array:
    """`[d, d]`, the inverse of a correlation matrix that is shrunk as if d more rows had shown none."""
    share = np.full(len(x), 1 / len(x)) if weights is None else weights / weights.sum()
    known = ~np.isnan(x)
    mean = (share @ np.where(known, x, 0.0)) / np.maximum(share @ known, 1e-300)
    z = np.where(known, x - mean, 0.0)
    unit = abs(z).max(axis=0)
    z = z / np.where(unit > 0, unit, 1.0)
    covariance = (z * share[:, None]).T @ z
    deviation = np.sqrt(np.diagonal(covariance))
    scale = np.where(deviation > 0, deviation, 1.0)
    correlation = covariance / (scale[:, None] * scale)
    np.fill_diagonal(correlation, 1.0)
    n = float(len(x) if weights is None else weights.sum())
    keep = n / (n + x.shape[1])
    return np.asarray(np.linalg.inv(keep * correlation + (1 - keep) * np.eye(x.shape[1])))


def read_blocks(blocks: Any, rows: Array, families: Sequence[Family], cost: float, weights: Array | None) -> list[Leaf]:
    """All columns in blocks with their families, as the option `blocks` says: None, `"auto"`, `"all"`, or a list of blocks."""
    alone: Blocks = [(v,) for v in range(len(families))]
    if blocks is None:
        found = alone
    elif isinstance(blocks, str) and blocks == "auto":
        found = find_blocks(rows, families, SIZE, cost, weights)
    elif isinstance(blocks, str) and blocks == "all":
        joined = tuple(v for v, family in enumerate(families) if family.joins)
        found = sorted([joined, *(block for block in alone if block[0] not in joined)]) if len(joined) > 1 else alone
    elif isinstance(blocks, str):
        raise wrong("blocks", blocks, "choose 'auto', 'all', None or a list of tuples of columns.")
    else:
        found = _given(blocks, len(families))
    out: list[Leaf] = []
    for block in found:
        family: Family | None = (
            families[block[0]] if len(block) == 1 else families[block[0]].together([families[v] for v in block])
        )
        if family is None:
            listed = ", ".join(str(families[v]) for v in block)
            raise wrong("blocks", blocks, f"columns {block} have the families {listed}, which no family takes together.")
        out.append((block, family))
    return out


def _given(blocks: Any, n: int) -> Blocks:
    give = "a list of tuples of columns, of which none is twice"
    found = [
        tuple(whole_number("blocks", v, 0, n - 1) for v in several("blocks", each, give))
        for each in several("blocks", blocks, give)
    ]
    columns = [v for block in found for v in block]
    if len(set(columns)) < len(columns) or not all(found):
        raise wrong("blocks", blocks, f"give {give}; columns that are left out stay alone.")
    return sorted([*found, *((v,) for v in range(n) if v not in columns)])
