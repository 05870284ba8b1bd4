"""LearnSPN of deeprob-kit: its structure from k-means and the randomised dependency coefficient, read into arrays of our own.

A floor is added to the variances of its Gaussian leaves; the shares of its categorical leaves are smoothed by deeprob-kit itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import logsumexp

from flatpc._extras import need
from flatpc._typing import Array
from flatpc.paper.table_rivals.gaussians import log_interval
from flatpc.paper.table_rivals.rows import Rows

SLICES = (50, 200, 600)
THRESHOLDS = (0.3,)
FLOORS = (1e-4, 0.01, 0.1, 0.3)
MOST_ROWS = 2_000
"""That the structure is learnt from."""


@dataclass(frozen=True)
class Network:
    """A sum-product network over standardised columns, continuous ones first."""

    root: Any
    floor: float
    n_continuous: int

    def log_density(self, rows: Rows) -> Array:
        """`[N]`."""
        return self._value(self.root, rows, None)

    def log_cells(self, rows: Rows, r: Array) -> Array:
        """`[N]`."""
        return self._value(self.root, rows, r)

    def _value(self, node: Any, rows: Rows, r: Array | None) -> Array:
        children = getattr(node, "children", [])
        if children:
            values = [self._value(child, rows, r) for child in children]
            if hasattr(node, "weights"):
                return np.asarray(logsumexp(np.stack(values, axis=1) + np.log(node.weights), axis=1))
            return np.asarray(np.sum(values, axis=0))
        return self._leaf(node, rows, r)

    def _leaf(self, leaf: Any, rows: Rows, r: Array | None) -> Array:
        j = leaf.scope[0]
        if j >= self.n_continuous:
            codes = rows.codes[:, j - self.n_continuous]
            shares = np.asarray(leaf.probabilities, np.float64)
            logs = np.log(shares / shares.sum())
            return np.where(codes >= 0, logs[codes], 0.0)
        sd = np.sqrt(leaf.stddev**2 + self.floor**2)
        z = (rows.y[:, j] - leaf.mean) / sd
        if r is None:
            return np.asarray(-0.5 * z**2 - np.log(sd * np.sqrt(2 * np.pi)))
        return log_interval(z - r[j] / (2 * sd), z + r[j] / (2 * sd))


class Structures:
    """Learns each structure once for all floors."""

    def __init__(self, n_values: tuple[int, ...], seed: int) -> None:
        need("deeprob", "rivals", "LearnSPN")
        self.n_values, self.seed = n_values, seed
        self.learn = lru_cache(maxsize=None)(self._learn)
        self._rows: dict[int, Rows] = {}

    def fit(self, rows: Rows, *, min_rows: int, threshold: float, floor: float) -> Network:
        """A network with this floor."""
        self._rows[len(rows)] = rows
        return Network(self.learn(len(rows), min_rows, threshold), floor, rows.y.shape[1])

    def _learn(self, n_rows: int, min_rows: int, threshold: float) -> Any:
        from deeprob.spn.learning.learnspn import learn_spn
        from deeprob.spn.structure.leaf import Categorical, Gaussian

        rows = self._rows[n_rows]
        kept = np.flatnonzero((rows.codes >= 0).all(axis=1))
        rows = rows[np.random.default_rng(self.seed).permutation(kept)[:MOST_ROWS]]
        table = np.hstack([rows.y, rows.codes.astype(np.float64)])
        n_continuous = rows.y.shape[1]
        kinds = [Gaussian] * n_continuous + [Categorical] * len(self.n_values)
        domains = [(float(y.min()), float(y.max())) for y in rows.y.T] + [list(range(n)) for n in self.n_values]
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return learn_spn(
                table, kinds, domains, learn_leaf="mle", split_rows="kmeans", split_cols="rdc", min_rows_slice=min_rows,
                split_cols_kwargs={"d": threshold}, random_state=self.seed, verbose=False,
            )  # fmt: skip


def search_learnspn(judge: Callable[..., tuple[float, float]], n_rows: int) -> None:
    """Slices and thresholds with one floor, then floors for the best."""
    tried = {
        (least, threshold): judge(min_rows=least, threshold=threshold, floor=0.03)
        for least in SLICES
        if 2 * least < n_rows or least == SLICES[0]
        for threshold in THRESHOLDS
    }
    for score in (0, 1):
        least, threshold = max(tried, key=lambda place, s=score: tried[place][s])  # type: ignore[misc]
        for floor in FLOORS:
            judge(min_rows=least, threshold=threshold, floor=floor)
