"""Adjoints ∂ log p / ∂ value and their tangents, downward.

Sum: `p̄ = Wᵀ s̄`, with the tangent `Wᵀ s̄̇ + Ẇᵀ s̄`. Product: `p̄_c = s̄ Π_{d≠c} p_d`, with the tangent `s̄̇ Π + s̄ Π̇`.

Every step pulls from its parents, so that no two items write the same numbers; a dense sum pushes to its one child. Adjoints are
exact where a value is zero too, which flows divided by values would not be: there the other factors are multiplied.

`second`: A is there already, and AT is wanted, in one direction; otherwise A is. Steps that are STILL have no tangents to read.
"""

import numpy as np

from flatpc.curvature._kernels.pairs import add_column_sums, add_row_sums
from flatpc.curvature._kernels.penalty_directions import SHARED_DIRECTION, SIMPLEX, WEIGHTS, direction, kappa_term, shares
from flatpc.curvature._kernels.products import others, total_shift
from flatpc.curvature._kernels.rows import MOVED, STILL, UNWANTED, batch_row, power, scale, value_row
from flatpc.engine.numba._kernels.adjoints import block_of
from flatpc.engine.numba._kernels.columns import (
    ADJOINT,
    ADJOINT_ROWS,
    CHILD,
    CHILD_END,
    DENSE_SUM,
    HADAMARD,
    JOIN,
    KIND,
    KRONECKER,
    PARENT,
    PARENT_END,
    SCOPE,
    STRIDE,
    VALUE,
    WEIGHT,
    WIDTH,
)
from flatpc.engine.numba._kernels.compiling import inner
from flatpc.engine.numba._kernels.dense import FAST, multiply
from flatpc.engine.numba._kernels.work_items import edge_stride, scale_of, view


@inner(fastmath=FAST)
def _from_hadamard(P, B, marks, V, E, A, VT, AT, shared, second, s, p, position, lo, hi):
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
            if not second:
                for j in range(k):
                    row[j] += source[j] * vo[j] * factor
            elif marks[other] & STILL:
                for j in range(k):
                    row[j] += change[j] * vo[j] * factor
            else:
                moved = moved_other[ro if shared else i]
                for j in range(k):
                    row[j] += (change[j] * vo[j] + source[j] * moved[j]) * factor
            continue
        mine, whole = v[rs], v_whole[value_row(P, B, p, b)]
        low = mine[0]
        if second:
            moved, moved_whole = vt[r], vt_whole[i]
            for j in range(k):
                low = min(low, mine[j])
                inverse = 1.0 / mine[j] if mine[j] > 0 else 0.0
                rest = whole[j] * inverse
                row[j] += change[j] * rest
                if not marks[p] & STILL:
                    row[j] += source[j] * moved_whole[j] * inverse
                if not marks[s] & STILL:
                    row[j] -= source[j] * moved[j] * rest * inverse
        else:
            for j in range(k):
                low = min(low, mine[j])
                row[j] += source[j] * whole[j] / mine[j] if mine[j] > 0 else 0.0
        if low == 0:
            _where_zero(P, B, marks, V, E, VT, shared, second, p, b, i, position, mine, row, source, change)


@inner
def _where_zero(P, B, marks, V, E, VT, shared, second, p, b, i, position, mine, row, source, change):
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
            if q - first != position and not marks[d] & STILL:
                t = block_of(VT, B, P, d)[value_row(P, B, d, b) if shared else i, j]
                if t != 0:
                    moved += t * others(P, B, V, p, b, position, q - first, j, shift)
        row[j] += change[j] * rest + source[j] * moved


@inner
def _add_sums(to, at, S, source, X, x, factor, position, k, ko):
    """Entry (j, m) of the product, j being ours and m the other's, is at j * ko + m, or at m * k + j."""
    if position == 0:
        add_row_sums(to, at, S, source, X, x, factor, k, ko)
    else:
        add_column_sums(to, at, S, source, X, x, factor, ko, k)


@inner
def _from_kronecker(P, B, marks, V, E, A, VT, AT, shared, second, s, p, position, lo, hi):
    other = P.child[P.steps[p, CHILD] + 1 - position]
    k, ko = P.steps[s, WIDTH], P.steps[other, WIDTH]
    where, where_other, where_whole = (
        B.share[0, P.steps[s, SCOPE]],
        B.share[0, P.steps[other, SCOPE]],
        B.share[0, P.steps[p, SCOPE]],
    )
    representative = B.share[1, P.steps[p, SCOPE]]
    still = marks[other] & STILL != 0
    start, end = (0, B.at[p, ADJOINT_ROWS]) if shared else (lo, hi)
    for i in range(start, end):
        b = np.int64(representative[i]) if shared else i
        rs, ro = np.int64(where[b]), np.int64(where_other[b])
        r = rs if shared else i
        if r < lo or r >= hi:
            continue
        shift = scale_of(E, B, s, rs) + scale_of(E, B, other, ro) - scale_of(E, B, p, np.int64(where_whole[b]))
        factor = A.dtype.type(power(shift))
        to, source = B.at[s, ADJOINT] + r * P.steps[s, STRIDE], B.at[p, ADJOINT] + i * P.steps[p, STRIDE]
        vo = B.at[other, VALUE] + ro * P.steps[other, STRIDE]
        if not second:
            _add_sums(A, to, A, source, V, vo, factor, position, k, ko)
            continue
        _add_sums(AT, to, AT, source, V, vo, factor, position, k, ko)
        if not still:
            moved = B.at[other, ADJOINT] + (ro if shared else i) * P.steps[other, STRIDE]
            _add_sums(AT, to, A, source, VT, moved, factor, position, k, ko)


