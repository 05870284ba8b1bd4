"""Values of products, as `underflow.py` has them: rescaled when they get small; what underflows is dropped and remembered."""

import math

import numpy as np

from flatpc.engine.numba._kernels.columns import CHILD, CHILD_END, ROW, SCOPE, STRIDE, VALUE, WIDTH
from flatpc.engine.numba._kernels.compiling import inner, loop, whole
from flatpc.engine.numba._kernels.rows import extremes, fill_row, multiply_rows, multiply_three_rows, scale_row, set_scaled_row
from flatpc.engine.numba._kernels.underflow import exponent_of, limits
from flatpc.engine.numba._kernels.work_items import child_row

_DOUBLE_EXPONENT = 1000


@loop
def evaluate_hadamard(P, B, W, T, V, E, L, s, lo, hi):
    stride = P.steps[s, STRIDE]
    drop, _, rescale = limits(V)
    floor, small = V.dtype.type(math.ldexp(1.0, drop)), V.dtype.type(math.ldexp(1.0, rescale))
    first, last = P.steps[s, CHILD], P.steps[s, CHILD_END]
    base, base_row, scope = B.at[s, VALUE], B.at[s, ROW], P.steps[s, SCOPE]
    for u in range(lo, hi):
        b = B.share[1, scope, u]
        to = base + u * stride
        e, lost = 0.0, -np.inf
        fine = last - first > 1
        left, middle = -1, -1
        for q in range(first, last):
            c = P.child[q]
            r = B.share[0, P.steps[c, SCOPE], b]
            right = B.at[c, VALUE] + r * stride
            e += E[B.at[c, ROW] + r]
            lost = max(lost, L[B.at[c, ROW] + r])
            if left < 0:
                left = right
            elif q + 1 < last and middle < 0:
                middle = right
            else:
                if middle < 0:
                    top, low = multiply_rows(V, to, V, left, V, right, stride)
                else:
                    top, low = multiply_three_rows(V, to, V, left, V, middle, V, right, stride)
                left, middle = to, -1
                if not floor <= low < np.inf:  # infinite if every entry is zero
                    fine = False
                    break
                if top < small:
                    size = exponent_of(top)
                    factor = V.dtype.type(math.ldexp(1.0, -size))
                    scale_row(V, to, factor, stride)
                    e += size
                    lost -= size
        if fine:
            E[base_row + u] = e
            L[base_row + u] = lost
        else:
            _hadamard_with_care(P, B, V, E, L, s, u)


@inner
def _hadamard_with_care(P, B, V, E, L, s, u):
    """One row of a product in which something underflows: every unit has an exponent of its own until the end."""
    k, stride = P.steps[s, WIDTH], P.steps[s, STRIDE]
    drop = limits(V)[0]
    to = B.at[s, VALUE] + u * stride
    e, lost = 0.0, -np.inf
    mantissa, exponent = np.empty(k), np.empty(k)
    for j in range(k):
        mantissa[j], exponent[j] = 1.0, 0.0
    first, last = P.steps[s, CHILD], P.steps[s, CHILD_END]
    # So many factors of kept entries can't underflow in double precision, and neither can they after rescaling.
    together = max(1, _DOUBLE_EXPONENT // (-2 * drop))
    shift = -drop * together
    small, factor = math.ldexp(1.0, shift - _DOUBLE_EXPONENT), math.ldexp(1.0, shift)
    for q in range(first, last):
        c = P.child[q]
        r = child_row(P, B, s, c, u)
        start = B.at[c, VALUE] + r * stride
        e += E[B.at[c, ROW] + r]
        lost = max(lost, L[B.at[c, ROW] + r])
        row = V[start : start + k]
        for j in range(k):
            mantissa[j] *= row[j]
        if (q + 1 - first) % together == 0:
            for j in range(k):
                x = mantissa[j]
                mantissa[j] = x * factor if x < small else x
                exponent[j] -= float(shift) if x < small else 0.0
    top = -np.inf
    for j in range(k):
        if mantissa[j] > 0:
            x, size = math.frexp(mantissa[j])
            mantissa[j] = x
            exponent[j] += size
            top = max(top, exponent[j])
    for j in range(stride):
        V[to + j] = 0
    if top == -np.inf:
        E[B.at[s, ROW] + u] = 0
        L[B.at[s, ROW] + u] = np.inf if lost > -np.inf else -np.inf
        return
    lost -= top
    for j in range(k):
        if mantissa[j] > 0:
            if exponent[j] - top > drop:
                V[to + j] = math.ldexp(mantissa[j], whole(exponent[j] - top))
            else:
                lost = max(lost, float(drop))
    E[B.at[s, ROW] + u] = e + top
    L[B.at[s, ROW] + u] = lost


@loop
def evaluate_kronecker(P, B, W, T, V, E, L, s, lo, hi):
    drop, _, rescale = limits(V)
    floor, small = V.dtype.type(math.ldexp(1.0, drop)), V.dtype.type(math.ldexp(1.0, rescale))
    a, b = P.child[P.steps[s, CHILD]], P.child[P.steps[s, CHILD] + 1]
    ka, kb, stride = P.steps[a, WIDTH], P.steps[b, WIDTH], P.steps[s, STRIDE]
    for u in range(lo, hi):
        ra, rb = child_row(P, B, s, a, u), child_row(P, B, s, b, u)
        at_a, at_b = B.at[a, VALUE] + ra * P.steps[a, STRIDE], B.at[b, VALUE] + rb * P.steps[b, STRIDE]
        to = B.at[s, VALUE] + u * stride
        top_a, low_a = extremes(V, at_a, ka)
        top_b, low_b = extremes(V, at_b, kb)
        lost = max(L[B.at[a, ROW] + ra], L[B.at[b, ROW] + rb])
        e = E[B.at[a, ROW] + ra] + E[B.at[b, ROW] + rb]
        if low_a * low_b >= floor and top_a * top_b >= small:
            for i in range(ka):
                set_scaled_row(V, to + i * kb, V, at_b, V[at_a + i], kb)
        elif top_a == 0 or top_b == 0:
            fill_row(V, to, V.dtype.type(0), ka * kb)
            e, lost = 0.0, (np.inf if lost > -np.inf else -np.inf)
        else:
            # The factors' exponents first, so that nothing underflows that needn't.
            size_a, size_b = exponent_of(top_a), exponent_of(top_b)
            up_a, up_b = V.dtype.type(math.ldexp(1.0, -size_a)), V.dtype.type(math.ldexp(1.0, -size_b))
            e += size_a + size_b
            lost -= size_a + size_b
            for i in range(ka):
                for j in range(kb):
                    x = (V[at_a + i] * up_a) * (V[at_b + j] * up_b)
                    if x < floor and V[at_a + i] > 0 and V[at_b + j] > 0:
                        lost = max(lost, float(drop))
                    V[to + i * kb + j] = x if x >= floor else V.dtype.type(0)
        for j in range(ka * kb, stride):
            V[to + j] = 0
        E[B.at[s, ROW] + u] = e
        L[B.at[s, ROW] + u] = lost
