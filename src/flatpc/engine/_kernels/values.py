"""The upward pass, in the linear domain.

A step's value for sub-row u is `V[u, :] · 2^E[u]`, with E a whole number: powers of two cost no rounding, so that a shared
and an unshared evaluation give the same bits. Products are rescaled when their largest entry gets small.

An entry far below its row's largest is dropped (set to zero). Dropping is harmless unless later evidence contradicts
everything that was kept; `L[u]` is the logarithm (base 2) of the largest amount dropped so far in units of V, `-inf` if none.
Where what was kept shrinks to the size of what was dropped, L becomes `+inf`: the row must be evaluated in the log domain.
"""

import math

import numpy as np
from numba import njit

from flatpc.engine._kernels.columns import (
    BINOMIAL,
    CATEGORIES,
    CHILD,
    CHILD_END,
    FORMULA,
    GAUSSIAN,
    ROW,
    ROWS,
    SCOPE,
    STRIDE,
    TABLE,
    VALUE,
    VARIABLE,
    WEIGHT,
    WIDTH,
)
from flatpc.engine._kernels.dense import FAST, multiply_transposed
from flatpc.engine._kernels.items import child_row, view

LN2 = math.log(2.0)
LOG_2PI = math.log(2 * math.pi)


@njit(cache=True)
def limits(V):
    """Exponents: entries below the first are dropped, kept and dropped stay the second apart, below the third we rescale."""
    if V.itemsize == 4:
        return -80, 30, -20
    return -700, 60, -200


@njit(cache=True)
def _exponent(x):
    return math.frexp(x)[1]


@njit(cache=True)
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
    return x * math.log(a) - a - math.lgamma(x + 1.0)


@njit(cache=True, boundscheck=False)
def evaluate_table(P, B, T, V, E, L, s, lo, hi):
    v = view(V, B, P, s)
    k, stride, at = P.steps[s, WIDTH], P.steps[s, STRIDE], P.steps[s, TABLE]
    drop, _, rescale = limits(V)
    for u in range(lo, hi):
        x = B.X[B.rows[B.share[1, P.steps[s, SCOPE], u]], P.steps[s, VARIABLE]]
        row = v[u]
        e, lost = 0.0, -np.inf
        if x != x:
            for j in range(k):
                row[j] = 1
        else:
            start = at + np.int64(x) * stride
            top, low = 0.0, 1.0
            for j in range(k):
                top = max(top, T[start + j])
                low = min(low, T[start + j])
            size = _exponent(top)
            factor = 1.0
            if top > 0 and size < rescale:
                size = max(size, -1000)
                e = float(size)
                factor = math.ldexp(1.0, -size)
            floor = math.ldexp(1.0, drop)
            if low * factor >= floor:
                for j in range(k):
                    row[j] = T[start + j] * factor
            else:
                for j in range(k):
                    value = T[start + j] * factor
                    row[j] = value if value >= floor else 0.0
                    if value < floor and T[start + j] > 0:
                        lost = float(drop)
        for j in range(k, stride):
            row[j] = 0
        E[B.at[s, ROW] + u] = e
        L[B.at[s, ROW] + u] = lost


@njit(cache=True, boundscheck=False)
def evaluate_formula(P, B, T, V, E, L, s, lo, hi):
    v = view(V, B, P, s)
    k, stride, at = P.steps[s, WIDTH], P.steps[s, STRIDE], P.steps[s, TABLE]
    drop = limits(V)[0]
    logs = np.empty(k, np.float64)
    for u in range(lo, hi):
        x = B.X[B.rows[B.share[1, P.steps[s, SCOPE], u]], P.steps[s, VARIABLE]]
        row = v[u]
        e, lost = 0.0, -np.inf
        if x != x:
            for j in range(k):
                row[j] = 1
        else:
            top = -np.inf
            for j in range(k):
                logs[j] = log_density(P.steps[s, FORMULA], P.steps[s, CATEGORIES], x, T[at + j], T[at + stride + j])
                top = max(top, logs[j])
            if top == -np.inf:
                for j in range(k):
                    row[j] = 0
            else:
                e = math.floor(top / LN2)
                for j in range(k):
                    d = logs[j] - e * LN2
                    if d < drop * LN2:
                        row[j] = 0
                        if logs[j] > -np.inf:
                            lost = float(drop)
                    else:
                        row[j] = math.exp(d)
        for j in range(k, stride):
            row[j] = 0
        E[B.at[s, ROW] + u] = e
        L[B.at[s, ROW] + u] = lost


