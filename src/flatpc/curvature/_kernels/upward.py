"""Tangents of values, upward: how every value changes when the parameters move in one direction.

The direction is one for all rows (`dW`, `dT`, in the layout of weights and of input tables), or each row's own
(`penalty_directions.py`;
`space` says which). Sum: `ṡ = W ṗ + Ẇ p`. Product: `ṡ = Σ_c ṗ_c Π_{d≠c} p_d`. Steps that are STILL have no tangents to read.
"""

import numpy as np

from flatpc.curvature._kernels.pairs import set_outer, set_two_outers
from flatpc.curvature._kernels.penalty_directions import (
    SHARED_DIRECTION,
    SIMPLEX,
    WEIGHTS,
    direction,
    kappa_term,
    shares,
    table_kappa,
)
from flatpc.curvature._kernels.products import others, total_shift
from flatpc.curvature._kernels.rows import MOVED, STILL, batch_row, power, scale, value_row
from flatpc.engine.numba._kernels.adjoints import block_of
from flatpc.engine.numba._kernels.columns import (
    ADJOINT,
    CHILD,
    CHILD_END,
    STRIDE,
    TABLE,
    VALUE,
    VARIABLE,
    WEIGHT,
    WIDTH,
)
from flatpc.engine.numba._kernels.compiling import inner
from flatpc.engine.numba._kernels.dense import FAST, multiply_transposed
from flatpc.engine.numba._kernels.work_items import edge_stride, view


@inner
def move_table(P, B, T, dT, V, E, A, VT, shared, space, s, lo, hi):
    """An input's table: the entry that was observed moves; a missing value is 1 whatever the table."""
    vt = block_of(VT, B, P, s)
    vt[lo:hi] = 0
    for r in range(lo, hi):
        b = batch_row(P, B, s, r, shared)
        x = B.X[B.rows[b], P.steps[s, VARIABLE]]
        if x != x:
            continue
        unit = power(-scale(E, B, P, s, b))
        at = P.steps[s, TABLE] + np.int64(x) * P.steps[s, STRIDE]
        for j in range(P.steps[s, WIDTH]):
            if space == SHARED_DIRECTION:
                vt[r, j] = dT[at + j] * unit
                continue
            mine = block_of(A, B, P, s)[r, j]
            flow = mine * view(V, B, P, s)[value_row(P, B, s, b), j]
            kappa = table_kappa(P, T, space, s, np.int64(x), j, mine * unit, flow)
            vt[r, j] = direction(space, T[at + j], mine * unit, flow, kappa) * unit


@inner
def _where_zero(P, B, marks, V, E, VT, shared, s, b, r, row):
    """What moves a product through a factor that is zero: there the others are multiplied, not divided out."""
    shift, first = total_shift(P, B, E, s, b), P.steps[s, CHILD]
    for q in range(first, P.steps[s, CHILD_END]):
        c = P.child[q]
        if marks[c] & STILL:
            continue
        rc = value_row(P, B, c, b)
        vc, tc = view(V, B, P, c)[rc], block_of(VT, B, P, c)[rc if shared else r]
        for j in range(P.steps[s, WIDTH]):
            if vc[j] == 0 and tc[j] != 0:
                row[j] += tc[j] * others(P, B, V, s, b, q - first, -1, j, shift)


