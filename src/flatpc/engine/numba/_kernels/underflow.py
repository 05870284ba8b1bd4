"""Scales, and what is dropped: how the upward pass stays in the linear domain.

A step's value for sub-row u is `V[u, :] · 2^E[u]`, with E a whole number: powers of two cost no rounding, so that a shared
and an unshared evaluation give the same bits. Products are rescaled when their largest entry gets small.

An entry far below its row's largest is dropped (set to zero). Whether that was harmless shows at the next sum: `L[u]` is the
logarithm (base 2) of a bound on every dropped entry, in units of V, and `-inf` if there is none. A sum's output that is not well
above what the dropped entries could have added to it is dropped as well, with a new bound; all others are as good as exact, and
no later evidence can change that. Where no output survives, L is `+inf`: the row must be evaluated in the log domain.
"""

import math

import numpy as np

from flatpc.engine.numba._kernels.columns import CHILD, CHILD_END, ROW, STRIDE, VALUE, WIDTH
from flatpc.engine.numba._kernels.compiling import inner, kernel, whole

LN2 = math.log(2.0)
FAR = -1e12
"""Below this, logarithms are taken relative to the largest instead of to e · ln 2: further out that is rounded by more than 1."""


@inner
def limits(V):
    """Exponents: entries below the first are dropped, what is kept exceeds dropped by the second, below the third we rescale."""
    if V.itemsize == 4:
        return -100, 22, -20
    return -700, 55, -200


@inner
def put_logs(V, to, logs, k, stride):
    """Write a row of values at `to`, from their logarithms; returns the row's scale, and a bound on what was dropped."""
    drop, top, lost = limits(V)[0], -np.inf, -np.inf
    for j in range(k):
        top = max(top, logs[j])
    for j in range(stride):
        V[to + j] = 0
    if top == -np.inf:
        return 0.0, lost
    e = np.floor(top / LN2) + 1.0  # no value exceeds 1, so that no product of many overflows
    base = e * LN2 if top > FAR else top  # far out the largest value is as good as 1
    for j in range(k):
        d = logs[j] - base
        if d >= drop * LN2:
            V[to + j] = math.exp(d)
        elif logs[j] > -np.inf:
            lost = float(drop)
    return e, lost


@kernel
def put_rows_of_logs(V, E, L, value, row, stride, logs, missing):
    """Write values, scales and losses of a step's rows from the logarithms of their values, `[rows, units]`."""
    k = logs.shape[1]
    for u in range(len(logs)):
        to = value + u * stride
        e, lost = put_logs(V, to, logs[u], k, stride)
        if missing[u]:  # a value of 1 needs no scale
            e = 0.0
            for j in range(k):
                V[to + j] = 1
        E[row + u] = e
        L[row + u] = lost


@inner
def exponent_of(x):
    """The power of two next above x."""
    return math.frexp(x)[1]


@inner
def power_of_two(shift, most):
    """2^shift; 0 far below, and 2^most above that."""
    return math.ldexp(1.0, whole(min(max(shift, -2000.0), most)))


@inner
def largest_scale(P, B, V, E, s, u):
    """The largest scale among children of step s that have a positive entry in their sub-row u; `-inf` if none has."""
    e = -np.inf
    for q in range(P.steps[s, CHILD], P.steps[s, CHILD_END]):
        c = P.child[q]
        at, top = B.at[c, VALUE] + u * P.steps[c, STRIDE], V.dtype.type(0)
        for j in range(P.steps[c, WIDTH]):
            top = max(top, V[at + j])
        if top > 0:
            e = max(e, E[B.at[c, ROW] + u])
    return e
