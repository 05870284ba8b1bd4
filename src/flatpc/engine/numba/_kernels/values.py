"""The upward pass, in the linear domain.

A step's value for sub-row u is `V[u, :] · 2^E[u]`, with E a whole number: powers of two cost no rounding, so that a shared
and an unshared evaluation give the same bits. Products are rescaled when their largest entry gets small.

An entry far below its row's largest is dropped (set to zero). Whether that was harmless shows at the next sum: `L[u]` is the
logarithm (base 2) of a bound on every dropped entry, in units of V, and `-inf` if there is none. A sum's output that is not well
above what the dropped entries could have added to it is dropped as well, with a new bound; all others are as good as exact, and
no later evidence can change that. Where no output survives, L is `+inf`: the row must be evaluated in the log domain.
"""

import math

import numpy as np

from flatpc.engine.numba._kernels.columns import (
    BINOMIAL,
    CATEGORIES,
    CHILD,
    CHILD_END,
    FORMULA,
    GAUSSIAN,
    ROW,
    ROWS,
    SCALED,
    SCOPE,
    STRIDE,
    TABLE,
    VALUE,
    VARIABLE,
    WEIGHT,
    WIDTH,
)
from flatpc.engine.numba._kernels.compiling import inner
from flatpc.engine.numba._kernels.dense import FAST, multiply_transposed
from flatpc.engine.numba._kernels.rows import (
    add_row,
    add_scaled_row,
    convert_row,
    copy_row,
    extremes,
    fill_row,
    multiply_rows,
    multiply_three_rows,
    scale_row,
    set_scaled_row,
    smallest,
    times_row,
)
from flatpc.engine.numba._kernels.work_items import child_row, view

LN2 = math.log(2.0)
LOG_2PI = math.log(2 * math.pi)
_DOUBLE_EXPONENT = 1000
DROP = {"float32": -100, "float64": -700}
"""Exponents of entries that are dropped, as `limits` has them."""


@inner
def limits(V):
    """Exponents: entries below the first are dropped, what is kept exceeds dropped by the second, below the third we rescale."""
    if V.itemsize == 4:
        return -100, 22, -20
    return -700, 55, -200


@inner
def _exponent(x):
    return math.frexp(x)[1]


MANY = 1e5
"""Counts beyond which Stirling's formula with one correction is exact to all digits."""
FAR = -1e12


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


@inner
def evaluate_table(P, B, T, V, E, L, s, lo, hi):
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
                size = max(_exponent(top), -1000)
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


@inner
def evaluate_formula(P, B, T, V, E, L, s, lo, hi):
    v = view(V, B, P, s)
    k, stride, at = P.steps[s, WIDTH], P.steps[s, STRIDE], P.steps[s, TABLE]
    drop = limits(V)[0]
    gaussian = P.steps[s, FORMULA] == GAUSSIAN
    logs, precision, constant = np.empty(k), np.empty(k), np.empty(k)
    if gaussian:
        for j in range(k):
            precision[j] = 0.5 / T[at + stride + j]
            constant[j] = -0.5 * (math.log(T[at + stride + j]) + LOG_2PI)
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
                if gaussian:
                    d = x - T[at + j]
                    logs[j] = constant[j] - d * d * precision[j]
                    top = max(top, logs[j])
                    continue
                logs[j] = log_density(P.steps[s, FORMULA], P.steps[s, CATEGORIES], x, T[at + j], T[at + stride + j])
                top = max(top, logs[j])
            if top == -np.inf:
                for j in range(k):
                    row[j] = 0
            else:
                e = np.floor(top / LN2) + 1.0  # no value exceeds 1, so that no product of many overflows
                # Far out e · ln 2 is rounded by more than 1, and the largest value is as good as 1.
                base = e * LN2 if top > FAR else top
                for j in range(k):
                    d = logs[j] - base
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


@inner
def evaluate_hadamard(P, B, V, E, L, s, lo, hi):
    k, stride = P.steps[s, WIDTH], P.steps[s, STRIDE]
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
                    top, low = multiply_rows(V, to, V, left, V, right, k, stride)
                else:
                    top, low = multiply_three_rows(V, to, V, left, V, middle, V, right, k, stride)
                left, middle = to, -1
                if not low >= floor:
                    fine = False
                    break
                if top < small:
                    size = _exponent(top)
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
    mantissa, exponent = np.ones(k), np.zeros(k)
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
                V[to + j] = math.ldexp(mantissa[j], int(exponent[j] - top))
            else:
                lost = max(lost, float(drop))
    E[B.at[s, ROW] + u] = e + top
    L[B.at[s, ROW] + u] = lost


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


