"""The downward pass: adjoints and flows.

With F a unit's flow and p its value, sums and mixtures store the adjoint F/p (in units of the scaled value V), inputs and
Hadamard products the flow F itself; products pass flow on unchanged, so no division is needed below a product except where
a sum needs its adjoint. A Kronecker product stores adjoints.

Every step *pulls* from its parents, so that no two items write the same numbers; only a dense sum *pushes* to its one child,
because that is when its block of weights is in cache, and then updates the block in place.

`shared`: rows are the distinct sub-rows and flow is summed over the batch rows that have them. Not `shared`: one row per
batch row, for what is not linear in a row's flow.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from flatpc.engine._kernels.dense import FAST, accumulate_outer, multiply
from flatpc.engine._kernels.items import ROWS_PER_ITEM, view
from flatpc.engine._kernels.update import update_row

_TABLE, _FORMULA, _HADAMARD, _KRONECKER, _DENSE_SUM, _SCALAR_SUM, _MIXTURE, _JOIN = range(8)
ADJOINTS, FLOWS, FUSED = range(3)
"""What happens to weights: nothing; their flows are added to an array; they are updated at once."""


class Rule(NamedTuple):
    """How weights are updated when the pass is FUSED; `mu` has one entry per step."""

    kind: int
    mu: NDArray[np.float64]
    pseudocount: float
    alpha: float
    allowed: NDArray[np.uint8]
    """Empty, or for every weight whether its edge exists."""


@njit(cache=True, inline="always")
def _is_flow(kind):
    return kind == _TABLE or kind == _FORMULA or kind == _HADAMARD


@njit(cache=True, inline="always")
def adjoints_of(A, a_ptr, P, s):
    start, end = a_ptr[s], a_ptr[s + 1]
    return A[start:end].reshape((end - start) // P.stride[s], P.stride[s])


@njit(cache=True, inline="always")
def value_row(P, B, s, a, shared):
    """The row of V that belongs to row a of A."""
    return a if shared else np.int64(B.where[P.scope[s], a])


@njit(cache=True, boundscheck=False)
def _factor(E, B, P, c, s, r):
    """2^(E_c - E_s): a child's scale in units of its parent's."""
    shift = E[B.row_ptr[c] + r] - E[B.row_ptr[s] + r]
    return math.ldexp(1.0, int(min(max(shift, -2000.0), 1000.0)))


@njit(cache=True, fastmath=FAST, boundscheck=False)
def _from_hadamard(P, B, V, A, a_ptr, shared, s, p, lo, hi):
    a, ap, v = adjoints_of(A, a_ptr, P, s), adjoints_of(A, a_ptr, P, p), view(V, B, P, s)
    k = P.width[s]
    zero = A.dtype.type(0)
    where, representative = B.where[P.scope[s]], B.representative[P.scope[p]]
    flow = _is_flow(P.kind[s])
    for i in range(ap.shape[0]):
        r = np.int64(where[representative[i]]) if shared else i
        if r < lo or r >= hi:
            continue
        row, source = a[r], ap[i]
        if flow:
            for j in range(k):
                row[j] += source[j]
        else:
            value = v[value_row(P, B, s, r, shared)]
            for j in range(k):
                row[j] += source[j] / value[j] if value[j] > 0 else zero


@njit(cache=True, fastmath=FAST, boundscheck=False)
def _from_kronecker(P, B, V, E, A, a_ptr, shared, s, p, position, lo, hi):
    other = P.child[P.child_ptr[p] + 1 - position]
    a, ap = adjoints_of(A, a_ptr, P, s), adjoints_of(A, a_ptr, P, p)
    v, vo = view(V, B, P, s), view(V, B, P, other)
    k, ko = P.width[s], P.width[other]
    zero = A.dtype.type(0)
    new = np.empty(k, A.dtype)
    flow = _is_flow(P.kind[s])
    for i in range(ap.shape[0]):
        b = np.int64(B.representative[P.scope[p], i]) if shared else i
        r = np.int64(B.where[P.scope[s], b]) if shared else i
        if r < lo or r >= hi:
            continue
        rs, ro, rp = np.int64(B.where[P.scope[s], b]), np.int64(B.where[P.scope[other], b]), value_row(P, B, p, i, shared)
        shift = E[B.row_ptr[s] + rs] + E[B.row_ptr[other] + ro] - E[B.row_ptr[p] + rp]
        factor = A.dtype.type(math.ldexp(1.0, int(min(max(shift, -2000.0), 1000.0))))
        source, value, row = ap[i], vo[ro], a[r]
        if position == 0:
            for j in range(k):
                total = zero
                for m in range(ko):
                    total += source[j * ko + m] * value[m]
                new[j] = total
        else:
            for j in range(k):
                new[j] = 0
            for m in range(ko):
                x = value[m]
                for j in range(k):
                    new[j] += source[m * k + j] * x
        mine = v[rs]
        if flow:
            for j in range(k):
                row[j] += new[j] * factor * mine[j]
        else:
            for j in range(k):
                row[j] += new[j] * factor if mine[j] > 0 else zero


@njit(cache=True, fastmath=FAST, boundscheck=False)
def _from_sum(P, B, W, V, E, A, a_ptr, shared, s, p, position, lo, hi):
    """From a JOIN, a MIXTURE or a SCALAR_SUM, which have the scope of their children: rows correspond one to one."""
    a, ap, v = adjoints_of(A, a_ptr, P, s), adjoints_of(A, a_ptr, P, p), view(V, B, P, s)
    k = P.width[s]
    kind = P.kind[p]
    start = 0
    if kind == _JOIN:
        for q in range(position):
            start += P.width[P.child[P.child_ptr[p] + q]]
    flow = _is_flow(P.kind[s])
    for r in range(lo, hi):
        rv = value_row(P, B, s, r, shared)
        factor = A.dtype.type(_factor(E, B, P, s, p, rv))
        row, source, value = a[r], ap[r], v[rv]
        if kind == _SCALAR_SUM:
            x = source[0] * W[P.weight[p] + position] * factor
            if value[0] > 0:
                row[0] += x * value[0] if flow else x
        elif kind == _MIXTURE:
            at = P.weight[p] + position * P.stride[p]
            for j in range(k):
                x = source[j] * W[at + j] * factor
                if value[j] > 0:
                    row[j] += x * value[j] if flow else x
        else:
            for j in range(k):
                x = source[start + j] * factor
                if value[j] > 0:
                    row[j] += x * value[j] if flow else x


@njit(cache=True, fastmath=FAST, boundscheck=False)
def _from_scalar_sum_plain(P, W, B, V, A, a_ptr, s, p, position, lo, hi):
    """From a SCALAR_SUM whose scales are all zero: one multiplication per row."""
    weight = W[P.weight[p] + position]
    to, source, value = a_ptr[s], a_ptr[p], B.value_ptr[s]
    if _is_flow(P.kind[s]):
        for r in range(lo, hi):
            A[to + r] += A[source + r] * weight * V[value + r]
    else:
        for r in range(lo, hi):
            A[to + r] += A[source + r] * weight


@njit(cache=True, boundscheck=False)
def _unscaled(E, start, end):
    worst = 0.0
    for i in range(start, end):
        worst = max(worst, abs(E[i]))
    return worst == 0


@njit(cache=True, fastmath=FAST, boundscheck=False)
def _times_value(P, B, V, A, a_ptr, shared, s, lo, hi):
    """Adjoint to flow."""
    a, v = adjoints_of(A, a_ptr, P, s), view(V, B, P, s)
    for r in range(lo, hi):
        row, value = a[r], v[value_row(P, B, s, r, shared)]
        for j in range(P.stride[s]):
            row[j] *= value[j]


@njit(cache=True, boundscheck=False)
def _pull(P, B, W, V, E, A, a_ptr, root_flow, shared, s, lo, hi):
    if s == len(P.kind) - 1:
        start = a_ptr[s]
        for r in range(lo, hi):
            value = V[B.value_ptr[s] + value_row(P, B, s, r, shared)]
            if value > 0:
                A[start + r] = root_flow[r] if _is_flow(P.kind[s]) else root_flow[r] / value
            else:
                A[start + r] = 0
        return
    first, last = P.parent_ptr[s], P.parent_ptr[s + 1]
    if last - first == 1 and P.kind[P.parent[first]] == _DENSE_SUM:  # it was pushed
        if _is_flow(P.kind[s]):
            _times_value(P, B, V, A, a_ptr, shared, s, lo, hi)
        return
    stride = P.stride[s]
    A[a_ptr[s] + lo * stride : a_ptr[s] + hi * stride] = 0
    for q in range(first, last):
        p, position = P.parent[q], P.position[q]
        if P.kind[p] == _HADAMARD:
            _from_hadamard(P, B, V, A, a_ptr, shared, s, p, lo, hi)
        elif P.kind[p] == _KRONECKER:
            _from_kronecker(P, B, V, E, A, a_ptr, shared, s, p, position, lo, hi)
        elif (
            P.kind[p] == _SCALAR_SUM
            and shared
            and _unscaled(E, B.row_ptr[s] + lo, B.row_ptr[s] + hi)
            and _unscaled(E, B.row_ptr[p] + lo, B.row_ptr[p] + hi)
        ):
            _from_scalar_sum_plain(P, W, B, V, A, a_ptr, s, p, position, lo, hi)
        else:
            _from_sum(P, B, W, V, E, A, a_ptr, shared, s, p, position, lo, hi)


@njit(cache=True, fastmath=FAST, boundscheck=False)
def _weights(P, B, W, V, A, a_ptr, FL, mode, rule, s, n_lo, n_hi):
    """Flows of a dense sum's weights into units n_lo:n_hi, kept or turned into new weights."""
    c = P.child[P.child_ptr[s]]
    n_in, k = P.stride[c], P.width[c]
    g, p = adjoints_of(A, a_ptr, P, s), view(V, B, P, c)
    start = P.weight[s] + n_lo * n_in
    end = P.weight[s] + n_hi * n_in
    if mode == FLOWS:
        accumulate_outer(g, p, FL[start:end].reshape(n_hi - n_lo, n_in), n_lo, n_hi)
        return
    w = W[start:end].reshape(n_hi - n_lo, n_in)
    f = np.zeros((n_hi - n_lo, n_in), W.dtype)
    accumulate_outer(g, p, f, n_lo, n_hi)
    for n in range(n_hi - n_lo):
        row, weight = f[n], w[n]
        for j in range(k):
            row[j] *= weight[j]
        allowed = rule.allowed
        if len(allowed):
            allowed = allowed[start + n * n_in : start + (n + 1) * n_in]
        update_row(rule.kind, row, weight, allowed, k, rule.mu[s], rule.pseudocount, rule.alpha)


