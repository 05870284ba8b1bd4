"""Adjoints ∂ log p / ∂ value and their tangents, downward.

Sum: `p̄ = Wᵀ s̄`, with the tangent `Wᵀ s̄̇ + Ẇᵀ s̄`. Product: `p̄_c = s̄ Π_{d≠c} p_d`, with the tangent `s̄̇ Π + s̄ Π̇`.

Every step pulls from its parents, so that no two items write the same numbers; a dense sum pushes to its one child. Adjoints are
exact where a value is zero too, which flows divided by values would not be: there the other factors are multiplied.

`second`: A is there already, and AT is wanted; otherwise A is.
"""

import numpy as np
from numba import njit

from flatpc.curvature._kernels.own import SHARED_DIRECTION, WEIGHTS, direction, kappa_term
from flatpc.curvature._kernels.products import others, total_shift
from flatpc.curvature._kernels.rows import DEAD, batch_row, block_of, power, scale, value_row
from flatpc.engine._kernels.columns import (
    ADJOINT,
    ADJOINT_ROWS,
    CHILD,
    CHILD_END,
    DENSE_SUM,
    HADAMARD,
    JOIN,
    KIND,
    KRONECKER,
    MIXTURE,
    PARENT,
    PARENT_END,
    SCOPE,
    STRIDE,
    VALUE,
    WEIGHT,
    WIDTH,
)
from flatpc.engine._kernels.dense import FAST, multiply
from flatpc.engine._kernels.items import view


@njit(cache=True, fastmath=FAST, boundscheck=False)
def _from_hadamard(P, B, V, E, A, VT, AT, shared, second, s, p, position, lo, hi):
    to, ap, tp = block_of(AT if second else A, B, P, s), block_of(A, B, P, p), block_of(AT, B, P, p)
    k, first = P.steps[s, WIDTH], P.steps[p, CHILD]
    n = P.steps[p, CHILD_END] - first
    start, end = (0, B.at[p, ADJOINT_ROWS]) if shared else (lo, hi)
    where, representative = B.share[0, P.steps[s, SCOPE]], B.share[1, P.steps[p, SCOPE]]
    v, v_whole, vt, vt_whole = view(V, B, P, s), view(V, B, P, p), block_of(VT, B, P, s), block_of(VT, B, P, p)
    other = P.child[first + 1 - position] if n == 2 else s
    v_other, moved_other, where_other = view(V, B, P, other), block_of(VT, B, P, other), B.share[0, P.steps[other, SCOPE]]
    for i in range(start, end):
        b = np.int64(representative[i]) if shared else i
        rs = np.int64(where[b])
        r = rs if shared else i
        if r < lo or r >= hi:
            continue
        row, source, change = to[r], ap[i], tp[i]
        if n == 2:
            ro = np.int64(where_other[b])
            vo = v_other[ro]
            factor = power(total_shift(P, B, E, p, b))
            if second:
                moved = moved_other[ro if shared else i]
                for j in range(k):
                    row[j] += (change[j] * vo[j] + source[j] * moved[j]) * factor
            else:
                for j in range(k):
                    row[j] += source[j] * vo[j] * factor
            continue
        mine, whole = v[rs], v_whole[value_row(P, B, p, b)]
        low = mine[0]
        if second:
            moved, moved_whole = vt[r], vt_whole[i]
            for j in range(k):
                low = min(low, mine[j])
                inverse = 1.0 / mine[j] if mine[j] > 0 else 0.0
                rest = whole[j] * inverse
                row[j] += change[j] * rest + source[j] * (moved_whole[j] - moved[j] * rest) * inverse
        else:
            for j in range(k):
                low = min(low, mine[j])
                row[j] += source[j] * whole[j] / mine[j] if mine[j] > 0 else 0.0
        if low == 0:
            _where_zero(P, B, V, E, VT, shared, second, p, b, i, position, mine, row, source, change)