@inner(fastmath=FAST)
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


@inner(fastmath=FAST)
def _from_sum(P, B, W, dW, M, V, E, A, AT, shared, second, space, s, p, position, lo, hi):
    """From a MIXTURE or a SCALAR_SUM."""
    to, ap, tp = block_of(AT if second else A, B, P, s), block_of(A, B, P, p), block_of(AT, B, P, p)
    v, vp = view(V, B, P, s), view(V, B, P, p)
    first, last = P.steps[p, CHILD], P.steps[p, CHILD_END]
    stride = edge_stride(P, p)
    share = np.empty(last - first)
    shares(M, P.steps[p, WEIGHT], stride, last - first, share)
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
            if len(M):
                shares(M, P.steps[p, WEIGHT] + j, stride, last - first, share)
            if space == SHARED_DIRECTION:
                change = dW[at]
            elif share[position] == 0:
                change = 0.0
            else:
                flow, kappa = mine * vp[u, j], 0.0
                if space > WEIGHTS:
                    for q in range(first, last):
                        c = P.child[q]
                        x = V[B.at[c, VALUE] + u * P.steps[c, STRIDE] + j] * power(scale(E, B, P, c, b) - scale(E, B, P, p, b))
                        weight = W[P.steps[p, WEIGHT] + (q - first) * stride + j]
                        kappa += kappa_term(space, weight, mine * x, flow, share[q - first])
                change = direction(space, W[at], mine * v[u, j] * factor, flow, kappa)
            to[r, j] += (W[at] * tp[r, j] + change * mine) * factor


@inner
def pull(P, B, W, dW, M, marks, V, E, A, VT, AT, root_flow, shared, second, space, s, lo, hi):
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
                    to[r, 0] *= 0.0 if marks[s] & STILL else -VT[B.at[s, ADJOINT] + r] / value
        return
    first, last = P.steps[s, PARENT], P.steps[s, PARENT_END]
    if last - first == 1 and P.steps[P.parent[first, 0], KIND] == DENSE_SUM:
        return
    to[lo:hi] = 0
    for q in range(first, last):
        p, position = P.parent[q, 0], P.parent[q, 1]
        kind = P.steps[p, KIND]
        if kind == HADAMARD:
            _from_hadamard(P, B, marks, V, E, A, VT, AT, shared, second, s, p, position, lo, hi)
        elif kind == KRONECKER:
            _from_kronecker(P, B, marks, V, E, A, VT, AT, shared, second, s, p, position, lo, hi)
        elif kind == JOIN:
            _from_join(P, B, E, A, AT, shared, second, s, p, position, lo, hi)
        else:
            _from_sum(P, B, W, dW, M, V, E, A, AT, shared, second, space, s, p, position, lo, hi)


@inner(fastmath=FAST)
def push(P, B, W, dW, M, marks, V, A, AT, second, space, s, lo, hi):
    """A dense sum's adjoints, or if `second` their tangents, to its child."""
    c = P.child[P.steps[s, CHILD]]
    if marks[c] & UNWANTED:
        return
    k, n_in, at = P.steps[s, WIDTH], P.steps[c, STRIDE], P.steps[s, WEIGHT]
    w = W[at : at + k * n_in].reshape(k, n_in)
    a = block_of(A, B, P, s)
    if not second:
        multiply(a, w, block_of(A, B, P, c), lo, hi)
        return
    to = block_of(AT, B, P, c)
    multiply(block_of(AT, B, P, s), w, to, lo, hi)
    if not marks[s] & MOVED:
        return
    if space == SHARED_DIRECTION:
        more = np.empty((hi - lo, n_in), A.dtype)
        multiply(a[lo:hi], dW[at : at + k * n_in].reshape(k, n_in), more, 0, hi - lo)
        for r in range(lo, hi):
            for j in range(n_in):
                to[r, j] += more[r - lo, j]
        return
    p, v, inside = view(V, B, P, c), view(V, B, P, s), P.steps[c, WIDTH]
    share = np.empty(inside)
    shares(M, at, 1, inside, share)
    for r in range(lo, hi):
        u = value_row(P, B, s, r)
        value, row = p[u], to[r]
        if space <= SIMPLEX and len(M) == 0:  # 2 (p - mean) Σ s̄²
            squares, mean = 0.0, 0.0
            for n in range(k):
                squares += a[r, n] * a[r, n]
            if space == SIMPLEX:
                for j in range(inside):
                    mean += value[j]
                mean /= inside
            for j in range(inside):
                row[j] += 2.0 * (value[j] - mean) * squares
            continue
        for n in range(k):
            weight, mine = w[n], a[r, n]
            flow, kappa = mine * v[u, n], 0.0
            if len(M):
                shares(M, at + n * n_in, 1, inside, share)
            for j in range(inside):
                kappa += kappa_term(space, weight[j], mine * value[j], flow, share[j])
            for j in range(inside):
                if share[j] > 0:
                    row[j] += mine * direction(space, weight[j], mine * value[j], flow, kappa)
