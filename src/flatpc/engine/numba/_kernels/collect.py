"""The flow into the root; statistics of inputs and gradients of weights, once adjoints are known; the M-step from gradients."""

import math

import numpy as np

from flatpc.engine.numba._kernels.adjoints import block_of, factor_of
from flatpc.engine.numba._kernels.columns import (
    ADJOINT,
    ALONE,
    CHILD,
    CHILD_END,
    DENSE_SUM,
    FORMULA,
    GAUSSIAN,
    KIND,
    ROW,
    SCALAR_SUM,
    SCALED,
    SCOPE,
    STRIDE,
    TABLE,
    TABLE_INPUT,
    VALUE,
    VARIABLE,
    WEIGHT,
    WIDTH,
    Rule,
)
from flatpc.engine.numba._kernels.compiling import inner, kernel, loop
from flatpc.engine.numba._kernels.dense import FAST, accumulate_outer
from flatpc.engine.numba._kernels.rows import add_converted_row, largest_gradient
from flatpc.engine.numba._kernels.update import update_unit
from flatpc.engine.numba._kernels.work_items import edge_stride, view

LN2 = math.log(2.0)


@kernel
def flow_of_root(B, V, E, L, distinct, row_weights, log_prob, flow):
    """Fill in log-likelihood and number (or weight) of each distinct row; impossible ones have no flow.

    Returns the mean log-likelihood of the batch, and whether the linear domain settled all rows.
    """
    last = len(B.at) - 1
    value, row = B.at[last, VALUE], B.at[last, ROW]
    settled = True
    for u in range(len(flow)):
        x = float(V[value + u])
        log_prob[u] = math.log(x) + LN2 * E[row + u] if x > 0 else -np.inf
        settled &= L[row + u] < np.inf
        flow[u] = 0.0
    total = 0.0
    for b in range(len(distinct)):
        u = distinct[b]
        total += log_prob[u]
        if log_prob[u] > -np.inf:
            flow[u] += row_weights[B.rows[b]] if len(row_weights) else 1.0
    return total / len(distinct), settled


@inner(fastmath=FAST)
def add_statistics(P, B, T, A, ST, s):
    """Add an input's sufficient statistics to ST, which has the layout of the input parameters."""
    a = block_of(A, B, P, s)
    k, stride, at = P.steps[s, WIDTH], P.steps[s, STRIDE], P.steps[s, TABLE]
    for u in range(a.shape[0]):
        x = B.X[B.rows[B.share[1, P.steps[s, SCOPE], u]], P.steps[s, VARIABLE]]
        if x != x:
            continue
        row = a[u]
        if P.steps[s, KIND] == TABLE_INPUT:
            add_converted_row(ST, at + np.int64(x) * stride, A, B.at[s, ADJOINT] + u * stride, A.dtype.type(1), k)
        elif P.steps[s, FORMULA] == GAUSSIAN:
            for j in range(k):
                d = x - T[at + j]
                ST[at + j] += row[j]
                if row[j] > 0:
                    ST[at + stride + j] += row[j] * d
                    ST[at + 2 * stride + j] += row[j] * d * d
        else:
            for j in range(k):
                ST[at + j] += row[j]
                ST[at + stride + j] += row[j] * x


@loop(fastmath=FAST)
def add_gradient(P, B, V, E, A, FL, s):
    """Add Σ_rows g to FL for one step, g being the gradient of the log-likelihood in the step's weights."""
    g = block_of(A, B, P, s)
    if P.steps[s, KIND] == DENSE_SUM:
        c = P.child[P.steps[s, CHILD]]
        block = FL[P.steps[s, WEIGHT] : P.steps[s, WEIGHT] + P.steps[s, WIDTH] * P.steps[c, STRIDE]].reshape(
            P.steps[s, WIDTH], P.steps[c, STRIDE]
        )
        accumulate_outer(g, view(V, B, P, c), block, 0, P.steps[s, WIDTH])
        return
    k = P.steps[s, WIDTH]
    for q in range(P.steps[s, CHILD], P.steps[s, CHILD_END]):
        c = P.child[q]
        at = P.steps[s, WEIGHT] + (q - P.steps[s, CHILD]) * edge_stride(P, s)
        v = view(V, B, P, c)
        plain = not B.at[c, SCALED] and not B.at[s, SCALED]
        for u in range(g.shape[0]):
            factor = 1.0 if plain else factor_of(E, B, P, c, s, u)
            for j in range(k):
                # An edge of weight zero may have a gradient beyond all bounds; its flow is zero all the same.
                more = factor * v[u, j] * g[u, j] if v[u, j] > 0 else 0.0
                FL[at + j] = min(FL[at + j] + more, largest_gradient(FL))


@kernel
def add_flows_as_gradients(flows, W, FL, largest):
    """Flows to gradients, for the M-step; weights too small for that grow by 1e-300 of what it will make of them."""
    for e in range(len(flows)):
        if flows[e] > 0:
            W[e] = max(float(W[e]), flows[e] / largest)
            FL[e] += min(flows[e] / W[e], largest)


@inner
def _update(P, W, FL, rule, s):
    mu = rule.mu[s]
    n_children = P.steps[s, CHILD_END] - P.steps[s, CHILD]
    if P.steps[s, KIND] == SCALAR_SUM:
        update_unit(rule, FL, P.steps[s, WEIGHT], W, P.steps[s, WEIGHT], n_children, n_children, mu)
    elif P.steps[s, KIND] == DENSE_SUM:
        c = P.child[P.steps[s, CHILD]]
        for n in range(P.steps[s, WIDTH]):
            at = P.steps[s, WEIGHT] + n * P.steps[c, STRIDE]
            update_unit(rule, FL, at, W, at, P.steps[c, WIDTH], P.steps[c, STRIDE], mu)
    else:  # a mixture's weights are stored child by child
        stride = P.steps[s, STRIDE]
        gradient, weight = np.empty(n_children, W.dtype), np.empty(n_children, W.dtype)
        unmasked = Rule(rule.kind, rule.mu, rule.pseudocount, rule.alpha, rule.allowed[:0], rule.solver)
        for j in range(P.steps[s, WIDTH]):
            for c in range(n_children):
                weight[c] = W[P.steps[s, WEIGHT] + c * stride + j]
                gradient[c] = FL[P.steps[s, WEIGHT] + c * stride + j]
            update_unit(unmasked, gradient, 0, weight, 0, n_children, n_children, mu)
            for c in range(n_children):
                W[P.steps[s, WEIGHT] + c * stride + j] = weight[c]


@kernel
def update_weights(P, owners, W, FL, rule, everything, t, n_threads, barrier):
    """New weights from the gradients in FL, which are overwritten: of every block, or only of those that a fused pass leaves."""
    for block in range(t, len(owners.weight_ptr) - 1, n_threads):
        s = owners.weight_step[owners.weight_ptr[block]]
        if everything or not P.steps[s, ALONE]:
            _update(P, W, FL, rule, s)
