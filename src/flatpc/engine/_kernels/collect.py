"""After the downward pass: statistics of inputs, and flows of the weights that the pass itself could not deal with."""

import numpy as np
from numba import njit, prange

from flatpc.engine._kernels.backward import _factor, adjoints_of
from flatpc.engine._kernels.dense import FAST, accumulate_outer
from flatpc.engine._kernels.items import view
from flatpc.engine._kernels.update import update_row

_TABLE, _FORMULA, _HADAMARD, _KRONECKER, _DENSE_SUM, _SCALAR_SUM, _MIXTURE, _JOIN = range(8)
_GAUSSIAN = 0


@njit(cache=True, fastmath=FAST, boundscheck=False)
def _input(P, B, T, A, a_ptr, ST, s):
    a = adjoints_of(A, a_ptr, P, s)
    k, stride, at = P.width[s], P.stride[s], P.table[s]
    for u in range(a.shape[0]):
        x = B.X[B.rows[B.representative[P.scope[s], u]], P.variable[s]]
        if x != x:
            continue
        row = a[u]
        if P.kind[s] == _TABLE:
            start = at + np.int64(x) * stride
            for j in range(k):
                ST[start + j] += row[j]
        elif P.formula[s] == _GAUSSIAN:
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


@njit(cache=True, parallel=True, boundscheck=False)
def collect_inputs(P, B, T, A, a_ptr, ST, n_threads):
    """Add the batch's sufficient statistics to ST, which has the layout of the input parameters."""
    n = len(P.input_ptr) - 1
    for t in prange(n_threads):
        for block in range(t, n, n_threads):
            for q in range(P.input_ptr[block], P.input_ptr[block + 1]):
                _input(P, B, T, A, a_ptr, ST, P.input_step[q])


@njit(cache=True, fastmath=FAST, boundscheck=False)
def _gradient(P, B, V, E, A, a_ptr, FL, s):
    """Add Σ_rows g to FL for one step, g being the gradient of the log-likelihood in the step's weights."""
    g = adjoints_of(A, a_ptr, P, s)
    if P.kind[s] == _DENSE_SUM:
        c = P.child[P.child_ptr[s]]
        block = FL[P.weight[s] : P.weight[s] + P.width[s] * P.stride[c]].reshape(P.width[s], P.stride[c])
        accumulate_outer(g, view(V, B, P, c), block, 0, P.width[s])
        return
    k = P.width[s]
    for q in range(P.child_ptr[s], P.child_ptr[s + 1]):
        c = P.child[q]
        at = P.weight[s] + (q - P.child_ptr[s]) * (1 if P.kind[s] == _SCALAR_SUM else P.stride[s])
        v = view(V, B, P, c)
        for u in range(g.shape[0]):
            factor = FL.dtype.type(_factor(E, B, P, c, s, u))
            for j in range(k):
                FL[at + j] += g[u, j] * v[u, j] * factor


@njit(cache=True, parallel=True, boundscheck=False)
def collect_weights(P, B, V, E, A, a_ptr, FL, n_threads):
    """Add the gradients of the weight blocks that are tied or don't belong to a dense sum."""
    n = len(P.owner_ptr) - 1
    for t in prange(n_threads):
        for block in range(t, n, n_threads):
            for q in range(P.owner_ptr[block], P.owner_ptr[block + 1]):
                s = P.owner_step[q]
                if not P.alone[s]:
                    _gradient(P, B, V, E, A, a_ptr, FL, s)


@njit(cache=True, boundscheck=False)
def _update(P, W, FL, rule, s):
    if P.kind[s] == _MIXTURE:
        k, stride, n = P.width[s], P.stride[s], P.child_ptr[s + 1] - P.child_ptr[s]
        flow, weight = np.empty(n, W.dtype), np.empty(n, W.dtype)
        for j in range(k):
            for c in range(n):
                weight[c] = W[P.weight[s] + c * stride + j]
                flow[c] = FL[P.weight[s] + c * stride + j] * weight[c]
            update_row(rule.kind, flow, weight, rule.allowed[:0], n, rule.mu[s], rule.pseudocount, rule.alpha)
            for c in range(n):
                W[P.weight[s] + c * stride + j] = weight[c]
        return
    if P.kind[s] == _DENSE_SUM:
        rows, stride, k = P.width[s], P.stride[P.child[P.child_ptr[s]]], P.width[P.child[P.child_ptr[s]]]
    else:
        rows, k = 1, P.child_ptr[s + 1] - P.child_ptr[s]
        stride = k
    flow = np.empty(k, W.dtype)
    for n in range(rows):
        start = P.weight[s] + n * stride
        for c in range(k):
            flow[c] = FL[start + c] * W[start + c]
        allowed = rule.allowed
        if len(allowed):
            allowed = allowed[start : start + k]
        update_row(rule.kind, flow, W[start : start + k], allowed, k, rule.mu[s], rule.pseudocount, rule.alpha)


@njit(cache=True, parallel=True, boundscheck=False)
def update_weights(P, W, FL, rule, everything, n_threads):
    """New weights from the gradients in FL: of every block, or only of those that a fused pass leaves."""
    n = len(P.owner_ptr) - 1
    for t in prange(n_threads):
        for block in range(t, n, n_threads):
            s = P.owner_step[P.owner_ptr[block]]
            if everything or not P.alone[s]:
                _update(P, W, FL, rule, s)