@inner(fastmath=FAST)
def move_hadamard(P, B, marks, V, E, VT, shared, s, lo, hi):
    vt, v = block_of(VT, B, P, s), view(V, B, P, s)
    k, stride = P.steps[s, WIDTH], P.steps[s, STRIDE]
    first, last = P.steps[s, CHILD], P.steps[s, CHILD_END]
    x, y = P.child[first], P.child[last - 1]
    all_vx, all_vy, all_tx, all_ty = view(V, B, P, x), view(V, B, P, y), block_of(VT, B, P, x), block_of(VT, B, P, y)
    for r in range(lo, hi):
        b = batch_row(P, B, s, r, shared)
        row = vt[r]
        if last - first == 2:
            rx, ry = value_row(P, B, x, b), value_row(P, B, y, b)
            vx, vy, tx, ty = all_vx[rx], all_vy[ry], all_tx[rx if shared else r], all_ty[ry if shared else r]
            factor = power(total_shift(P, B, E, s, b))
            if marks[y] & STILL:
                for j in range(stride):
                    row[j] = tx[j] * vy[j] * factor
            elif marks[x] & STILL:
                for j in range(stride):
                    row[j] = vx[j] * ty[j] * factor
            else:
                for j in range(stride):
                    row[j] = (tx[j] * vy[j] + vx[j] * ty[j]) * factor
            continue
        row[:] = 0
        value = v[value_row(P, B, s, b)]
        zeros = False
        for q in range(first, last):
            c = P.child[q]
            if marks[c] & STILL:
                continue
            rc = value_row(P, B, c, b)
            at, at_moved = B.at[c, VALUE] + rc * stride, B.at[c, ADJOINT] + (rc if shared else r) * stride
            vc, tc = V[at : at + k], VT[at_moved : at_moved + k]
            low = vc[0]
            for j in range(k):
                low = min(low, vc[j])
                row[j] += tc[j] * value[j] / vc[j] if vc[j] > 0 else 0.0
            zeros |= low == 0
        if zeros:
            _where_zero(P, B, marks, V, E, VT, shared, s, b, r, row)


@inner
def move_kronecker(P, B, marks, V, E, VT, shared, s, lo, hi):
    x, y = P.child[P.steps[s, CHILD]], P.child[P.steps[s, CHILD] + 1]
    kx, ky, stride = P.steps[x, WIDTH], P.steps[y, WIDTH], P.steps[s, STRIDE]
    for r in range(lo, hi):
        b = batch_row(P, B, s, r, shared)
        rx, ry = value_row(P, B, x, b), value_row(P, B, y, b)
        vx, vy = B.at[x, VALUE] + rx * P.steps[x, STRIDE], B.at[y, VALUE] + ry * P.steps[y, STRIDE]
        tx = B.at[x, ADJOINT] + (rx if shared else r) * P.steps[x, STRIDE]
        ty = B.at[y, ADJOINT] + (ry if shared else r) * P.steps[y, STRIDE]
        factor = V.dtype.type(power(total_shift(P, B, E, s, b)))
        to = B.at[s, ADJOINT] + r * stride
        if marks[y] & STILL:
            set_outer(VT, to, VT, tx, V, vy, factor, kx, ky)
        elif marks[x] & STILL:
            set_outer(VT, to, V, vx, VT, ty, factor, kx, ky)
        else:
            set_two_outers(VT, to, VT, tx, V, vy, V, vx, VT, ty, factor, kx, ky)
        for j in range(kx * ky, stride):
            VT[to + j] = 0


@inner(fastmath=FAST)
def move_join(P, B, marks, E, VT, shared, s, lo, hi):
    vt = block_of(VT, B, P, s)
    for r in range(lo, hi):
        b = batch_row(P, B, s, r, shared)
        row, start = vt[r], 0
        row[:] = 0
        for q in range(P.steps[s, CHILD], P.steps[s, CHILD_END]):
            c = P.child[q]
            if not marks[c] & STILL:
                tc = block_of(VT, B, P, c)[r]
                factor = power(scale(E, B, P, c, b) - scale(E, B, P, s, b))
                for j in range(P.steps[c, WIDTH]):
                    row[start + j] = tc[j] * factor
            start += P.steps[c, WIDTH]