@njit(cache=True, boundscheck=False)
def _descend(P, B, W, V, E, A, a_ptr, root_flow, shared, mode, FL, rule, s, lo, hi):
    _pull(P, B, W, V, E, A, a_ptr, root_flow, shared, s, lo, hi)
    if P.kind[s] == _DENSE_SUM:
        c = P.child[P.child_ptr[s]]
        w = W[P.weight[s] : P.weight[s] + P.width[s] * P.stride[c]].reshape(P.width[s], P.stride[c])
        g = adjoints_of(A, a_ptr, P, s)
        multiply(g, w, adjoints_of(A, a_ptr, P, c), lo, hi)
        if P.inlined[s] >= 0:
            _times_value(P, B, V, A, a_ptr, shared, c, lo, hi)
        if mode != ADJOINTS and P.alone[s] and g.shape[0] <= ROWS_PER_ITEM:
            _weights(P, B, W, V, A, a_ptr, FL, mode, rule, s, 0, P.width[s])


@njit(cache=True, parallel=True, boundscheck=False)
def backward(P, B, items, blocks, W, V, E, A, a_ptr, root_flow, shared, mode, FL, rule, n_threads):
    """Fill A; with mode FLOWS or FUSED also deal with the weights of every dense sum that owns its weights alone."""
    for level in range(len(items.level_ptr) - 2, -1, -1):
        first, last = items.level_ptr[level], items.level_ptr[level + 1]
        for t in prange(n_threads):
            for i in range(first, last):
                if items.thread[i] == t:
                    _descend(
                        P, B, W, V, E, A, a_ptr, root_flow, shared, mode, FL, rule, items.step[i], items.lo[i], items.hi[i]
                    )
        first, last = blocks.level_ptr[level], blocks.level_ptr[level + 1]
        if mode != ADJOINTS and last > first:
            for t in prange(n_threads):
                for i in range(first, last):
                    if blocks.thread[i] == t:
                        _weights(P, B, W, V, A, a_ptr, FL, mode, rule, blocks.step[i], blocks.lo[i], blocks.hi[i])