@inner
def evaluate_hadamard_scalar(P, B, V, E, L, s, lo, hi):
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
            size = _exponent(x)
            V[base + u] = x * V.dtype.type(math.ldexp(1.0, -size))
            E[at_row + u] += size


@inner
def evaluate_kronecker(P, B, V, E, L, s, lo, hi):
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
            size_a, size_b = _exponent(top_a), _exponent(top_b)
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


@inner
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


@inner
def _any_positive(V, at, k):
    top = V.dtype.type(0)
    for j in range(k):
        top = max(top, V[at + j])
    return top > 0


@inner(fastmath=FAST)
def evaluate_dense_sum(P, B, W, V, E, L, s, lo, hi):
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
            lost = _sift(V, at, w, p[u], k, lost)
        L[B.at[s, ROW] + u] = lost


@inner
def _sift(V, at, w, p, k, lost):
    """Drop outputs that dropped entries could have changed, and those that underflowed; returns the new bound."""
    drop, keep, _ = limits(V)
    if lost == np.inf:
        return lost
    threshold = math.ldexp(1.0, int(max(float(drop), min(lost + keep, 100.0))))
    bound, kept = -np.inf, False
    for n in range(k):
        x = V[at + n]
        if x >= threshold:
            kept = True
            continue
        V[at + n] = 0
        if x > 0:
            bound = max(bound, max(float(_exponent(x)), lost) + 1.0)
        elif lost > -np.inf:
            bound = max(bound, max(lost, float(drop)))
        elif _underflowed(w[n], p):
            bound = max(bound, float(drop))
    if not kept and bound > -np.inf:
        return np.inf
    return bound


@inner
def _underflowed(w, p):
    """Whether Σ w p is positive."""
    for c in range(len(p)):  # noqa: SIM110
        if p[c] > 0 and w[c] > 0:
            return True
    return False


@inner
def evaluate_scalar_sum(P, B, W, V, E, L, s, lo, hi):
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
            total += W[at_weight + q - first] * V[B.at[c, VALUE] + u] * math.ldexp(1.0, int(max(shift, -2000.0)))
            if L[B.at[c, ROW] + u] == np.inf:
                lost = np.inf
        if e > -np.inf and total < floor:
            lost = np.inf
        V[base + u] = total
        E[at_row + u] = e if total > 0 else 0.0
        if total > 0:
            size = _exponent(total)
            if size < limits(V)[2]:
                V[base + u] = total * math.ldexp(1.0, -size)
                E[at_row + u] += size
        L[at_row + u] = lost


@inner
def _sift_mixture(P, B, W, V, s, u, lost):
    """The same as `_sift` for a mixture's outputs, each of which has its own edges."""
    drop, keep, _ = limits(V)
    if lost == np.inf:
        return lost
    k, stride = P.steps[s, WIDTH], P.steps[s, STRIDE]
    at = B.at[s, VALUE] + u * stride
    threshold = math.ldexp(1.0, int(max(float(drop), min(lost + keep, 100.0))))
    bound, kept = -np.inf, False
    for j in range(k):
        x = V[at + j]
        if x >= threshold:
            kept = True
            continue
        V[at + j] = 0
        if x > 0:
            bound = max(bound, max(float(_exponent(x)), lost) + 1.0)
        elif lost > -np.inf:
            bound = max(bound, max(lost, float(drop)))
        else:
            for q in range(P.steps[s, CHILD], P.steps[s, CHILD_END]):
                weight = W[P.steps[s, WEIGHT] + (q - P.steps[s, CHILD]) * stride + j]
                if weight > 0 and V[B.at[P.child[q], VALUE] + u * stride + j] > 0:
                    bound = max(bound, float(drop))
    if not kept and bound > -np.inf:
        return np.inf
    return bound


@inner
def evaluate_mixture(P, B, W, V, E, L, s, lo, hi):
    v = view(V, B, P, s)
    k, stride = P.steps[s, WIDTH], P.steps[s, STRIDE]
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
            lost = _sift_mixture(P, B, W, V, s, u, lost)
        else:
            for q in range(first, last):
                if L[B.at[P.child[q], ROW] + u] > -np.inf:
                    lost = np.inf
        E[B.at[s, ROW] + u] = e if e > -np.inf else 0.0
        L[B.at[s, ROW] + u] = lost
