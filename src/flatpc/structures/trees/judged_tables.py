"""Tables of columns and of pairs of columns, as smooth as leave-one-out likes them best.

The counts n [a, b] of a pair are spread over neighbouring values, J = K n Lᵀ, and drawn to the child's distribution m by s
further rows: p(b | a) = (J[a, b] + s m[b]) / (Σ_b J[a, b] + s). A row at (a, b) adds K[a, a] L[b, b] to J[a, b] and K[a, a] to
the sum. Without these, and with m of the other rows, p judges that row by all others. Rows at the same (a, b) are judged alike,
so that the total is a sum over cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import xlogy

from flatpc._typing import Array
from flatpc.structures.trees.mutual_information import PairCounts

SMOOTHINGS = (0.3, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 512.0)
"""Further rows for each value of a parent."""
SPREADS = (0.0, 0.5, 0.7, 1.0, 1.5)
"""Standard deviations, in values."""
FURTHER_ROWS = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Of a column by itself, spread evenly over its values."""
_EVERY_PAIR = slice(None, None, 2)
"""Of the smoothings: those with which all pairs are compared. The edges of the tree then have them all."""
_LEAST = 1e-300


@dataclass(frozen=True)
class OwnTable:
    """p(b) of one column."""

    p: Array
    others: Array
    """What p(b) is for the other rows, of one that has b."""


@dataclass(frozen=True)
class EdgeTable:
    """p(b | a) of a column b below a column a."""

    p: Array
    smoothing: float
    kernel: Array
    """How rows are spread over the values of a."""
    gain: float
    """Of log-likelihood by knowing a, over all rows, each judged by the others."""


def kernel(size: int, spread: float) -> Array:
    """`[values, values]`: column a says over which values a row with value a is spread.

    >>> kernel(3, 0.5).round(2).tolist()
    [[0.88, 0.11, 0.0], [0.12, 0.79, 0.12], [0.0, 0.11, 0.88]]
    """
    if spread == 0:
        return np.eye(size)
    apart = np.subtract.outer(np.arange(size), np.arange(size)) / spread
    near = np.exp(-(apart**2) / 2)
    return np.asarray(near / near.sum(axis=0))


def own_table(counts: Array, spreads: Sequence[float], row: float) -> OwnTable:
    """Of the tables that spread and smooth the counts, that under which the rows are likeliest for each other.

    >>> own_table(np.array([9.0, 1.0]), [0.0], 1.0).p.round(3).tolist()
    [0.808, 0.192]
    """
    found, largest = None, -np.inf
    for spread in spreads:
        near = kernel(len(counts), spread)
        spread_counts, own = near @ counts, row * near.diagonal()
        for further in FURTHER_ROWS:
            even = further / len(counts)
            others = (np.maximum(spread_counts - own, 0.0) + even) / (max(counts.sum() - row, 0.0) + further)
            total = float(xlogy(counts, others).sum())
            if total > largest:
                found, largest = OwnTable((spread_counts + even) / (counts.sum() + further), others), total
    assert found is not None
    return found


def edge_table(
    joint: Array, child: OwnTable, spreads: tuple[Sequence[float], Sequence[float]], smoothings: Sequence[float], row: float
) -> EdgeTable:
    """The same of a pair with counts `[values of the parent, values of the child]`; spreads of either."""
    above, below = np.nonzero(joint)
    seen, s = joint[above, below], np.asarray(smoothings)[:, None]
    alone = float(seen @ np.log(child.others[below]))
    found, largest = None, -np.inf
    for near, far in ((kernel(len(joint), a), kernel(joint.shape[1], b)) for a in spreads[0] for b in spreads[1]):
        spread_joint = near @ joint @ far.T
        rows = spread_joint.sum(axis=1)
        own = row * near.diagonal()[above]
        here = np.maximum(spread_joint[above, below] - own * far.diagonal()[below], 0.0)
        others = (here + s * child.others[below]) / (np.maximum(rows[above] - own, 0.0) + s)
        totals = np.log(np.maximum(others, _LEAST)) @ seen
        best = int(np.argmax(totals))
        if totals[best] > largest:
            largest, smoothing = float(totals[best]), float(smoothings[best])
            p = (spread_joint + smoothing * child.p) / (rows + smoothing)[:, None]
            found = EdgeTable(p, smoothing, near, largest - alone)
    assert found is not None
    return found


def gains(
    counts: PairCounts, own: Sequence[OwnTable], kernels: Sequence[Array], smoothings: Sequence[float], row: float
) -> Array:
    """`[columns, columns]`: what knowing the first column gains for the second, with rows spread by `kernels`."""
    spread = counts.spread(kernels).whole_table
    starts = counts.start[:-1]
    others, diagonal = np.concatenate([each.others for each in own]), np.concatenate([each.diagonal() for each in kernels])
    out = np.zeros((len(own), len(own)))
    for u, (first, last) in enumerate(zip(starts, counts.start[1:], strict=True)):
        seen, here = counts.whole_table[first:last].astype(np.float64), spread[first:last]
        own_rows = row * diagonal[first:last, None]
        rows = np.maximum(np.add.reduceat(here, starts, axis=1) - own_rows, 0.0).repeat(counts.sizes, axis=1)
        here = np.maximum(here - own_rows * diagonal, 0.0)
        alone = xlogy(seen, others)
        totals = [
            np.add.reduceat((xlogy(seen, np.maximum((here + s * others) / (rows + s), _LEAST)) - alone).sum(axis=0), starts)
            for s in (smoothings[_EVERY_PAIR] if len(smoothings) > 1 else smoothings)
        ]
        out[u] = np.max(totals, axis=0)
    np.fill_diagonal(out, 0.0)
    return out
