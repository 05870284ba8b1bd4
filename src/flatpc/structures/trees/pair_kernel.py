"""Mutual information of pairs of variables with many values, by native code.

A pair is counted row by row, and only in the rows in which the first variable does not have its commonest value: what that value
has is what the others leave of the second one's counts. Of two variables, the one with fewer such rows goes first. Images with a
background are counted in a fraction of their rows that way.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.special import xlogy

from flatpc._typing import Array

MOST_COUNTS = 2 * 10**10
"""Pairs times rows beyond which a sample of the rows is counted: 42,000 rows of 1,000 variables, 4,200 of 3,100."""
WAYS = 4
"""Tables that rows are counted in, in turn, so that none has to wait for the row before."""
NEARLY_ALL = 0.7
"""The share of rows beyond which all are counted."""


def pair_information(columns: NDArray[Any], sizes: NDArray[np.int64], smoothing: float) -> Array:
    """`[n, n]` in nats, from codes `[n, rows]` without missing values; the diagonal is 0."""
    n, n_rows = columns.shape
    most = max(int(2 * MOST_COUNTS // max(n * (n - 1), 1)), 1)
    if n_rows > most:
        columns = columns[:, np.sort(np.random.default_rng(0).permutation(n_rows)[:most])]
        n_rows = most
    counts = [np.bincount(column, minlength=size) for column, size in zip(columns, sizes, strict=True)]
    commonest = [int(count.argmax()) for count in counts]
    order = np.argsort([n_rows - count.max() for count in counts], kind="stable")
    start = np.concatenate([[0], np.cumsum(sizes[order])])
    both = np.concatenate([counts[v] for v in order])
    codes = np.ascontiguousarray(columns[order]).view(columns.dtype.str.replace("i", "u"))
    total = n_rows + smoothing
    out = np.zeros((n, n))
    tables: dict[int, Array] = {}

    def fill(i: int) -> None:
        """The pairs of one variable with all that come after it."""
        u = order[i]
        rows = np.flatnonzero(codes[i] != commonest[u]).astype(np.uint32)
        if len(rows) > NEARLY_ALL * n_rows:
            rows = np.arange(n_rows, dtype=np.uint32)  # which lie side by side
        one = xlogy(counts[u] + smoothing / sizes[u], counts[u] + smoothing / sizes[u]).sum()
        for size in np.unique(sizes[order[i + 1 :]]):
            cells = int(sizes[u] * size)
            if cells not in tables:
                height = np.arange(n_rows + 1) + smoothing / cells
                tables[cells] = xlogy(height, height)
            others = i + 1 + np.flatnonzero(sizes[order[i + 1 :]] == size)
            joint = _joint_sums(codes, rows, i, others, start, both, int(sizes[u]), int(size), tables[cells])
            marginal = np.stack([counts[v] for v in order[others]]) + smoothing / size
            found = (joint - one - xlogy(marginal, marginal).sum(axis=1)) / total + np.log(total)
            out[u, order[others]] = out[order[others], u] = np.maximum(found, 0.0)

    with ThreadPoolExecutor(os.cpu_count()) as pool:  # the native code needs no lock of Python's
        list(pool.map(fill, range(n - 1)))
    return out


@njit(nogil=True)
def _joint_sums(codes, rows, u, others, start, counts, size, other_size, table):  # type: ignore[no-untyped-def]
    """Σ over the cells of each pair of `table[count]`."""
    out = np.empty(len(others))
    n = np.uint32(size * other_size)
    cells = np.zeros(WAYS * size * other_size, np.uint32)  # unsigned, as places are, which are not looked at for a sign then
    mine, places = np.empty(len(rows), np.uint32), np.empty(len(rows), np.uint32)
    for k in range(len(rows)):
        mine[k] = codes[u, rows[k]] * np.uint32(other_size) + np.uint32(k % WAYS) * n
    left = np.empty(other_size, np.int64)
    for place in range(len(others)):
        v = others[place]
        other = codes[v]
        if len(rows) == len(other):
            for k in range(len(rows)):
                places[k] = mine[k] + other[k]
        else:
            for k in range(len(rows)):
                places[k] = mine[k] + other[rows[k]]
        for at in places:
            cells[at] += np.uint32(1)
        left[:] = counts[start[v] : start[v + 1]]
        total = 0.0
        if len(rows) > n:
            for a in range(size):
                for b in range(other_size):
                    key = np.uint32(a * other_size + b)
                    count = cells[key] + cells[key + n] + cells[key + 2 * n] + cells[key + 3 * n]
                    total += table[count]
                    left[b] -= np.int64(count)
            cells[:] = 0
            total -= other_size * table[0]  # the commonest value's own cells are empty here
        else:
            n_cells = other_size
            for k in range(len(rows)):
                key = places[k] % n
                count = cells[key] + cells[key + n] + cells[key + 2 * n] + cells[key + 3 * n]
                if count > 0:
                    total += table[count]
                    n_cells += 1
                    left[key % np.uint32(other_size)] -= np.int64(count)
                    cells[key] = cells[key + n] = cells[key + 2 * n] = cells[key + 3 * n] = 0
            total += (np.int64(n) - n_cells) * table[0]
        for b in range(other_size):
            total += table[left[b]]
        out[place] = total
    return out
