"""The upward pass, in the linear domain.

A step's value for sub-row u is `V[u, :] · 2^E[u]`, with E a whole number: powers of two cost no rounding, so that a shared
and an unshared evaluation give the same bits. Products are rescaled when their largest entry gets small.

An entry far below its row's largest is dropped (set to zero). Dropping is harmless unless later evidence contradicts
everything that was kept; `L[u]` is the logarithm (base 2) of the largest amount dropped so far in units of V, `-inf` if none.
Where what was kept shrinks to the size of what was dropped, L becomes `+inf`: the row must be evaluated in the log domain.
"""

import math

import numpy as np
from numba import njit, prange

from flatpc.engine._kernels.dense import FAST, multiply_transposed
from flatpc.engine._kernels.items import child_row, view

LN2 = math.log(2.0)
LOG_2PI = math.log(2 * math.pi)
_TABLE, _FORMULA, _HADAMARD, _KRONECKER, _DENSE_SUM, _SCALAR_SUM, _MIXTURE, _JOIN = range(8)
_GAUSSIAN, _BINOMIAL, _POISSON = range(3)


@njit(cache=True)
def limits(V):
    """(exponent below which an entry is dropped, bits that must remain between kept and dropped, exponent that asks for rescaling)"""
    if V.itemsize == 4:
        return -80, 30, -20
    return -700, 60, -200


@njit(cache=True)
def _exponent(x):
    return math.frexp(x)[1]


@njit(cache=True)
def log_density(formula, n, x, a, b):
    """Log-density of a FORMULA input at x; a, b are the unit's parameters."""
    if formula == _GAUSSIAN:
        d = x - a
        return -0.5 * (d * d / b + math.log(b) + LOG_2PI)
    if formula == _BINOMIAL:
        out = math.lgamma(n + 1.0) - math.lgamma(x + 1.0) - math.lgamma(n - x + 1.0)
        if x > 0:
            out += x * math.log(a) if a > 0 else -np.inf
        if x < n:
            out += (n - x) * math.log1p(-a) if a < 1 else -np.inf
        return out
    return x * math.log(a) - a - math.lgamma(x + 1.0)


@njit(cache=True, fastmath=FAST, boundscheck=False)
def _table(P, B, T, V, E, L, s, lo, hi):
    v = view(V, B, P, s)
    k, stride, at = P.width[s], P.stride[s], P.table[s]
    for u in range(lo, hi):
        x = B.X[B.rows[B.representative[P.scope[s], u]], P.variable[s]]
        row = v[u]
        if x != x:
            for j in range(k):
                row[j] = 1
        else:
            start = at + np.int64(x) * stride
            for j in range(k):
                row[j] = T[start + j]
        for j in range(k, stride):
            row[j] = 0
        E[B.row_ptr[s] + u] = 0
        L[B.row_ptr[s] + u] = -np.inf


@njit(cache=True, boundscheck=False)
def _formula(P, B, T, V, E, L, s, lo, hi):
    v = view(V, B, P, s)
    k, stride, at = P.width[s], P.stride[s], P.table[s]
    drop = limits(V)[0]
    logs = np.empty(k, np.float64)
    for u in range(lo, hi):
        x = B.X[B.rows[B.representative[P.scope[s], u]], P.variable[s]]
        row = v[u]
        e, lost = 0.0, -np.inf
        if x != x:
            for j in range(k):
                row[j] = 1
        else:
            top = -np.inf
            for j in range(k):
                logs[j] = log_density(P.formula[s], P.categories[s], x, T[at + j], T[at + stride + j])
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
        E[B.row_ptr[s] + u] = e
        L[B.row_ptr[s] + u] = lost