@njit(cache=True, boundscheck=False)
def _where_zero(P, B, V, E, VT, shared, second, p, b, i, position, mine, row, source, change):
    shift = total_shift(P, B, E, p, b)
    first = P.steps[p, CHILD]
    for j in range(P.steps[p, WIDTH]):
        if mine[j] > 0:
            continue
        rest = others(P, B, V, p, b, position, -1, j, shift)
        if not second:
            row[j] += source[j] * rest
            continue
        moved = 0.0
        for q in range(first, P.steps[p, CHILD_END]):
            d = P.child[q]
            if q - first != position:
                t = block_of(VT, B, P, d)[value_row(P, B, d, b) if shared else i, j]
                if t != 0:
                    moved += t * others(P, B, V, p, b, position, q - first, j, shift)
        row[j] += change[j] * rest + source[j] * moved


@njit(cache=True, fastmath=FAST, boundscheck=False)
def _from_kronecker(P, B, V, E, A, VT, AT, shared, second, s, p, position, lo, hi):
    other = P.child[P.steps[p, CHILD] + 1 - position]
    to, ap, tp = block_of(AT if second else A, B, P, s), block_of(A, B, P, p), block_of(AT, B, P, p)
    k, ko = P.steps[s, WIDTH], P.steps[other, WIDTH]
    zero, new = A.dtype.type(0), np.empty(k, A.dtype)
    start, end = (0, B.at[p, ADJOINT_ROWS]) if shared else (lo, hi)
    for i in range(start, end):
        b = np.int64(B.share[1, P.steps[p, SCOPE], i]) if shared else i
        r = value_row(P, B, s, b) if shared else i
        if r < lo or r >= hi:
            continue
        ro = value_row(P, B, other, b)
        vo, moved = view(V, B, P, other)[ro], block_of(VT, B, P, other)[ro if shared else i]
        factor = power(total_shift(P, B, E, p, b))
        row, source, change = to[r], ap[i], tp[i]
        # Entry (j, m) of the product, j being ours and m the other's, is at j * ko + m or at m * k + j: walk along memory.
        if position == 0:
            for j in range(k):
                total = zero
                if second:
                    for m in range(ko):
                        total += change[j * ko + m] * vo[m] + source[j * ko + m] * moved[m]
                else:
                    for m in range(ko):
                        total += source[j * ko + m] * vo[m]
                new[j] = total
        else:
            new[:] = 0
            for m in range(ko):
                x, y = vo[m], moved[m]
                if second:
                    for j in range(k):
                        new[j] += change[m * k + j] * x + source[m * k + j] * y
                else:
                    for j in range(k):
                        new[j] += source[m * k + j] * x
        for j in range(k):
            row[j] += new[j] * factor


@njit(cache=True, fastmath=FAST, boundscheck=False)
def _from_join(P, B, E, A, AT, shared, second, s, p, position, lo, hi):
    G = AT if second else A
    to, source = block_of(G, B, P, s), block_of(G, B, P, p)
    start = 0
    for q in range(position):
        start += P.steps[P.child[P.steps[p, CHILD] + q], WIDTH]
    for r in range(lo, hi):
        b = batch_row(P, B, s, r, shared)
        factor = power(scale(E, B, P, s, b) - scale(E, B, P, p, b))
        for j in range(P.steps[s, WIDTH]):
            to[r, j] += source[r, start + j] * factor


@njit(cache=True, fastmath=FAST, boundscheck=False)
def _from_sum(P, B, W, dW, M, V, E, A, AT, shared, second, space, s, p, position, lo, hi):
    """From a MIXTURE or a SCALAR_SUM."""
    to, ap, tp = block_of(AT if second else A, B, P, s), block_of(A, B, P, p), block_of(AT, B, P, p)
    v, vp = view(V, B, P, s), view(V, B, P, p)
    first, last = P.steps[p, CHILD], P.steps[p, CHILD_END]
    stride = P.steps[p, STRIDE] if P.steps[p, KIND] == MIXTURE else 1
    for r in range(lo, hi):
        b = batch_row(P, B, s, r, shared)
        u = value_row(P, B, s, b)
        factor = power(scale(E, B, P, s, b) - scale(E, B, P, p, b))
        for j in range(P.steps[s, WIDTH]):
            at = P.steps[p, WEIGHT] + position * stride + j
            if not second:
                to[r, j] += W[at] * factor * ap[r, j]
                continue
            mine = ap[r, j]
            if space == SHARED_DIRECTION:
                change = dW[at]
            elif len(M) and M[at] == 0:
                change = 0.0
            else:
                flow, kappa = mine * vp[u, j], 0.0
                if space > WEIGHTS:
                    for q in range(first, last):
                        c = P.child[q]
                        x = V[B.at[c, VALUE] + u * P.steps[c, STRIDE] + j] * power(scale(E, B, P, c, b) - scale(E, B, P, p, b))
                        kappa += kappa_term(space, W[P.steps[p, WEIGHT] + (q - first) * stride + j], mine * x, flow)
                change = direction(space, W[at], mine * v[u, j] * factor, flow, kappa)
            to[r, j] += (W[at] * tp[r, j] + change * mine) * factor


