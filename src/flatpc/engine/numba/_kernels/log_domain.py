"""The same passes in the log domain, one row at a time, in float64: slow, and right whatever the evidence.

Serves the few rows whose children contradict each other so strongly that the linear domain lost the entries that matter,
and whoever needs the logarithm of every unit's value. All quantities of a circuit are non-negative, so values and adjoints
both have logarithms; zero is `-inf`.
"""

import math

import numpy as np

from flatpc.engine.numba._kernels.columns import (
    CATEGORIES,
    CHILD,
    CHILD_END,
    DENSE_SUM,
    FORMULA,
    FORMULA_INPUT,
    GENERAL_INPUT,
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
from flatpc.engine.numba._kernels.input_values import log_density
from flatpc.engine.numba._kernels.rows import largest_gradient
from flatpc.engine.numba._kernels.work_items import edge_stride

TINY = 1e-280


@inner
def log(x):
    return math.log(x) if x > 0 else -np.inf


@inner
def _log_add(a, b):
    if a < b:
        a, b = b, a
    return a if b == -np.inf else a + math.log1p(math.exp(b - a))


@inner
def top_of(l, start, n):
    top = -np.inf
    for j in range(n):
        top = max(top, l[start + j])
    return top


@inner
def below_top(l, start, n):
    """The largest of some logarithms, and what they are the logarithms of, in units of the largest."""
    top, p = top_of(l, start, n), np.empty(n)
    for j in range(n):
        p[j] = math.exp(l[start + j] - top) if top > -np.inf else 0.0
    return top, p


@inner
def _log_of_sum(W, weight, step, l, start, top, p):
    """Log Σ w_j exp(l_j), where top and p are from `below_top`; term by term if next to nothing is left of them."""
    total = 0.0
    for j in range(len(p)):
        total += W[weight + j * step] * p[j]
    if total > TINY:
        return math.log(total) + top
    out = -np.inf
    for j in range(len(p)):
        out = _log_add(out, log(W[weight + j * step]) + l[start + j])
    return out


@inner
def values_of_row(P, W, T, x, unit_ptr, l):
    """Fill l with the logarithm of every unit's value; step s's units start at unit_ptr[s]. Those of GENERAL inputs are there."""
    for s in range(len(P.steps)):
        at, k, kind = unit_ptr[s], P.steps[s, WIDTH], P.steps[s, KIND]
        first, last = P.steps[s, CHILD], P.steps[s, CHILD_END]
        if kind in (TABLE_INPUT, FORMULA_INPUT):
            value = x[P.steps[s, VARIABLE]]
            for j in range(k):
                if value != value:
                    l[at + j] = 0.0
                elif kind == TABLE_INPUT:
                    l[at + j] = log(T[P.steps[s, TABLE] + np.int64(value) * P.steps[s, STRIDE] + j])
                else:
                    l[at + j] = log_density(
                        P.steps[s, FORMULA],
                        P.steps[s, CATEGORIES],
                        value,
                        T[P.steps[s, TABLE] + j],
                        T[P.steps[s, TABLE] + P.steps[s, STRIDE] + j],
                    )
        elif kind == GENERAL_INPUT:
            continue
        elif kind == HADAMARD:
            for j in range(k):
                l[at + j] = 0.0
                for q in range(first, last):
                    l[at + j] += l[unit_ptr[P.child[q]] + j]
        elif kind == KRONECKER:
            a, b = P.child[first], P.child[first + 1]
            for i in range(P.steps[a, WIDTH]):
                for j in range(P.steps[b, WIDTH]):
                    l[at + i * P.steps[b, WIDTH] + j] = l[unit_ptr[a] + i] + l[unit_ptr[b] + j]
        elif kind == JOIN:
            n = at
            for q in range(first, last):
                c = P.child[q]
                for j in range(P.steps[c, WIDTH]):
                    l[n] = l[unit_ptr[c] + j]
                    n += 1
        elif kind == DENSE_SUM:
            c = P.child[first]
            below, n_in, stride = unit_ptr[c], P.steps[c, WIDTH], P.steps[c, STRIDE]
            top, p = below_top(l, below, n_in)
            for n in range(k):
                l[at + n] = _log_of_sum(W, P.steps[s, WEIGHT] + n * stride, 1, l, below, top, p)
        else:
            step = edge_stride(P, s)
            for j in range(k):
                out = -np.inf
                for q in range(first, last):
                    out = _log_add(out, log(W[P.steps[s, WEIGHT] + (q - first) * step + j]) + l[unit_ptr[P.child[q]] + j])
                l[at + j] = out


@inner
def _product_of_others(P, l, unit_ptr, s, skip, j):
    out = 0.0
    for q in range(P.steps[s, CHILD], P.steps[s, CHILD_END]):
        if q != skip:
            out += l[unit_ptr[P.child[q]] + j]
    return out


@inner
def adjoints_of_row(P, W, unit_ptr, l, d):
    """Fill d with the logarithm of every unit's adjoint, ∂ log p(x) / ∂ value.

    Adjoints are exact for units of value zero too: a product's other factors are multiplied, never divided out.
    """
    n_steps = len(P.steps)
    d[:] = -np.inf
    d[unit_ptr[n_steps - 1]] = -l[unit_ptr[n_steps - 1]]
    for s in range(n_steps - 1, -1, -1):
        at, k, kind = unit_ptr[s], P.steps[s, WIDTH], P.steps[s, KIND]
        first, last = P.steps[s, CHILD], P.steps[s, CHILD_END]
        if kind == HADAMARD:
            for q in range(first, last):
                c = unit_ptr[P.child[q]]
                for j in range(k):
                    if d[at + j] > -np.inf:
                        here = l[at + j]
                        others = here - l[c + j] if here > -np.inf else _product_of_others(P, l, unit_ptr, s, q, j)
                        d[c + j] = _log_add(d[c + j], d[at + j] + others)
        elif kind == KRONECKER:
            a, b = P.child[first], P.child[first + 1]
            for i in range(P.steps[a, WIDTH]):
                for j in range(P.steps[b, WIDTH]):
                    here = d[at + i * P.steps[b, WIDTH] + j]
                    if here > -np.inf:
                        d[unit_ptr[a] + i] = _log_add(d[unit_ptr[a] + i], here + l[unit_ptr[b] + j])
                        d[unit_ptr[b] + j] = _log_add(d[unit_ptr[b] + j], here + l[unit_ptr[a] + i])
        elif kind == JOIN:
            n = at
            for q in range(first, last):
                c = P.child[q]
                for j in range(P.steps[c, WIDTH]):
                    d[unit_ptr[c] + j] = _log_add(d[unit_ptr[c] + j], d[n])
                    n += 1
        elif kind == DENSE_SUM:
            c = P.child[first]
            stride = P.steps[c, STRIDE]
            top, g = below_top(d, at, k)
            if top == -np.inf:
                continue
            for j in range(P.steps[c, WIDTH]):
                out = _log_of_sum(W, P.steps[s, WEIGHT] + j, stride, d, at, top, g)
                d[unit_ptr[c] + j] = _log_add(d[unit_ptr[c] + j], out)
        elif kind in (SCALAR_SUM, MIXTURE):
            step = edge_stride(P, s)
            for q in range(first, last):
                c = unit_ptr[P.child[q]]
                for j in range(k):
                    if d[at + j] > -np.inf:
                        d[c + j] = _log_add(d[c + j], d[at + j] + log(W[P.steps[s, WEIGHT] + (q - first) * step + j]))


@kernel
def add_gradients_of_row(P, unit_ptr, l, d, weight, FL):
    """Add one row's gradients of the weights to FL, the row counting `weight` times."""
    for s in range(len(P.steps)):
        at, k, kind = unit_ptr[s], P.steps[s, WIDTH], P.steps[s, KIND]
        first, last = P.steps[s, CHILD], P.steps[s, CHILD_END]
        if kind == DENSE_SUM:
            c = P.child[first]
            for n in range(k):
                if d[at + n] > -np.inf:
                    for j in range(P.steps[c, WIDTH]):
                        g = P.steps[s, WEIGHT] + n * P.steps[c, STRIDE] + j
                        FL[g] = min(FL[g] + weight * math.exp(l[unit_ptr[c] + j] + d[at + n]), largest_gradient(FL))
        elif kind in (SCALAR_SUM, MIXTURE):
            step = edge_stride(P, s)
            for q in range(first, last):
                c = unit_ptr[P.child[q]]
                for j in range(k):
                    g = P.steps[s, WEIGHT] + (q - first) * step + j
                    FL[g] = min(FL[g] + weight * math.exp(l[c + j] + d[at + j]), largest_gradient(FL))
