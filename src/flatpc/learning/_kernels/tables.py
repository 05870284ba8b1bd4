"""The M-step of input tables: a categorical input is a sum over indicators, so sums' update rules apply word for word."""

import math

import numpy as np
from numba import njit

from flatpc.engine._kernels.update import CUBIC, CUBIC_EXACT, PLAIN, QUADRATIC_EXACT, cubic_root, exact_multiplier, least_flow


@njit(cache=True, nogil=True, boundscheck=False)
def update_tables(kind, statistics, tables, mu, pseudocount, alpha):
    """Update `tables [nodes, categories, width]` in place from counts of the same shape; a unit without counts stays as it is."""
    n = tables.shape[1]
    new = np.empty(n)
    if mu <= 0:
        kind = PLAIN
    cubic = kind in (CUBIC, CUBIC_EXACT)
    for i in range(tables.shape[0]):
        for j in range(tables.shape[2]):
            for c in range(n):
                new[c] = statistics[i, c, j] + pseudocount / n
            if kind != PLAIN:
                multiplier = exact_multiplier(new, mu, cubic) if kind in (QUADRATIC_EXACT, CUBIC_EXACT) else 1.0
                for c in range(n):
                    f = new[c]
                    if cubic:
                        new[c] = cubic_root(f, mu, multiplier)
                    else:
                        new[c] = (f + math.sqrt(f * f + 4 * multiplier * mu * f)) / (2 * multiplier)
            total = 0.0
            for c in range(n):
                total += new[c]
            if total >= least_flow(tables):
                for c in range(n):
                    tables[i, c, j] = (1 - alpha) * tables[i, c, j] + alpha / total * new[c]
