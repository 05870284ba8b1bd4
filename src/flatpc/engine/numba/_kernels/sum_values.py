"""Values of sums over vectors, as `underflow.py` has them: what dropped entries could have changed is dropped as well."""

import math

import numpy as np

from flatpc.engine.numba._kernels.columns import CHILD, CHILD_END, ROW, STRIDE, VALUE, WEIGHT, WIDTH
from flatpc.engine.numba._kernels.compiling import inner, loop, whole
from flatpc.engine.numba._kernels.dense import FAST, multiply_transposed
from flatpc.engine.numba._kernels.rows import smallest
from flatpc.engine.numba._kernels.underflow import exponent_of, largest_scale, limits, power_of_two
from flatpc.engine.numba._kernels.work_items import view


@loop(fastmath=FAST)
def evaluate_dense_sum(P, B, W, T, V, E, L, s, lo, hi):
    c = P.child[P.steps[s, CHILD]]
    v, p = view(V, B, P, s), view(V, B, P, c)
    k, stride, n_in = P.steps[s, WIDTH], P.steps[s, STRIDE], P.steps[c, STRIDE]
    w = W[P.steps[s, WEIGHT] : P.steps[s, WEIGHT] + k * n_in].reshape(k, n_in)
    multiply_transposed(p, w, v, lo, hi)
    floor = V.dtype.type(math.ldexp(1.0, limits(V)[0]))
    for u in range(lo, hi):
        at = B.at[s, VALUE] + u * stride
        for j in range(k, stride):
            V[at + j] = 0
        lost = L[B.at[c, ROW] + u]
        E[B.at[s, ROW] + u] = E[B.at[c, ROW] + u]
        if lost > -np.inf or smallest(V, at, k) < floor:
            lost = _sift(V, at, k, lost, lost == -np.inf and _underflowed(V, at, w, p[u], k))
        L[B.at[s, ROW] + u] = lost


@inner
def _sift(V, at, k, lost, underflowed):
    """Drop outputs that dropped entries could have changed, and those that underflowed; returns the new bound."""
    drop, keep, _ = limits(V)
    if lost == np.inf:
        return lost
    threshold = math.ldexp(1.0, whole(max(float(drop), min(lost + keep, 100.0))))
    bound, kept = -np.inf, False
    for n in range(k):
        x = V[at + n]
        if x >= threshold:
            kept = True
            continue
        V[at + n] = 0
        if x > 0:
            bound = max(bound, max(float(exponent_of(x)), lost) + 1.0)
        elif lost > -np.inf:
            bound = max(bound, max(lost, float(drop)))
        elif underflowed:
            bound = max(bound, float(drop))
    if not kept and bound > -np.inf:
        return np.inf
    return bound


@inner
def _underflowed(V, at, w, p, k):
    """Whether an output is 0 although Σ w p is positive."""
    for n in range(k):
        if V[at + n] == 0:
            for c in range(len(p)):
                if p[c] > 0 and w[n, c] > 0:
                    return True
    return False


@loop
def evaluate_mixture(P, B, W, T, V, E, L, s, lo, hi):
    v = view(V, B, P, s)
    k, stride = P.steps[s, WIDTH], P.steps[s, STRIDE]
    first, last = P.steps[s, CHILD], P.steps[s, CHILD_END]
    for u in range(lo, hi):
        e = largest_scale(P, B, V, E, s, u)
        row = v[u]
        for j in range(stride):
            row[j] = 0
        lost = -np.inf
        if e > -np.inf:
            for q in range(first, last):
                c = P.child[q]
                shift = min(E[B.at[c, ROW] + u] - e, 0.0)
                factor = V.dtype.type(power_of_two(shift, 0.0))
                at, at_weight = B.at[c, VALUE] + u * stride, P.steps[s, WEIGHT] + (q - first) * stride
                for j in range(k):
                    row[j] += W[at_weight + j] * V[at + j] * factor
                if L[B.at[c, ROW] + u] > -np.inf:
                    lost = max(lost, L[B.at[c, ROW] + u] + shift)
            underflowed = lost == -np.inf and _mixture_underflowed(P, B, W, V, s, u)
            lost = _sift(V, B.at[s, VALUE] + u * stride, k, lost, underflowed)
        else:
            for q in range(first, last):
                if L[B.at[P.child[q], ROW] + u] > -np.inf:
                    lost = np.inf
        E[B.at[s, ROW] + u] = e if e > -np.inf else 0.0
        L[B.at[s, ROW] + u] = lost


@inner
def _mixture_underflowed(P, B, W, V, s, u):
    """The same for a mixture, whose outputs have edges of their own."""
    stride, at_weight = P.steps[s, STRIDE], P.steps[s, WEIGHT]
    at = B.at[s, VALUE] + u * stride
    for q in range(P.steps[s, CHILD], P.steps[s, CHILD_END]):
        below, weight = B.at[P.child[q], VALUE] + u * stride, at_weight + (q - P.steps[s, CHILD]) * stride
        for j in range(P.steps[s, WIDTH]):
            if V[at + j] == 0 and W[weight + j] > 0 and V[below + j] > 0:
                return True
    return False


@loop
def evaluate_join(P, B, W, T, V, E, L, s, lo, hi):
    v = view(V, B, P, s)
    drop = limits(V)[0]
    floor = V.dtype.type(math.ldexp(1.0, drop))
    first, last = P.steps[s, CHILD], P.steps[s, CHILD_END]
    for u in range(lo, hi):
        e = largest_scale(P, B, V, E, s, u)
        lost = -np.inf
        start = 0
        for q in range(first, last):
            c = P.child[q]
            at = B.at[c, VALUE] + u * P.steps[c, STRIDE]
            shift = E[B.at[c, ROW] + u] - e if e > -np.inf else 0.0
            shift = min(shift, 0.0)
            factor = V.dtype.type(power_of_two(shift, 0.0))
            for j in range(P.steps[c, WIDTH]):
                x = V[at + j] * factor
                if x < floor and V[at + j] > 0:
                    x = V.dtype.type(0)
                    lost = max(lost, float(drop))
                v[u, start + j] = x
            lost = max(lost, L[B.at[c, ROW] + u] + (shift if L[B.at[c, ROW] + u] < np.inf else 0.0))
            start += P.steps[c, WIDTH]
        for j in range(start, P.steps[s, STRIDE]):
            v[u, j] = 0
        E[B.at[s, ROW] + u] = e if e > -np.inf else 0.0
        L[B.at[s, ROW] + u] = lost
