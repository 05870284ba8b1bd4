"""Runs of scalar steps, as in irregular circuits of a hundred thousand nodes: one call for the whole run.

A call between kernels costs more than a scalar step. The common case, in which no row has been rescaled, is done here;
`B.at[s, SCALED]` remembers the steps for which that may be otherwise, and those go through `values.py`.
"""

import math

import numpy as np
from numba import njit

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
from flatpc.engine._kernels.rows import add_scaled_row, fill_row, multiply_rows, smallest
from flatpc.engine._kernels.values import evaluate_hadamard_scalar, evaluate_scalar_sum, limits


@njit(cache=True, boundscheck=False)
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
        base = at[s, VALUE] + lo
        if plain and kind == SCALAR_SUM:
            fill_row(V, base, V.dtype.type(0), n)
            for q in range(first, end):
                add_scaled_row(V, base, V, at[child[q], VALUE] + lo, W[steps[s, WEIGHT] + q - first], n)
        elif plain:
            whole = at[s, ROWS] == n_batch
            left = child[first]
            for q in range(min(first + 1, end - 1), end):
                right = child[q]
                if whole and at[left, ROWS] == n_batch and at[right, ROWS] == n_batch and end - first > 1:
                    multiply_rows(V, base, V, at[left, VALUE] + lo, V, at[right, VALUE] + lo, n)
                else:
                    scope, scope_l, scope_r = steps[s, SCOPE], steps[left, SCOPE], steps[right, SCOPE]
                    from_l, from_r = at[left, VALUE], at[right, VALUE]
                    for u in range(n):
                        b = share[1, scope, lo + u]
                        x = V[from_r + share[0, scope_r, b]]
                        if left == s:
                            x *= V[base + u]
                        elif end - first > 1:
                            x *= V[from_l + share[0, scope_l, b]]
                        V[base + u] = x
                left = s
        if plain and smallest(V, base, n) >= small:
            fill_row(E, at[s, ROW] + lo, 0.0, n)
            fill_row(L, at[s, ROW] + lo, -np.inf, n)
        else:
            at[s, SCALED] = 1
            if kind == SCALAR_SUM:
                evaluate_scalar_sum(P, B, W, V, E, L, s, lo, hi)
            else:
                evaluate_hadamard_scalar(P, B, V, E, L, s, lo, hi)
        i += 1
    return i
