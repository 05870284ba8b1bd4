"""Flows of one row from the logarithms of its values: right however large those are.

A sum hands its flow on in shares that add up to one. Adjoints (`log_domain.py`) won't do for this: of two logarithms near 1e300,
nothing is left of a difference that should be 0.
"""

import math

import numpy as np

from flatpc.engine.numba._kernels.columns import (
    CHILD,
    CHILD_END,
    DENSE_SUM,
    FORMULA,
    FORMULA_INPUT,
    GAUSSIAN,
    HADAMARD,
    JOIN,
    KIND,
    KRONECKER,
    MIXTURE,
    SCALAR_SUM,
    STRIDE,
    TABLE,
    TABLE_INPUT,
    VARIABLE,
    WEIGHT,
    WIDTH,
)
from flatpc.engine.numba._kernels.compiling import inner, kernel
from flatpc.engine.numba._kernels.log_domain import TINY, adjoints_of_row, below_top, log, top_of, values_of_row
from flatpc.engine.numba._kernels.work_items import edge_stride


@inner
def flows_of_row(P, W, unit_ptr, l, f):
    """Fill f with every unit's flow, for a row of which l has the logarithms of all values."""
    root = unit_ptr[len(P.steps) - 1]
    f[:] = 0.0
    f[root] = 1.0 if l[root] > -np.inf else 0.0
    share = np.empty(_most_edges(P))
    for s in range(len(P.steps) - 1, -1, -1):
        at, k, kind = unit_ptr[s], P.steps[s, WIDTH], P.steps[s, KIND]
        first, last = P.steps[s, CHILD], P.steps[s, CHILD_END]
        if kind == HADAMARD:
            for q in range(first, last):
                for j in range(k):
                    f[unit_ptr[P.child[q]] + j] += f[at + j]
        elif kind == KRONECKER:
            a, b = P.child[first], P.child[first + 1]
            for i in range(P.steps[a, WIDTH]):
                for j in range(P.steps[b, WIDTH]):
                    here = f[at + i * P.steps[b, WIDTH] + j]
                    f[unit_ptr[a] + i] += here
                    f[unit_ptr[b] + j] += here
        elif kind == JOIN:
            n = at
            for q in range(first, last):
                for j in range(P.steps[P.child[q], WIDTH]):
                    f[unit_ptr[P.child[q]] + j] += f[n]
                    n += 1
        elif kind in (DENSE_SUM, SCALAR_SUM, MIXTURE):
            p = _values_below(P, l, unit_ptr, s)
            for n in range(k):
                if f[at + n] > 0:
                    for j in range(_shares(P, W, l, unit_ptr, s, n, p, share)):
                        to = unit_ptr[P.child[first]] + j if kind == DENSE_SUM else unit_ptr[P.child[first + j]] + n
                        f[to] += f[at + n] * share[j]


@inner
def _shares(P, W, l, unit_ptr, s, n, p, out):
    """Fill `out` with the shares of unit n's edges in its value, and return their number; p is from `_values_below`."""
    first, weight, step = P.steps[s, CHILD], P.steps[s, WEIGHT] + n, edge_stride(P, s)
    n_in, dense = P.steps[s, CHILD_END] - first, P.steps[s, KIND] == DENSE_SUM
    total = 0.0
    if dense:
        c = P.child[first]
        n_in, weight, step = P.steps[c, WIDTH], P.steps[s, WEIGHT] + n * P.steps[c, STRIDE], 1
        for j in range(n_in):
            out[j] = W[weight + j] * p[j]
            total += out[j]
    if total <= TINY:
        for j in range(n_in):
            value = l[unit_ptr[P.child[first]] + j] if dense else l[unit_ptr[P.child[first + j]] + n]
            out[j] = value if W[weight + j * step] > 0 else -np.inf
        # First the differences of logarithms, which may be huge: next to those, the weights' would be rounded off.
        top = top_of(out, 0, n_in)
        for j in range(n_in):
            out[j] = out[j] - top + log(W[weight + j * step]) if out[j] > -np.inf else -np.inf
        top, total = top_of(out, 0, n_in), 0.0
        for j in range(n_in):
            out[j] = math.exp(out[j] - top) if out[j] > -np.inf else 0.0
            total += out[j]
    for j in range(n_in):
        out[j] = out[j] / total if total > 0 else 0.0
    return n_in


@inner
def _values_below(P, l, unit_ptr, s):
    """The values below a dense sum in units of the largest; nothing for other kinds."""
    if P.steps[s, KIND] != DENSE_SUM:
        return np.empty(0)
    c = P.child[P.steps[s, CHILD]]
    return below_top(l, unit_ptr[c], P.steps[c, WIDTH])[1]


@inner
def _most_edges(P):
    most = 1
    for s in range(len(P.steps)):
        n_children = P.steps[s, CHILD_END] - P.steps[s, CHILD]
        below = P.steps[P.child[P.steps[s, CHILD]], WIDTH] if n_children else 0
        most = max(most, max(n_children, below))
    return most


@kernel
def add_flows_of_row(P, W, unit_ptr, l, f, weight, FL):
    """Add one row's flows of the edges to FL, the row counting `weight` times."""
    share = np.empty(_most_edges(P))
    for s in range(len(P.steps)):
        at, kind = unit_ptr[s], P.steps[s, KIND]
        if kind in (DENSE_SUM, SCALAR_SUM, MIXTURE):
            p = _values_below(P, l, unit_ptr, s)
            below = P.steps[P.child[P.steps[s, CHILD]], STRIDE]
            stride = edge_stride(P, s)
            for n in range(P.steps[s, WIDTH]):
                if f[at + n] > 0:
                    for j in range(_shares(P, W, l, unit_ptr, s, n, p, share)):
                        to = n * below + j if kind == DENSE_SUM else j * stride + n
                        FL[P.steps[s, WEIGHT] + to] += weight * f[at + n] * share[j]


@kernel
def add_statistics_of_row(P, T, x, unit_ptr, f, weight, ST):
    """Add one row's statistics of the inputs to ST, the row counting `weight` times."""
    for s in range(len(P.steps)):
        kind, formula = P.steps[s, KIND], P.steps[s, FORMULA]
        value = x[P.steps[s, VARIABLE]] if kind in (TABLE_INPUT, FORMULA_INPUT) else np.nan
        if value != value:
            continue
        table, stride = P.steps[s, TABLE], P.steps[s, STRIDE]
        for j in range(P.steps[s, WIDTH]):
            flow = weight * f[unit_ptr[s] + j]
            if kind == TABLE_INPUT:
                ST[table + np.int64(value) * stride + j] += flow
            elif flow > 0:
                deviation = value - T[table + j] if formula == GAUSSIAN else value
                ST[table + j] += flow
                ST[table + stride + j] += flow * deviation
                if formula == GAUSSIAN:
                    ST[table + 2 * stride + j] += flow * deviation * deviation


@kernel
def evaluate_rows(P, W, T, X, unit_ptr, values, flows, adjoints, t, n_threads, barrier):
    """Row by row: logarithms of values; flows and logarithms of adjoints, unless there is no room for them."""
    for r in range(t, len(X), n_threads):
        values_of_row(P, W, T, X[r], unit_ptr, values[r])
        if len(flows):
            flows_of_row(P, W, unit_ptr, values[r], flows[r])
        if len(adjoints):
            adjoints_of_row(P, W, unit_ptr, values[r], adjoints[r])
