"""The negated trace of every row's Hessian, block by block.

    Σ_n Σ_c g_nc² = (Σ_n s̄_n²) (Σ_c p_c²)

so that a K×K block costs O(K) per row; on the simplex `Σ_c p_c² - (Σ_c p_c)²/K` takes the place of the second factor. Blocks
with a mask, and logits, whose terms don't factorise, cost O(K²).
"""

import numpy as np

from flatpc.curvature._kernels.penalty_directions import SIMPLEX, curvature
from flatpc.curvature._kernels.rows import COUNTED, power, scale, value_row
from flatpc.engine.numba._kernels.adjoints import block_of
from flatpc.engine.numba._kernels.columns import (
    CATEGORIES,
    CHILD,
    CHILD_END,
    DENSE_SUM,
    KIND,
    ROWS,
    STRIDE,
    TABLE,
    TABLE_INPUT,
    VALUE,
    VARIABLE,
    WEIGHT,
    WIDTH,
)
from flatpc.engine.numba._kernels.compiling import inner, kernel
from flatpc.engine.numba._kernels.dense import FAST
from flatpc.engine.numba._kernels.work_items import edge_stride, view


@inner(fastmath=FAST)
def _squares_dense(P, B, W, M, V, A, OUT, space, s):
    c = P.child[P.steps[s, CHILD]]
    k, n_in, at, inside = P.steps[s, WIDTH], P.steps[c, STRIDE], P.steps[s, WEIGHT], P.steps[c, WIDTH]
    a, v, p = block_of(A, B, P, s), view(V, B, P, s), view(V, B, P, c)
    if space <= SIMPLEX and len(M) == 0:
        below = np.empty(B.at[c, ROWS])
        for u in range(len(below)):
            total, squares = 0.0, 0.0
            for j in range(inside):
                total += p[u, j]
            mean = total / inside if space == SIMPLEX else 0.0
            for j in range(inside):
                squares += (p[u, j] - mean) * (p[u, j] - mean)
            below[u] = squares
        for r in range(a.shape[0]):
            squares = 0.0
            for n in range(k):
                squares += a[r, n] * a[r, n]
            OUT[s, r] = squares * below[value_row(P, B, s, r)]
        return
    for r in range(a.shape[0]):
        u = value_row(P, B, s, r)
        value, out = p[u], 0.0
        for n in range(k):
            weight, mine = W[at + n * n_in : at + (n + 1) * n_in], a[r, n]
            flow = mine * v[u, n]
            if len(M) == 0:
                for j in range(inside):
                    out += curvature(space, weight[j], mine * value[j], flow, 0.0)
                continue
            mask = M[at + n * n_in : at + (n + 1) * n_in]
            total, count = 0.0, 0.0
            for j in range(inside):
                total += mask[j] * value[j]
                count += mask[j]
            for j in range(inside):
                out += mask[j] * curvature(space, weight[j], mine * value[j], flow, mine * total / count)
        OUT[s, r] = out


@inner(fastmath=FAST)
def _squares_sum(P, B, W, M, V, E, A, OUT, space, s):
    a, v = block_of(A, B, P, s), view(V, B, P, s)
    first, n = P.steps[s, CHILD], P.steps[s, CHILD_END] - P.steps[s, CHILD]
    stride = edge_stride(P, s)
    g = np.empty(n)
    for r in range(a.shape[0]):
        u, out = value_row(P, B, s, r), 0.0
        for j in range(P.steps[s, WIDTH]):
            mean, count = 0.0, 0.0
            for q in range(n):
                c = P.child[first + q]
                factor = power(scale(E, B, P, c, r) - scale(E, B, P, s, r))
                g[q] = a[r, j] * V[B.at[c, VALUE] + u * P.steps[c, STRIDE] + j] * factor
                there = 1.0 if len(M) == 0 else float(M[P.steps[s, WEIGHT] + q * stride + j])
                mean += there * g[q]
                count += there
            for q in range(n):
                at = P.steps[s, WEIGHT] + q * stride + j
                if len(M) == 0 or M[at]:
                    out += curvature(space, W[at], g[q], a[r, j] * v[u, j], mean / count)
        OUT[s, r] = out


@inner
def _squares_table(P, B, T, V, E, A, OUT, space, s):
    a, v = block_of(A, B, P, s), view(V, B, P, s)
    categories = P.steps[s, CATEGORIES]
    for r in range(a.shape[0]):
        observed, out = B.X[B.rows[r], P.steps[s, VARIABLE]], 0.0
        if observed == observed:
            u, unit = value_row(P, B, s, r), power(-scale(E, B, P, s, r))
            for j in range(P.steps[s, WIDTH]):
                g = a[r, j] * unit
                for c in range(categories):
                    theta = T[P.steps[s, TABLE] + c * P.steps[s, STRIDE] + j]
                    out += curvature(space, theta, g if c == np.int64(observed) else 0.0, a[r, j] * v[u, j], g / categories)
        OUT[s, r] = out


@kernel
def squares(P, B, W, T, M, marks, V, E, A, OUT, space, t, n_threads, barrier):
    """OUT[s, r]: the negated trace that step s contributes at row r; 0 for a step whose parameters don't count."""
    for s in range(t, len(P.steps), n_threads):
        if not marks[s] & COUNTED:
            OUT[s] = 0
        elif P.steps[s, KIND] == DENSE_SUM:
            _squares_dense(P, B, W, M, V, A, OUT, space, s)
        elif P.steps[s, KIND] == TABLE_INPUT:
            _squares_table(P, B, T, V, E, A, OUT, space, s)
        else:
            _squares_sum(P, B, W, M, V, E, A, OUT, space, s)
