"""What is added up over rows, block of parameters by block of parameters.

    FIRST     ∂ log p / ∂θ                        g_nc = s̄_n p_c
    SECOND    its change in one direction         ġ_nc = s̄̇_n p_c + s̄_n ṗ_c, and a penalty's explicit part
    DIAGONAL  ∂² log p / ∂θ_nc²                   per row, so rows must not be shared

The results are in the layout of weights and of input tables. If rows are not shared, row r counts `count[r]` times.
"""

import numpy as np

from flatpc.curvature._kernels import penalty_directions
from flatpc.curvature._kernels.penalty_directions import SIMPLEX, WEIGHTS, explicit, kappa_term, shares, table_kappa
from flatpc.curvature._kernels.rows import STILL, batch_row, power, scale, value_row
from flatpc.engine.numba._kernels.adjoints import block_of
from flatpc.engine.numba._kernels.columns import (
    ADJOINT_ROWS,
    CATEGORIES,
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
from flatpc.engine.numba._kernels.dense import FAST, accumulate_outer
from flatpc.engine.numba._kernels.work_items import edge_stride, view

FIRST, SECOND, DIAGONAL = range(3)


@inner
def _counted(P, B, G, V, count, s, by_value):
    """Rows of G as often as they count; if `by_value`, those that have the same sub-row added up."""
    g = block_of(G, B, P, s)
    out = np.zeros(view(V, B, P, s).shape, V.dtype) if by_value else np.zeros(g.shape, V.dtype)
    for r in range(g.shape[0]):
        to = out[value_row(P, B, s, r) if by_value else r]
        for j in range(P.steps[s, WIDTH]):
            to[j] += count[r] * g[r, j]
    return out


@inner(fastmath=FAST)
def gather_dense(P, B, W, M, marks, V, A, VT, AT, count, OUT, shared, what, space, s):
    c = P.child[P.steps[s, CHILD]]
    k, n_in, at = P.steps[s, WIDTH], P.steps[c, STRIDE], P.steps[s, WEIGHT]
    out = OUT[at : at + k * n_in].reshape(k, n_in)
    p = view(V, B, P, c)
    if what != DIAGONAL:
        G = A if what == FIRST else AT
        accumulate_outer(block_of(G, B, P, s) if shared else _counted(P, B, G, V, count, s, True), p, out, 0, k)
    if what == SECOND and not marks[c] & STILL:
        accumulate_outer(
            block_of(A, B, P, s) if shared else _counted(P, B, A, V, count, s, False), block_of(VT, B, P, c), out, 0, k
        )
    if what == FIRST or (what == SECOND and space <= SIMPLEX):
        return
    w, a, v = W[at : at + k * n_in].reshape(k, n_in), block_of(A, B, P, s), view(V, B, P, s)
    inside = P.steps[c, WIDTH]
    share = np.empty(inside)
    shares(M, at, 1, inside, share)
    for r in range(a.shape[0]):
        u = value_row(P, B, s, r)
        value = p[u]
        for n in range(k):
            weight, mine, row = w[n], a[r, n], out[n]
            flow = mine * v[u, n]
            if what == SECOND:
                kappa = 0.0
                for j in range(inside):
                    kappa += kappa_term(space, weight[j], mine * value[j], flow, 0.0)
                for j in range(inside):
                    row[j] += count[r] * explicit(space, weight[j], mine * value[j], flow, kappa)
                continue
            if len(M):
                shares(M, at + n * n_in, 1, inside, share)
            mean = 0.0
            for j in range(inside):
                mean += mine * value[j] * share[j]
            for j in range(inside):
                row[j] += count[r] * penalty_directions.diagonal(space, weight[j], mine * value[j], flow, mean)


@inner(fastmath=FAST)
def gather_sum(P, B, W, M, marks, V, E, A, VT, AT, count, OUT, shared, what, space, s):
    """Of a MIXTURE or a SCALAR_SUM."""
    a, at_, v = block_of(A, B, P, s), block_of(AT, B, P, s), view(V, B, P, s)
    first, last = P.steps[s, CHILD], P.steps[s, CHILD_END]
    stride = edge_stride(P, s)
    n = last - first
    p, share = np.empty(n), np.empty(n)
    shares(M, P.steps[s, WEIGHT], stride, n, share)
    for r in range(B.at[s, ADJOINT_ROWS]):
        b = batch_row(P, B, s, r, shared)
        u = value_row(P, B, s, b)
        times = 1.0 if shared else count[r]
        for j in range(P.steps[s, WIDTH]):
            mine = a[r, j]
            flow, kappa, mean = mine * v[u, j], 0.0, 0.0
            if len(M):
                shares(M, P.steps[s, WEIGHT] + j, stride, n, share)
            for q in range(n):
                c = P.child[first + q]
                where = P.steps[s, WEIGHT] + q * stride + j
                p[q] = V[B.at[c, VALUE] + u * P.steps[c, STRIDE] + j] * power(scale(E, B, P, c, b) - scale(E, B, P, s, b))
                if what == SECOND and space > WEIGHTS:
                    kappa += kappa_term(space, W[where], mine * p[q], flow, share[q])
                mean += mine * p[q] * share[q]
            for q in range(n):
                c = P.child[first + q]
                where = P.steps[s, WEIGHT] + q * stride + j
                if what == FIRST:
                    OUT[where] += times * mine * p[q]
                elif what == DIAGONAL:
                    OUT[where] += times * penalty_directions.diagonal(space, W[where], mine * p[q], flow, mean)
                else:
                    factor = power(scale(E, B, P, c, b) - scale(E, B, P, s, b))
                    OUT[where] += times * at_[r, j] * p[q]
                    if not marks[c] & STILL:
                        OUT[where] += times * mine * block_of(VT, B, P, c)[r, j] * factor
                    if space > SIMPLEX:
                        OUT[where] += times * explicit(space, W[where], mine * p[q], flow, kappa)


@inner
def gather_table(P, B, T, V, E, A, AT, count, OUT, shared, what, space, s):
    """Of an input's table; only the entry that was observed has a gradient."""
    stride, categories = P.steps[s, STRIDE], P.steps[s, CATEGORIES]
    a, at_, v = block_of(A, B, P, s), block_of(AT, B, P, s), view(V, B, P, s)
    for r in range(B.at[s, ADJOINT_ROWS]):
        b = batch_row(P, B, s, r, shared)
        observed = B.X[B.rows[b], P.steps[s, VARIABLE]]
        if observed != observed:
            continue
        x = np.int64(observed)
        unit = power(-scale(E, B, P, s, b))
        times = 1.0 if shared else count[r]
        for j in range(P.steps[s, WIDTH]):
            where = P.steps[s, TABLE] + x * stride + j
            g = a[r, j] * unit
            if what == FIRST:
                OUT[where] += times * g
                continue
            flow = a[r, j] * v[value_row(P, B, s, b), j]
            kappa = 0.0
            if what == SECOND:
                OUT[where] += times * at_[r, j] * unit
                if space <= SIMPLEX:
                    continue
                kappa = table_kappa(P, T, space, s, x, j, g, flow)
            for c in range(categories):
                here = P.steps[s, TABLE] + c * stride + j
                mine = g if c == x else 0.0
                if what == SECOND:
                    OUT[here] += times * explicit(space, T[here], mine, flow, kappa)
                else:
                    OUT[here] += times * penalty_directions.diagonal(space, T[here], mine, flow, g / categories)