@inner(fastmath=FAST)
def move_dense_sum(P, B, W, dW, M, marks, V, A, VT, shared, space, s, lo, hi):
    c = P.child[P.steps[s, CHILD]]
    vt, tc, p = block_of(VT, B, P, s), block_of(VT, B, P, c), view(V, B, P, c)
    k, n_in, at = P.steps[s, WIDTH], P.steps[c, STRIDE], P.steps[s, WEIGHT]
    w = W[at : at + k * n_in].reshape(k, n_in)
    vt[lo:hi] = 0
    if not marks[c] & STILL:
        multiply_transposed(tc, w, vt, lo, hi)
    if not marks[s] & MOVED:
        return
    if space == SHARED_DIRECTION:
        more = np.empty((hi - lo, P.steps[s, STRIDE]), VT.dtype)
        multiply_transposed(p[lo:hi], dW[at : at + k * n_in].reshape(k, n_in), more, 0, hi - lo)
        for r in range(lo, hi):
            for n in range(k):
                vt[r, n] += more[r - lo, n]
        return
    a, v, inside = block_of(A, B, P, s), view(V, B, P, s), P.steps[c, WIDTH]
    share = np.empty(inside)
    shares(M, at, 1, inside, share)
    for r in range(lo, hi):
        u = value_row(P, B, s, r)
        value = p[u]
        if space <= SIMPLEX and len(M) == 0:  # 2 s̄ Σ (p - mean)²
            squares, mean = 0.0, 0.0
            if space == SIMPLEX:
                for j in range(inside):
                    mean += value[j]
                mean /= inside
            for j in range(inside):
                squares += (value[j] - mean) * (value[j] - mean)
            for n in range(k):
                vt[r, n] += 2.0 * a[r, n] * squares
            continue
        for n in range(k):
            weight, mine = w[n], a[r, n]
            flow = mine * v[u, n]
            if len(M):
                shares(M, at + n * n_in, 1, inside, share)
            kappa, total = 0.0, 0.0
            for j in range(inside):
                kappa += kappa_term(space, weight[j], mine * value[j], flow, share[j])
            for j in range(inside):
                if share[j] > 0:
                    total += value[j] * direction(space, weight[j], mine * value[j], flow, kappa)
            vt[r, n] += total


@inner(fastmath=FAST)
def move_sum(P, B, W, dW, M, marks, V, E, A, VT, shared, space, s, lo, hi):
    """A MIXTURE or a SCALAR_SUM, unit by unit; children have the step's own scope."""
    vt, a, v = block_of(VT, B, P, s), block_of(A, B, P, s), view(V, B, P, s)
    k, first, last = P.steps[s, WIDTH], P.steps[s, CHILD], P.steps[s, CHILD_END]
    stride = edge_stride(P, s)
    share = np.empty(last - first)
    shares(M, P.steps[s, WEIGHT], stride, last - first, share)
    for r in range(lo, hi):
        b = batch_row(P, B, s, r, shared)
        u = value_row(P, B, s, b)
        row = vt[r]
        row[:] = 0
        for j in range(k):
            kappa = 0.0
            mine = 0.0 if space == SHARED_DIRECTION else a[r, j]
            flow = mine * v[u, j]
            if len(M):
                shares(M, P.steps[s, WEIGHT] + j, stride, last - first, share)
            if space > WEIGHTS:
                for q in range(first, last):
                    c = P.child[q]
                    p = V[B.at[c, VALUE] + u * P.steps[c, STRIDE] + j] * power(scale(E, B, P, c, b) - scale(E, B, P, s, b))
                    weight = W[P.steps[s, WEIGHT] + (q - first) * stride + j]
                    kappa += kappa_term(space, weight, mine * p, flow, share[q - first])
            for q in range(first, last):
                c = P.child[q]
                factor = power(scale(E, B, P, c, b) - scale(E, B, P, s, b))
                at = P.steps[s, WEIGHT] + (q - first) * stride + j
                p = V[B.at[c, VALUE] + u * P.steps[c, STRIDE] + j] * factor
                if space == SHARED_DIRECTION:
                    change = dW[at]
                elif share[q - first] == 0:
                    change = 0.0
                else:
                    change = direction(space, W[at], mine * p, flow, kappa)
                row[j] += change * p
                if not marks[c] & STILL:
                    row[j] += W[at] * block_of(VT, B, P, c)[r, j] * factor
