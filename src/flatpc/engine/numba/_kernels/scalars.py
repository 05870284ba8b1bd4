"""Runs of scalar steps, as in irregular circuits of a hundred thousand nodes: one call for the whole run.

A call between kernels costs more than a scalar step. The common case, in which no row has to be rescaled, is done here, and where
nobody else will ask (`BARE`) it leaves scales and losses unwritten: `B.at[s, SCALED]` is 0 for steps all of whose scales are one.
All other cases go through `scalar_values.py`.
"""

import math

import numpy as np

from flatpc.engine.numba._kernels.columns import (
    BARE,
    CHILD,
    CHILD_END,
    HADAMARD,
    KIND,
    ROW,
    ROWS,
    SCALAR_SUM,
    SCALED,
    SCOPE,
    TABLE,
    TABLE_INPUT,
    VALUE,
    VARIABLE,
    WEIGHT,
    WIDTH,
)
from flatpc.engine.numba._kernels.compiling import inner, loop
from flatpc.engine.numba._kernels.factor_rows import multiply_gathered, sub_rows, times_gathered
from flatpc.engine.numba._kernels.input_values import evaluate_table
from flatpc.engine.numba._kernels.rows import (
    add_scaled_row,
    copy_row,
    fill_row,
    multiply_rows,
    set_scaled_row,
    smallest,
    times_row,
)
from flatpc.engine.numba._kernels.scalar_values import evaluate_hadamard_scalar, evaluate_scalar_sum
from flatpc.engine.numba._kernels.underflow import limits

_FEW = 4


@inner(forceinline=True)
def _product(steps, child, at, share, index, V, s, base, n):
    """The first two factors together, then one after the other.

    A factor with as many sub-rows as the product has the same ones, in the same order.
    """
    first, end = steps[s, CHILD], steps[s, CHILD_END]
    scope = steps[s, SCOPE]
    a, b = child[first], child[min(first + 1, end - 1)]
    if end - first == 1:
        copy_row(V, base, V, at[a, VALUE], n)
    elif at[a, ROWS] == n and at[b, ROWS] == n:
        multiply_rows(V, base, V, at[a, VALUE], V, at[b, VALUE], n)
    else:
        i, j = sub_rows(share, index, 0, scope, steps[a, SCOPE], n), sub_rows(share, index, 1, scope, steps[b, SCOPE], n)
        multiply_gathered(V, base, V, at[a, VALUE], index, i, V, at[b, VALUE], index, j, n)
    for q in range(first + 2, end):
        c = child[q]
        if at[c, ROWS] == n:
            times_row(V, base, V, at[c, VALUE], n)
        else:
            times_gathered(V, base, V, at[c, VALUE], index, sub_rows(share, index, 1, scope, steps[c, SCOPE], n), n)


@inner(forceinline=True)
def _table(steps, X, rows, share, T, V, s, base, n):
    """Values of an input; returns the smallest that is not zero, or infinity."""
    table, variable, scope = steps[s, TABLE], steps[s, VARIABLE], steps[s, SCOPE]
    low = np.inf
    for u in range(n):
        x = X[rows[share[1, scope, u]], variable]
        value = 1.0 if x != x else T[table + np.int64(x)]
        V[base + u] = value
        if 0 < value < low:
            low = value
    return V.dtype.type(low)


@loop
def evaluate_scalars(P, B, W, T, V, E, L, index, item, i, last):
    """Evaluate items from i on while they are scalar; returns the first that is not done.

    A scalar step is one item, all of its rows.
    """
    steps, child, at, share, X, rows = P.steps, P.child, B.at, B.share, B.X, B.rows
    small = V.dtype.type(math.ldexp(1.0, limits(V)[2]))
    while i < last:
        s = item[i, 1]
        kind = steps[s, KIND]
        if steps[s, WIDTH] != 1 or (kind != HADAMARD and kind != SCALAR_SUM and kind != TABLE_INPUT):
            return i
        n = np.int64(item[i, 3])
        i += 1
        first, end = steps[s, CHILD], steps[s, CHILD_END]
        plain = True
        for q in range(first, end):
            plain &= at[child[q], SCALED] == 0
        base = at[s, VALUE]
        low = V.dtype.type(0)
        if kind == TABLE_INPUT:
            low = _table(steps, X, rows, share, T, V, s, base, n)
        elif plain and n < _FEW:  # row by row, which for a few rows beats any vector loop
            low = V.dtype.type(np.inf)
            for u in range(n):
                if kind == SCALAR_SUM:
                    x = V.dtype.type(0)
                    weight = steps[s, WEIGHT] - first
                    for q in range(first, end):
                        x += W[weight + q] * V[at[child[q], VALUE] + u]
                else:
                    x = V.dtype.type(1)
                    for q in range(first, end):
                        c = child[q]
                        r = u if at[c, ROWS] == n else np.int64(share[0, steps[c, SCOPE], share[1, steps[s, SCOPE], u]])
                        x *= V[at[c, VALUE] + r]
                V[base + u] = x
                low = min(low, x)
        elif plain and kind == SCALAR_SUM:
            weight = steps[s, WEIGHT] - first
            set_scaled_row(V, base, V, at[child[first], VALUE], W[weight + first], n)
            for q in range(first + 1, end):
                add_scaled_row(V, base, V, at[child[q], VALUE], W[weight + q], n)
            low = smallest(V, base, n)
        elif plain:
            _product(steps, child, at, share, index, V, s, base, n)
            low = smallest(V, base, n)
        if low >= small:
            at[s, SCALED] = not steps[s, BARE]
            if not steps[s, BARE]:
                fill_row(E, at[s, ROW], 0.0, n)
                fill_row(L, at[s, ROW], -np.inf, n)
        else:
            at[s, SCALED] = 1
            if kind == SCALAR_SUM:
                evaluate_scalar_sum(P, B, W, T, V, E, L, s, 0, n)
            elif kind == HADAMARD:
                evaluate_hadamard_scalar(P, B, W, T, V, E, L, s, 0, n)
            else:
                evaluate_table(P, B, W, T, V, E, L, s, 0, n)
    return i