@njit(cache=True, fastmath=FAST, boundscheck=False)
def _settle(row, k, e, lost, dropped, drop, keep, rescale):
    """After a product: flush what underflowed, rescale, and compare what was kept with what was lost. Returns (e, lost)."""
    top = row[0]
    low = row[0]
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
    """row *= other, dropping entries below `floor`. Returns (largest entry, whether something positive was dropped)."""
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
def _hadamard(P, B, V, E, L, s, lo, hi):
    v = view(V, B, P, s)
    k, stride = P.width[s], P.stride[s]
    drop, keep, rescale = limits(V)
    floor = V.dtype.type(math.ldexp(1.0, drop))
    first, last = P.child_ptr[s], P.child_ptr[s + 1]
    for u in range(lo, hi):
        row = v[u]
        c = P.child[first]
        r = child_row(P, B, s, c, u)
        start = B.value_ptr[c] + r * P.stride[c]
        for j in range(stride):
            row[j] = V[start + j]
        e, lost = E[B.row_ptr[c] + r], L[B.row_ptr[c] + r]
        dropped = False
        for q in range(first + 1, last):
            c = P.child[q]
            r = child_row(P, B, s, c, u)
            start = B.value_ptr[c] + r * P.stride[c]
            top, some = _multiply_into(row, V[start : start + k], k, floor)
            e += E[B.row_ptr[c] + r]
            lost = max(lost, L[B.row_ptr[c] + r])
            dropped |= some
            if top < 1e-6 and q + 1 < last:  # hubs: settle between children
                e, lost = _settle(row, k, e, lost, dropped, drop, keep, rescale)
                dropped = False
        e, lost = _settle(row, k, e, lost, dropped, drop, keep, rescale)
        E[B.row_ptr[s] + u] = e
        L[B.row_ptr[s] + u] = lost


@njit(cache=True, fastmath=FAST, boundscheck=False)
def _hadamard_scalar(P, B, V, E, L, s, lo, hi):
    """The same for width 1, row by row in one loop; nothing can be dropped, since a scalar is its own largest entry."""
    base = B.value_ptr[s]
    rescale = limits(V)[2]
    small = V.dtype.type(math.ldexp(1.0, rescale))
    for u in range(lo, hi):
        V[base + u] = 1
        E[B.row_ptr[s] + u] = 0
        L[B.row_ptr[s] + u] = -np.inf
    whole = B.count[P.scope[s]] == len(B.rows)
    for q in range(P.child_ptr[s], P.child_ptr[s + 1]):
        c = P.child[q]
        at, at_row = B.value_ptr[c], B.row_ptr[c]
        low = V.dtype.type(np.inf)
        where = B.where[P.scope[c]]
        if whole and B.count[P.scope[c]] == len(B.rows):
            for u in range(lo, hi):
                V[base + u] *= V[at + u]
                low = min(low, V[base + u])
                E[B.row_ptr[s] + u] += E[at_row + u]
                L[B.row_ptr[s] + u] = max(L[B.row_ptr[s] + u], L[at_row + u])
        else:
            representative = B.representative[P.scope[s]]
            for u in range(lo, hi):
                r = where[representative[u]]
                V[base + u] *= V[at + r]
                low = min(low, V[base + u])
                E[B.row_ptr[s] + u] += E[at_row + r]
                L[B.row_ptr[s] + u] = max(L[B.row_ptr[s] + u], L[at_row + r])
        if low < small:
            _rescale_scalars(V, E, L, base, B.row_ptr[s], lo, hi, small)


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
def _kronecker(P, B, V, E, L, s, lo, hi):
    v = view(V, B, P, s)
    drop, keep, rescale = limits(V)
    floor = V.dtype.type(math.ldexp(1.0, drop))
    a, b = P.child[P.child_ptr[s]], P.child[P.child_ptr[s] + 1]
    ka, kb = P.width[a], P.width[b]
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
        for j in range(ka * kb, P.stride[s]):
            row[j] = 0
        lost = max(L[B.row_ptr[a] + ra], L[B.row_ptr[b] + rb])
        e = E[B.row_ptr[a] + ra] + E[B.row_ptr[b] + rb]
        dropped = top_a * top_b > 0 and low_a * low_b < floor
        if dropped:
            for j in range(ka * kb):
                if row[j] < floor:
                    row[j] = 0
        if dropped or lost > -np.inf or top_a * top_b < 1e-3:
            e, lost = _settle(row, ka * kb, e, lost, dropped, drop, keep, rescale)
        E[B.row_ptr[s] + u] = e
        L[B.row_ptr[s] + u] = lost


