"""Tangents of values, upward: how every value changes when the parameters move.

The direction is one for all rows (`dW`, `dT`, in the layout of weights and of input tables), or each row's own (`own.py`;
`space` says which). Sum: `ṡ = W ṗ + Ẇ p`. Product: `ṡ = Σ_c ṗ_c Π_{d≠c} p_d`.
"""

import numpy as np
from numba import njit

from flatpc.curvature._kernels.own import SHARED_DIRECTION, WEIGHTS, direction, kappa_term, table_kappa
from flatpc.curvature._kernels.products import others, total_shift
from flatpc.curvature._kernels.rows import COUNTED, DEAD, batch_row, block_of, power, scale, value_row
from flatpc.engine._kernels.columns import (
    ADJOINT,
    CHILD,
    CHILD_END,
    KIND,
    MIXTURE,
    STRIDE,
    TABLE,
    VALUE,
    VARIABLE,
    WEIGHT,
    WIDTH,
)
from flatpc.engine._kernels.dense import FAST, multiply_transposed
from flatpc.engine._kernels.items import view


@njit(cache=True, boundscheck=False)
def move_table(P, B, T, dT, marks, V, E, A, VT, shared, space, s, lo, hi):
    """An input's table: the entry that was observed moves; a missing value is 1 whatever the table."""
    vt = block_of(VT, B, P, s)
    vt[lo:hi] = 0
    if marks[s] != COUNTED:
        return
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


@njit(cache=True, boundscheck=False)
def _where_zero(P, B, V, E, VT, shared, s, b, r, row):
    """What moves a product through a factor that is zero: there the others are multiplied, not divided out."""
    shift, first = total_shift(P, B, E, s, b), P.steps[s, CHILD]
    for q in range(first, P.steps[s, CHILD_END]):
        c = P.child[q]
        rc = value_row(P, B, c, b)
        vc, tc = view(V, B, P, c)[rc], block_of(VT, B, P, c)[rc if shared else r]
        for j in range(P.steps[s, WIDTH]):
            if vc[j] == 0 and tc[j] != 0:
                row[j] += tc[j] * others(P, B, V, s, b, q - first, -1, j, shift)


@njit(cache=True, fastmath=FAST, boundscheck=False)
def move_hadamard(P, B, marks, V, E, VT, shared, s, lo, hi):
    vt, v = block_of(VT, B, P, s), view(V, B, P, s)
    k, stride = P.steps[s, WIDTH], P.steps[s, STRIDE]
    first, last = P.steps[s, CHILD], P.steps[s, CHILD_END]
    x, y = P.child[first], P.child[last - 1]
    all_vx, all_vy, all_tx, all_ty = view(V, B, P, x), view(V, B, P, y), block_of(VT, B, P, x), block_of(VT, B, P, y)
    for r in range(lo, hi):
        b = batch_row(P, B, s, r, shared)
        row = vt[r]
        row[:] = 0
        if last - first == 2:
            rx, ry = value_row(P, B, x, b), value_row(P, B, y, b)
            vx, vy, tx, ty = all_vx[rx], all_vy[ry], all_tx[rx if shared else r], all_ty[ry if shared else r]
            factor = power(total_shift(P, B, E, s, b))
            for j in range(k):
                row[j] = (tx[j] * vy[j] + vx[j] * ty[j]) * factor
            continue
        value = v[value_row(P, B, s, b)]
        zeros = False
        for q in range(first, last):
            c = P.child[q]
            if marks[c] == DEAD:
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
            _where_zero(P, B, V, E, VT, shared, s, b, r, row)
        for j in range(k, stride):
            row[j] = 0


@njit(cache=True, fastmath=FAST, boundscheck=False)
def move_kronecker(P, B, V, E, VT, shared, s, lo, hi):
    vt = block_of(VT, B, P, s)
    x, y = P.child[P.steps[s, CHILD]], P.child[P.steps[s, CHILD] + 1]
    kx, ky = P.steps[x, WIDTH], P.steps[y, WIDTH]
    for r in range(lo, hi):
        b = batch_row(P, B, s, r, shared)
        rx, ry = value_row(P, B, x, b), value_row(P, B, y, b)
        vx, vy = view(V, B, P, x)[rx], view(V, B, P, y)[ry]
        tx, ty = block_of(VT, B, P, x)[rx if shared else r], block_of(VT, B, P, y)[ry if shared else r]
        factor = power(total_shift(P, B, E, s, b))
        row = vt[r]
        for i in range(kx):
            t, v = tx[i] * factor, vx[i] * factor
            for j in range(ky):
                row[i * ky + j] = t * vy[j] + v * ty[j]
        for j in range(kx * ky, P.steps[s, STRIDE]):
            row[j] = 0