@njit(cache=True, boundscheck=False)
def pull(P, B, W, dW, M, V, E, A, VT, AT, root_flow, shared, second, space, s, lo, hi):
    """Fill A, or AT if `second`, of step s from its parents; a child of a dense sum has been filled by `push`."""
    to = block_of(AT if second else A, B, P, s)
    if s == len(P.steps) - 1:
        for r in range(lo, hi):
            u = value_row(P, B, s, batch_row(P, B, s, r, shared))
            value = V[B.at[s, VALUE] + u]
            to[r, 0] = 0
            if value > 0:
                to[r, 0] = root_flow[r] / value
                if second:
                    to[r, 0] *= -VT[B.at[s, ADJOINT] + r] / value
        return
    first, last = P.steps[s, PARENT], P.steps[s, PARENT_END]
    if last - first == 1 and P.steps[P.parent[first, 0], KIND] == DENSE_SUM:
        return
    to[lo:hi] = 0
    for q in range(first, last):
        p, position = P.parent[q, 0], P.parent[q, 1]
        kind = P.steps[p, KIND]
        if kind == HADAMARD:
            _from_hadamard(P, B, V, E, A, VT, AT, shared, second, s, p, position, lo, hi)
        elif kind == KRONECKER:
            _from_kronecker(P, B, V, E, A, VT, AT, shared, second, s, p, position, lo, hi)
        elif kind == JOIN:
            _from_join(P, B, E, A, AT, shared, second, s, p, position, lo, hi)
        else:
            _from_sum(P, B, W, dW, M, V, E, A, AT, shared, second, space, s, p, position, lo, hi)


@njit(cache=True, fastmath=FAST, boundscheck=False)
def push(P, B, W, dW, M, marks, V, A, AT, second, space, s, lo, hi):
    """A dense sum's adjoints, or if `second` their tangents, to its child."""
    c = P.child[P.steps[s, CHILD]]
    if marks[c] == DEAD:
        return
    k, n_in, at = P.steps[s, WIDTH], P.steps[c, STRIDE], P.steps[s, WEIGHT]
    w = W[at : at + k * n_in].reshape(k, n_in)
    a = block_of(A, B, P, s)
    if not second:
        multiply(a, w, block_of(A, B, P, c), lo, hi)
        return
    to = block_of(AT, B, P, c)
    multiply(block_of(AT, B, P, s), w, to, lo, hi)
    if space == SHARED_DIRECTION:
        more = np.empty((hi - lo, n_in), A.dtype)
        multiply(a[lo:hi], dW[at : at + k * n_in].reshape(k, n_in), more, 0, hi - lo)
        for r in range(lo, hi):
            for j in range(n_in):
                to[r, j] += more[r - lo, j]
        return
    p, v = view(V, B, P, c), view(V, B, P, s)
    for r in range(lo, hi):
        u = value_row(P, B, s, r)
        value, row = p[u], to[r]
        if space == WEIGHTS and len(M) == 0:
            squares = 0.0
            for n in range(k):
                squares += a[r, n] * a[r, n]
            for j in range(n_in):
                row[j] += 2.0 * value[j] * squares
            continue
        for n in range(k):
            weight, mine = w[n], a[r, n]
            flow, kappa = mine * v[u, n], 0.0
            for j in range(n_in):
                kappa += kappa_term(space, weight[j], mine * value[j], flow)
            if len(M):
                mask = M[at + n * n_in : at + (n + 1) * n_in]
                for j in range(n_in):
                    row[j] += mask[j] * mine * direction(space, weight[j], mine * value[j], flow, kappa)
            else:
                for j in range(n_in):
                    row[j] += mine * direction(space, weight[j], mine * value[j], flow, kappa)