@njit(cache=True, fastmath=FAST, boundscheck=False)
def _settle(row, k, e, lost, dropped, drop, keep, rescale):
    """After a product: flush what underflowed, rescale, and compare what was kept with what was lost. Returns (e, lost)."""
    top = row[0]
    for j in range(k):
        top = max(top, row[j])
    if top == 0:
        return 0.0, (np.inf if (dropped or lost > -np.inf) else -np.inf)
    if dropped:
        lost = max(lost, float(drop))
    size = _exponent(top)
    if lost > -np.inf and size - keep < lost:
        lost = np.inf
    if size < rescale:
        factor = row.dtype.type(math.ldexp(1.0, -size))
        for j in range(k):
            row[j] *= factor
        e += size
        lost -= size
    return e, lost


@njit(cache=True, fastmath=FAST, boundscheck=False)
def _multiply_into(row, other, k, floor):
    """Row *= other, dropping entries below `floor`. Returns (largest entry, whether something positive was dropped)."""
    top = row.dtype.type(0)
    dropped = 0
    for j in range(k):
        a, b = row[j], other[j]
        x = a * b
        small = x < floor
        dropped += small & (a > 0) & (b > 0)
        x = row.dtype.type(0) if small else x
        row[j] = x
        top = max(top, x)
    return top, dropped > 0


@njit(cache=True, boundscheck=False)
def evaluate_hadamard(P, B, V, E, L, s, lo, hi):
    v = view(V, B, P, s)
    k, stride = P.steps[s, WIDTH], P.steps[s, STRIDE]
    drop, keep, rescale = limits(V)
    floor = V.dtype.type(math.ldexp(1.0, drop))
    first, last = P.steps[s, CHILD], P.steps[s, CHILD_END]
    for u in range(lo, hi):
        row = v[u]
        c = P.child[first]
        r = child_row(P, B, s, c, u)
        start = B.at[c, VALUE] + r * P.steps[c, STRIDE]
        for j in range(stride):
            row[j] = V[start + j]
        e, lost = E[B.at[c, ROW] + r], L[B.at[c, ROW] + r]
        dropped = False
        for q in range(first + 1, last):
            c = P.child[q]
            r = child_row(P, B, s, c, u)
            start = B.at[c, VALUE] + r * P.steps[c, STRIDE]
            top, some = _multiply_into(row, V[start : start + k], k, floor)
            e += E[B.at[c, ROW] + r]
            lost = max(lost, L[B.at[c, ROW] + r])
            dropped |= some
            if top < 1e-6 and q + 1 < last:  # hubs: settle between children
                e, lost = _settle(row, k, e, lost, dropped, drop, keep, rescale)
                dropped = False
        e, lost = _settle(row, k, e, lost, dropped, drop, keep, rescale)
        E[B.at[s, ROW] + u] = e
        L[B.at[s, ROW] + u] = lost


@njit(cache=True, fastmath=FAST, boundscheck=False)
def evaluate_hadamard_scalar(P, B, V, E, L, s, lo, hi):
    """The same for width 1, row by row in one loop; nothing can be dropped, since a scalar is its own largest entry."""
    base = B.at[s, VALUE]
    rescale = limits(V)[2]
    small = V.dtype.type(math.ldexp(1.0, rescale))
    for u in range(lo, hi):
        V[base + u] = 1
        E[B.at[s, ROW] + u] = 0
        L[B.at[s, ROW] + u] = -np.inf
    whole = B.at[s, ROWS] == len(B.rows)
    for q in range(P.steps[s, CHILD], P.steps[s, CHILD_END]):
        c = P.child[q]
        at, at_row = B.at[c, VALUE], B.at[c, ROW]
        low = V.dtype.type(np.inf)
        where = B.share[0, P.steps[c, SCOPE]]
        if whole and B.at[c, ROWS] == len(B.rows):
            for u in range(lo, hi):
                V[base + u] *= V[at + u]
                low = min(low, V[base + u])
                E[B.at[s, ROW] + u] += E[at_row + u]
                L[B.at[s, ROW] + u] = max(L[B.at[s, ROW] + u], L[at_row + u])
        else:
            representative = B.share[1, P.steps[s, SCOPE]]
            for u in range(lo, hi):
                r = where[representative[u]]
                V[base + u] *= V[at + r]
                low = min(low, V[base + u])
                E[B.at[s, ROW] + u] += E[at_row + r]
                L[B.at[s, ROW] + u] = max(L[B.at[s, ROW] + u], L[at_row + r])
        if low < small:
            _rescale_scalars(V, E, L, base, B.at[s, ROW], lo, hi, small)