@njit(cache=True, fastmath=FAST, boundscheck=False)
def move_join(P, B, E, VT, shared, s, lo, hi):
    vt = block_of(VT, B, P, s)
    for r in range(lo, hi):
        b = batch_row(P, B, s, r, shared)
        row, start = vt[r], 0
        for q in range(P.steps[s, CHILD], P.steps[s, CHILD_END]):
            c = P.child[q]
            tc = block_of(VT, B, P, c)[r]
            factor = power(scale(E, B, P, c, b) - scale(E, B, P, s, b))
            for j in range(P.steps[c, WIDTH]):
                row[start + j] = tc[j] * factor
            start += P.steps[c, WIDTH]
        for j in range(start, P.steps[s, STRIDE]):
            row[j] = 0


@njit(cache=True, fastmath=FAST, boundscheck=False)
def move_dense_sum(P, B, W, dW, M, marks, V, A, VT, shared, space, s, lo, hi):
    c = P.child[P.steps[s, CHILD]]
    vt, tc, p = block_of(VT, B, P, s), block_of(VT, B, P, c), view(V, B, P, c)
    k, n_in, at = P.steps[s, WIDTH], P.steps[c, STRIDE], P.steps[s, WEIGHT]
    w = W[at : at + k * n_in].reshape(k, n_in)
    vt[lo:hi] = 0
    if marks[c] != DEAD:
        multiply_transposed(tc, w, vt, lo, hi)
    if space == SHARED_DIRECTION:
        more = np.empty((hi - lo, P.steps[s, STRIDE]), VT.dtype)
        multiply_transposed(p[lo:hi], dW[at : at + k * n_in].reshape(k, n_in), more, 0, hi - lo)
        for r in range(lo, hi):
            for n in range(k):
                vt[r, n] += more[r - lo, n]
        return
    a, v = block_of(A, B, P, s), view(V, B, P, s)
    for r in range(lo, hi):
        u = value_row(P, B, s, r)
        value = p[u]
        if space == WEIGHTS and len(M) == 0:
            squares = 0.0
            for j in range(n_in):
                squares += value[j] * value[j]
            for n in range(k):
                vt[r, n] += 2.0 * a[r, n] * squares
            continue
        for n in range(k):
            weight, mine = w[n], a[r, n]
            flow = mine * v[u, n]
            kappa, total = 0.0, 0.0
            for j in range(n_in):
                kappa += kappa_term(space, weight[j], mine * value[j], flow)
            if len(M):
                mask = M[at + n * n_in : at + (n + 1) * n_in]
                for j in range(n_in):
                    total += mask[j] * value[j] * direction(space, weight[j], mine * value[j], flow, kappa)
            else:
                for j in range(n_in):
                    total += value[j] * direction(space, weight[j], mine * value[j], flow, kappa)
            vt[r, n] += total


@njit(cache=True, fastmath=FAST, boundscheck=False)
def move_sum(P, B, W, dW, M, V, E, A, VT, shared, space, s, lo, hi):
    """A MIXTURE or a SCALAR_SUM, unit by unit; children have the step's own scope."""
    vt, a, v = block_of(VT, B, P, s), block_of(A, B, P, s), view(V, B, P, s)
    k, first, last = P.steps[s, WIDTH], P.steps[s, CHILD], P.steps[s, CHILD_END]
    stride = P.steps[s, STRIDE] if P.steps[s, KIND] == MIXTURE else 1
    for r in range(lo, hi):
        b = batch_row(P, B, s, r, shared)
        u = value_row(P, B, s, b)
        row = vt[r]
        row[:] = 0
        for j in range(k):
            kappa = 0.0
            mine = 0.0 if space == SHARED_DIRECTION else a[r, j]
            flow = mine * v[u, j]
            if space > WEIGHTS:
                for q in range(first, last):
                    c = P.child[q]
                    p = V[B.at[c, VALUE] + u * P.steps[c, STRIDE] + j] * power(scale(E, B, P, c, b) - scale(E, B, P, s, b))
                    kappa += kappa_term(space, W[P.steps[s, WEIGHT] + (q - first) * stride + j], mine * p, flow)
            for q in range(first, last):
                c = P.child[q]
                factor = power(scale(E, B, P, c, b) - scale(E, B, P, s, b))
                at = P.steps[s, WEIGHT] + (q - first) * stride + j
                p = V[B.at[c, VALUE] + u * P.steps[c, STRIDE] + j] * factor
                if space == SHARED_DIRECTION:
                    change = dW[at]
                elif len(M) and M[at] == 0:
                    change = 0.0
                else:
                    change = direction(space, W[at], mine * p, flow, kappa)
                row[j] += W[at] * block_of(VT, B, P, c)[r, j] * factor + change * p