@njit(cache=True, boundscheck=False)
def _join(P, B, V, E, L, s, lo, hi):
    v = view(V, B, P, s)
    drop = limits(V)[0]
    floor = V.dtype.type(math.ldexp(1.0, drop))
    first, last = P.child_ptr[s], P.child_ptr[s + 1]
    for u in range(lo, hi):
        e = -np.inf
        for q in range(first, last):
            c = P.child[q]
            if _any_positive(V, B.value_ptr[c] + u * P.stride[c], P.width[c]):
                e = max(e, E[B.row_ptr[c] + u])
        lost = -np.inf
        start = 0
        for q in range(first, last):
            c = P.child[q]
            at = B.value_ptr[c] + u * P.stride[c]
            shift = E[B.row_ptr[c] + u] - e if e > -np.inf else 0.0
            shift = min(shift, 0.0)
            factor = V.dtype.type(math.ldexp(1.0, int(max(shift, -2000.0))))
            for j in range(P.width[c]):
                x = V[at + j] * factor
                if x < floor and V[at + j] > 0:
                    x = V.dtype.type(0)
                    lost = max(lost, float(drop))
                v[u, start + j] = x
            lost = max(lost, L[B.row_ptr[c] + u] + (shift if L[B.row_ptr[c] + u] < np.inf else 0.0))
            start += P.width[c]
        for j in range(start, P.stride[s]):
            v[u, j] = 0
        E[B.row_ptr[s] + u] = e if e > -np.inf else 0.0
        L[B.row_ptr[s] + u] = lost


@njit(cache=True, boundscheck=False)
def _any_positive(V, at, k):
    for j in range(k):
        if V[at + j] > 0:
            return True
    return False


@njit(cache=True, fastmath=FAST, boundscheck=False)
def _dense_sum(P, B, W, V, E, L, s, lo, hi):
    if P.inlined[s] >= 0:
        if P.width[P.inlined[s]] == 1:
            _hadamard_scalar(P, B, V, E, L, P.inlined[s], lo, hi)
        else:
            _hadamard(P, B, V, E, L, P.inlined[s], lo, hi)
    c = P.child[P.child_ptr[s]]
    v, p = view(V, B, P, s), view(V, B, P, c)
    k, stride, n_in = P.width[s], P.stride[s], P.stride[c]
    w = W[P.weight[s] : P.weight[s] + k * n_in].reshape(k, n_in)
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
        lost = L[B.row_ptr[c] + u]
        if low < floor and _flush(row, w, p[u], k, floor):
            lost = max(lost, float(drop))
        E[B.row_ptr[s] + u] = E[B.row_ptr[c] + u]
        L[B.row_ptr[s] + u] = lost


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
def _scalar_sum(P, B, W, V, E, L, s, lo, hi):
    base, at_row, at_weight = B.value_ptr[s], B.row_ptr[s], P.weight[s]
    first, last = P.child_ptr[s], P.child_ptr[s + 1]
    plain = True
    for q in range(first, last):
        c = B.row_ptr[P.child[q]]
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
            at = B.value_ptr[P.child[q]]
            weight = W[at_weight + q - first]
            for u in range(lo, hi):
                V[base + u] += weight * V[at + u]
    else:
        _scalar_sum_scaled(P, B, W, V, E, L, s, lo, hi)


