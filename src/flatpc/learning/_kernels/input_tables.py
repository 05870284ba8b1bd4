"""The M-step of input tables: a categorical input is a sum over indicators, so sums' update rules apply word for word."""

import math

import numpy as np

from flatpc.engine._kernels import CUBIC, CUBIC_EXACT, QUADRATIC_EXACT, cubic_root, exact_multiplier, inner, kernel, least_flow


@kernel
def update_tables(statistics, tables, start, shape, width, pseudocount, alpha):
    """Update `tables` in place from counts that lie as they do; a unit without counts stays as it is.

    `shape` is that of the tables in memory: nodes, categories and the distance between rows of `width` units.
    """
    n_nodes, n, stride = shape
    new, total = np.empty((n, width)), np.empty(width)
    for node in range(n_nodes):
        at = start + node * n * stride
        _counts(statistics, at, stride, pseudocount, new)
        _mix(tables, at, stride, alpha, new, total)


@kernel
def update_penalised_tables(kind, statistics, tables, start, shape, width, mu, pseudocount, alpha):
    """The same with a penalty."""
    n_nodes, n, stride = shape
    cubic = kind in (CUBIC, CUBIC_EXACT)
    new, total, unit = np.empty((n, width)), np.empty(width), np.empty(n)
    for node in range(n_nodes):
        at = start + node * n * stride
        _counts(statistics, at, stride, pseudocount, new)
        for j in range(width):
            for c in range(n):
                unit[c] = new[c, j]
            multiplier = exact_multiplier(unit, mu, cubic) if kind in (QUADRATIC_EXACT, CUBIC_EXACT) else 1.0
            for c in range(n):
                f = unit[c]
                if cubic:
                    new[c, j] = cubic_root(f, mu, multiplier)
                else:
                    new[c, j] = (f + math.sqrt(f * f + 4 * multiplier * mu * f)) / (2 * multiplier)
        _mix(tables, at, stride, alpha, new, total)


@inner
def _counts(statistics, at, stride, pseudocount, new):
    n, width = new.shape
    for c in range(n):
        counts, row = statistics[at + c * stride : at + c * stride + width], new[c]
        for j in range(width):
            row[j] = counts[j] + pseudocount / n


@inner
def _mix(tables, at, stride, alpha, new, total):
    n, width = new.shape
    for j in range(width):
        total[j] = new[0, j]
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
