"""Values of inputs whose families have a table or a formula, as `underflow.py` has them."""

import math

import numpy as np

from flatpc.engine.numba._kernels.columns import (
    BINOMIAL,
    CATEGORIES,
    FORMULA,
    GAUSSIAN,
    ROW,
    SCOPE,
    STRIDE,
    TABLE,
    VALUE,
    VARIABLE,
    WIDTH,
)
from flatpc.engine.numba._kernels.compiling import inner, loop
from flatpc.engine.numba._kernels.rows import convert_row, extremes
from flatpc.engine.numba._kernels.underflow import exponent_of, limits, put_logs

LOG_2PI = math.log(2 * math.pi)
MANY = 1e5
"""Counts beyond which Stirling's formula with one correction is exact to all digits."""


@inner
def log_density(formula, n, x, a, b):
    """Log-density of a FORMULA input at x; a, b are the unit's parameters."""
    if formula == GAUSSIAN:
        d = x - a
        return -0.5 * (d * d / b + math.log(b) + LOG_2PI)
    if formula == BINOMIAL:
        out = math.lgamma(n + 1.0) - math.lgamma(x + 1.0) - math.lgamma(n - x + 1.0)
        if x > 0:
            out += x * math.log(a) if a > 0 else -np.inf
        if x < n:
            out += (n - x) * math.log1p(-a) if a < 1 else -np.inf
        return out
    if x > MANY:
        # By Stirling's formula around the rate: the terms of the textbook's form cancel to no digits near 1e15.
        d = (a - x) / x
        return -x * (d - (math.log1p(d) if d > -0.5 else math.log(a / x))) - 0.5 * (math.log(x) + LOG_2PI) - 1 / (12 * x)
    return x * math.log(a) - a - math.lgamma(x + 1.0)


@loop
def evaluate_table(P, B, W, T, V, E, L, s, lo, hi):
    k, stride, at = P.steps[s, WIDTH], P.steps[s, STRIDE], P.steps[s, TABLE]
    drop, _, rescale = limits(V)
    floor, small = math.ldexp(1.0, drop), math.ldexp(1.0, rescale - 1)
    for u in range(lo, hi):
        x = B.X[B.rows[B.share[1, P.steps[s, SCOPE], u]], P.steps[s, VARIABLE]]
        to = B.at[s, VALUE] + u * stride
        e, lost = 0.0, -np.inf
        if x != x:
            for j in range(k):
                V[to + j] = 1
        else:
            start = at + np.int64(x) * stride
            top, low = extremes(T, start, k)
            factor = 1.0
            if 0 < top < small:
                size = max(exponent_of(top), -1000)
                e = float(size)
                factor = math.ldexp(1.0, -size)
            if low * factor >= floor:
                convert_row(V, to, T, start, factor, k)
            else:
                for j in range(k):
                    value = T[start + j] * factor
                    V[to + j] = value if value >= floor else 0.0
                    if value < floor and T[start + j] > 0:
                        lost = float(drop)
        for j in range(k, stride):
            V[to + j] = 0
        E[B.at[s, ROW] + u] = e
        L[B.at[s, ROW] + u] = lost


@loop
def evaluate_formula(P, B, W, T, V, E, L, s, lo, hi):
    k, stride, at = P.steps[s, WIDTH], P.steps[s, STRIDE], P.steps[s, TABLE]
    gaussian = P.steps[s, FORMULA] == GAUSSIAN
    logs, precision, constant = np.empty(k), np.empty(k), np.empty(k)
    if gaussian:
        for j in range(k):
            precision[j] = 0.5 / T[at + stride + j]
            constant[j] = -0.5 * (math.log(T[at + stride + j]) + LOG_2PI)
    for u in range(lo, hi):
        x = B.X[B.rows[B.share[1, P.steps[s, SCOPE], u]], P.steps[s, VARIABLE]]
        to = B.at[s, VALUE] + u * stride
        e, lost = 0.0, -np.inf
        if x != x:
            for j in range(stride):
                V[to + j] = 1 if j < k else 0
        else:
            for j in range(k):
                if gaussian:
                    d = x - T[at + j]
                    logs[j] = constant[j] - d * d * precision[j]
                else:
                    logs[j] = log_density(P.steps[s, FORMULA], P.steps[s, CATEGORIES], x, T[at + j], T[at + stride + j])
            e, lost = put_logs(V, to, logs, k, stride)
        E[B.at[s, ROW] + u] = e
        L[B.at[s, ROW] + u] = lost