@njit(cache=True, boundscheck=False)
def _scalar_sum_scaled(P, B, W, V, E, L, s, lo, hi):
    base, at_row, at_weight = B.value_ptr[s], B.row_ptr[s], P.weight[s]
    first, last = P.child_ptr[s], P.child_ptr[s + 1]
    keep = limits(V)[1]
    for u in range(lo, hi):
        e = -np.inf
        for q in range(first, last):
            c = P.child[q]
            if V[B.value_ptr[c] + u] > 0 and W[at_weight + q - first] > 0:
                e = max(e, E[B.row_ptr[c] + u])
        total, lost = 0.0, -np.inf
        for q in range(first, last):
            c = P.child[q]
            shift = min(E[B.row_ptr[c] + u] - e, 0.0) if e > -np.inf else 0.0
            total += W[at_weight + q - first] * V[B.value_ptr[c] + u] * math.ldexp(1.0, int(max(shift, -2000.0)))
            if L[B.row_ptr[c] + u] > -np.inf:
                lost = max(lost, L[B.row_ptr[c] + u] + shift)
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
def _mixture(P, B, W, V, E, L, s, lo, hi):
    v = view(V, B, P, s)
    k, stride = P.width[s], P.stride[s]
    drop = limits(V)[0]
    floor = V.dtype.type(math.ldexp(1.0, drop))
    first, last = P.child_ptr[s], P.child_ptr[s + 1]
    for u in range(lo, hi):
        e = -np.inf
        for q in range(first, last):
            c = P.child[q]
            if _any_positive(V, B.value_ptr[c] + u * P.stride[c], k):
                e = max(e, E[B.row_ptr[c] + u])
        row = v[u]
        for j in range(stride):
            row[j] = 0
        lost = -np.inf
        if e > -np.inf:
            for q in range(first, last):
                c = P.child[q]
                shift = min(E[B.row_ptr[c] + u] - e, 0.0)
                factor = V.dtype.type(math.ldexp(1.0, int(max(shift, -2000.0))))
                at, at_weight = B.value_ptr[c] + u * stride, P.weight[s] + (q - first) * stride
                for j in range(k):
                    row[j] += W[at_weight + j] * V[at + j] * factor
                if L[B.row_ptr[c] + u] > -np.inf:
                    lost = max(lost, L[B.row_ptr[c] + u] + shift)
            for j in range(k):
                if row[j] < floor:
                    row[j] = 0
                    for q in range(first, last):
                        c = P.child[q]
                        if V[B.value_ptr[c] + u * stride + j] > 0 and W[P.weight[s] + (q - first) * stride + j] > 0:
                            lost = max(lost, float(drop))
        else:
            for q in range(first, last):
                if L[B.row_ptr[P.child[q]] + u] > -np.inf:
                    lost = np.inf
        E[B.row_ptr[s] + u] = e if e > -np.inf else 0.0
        L[B.row_ptr[s] + u] = lost


@njit(cache=True, boundscheck=False)
def _evaluate(P, B, W, T, V, E, L, s, lo, hi):
    kind = P.kind[s]
    if kind == _DENSE_SUM:
        _dense_sum(P, B, W, V, E, L, s, lo, hi)
    elif kind == _SCALAR_SUM:
        _scalar_sum(P, B, W, V, E, L, s, lo, hi)
    elif kind == _HADAMARD:
        if P.width[s] == 1:
            _hadamard_scalar(P, B, V, E, L, s, lo, hi)
        else:
            _hadamard(P, B, V, E, L, s, lo, hi)
    elif kind == _TABLE:
        _table(P, B, T, V, E, L, s, lo, hi)
    elif kind == _FORMULA:
        _formula(P, B, T, V, E, L, s, lo, hi)
    elif kind == _KRONECKER:
        _kronecker(P, B, V, E, L, s, lo, hi)
    elif kind == _JOIN:
        _join(P, B, V, E, L, s, lo, hi)
    else:
        _mixture(P, B, W, V, E, L, s, lo, hi)


@njit(cache=True, parallel=True, boundscheck=False)
def forward(P, B, items, W, T, V, E, L, n_threads):
    """Fill V, E and L for every step of the batch."""
    for level in range(len(items.level_ptr) - 1):
        first, last = items.level_ptr[level], items.level_ptr[level + 1]
        for t in prange(n_threads):
            for i in range(first, last):
                if items.thread[i] == t:
                    _evaluate(P, B, W, T, V, E, L, items.step[i], items.lo[i], items.hi[i])
