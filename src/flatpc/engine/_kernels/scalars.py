"""Runs of scalar steps, as in irregular circuits of a hundred thousand nodes: one call for the whole run.

A call between kernels costs more than a scalar step. The common case, in which no row has been rescaled, is done here;
`B.at[s, SCALED]` remembers the steps for which that may be otherwise, and those go through `values.py`.
"""

import math

import numpy as np

from flatpc.engine._kernels.columns import (
    CHILD,
    CHILD_END,
    HADAMARD,
    KIND,
    ROW,
    ROWS,
    SCALAR_SUM,
    SCALED,
    SCOPE,
    VALUE,
    WEIGHT,
    WIDTH,
)
from flatpc.engine._kernels.compiling import inner
from flatpc.engine._kernels.rows import add_scaled_row, copy_row, fill_row, smallest, times_row
from flatpc.engine._kernels.values import evaluate_hadamard_scalar, evaluate_scalar_sum, limits

_FEW = 8


@inner
def _product(steps, child, at, share, V, s, base, lo, n, n_batch):
    """Child by child, gathering sub-rows except where every row is its own."""
    first, end = steps[s, CHILD], steps[s, CHILD_END]
    whole = at[s, ROWS] == n_batch
    scope = steps[s, SCOPE]
    for q in range(first, end):
        c = child[q]
        if whole and at[c, ROWS] == n_batch:
            if q == first:
                copy_row(V, base, V, at[c, VALUE] + lo, n)
            else:
                times_row(V, base, V, at[c, VALUE] + lo, n)
            continue
        start, scope_c = at[c, VALUE], steps[c, SCOPE]
        for u in range(n):
            x = V[start + share[0, scope_c, share[1, scope, lo + u]]]
            V[base + u] = x if q == first else V[base + u] * x


@inner
def evaluate_scalars(P, B, W, V, E, L, item, i, last, t):
    """Evaluate thread t's items from i on while they are scalar sums and products; returns the first that is not done."""
    steps, child, at, share = P.steps, P.child, B.at, B.share
    small = V.dtype.type(math.ldexp(1.0, limits(V)[2]))
    n_batch = len(B.rows)
    while i < last:
        if item[i, 4] != t:
            i += 1
            continue
        s = item[i, 1]
        kind = steps[s, KIND]
        if steps[s, WIDTH] != 1 or (kind != HADAMARD and kind != SCALAR_SUM):
            return i
        lo, hi = item[i, 2], item[i, 3]
        n = hi - lo
        first, end = steps[s, CHILD], steps[s, CHILD_END]
        plain = True
        for q in range(first, end):
            plain &= at[child[q], SCALED] == 0
        base, base_row = at[s, VALUE] + lo, at[s, ROW] + lo
        low = V.dtype.type(0)
        if plain and n < _FEW:  # row by row, which for a few rows beats any vector loop
            low = V.dtype.type(np.inf)
            for u in range(n):
                if kind == SCALAR_SUM:
                    x = V.dtype.type(0)
                    weight = steps[s, WEIGHT] - first
                    for q in range(first, end):
                        x += W[weight + q] * V[at[child[q], VALUE] + lo + u]
                else:
                    x = V.dtype.type(1)
                    b = share[1, steps[s, SCOPE], lo + u]
                    for q in range(first, end):
                        c = child[q]
                        x *= V[at[c, VALUE] + share[0, steps[c, SCOPE], b]]
                V[base + u] = x
                low = min(low, x)
        elif plain and kind == SCALAR_SUM:
            fill_row(V, base, V.dtype.type(0), n)
            for q in range(first, end):
                add_scaled_row(V, base, V, at[child[q], VALUE] + lo, W[steps[s, WEIGHT] + q - first], n)
            low = smallest(V, base, n)
        elif plain:
            _product(steps, child, at, share, V, s, base, lo, n, n_batch)
            low = smallest(V, base, n)
        if low >= small:
            for u in range(n):
                E[base_row + u] = 0.0
                L[base_row + u] = -np.inf
        else:
            at[s, SCALED] = 1
            if kind == SCALAR_SUM:
                evaluate_scalar_sum(P, B, W, V, E, L, s, lo, hi)
            else:
                evaluate_hadamard_scalar(P, B, V, E, L, s, lo, hi)
        i += 1
    return i
