"""Values of sums and products of width 1, many rows in one loop: what `scalars.py` leaves, since it has to be rescaled."""

import math

import numpy as np

from flatpc.engine.numba._kernels.columns import CHILD, CHILD_END, ROW, ROWS, SCALED, SCOPE, VALUE, WEIGHT
from flatpc.engine.numba._kernels.compiling import inner, loop
from flatpc.engine.numba._kernels.rows import add_row, add_scaled_row, copy_row, extremes, fill_row, smallest, times_row
from flatpc.engine.numba._kernels.underflow import exponent_of, limits, power_of_two


@inner
def _write_scales(P, B, E, L, s):
    """Write scales and losses of the children of a scalar step where they are not. Several threads may write the same."""
    for q in range(P.steps[s, CHILD], P.steps[s, CHILD_END]):
        c = P.child[q]
        if not B.at[c, SCALED]:
            fill_row(E, B.at[c, ROW], 0.0, B.at[c, ROWS])
            fill_row(L, B.at[c, ROW], -np.inf, B.at[c, ROWS])


@inner
def _gather_scalars(P, B, V, E, L, s, c, lo, hi, first):
    """Multiply a child into scalar rows lo:hi of step s, sub-row by sub-row."""
    base, base_row, at, at_row = B.at[s, VALUE], B.at[s, ROW], B.at[c, VALUE], B.at[c, ROW]
    scope, scope_c = P.steps[s, SCOPE], P.steps[c, SCOPE]
    for u in range(lo, hi):
        r = B.share[0, scope_c, B.share[1, scope, u]]
        if first:
            V[base + u], E[base_row + u] = V[at + r], E[at_row + r]
        else:
            V[base + u] *= V[at + r]
            E[base_row + u] += E[at_row + r]
        if L[at_row + r] == np.inf:
            L[base_row + u] = np.inf


@loop
def evaluate_hadamard_scalar(P, B, W, T, V, E, L, s, lo, hi):
    """The same for width 1, many rows in one loop; nothing can be dropped, since a scalar is its own largest entry."""
    base, base_row, n = B.at[s, VALUE] + lo, B.at[s, ROW] + lo, hi - lo
    small = V.dtype.type(math.ldexp(1.0, limits(V)[2]))
    _write_scales(P, B, E, L, s)
    fill_row(L, base_row, -np.inf, n)
    whole = B.at[s, ROWS] == len(B.rows)
    first = P.steps[s, CHILD]
    for q in range(first, P.steps[s, CHILD_END]):
        c = P.child[q]
        if whole and B.at[c, ROWS] == B.at[s, ROWS]:
            at, at_row = B.at[c, VALUE] + lo, B.at[c, ROW] + lo
            if q == first:
                copy_row(V, base, V, at, n)
                copy_row(E, base_row, E, at_row, n)
            else:
                times_row(V, base, V, at, n)
                add_row(E, base_row, E, at_row, n)
            if extremes(L, at_row, n)[0] == np.inf:
                for u in range(n):
                    if L[at_row + u] == np.inf:
                        L[base_row + u] = np.inf
        else:
            _gather_scalars(P, B, V, E, L, s, c, lo, hi, q == first)
        if smallest(V, base, n) < small:
            _rescale_scalars(V, E, base, base_row, n, small)


@inner
def _rescale_scalars(V, E, base, at_row, n, small):
    for u in range(n):
        x = V[base + u]
        if x == 0:
            E[at_row + u] = 0
        elif x < small:
            size = exponent_of(x)
            V[base + u] = x * V.dtype.type(math.ldexp(1.0, -size))
            E[at_row + u] += size


@loop
def evaluate_scalar_sum(P, B, W, T, V, E, L, s, lo, hi):
    base, base_row, n = B.at[s, VALUE] + lo, B.at[s, ROW] + lo, hi - lo
    small = V.dtype.type(math.ldexp(1.0, limits(V)[2]))
    first = P.steps[s, CHILD]
    _write_scales(P, B, E, L, s)
    fill_row(V, base, V.dtype.type(0), n)
    plain = True
    for q in range(first, P.steps[s, CHILD_END]):
        c = P.child[q]
        at_row = B.at[c, ROW] + lo
        high, low = extremes(E, at_row, n)
        plain &= high == 0 and low == 0 and extremes(L, at_row, n)[0] < np.inf
        add_scaled_row(V, base, V, B.at[c, VALUE] + lo, W[P.steps[s, WEIGHT] + q - first], n)
    if plain and smallest(V, base, n) >= small:
        fill_row(E, base_row, 0.0, n)
        fill_row(L, base_row, -np.inf, n)
    else:
        _scalar_sum_scaled(P, B, W, V, E, L, s, lo, hi)


@inner
def _scalar_sum_scaled(P, B, W, V, E, L, s, lo, hi):
    """With scales. Where weights are so small that terms of the sum have lost digits or are 0, the row is not settled."""
    floor = math.ldexp(1.0, limits(V)[0])
    base, at_row, at_weight = B.at[s, VALUE], B.at[s, ROW], P.steps[s, WEIGHT]
    first, last = P.steps[s, CHILD], P.steps[s, CHILD_END]
    for u in range(lo, hi):
        e = -np.inf
        for q in range(first, last):
            c = P.child[q]
            if V[B.at[c, VALUE] + u] > 0 and W[at_weight + q - first] > 0:
                e = max(e, E[B.at[c, ROW] + u])
        total, lost = 0.0, -np.inf
        for q in range(first, last):
            c = P.child[q]
            shift = min(E[B.at[c, ROW] + u] - e, 0.0) if e > -np.inf else 0.0
            total += W[at_weight + q - first] * V[B.at[c, VALUE] + u] * power_of_two(shift, 0.0)
            if L[B.at[c, ROW] + u] == np.inf:
                lost = np.inf
        if e > -np.inf and total < floor:
            lost = np.inf
        V[base + u] = total
        E[at_row + u] = e if total > 0 else 0.0
        if total > 0:
            size = exponent_of(total)
            if size < limits(V)[2]:
                V[base + u] = total * math.ldexp(1.0, -size)
                E[at_row + u] += size
        L[at_row + u] = lost