@njit(cache=True, boundscheck=False)
def _rescale_scalars(V, E, L, base, at_row, lo, hi, small):
    for u in range(lo, hi):
        x = V[base + u]
        if x == 0:
            E[at_row + u] = 0
            L[at_row + u] = np.inf if L[at_row + u] > -np.inf else -np.inf
        elif x < small:
            size = _exponent(x)
            V[base + u] = x * V.dtype.type(math.ldexp(1.0, -size))
            E[at_row + u] += size
            L[at_row + u] -= size


@njit(cache=True, fastmath=FAST, boundscheck=False)
def evaluate_kronecker(P, B, V, E, L, s, lo, hi):
    v = view(V, B, P, s)
    drop, keep, rescale = limits(V)
    floor = V.dtype.type(math.ldexp(1.0, drop))
    a, b = P.child[P.steps[s, CHILD]], P.child[P.steps[s, CHILD] + 1]
    ka, kb = P.steps[a, WIDTH], P.steps[b, WIDTH]
    va, vb = view(V, B, P, a), view(V, B, P, b)
    for u in range(lo, hi):
        ra, rb = child_row(P, B, s, a, u), child_row(P, B, s, b, u)
        row_a, row_b, row = va[ra], vb[rb], v[u]
        top_b = V.dtype.type(0)
        low_b = V.dtype.type(np.inf)
        for j in range(kb):
            top_b = max(top_b, row_b[j])
            if row_b[j] > 0:
                low_b = min(low_b, row_b[j])
        top_a = V.dtype.type(0)
        low_a = V.dtype.type(np.inf)
        for i in range(ka):
            x = row_a[i]
            top_a = max(top_a, x)
            if x > 0:
                low_a = min(low_a, x)
            for j in range(kb):
                row[i * kb + j] = x * row_b[j]
        for j in range(ka * kb, P.steps[s, STRIDE]):
            row[j] = 0
        lost = max(L[B.at[a, ROW] + ra], L[B.at[b, ROW] + rb])
        e = E[B.at[a, ROW] + ra] + E[B.at[b, ROW] + rb]
        dropped = top_a * top_b > 0 and low_a * low_b < floor
        if dropped:
            for j in range(ka * kb):
                if row[j] < floor:
                    row[j] = 0
        if dropped or lost > -np.inf or top_a * top_b < 1e-3:
            e, lost = _settle(row, ka * kb, e, lost, dropped, drop, keep, rescale)
        E[B.at[s, ROW] + u] = e
        L[B.at[s, ROW] + u] = lost


@njit(cache=True, boundscheck=False)
def evaluate_join(P, B, V, E, L, s, lo, hi):
    v = view(V, B, P, s)
    drop = limits(V)[0]
    floor = V.dtype.type(math.ldexp(1.0, drop))
    first, last = P.steps[s, CHILD], P.steps[s, CHILD_END]
    for u in range(lo, hi):
        e = -np.inf
        for q in range(first, last):
            c = P.child[q]
            if _any_positive(V, B.at[c, VALUE] + u * P.steps[c, STRIDE], P.steps[c, WIDTH]):
                e = max(e, E[B.at[c, ROW] + u])
        lost = -np.inf
        start = 0
        for q in range(first, last):
            c = P.child[q]
            at = B.at[c, VALUE] + u * P.steps[c, STRIDE]
            shift = E[B.at[c, ROW] + u] - e if e > -np.inf else 0.0
            shift = min(shift, 0.0)
            factor = V.dtype.type(math.ldexp(1.0, int(max(shift, -2000.0))))
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


@njit(cache=True, boundscheck=False)
def _any_positive(V, at, k):
    top = V.dtype.type(0)
    for j in range(k):
        top = max(top, V[at + j])
    return top > 0


@njit(cache=True, fastmath=FAST, boundscheck=False)
def evaluate_dense_sum(P, B, W, V, E, L, s, lo, hi):
    c = P.child[P.steps[s, CHILD]]
    v, p = view(V, B, P, s), view(V, B, P, c)
    k, stride, n_in = P.steps[s, WIDTH], P.steps[s, STRIDE], P.steps[c, STRIDE]
    w = W[P.steps[s, WEIGHT] : P.steps[s, WEIGHT] + k * n_in].reshape(k, n_in)
    multiply_transposed(p, w, v, lo, hi)
    drop = limits(V)[0]
    floor = V.dtype.type(math.ldexp(1.0, drop))
    for u in range(lo, hi):
        row = v[u]
        low = row[0]
        for j in range(k):
            low = min(low, row[j])
        for j in range(k, stride):
            row[j] = 0
        lost = L[B.at[c, ROW] + u]
        if low < floor and _flush(row, w, p[u], k, floor):
            lost = max(lost, float(drop))
        E[B.at[s, ROW] + u] = E[B.at[c, ROW] + u]
        L[B.at[s, ROW] + u] = lost


