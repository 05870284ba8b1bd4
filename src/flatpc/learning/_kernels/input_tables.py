"""The M-step of input tables: a categorical input is a sum over indicators, so sums' update rules apply word for word."""

import math

import numpy as np
from numba import njit

from flatpc.engine.numba._kernels.update import (
    CUBIC,
    CUBIC_EXACT,
    PLAIN,
    QUADRATIC_EXACT,
    cubic_root,
    exact_multiplier,
    least_flow,
)


@njit(cache=True, nogil=True, boundscheck=False)
def update_tables(kind, statistics, tables, start, shape, width, mu, pseudocount, alpha):
    """Update `tables` in place from counts that lie as they do; a unit without counts stays as it is.

    `shape` is that of the tables in memory: nodes, categories and the distance between rows of `width` units.
    """
    n_nodes, n, stride = shape
    cubic = kind in (CUBIC, CUBIC_EXACT)
    new, total, unit = np.empty((n, width)), np.empty(width), np.empty(n)
    for node in range(n_nodes):
        at = start + node * n * stride
        for c in range(n):
            counts, row = statistics[at + c * stride : at + c * stride + width], new[c]
            for j in range(width):
                row[j] = counts[j] + pseudocount / n
        if kind != PLAIN and mu > 0:
            for j in range(width):
                unit[:] = new[:, j]
                multiplier = exact_multiplier(unit, mu, cubic) if kind in (QUADRATIC_EXACT, CUBIC_EXACT) else 1.0
                for c in range(n):
                    f = unit[c]
                    if cubic:
                        new[c, j] = cubic_root(f, mu, multiplier)
                    else:
                        new[c, j] = (f + math.sqrt(f * f + 4 * multiplier * mu * f)) / (2 * multiplier)
        total[:] = new[0]
        for c in range(1, n):
            row = new[c]
            for j in range(width):
                total[j] += row[j]
        for j in range(width):
            total[j] = alpha / total[j] if total[j] >= least_flow(tables) else -1.0
        for c in range(n):
            table, row = tables[at + c * stride : at + c * stride + width], new[c]
            for j in range(width):
                table[j] = (1 - alpha) * table[j] + total[j] * row[j] if total[j] >= 0 else table[j]