@njit(cache=True, boundscheck=False)
def _flush(row, w, p, k, floor):
    """Set entries below floor to zero; whether one of them was really positive."""
    lost = False
    for n in range(k):
        if row[n] < floor:
            row[n] = 0
            if not lost:
                for c in range(len(p)):
                    if p[c] > 0 and w[n, c] > 0:
                        lost = True
                        break
    return lost


@njit(cache=True, fastmath=FAST, boundscheck=False)
def evaluate_scalar_sum(P, B, W, V, E, L, s, lo, hi):
    base, at_row, at_weight = B.at[s, VALUE], B.at[s, ROW], P.steps[s, WEIGHT]
    first, last = P.steps[s, CHILD], P.steps[s, CHILD_END]
    plain = True
    for q in range(first, last):
        c = B.at[P.child[q], ROW]
        worst = 0.0
        for u in range(lo, hi):
            worst = max(worst, abs(E[c + u]))
            plain &= L[c + u] == -np.inf
        plain &= worst == 0
    if plain:
        for u in range(lo, hi):
            V[base + u] = 0
            E[at_row + u] = 0
            L[at_row + u] = -np.inf
        for q in range(first, last):
            at = B.at[P.child[q], VALUE]
            weight = W[at_weight + q - first]
            for u in range(lo, hi):
                V[base + u] += weight * V[at + u]
    else:
        _scalar_sum_scaled(P, B, W, V, E, L, s, lo, hi)


@njit(cache=True, boundscheck=False)
def _scalar_sum_scaled(P, B, W, V, E, L, s, lo, hi):
    base, at_row, at_weight = B.at[s, VALUE], B.at[s, ROW], P.steps[s, WEIGHT]
    first, last = P.steps[s, CHILD], P.steps[s, CHILD_END]
    keep = limits(V)[1]
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
            total += W[at_weight + q - first] * V[B.at[c, VALUE] + u] * math.ldexp(1.0, int(max(shift, -2000.0)))
            if L[B.at[c, ROW] + u] > -np.inf:
                lost = max(lost, L[B.at[c, ROW] + u] + shift)
        V[base + u] = total
        E[at_row + u] = e if total > 0 else 0.0
        if total > 0:
            size = _exponent(total)
            if size < limits(V)[2]:
                V[base + u] = total * math.ldexp(1.0, -size)
                E[at_row + u] += size
                lost -= size
                size = 0
            if lost > -np.inf and size - keep < lost:
                lost = np.inf
        elif lost > -np.inf:
            lost = np.inf
        L[at_row + u] = lost


@njit(cache=True, boundscheck=False)
def evaluate_mixture(P, B, W, V, E, L, s, lo, hi):
    v = view(V, B, P, s)
    k, stride = P.steps[s, WIDTH], P.steps[s, STRIDE]
    drop = limits(V)[0]
    floor = V.dtype.type(math.ldexp(1.0, drop))
    first, last = P.steps[s, CHILD], P.steps[s, CHILD_END]
    for u in range(lo, hi):
        e = -np.inf
        for q in range(first, last):
            c = P.child[q]
            if _any_positive(V, B.at[c, VALUE] + u * P.steps[c, STRIDE], k):
                e = max(e, E[B.at[c, ROW] + u])
        row = v[u]
        for j in range(stride):
            row[j] = 0
        lost = -np.inf
        if e > -np.inf:
            for q in range(first, last):
                c = P.child[q]
                shift = min(E[B.at[c, ROW] + u] - e, 0.0)
                factor = V.dtype.type(math.ldexp(1.0, int(max(shift, -2000.0))))
                at, at_weight = B.at[c, VALUE] + u * stride, P.steps[s, WEIGHT] + (q - first) * stride
                for j in range(k):
                    row[j] += W[at_weight + j] * V[at + j] * factor
                if L[B.at[c, ROW] + u] > -np.inf:
                    lost = max(lost, L[B.at[c, ROW] + u] + shift)
            for j in range(k):
                if row[j] < floor:
                    row[j] = 0
                    for q in range(first, last):
                        c = P.child[q]
                        if V[B.at[c, VALUE] + u * stride + j] > 0 and W[P.steps[s, WEIGHT] + (q - first) * stride + j] > 0:
                            lost = max(lost, float(drop))
        else:
            for q in range(first, last):
                if L[B.at[P.child[q], ROW] + u] > -np.inf:
                    lost = np.inf
        E[B.at[s, ROW] + u] = e if e > -np.inf else 0.0
        L[B.at[s, ROW] + u] = lost
