"""The downward pass: adjoints and flows.

With F a unit's flow and p its value, sums and mixtures store the adjoint F/p (in units of the scaled value V), inputs and
Hadamard products the flow F itself; products pass flow on unchanged, so no division is needed below a product except where
a sum needs its adjoint. A Kronecker product stores adjoints.

Every step *pulls* from its parents, so that no two items write the same numbers; only a dense sum *pushes* to its one child,
because that is when its block of weights is in cache, and then updates the block in place.

`shared`: rows are the distinct sub-rows and flow is summed over the batch rows that have them. Not `shared`: one row per
batch row, for what is not linear in a row's flow.
"""

import numpy as np

from flatpc.engine.numba._kernels.columns import (
    ADJOINT,
    ADJOINT_ROWS,
    CHILD,
    DENSE_SUM,
    HADAMARD,
    INLINED,
    JOIN,
    KIND,
    KRONECKER,
    MIXTURE,
    PARENT,
    PARENT_END,
    ROW,
    SCALAR_SUM,
    SCALED,
    SCOPE,
    STRIDE,
    VALUE,
    WEIGHT,
    WIDTH,
)
from flatpc.engine.numba._kernels.compiling import inner, loop
from flatpc.engine.numba._kernels.dense import FAST, accumulate_outer, multiply
from flatpc.engine.numba._kernels.fused import UNITS, fits, new_weights
from flatpc.engine.numba._kernels.loops import pull_from
from flatpc.engine.numba._kernels.rows import (
    add_quotient,
    add_row,
    add_scaled_product,
    add_scaled_row,
    copy_row,
    divide_row,
    dot_rows,
    extremes,
    fill_row,
    times_row,
)
from flatpc.engine.numba._kernels.simd import VECTOR_BYTES
from flatpc.engine.numba._kernels.underflow import power_of_two
from flatpc.engine.numba._kernels.update import QUADRATIC, update_unit
from flatpc.engine.numba._kernels.work_items import UNITS_PER_ITEM, scale_of, view

ADJOINTS, FLOWS, FUSED = range(3)
"""What happens to weights: nothing; their flows are added to an array; they are updated at once."""
FROM_KRONECKER, FROM_SUM, DESCEND_SCALARS, COLLECT_SCALARS, ADD_GRADIENT = range(5)
"""Numbers of loops that are called by address."""


@inner
def _is_flow(kind):
    return kind <= HADAMARD  # inputs come before it


@inner
def block_of(A, B, P, s):
    """A step's part of the adjoints A, or of tangents that lie as they do, [rows, stride]."""
    start, rows, stride = B.at[s, ADJOINT], B.at[s, ADJOINT_ROWS], P.steps[s, STRIDE]
    return A[start : start + rows * stride].reshape(rows, stride)


@inner
def value_row(P, B, s, a, shared):
    """The row of V that belongs to row a of A."""
    return a if shared else np.int64(B.share[0, P.steps[s, SCOPE], a])


@inner(forceinline=True)
def factor_of(E, B, P, c, s, r):
    """2^(E_c - E_s): a child's scale in units of its parent's."""
    shift = scale_of(E, B, c, r) - scale_of(E, B, s, r)
    return power_of_two(shift, 1000.0)


@inner
def _from_hadamard(P, B, V, A, shared, s, p, lo, hi):
    stride, scope = P.steps[s, STRIDE], P.steps[s, SCOPE]
    base, base_p, base_v = B.at[s, ADJOINT], B.at[p, ADJOINT], B.at[s, VALUE]
    scope_p = P.steps[p, SCOPE]
    flow = _is_flow(P.steps[s, KIND])
    for i in range(B.at[p, ADJOINT_ROWS]):
        r = np.int64(B.share[0, scope, B.share[1, scope_p, i]]) if shared else i
        if r < lo or r >= hi:
            continue
        if flow:
            add_row(A, base + r * stride, A, base_p + i * stride, stride)
        else:
            value = base_v + value_row(P, B, s, r, shared) * stride
            add_quotient(A, base + r * stride, A, base_p + i * stride, V, value, stride)


@inner
def _from_only_hadamard(P, B, V, A, s, p, lo, hi):
    """The same for a step with no other parent, over distinct sub-rows: flow is added up, and divided once.

    Sub-rows of a scope are numbered in order of first occurrence, so that a new one is known by its number.
    """
    stride, scope, scope_p = P.steps[s, STRIDE], P.steps[s, SCOPE], P.steps[p, SCOPE]
    base, base_p = B.at[s, ADJOINT], B.at[p, ADJOINT]
    seen = 0
    for i in range(B.at[p, ADJOINT_ROWS]):
        r = np.int64(B.share[0, scope, B.share[1, scope_p, i]])
        new = r == seen
        if new:
            seen += 1
        if r < lo or r >= hi:
            continue
        if new:
            copy_row(A, base + r * stride, A, base_p + i * stride, stride)
        else:
            add_row(A, base + r * stride, A, base_p + i * stride, stride)
    if not _is_flow(P.steps[s, KIND]):
        divide_row(A, base + lo * stride, V, B.at[s, VALUE] + lo * stride, (hi - lo) * stride)


@loop
def from_kronecker(P, B, W, V, E, A, shared, s, p, position, lo, hi):
    other = P.child[P.steps[p, CHILD] + 1 - position]
    k, ko = P.steps[s, WIDTH], P.steps[other, WIDTH]
    new = np.empty(k, A.dtype)
    flow = _is_flow(P.steps[s, KIND])
    for i in range(B.at[p, ADJOINT_ROWS]):
        b = np.int64(B.share[1, P.steps[p, SCOPE], i]) if shared else i
        rs, ro = np.int64(B.share[0, P.steps[s, SCOPE], b]), np.int64(B.share[0, P.steps[other, SCOPE], b])
        r = rs if shared else i
        if r < lo or r >= hi:
            continue
        rp = value_row(P, B, p, i, shared)
        shift = scale_of(E, B, s, rs) + scale_of(E, B, other, ro) - scale_of(E, B, p, rp)
        factor = A.dtype.type(power_of_two(shift, 1000.0))
        source = B.at[p, ADJOINT] + i * P.steps[p, STRIDE]
        value = B.at[other, VALUE] + ro * P.steps[other, STRIDE]
        if position == 0:
            for j in range(k):
                new[j] = dot_rows(A, source + j * ko, V, value, ko)
        else:
            fill_row(new, 0, A.dtype.type(0), k)
            for m in range(ko):
                add_scaled_row(new, 0, A, source + m * k, V[value + m], k)
        to, mine = B.at[s, ADJOINT] + r * P.steps[s, STRIDE], B.at[s, VALUE] + rs * P.steps[s, STRIDE]
        for j in range(k):
            if V[mine + j] > 0:
                A[to + j] += new[j] * factor * V[mine + j] if flow else new[j] * factor


@loop(fastmath=FAST)
def from_sum(P, B, W, V, E, A, shared, s, p, position, lo, hi):
    """From a JOIN, a MIXTURE or a SCALAR_SUM, which have the scope of their children: rows correspond one to one."""
    if P.steps[p, KIND] == SCALAR_SUM and shared and _unscaled(E, B, s, lo, hi - lo) and _unscaled(E, B, p, lo, hi - lo):
        _from_scalar_sum_plain(P, W, B, V, A, s, p, position, lo, hi)
        return
    a, ap, v = block_of(A, B, P, s), block_of(A, B, P, p), view(V, B, P, s)
    k = P.steps[s, WIDTH]
    kind = P.steps[p, KIND]
    start = 0
    if kind == JOIN:
        for q in range(position):
            start += P.steps[P.child[P.steps[p, CHILD] + q], WIDTH]
    flow = _is_flow(P.steps[s, KIND])
    for r in range(lo, hi):
        rv = value_row(P, B, s, r, shared)
        factor = factor_of(E, B, P, s, p, rv)
        row, source, value = a[r], ap[r], v[rv]
        if kind == SCALAR_SUM:
            x = W[P.steps[p, WEIGHT] + position] * factor * source[0]
            if value[0] > 0 and W[P.steps[p, WEIGHT] + position] > 0:
                row[0] += x * value[0] if flow else x
        elif kind == MIXTURE:
            at = P.steps[p, WEIGHT] + position * P.steps[p, STRIDE]
            for j in range(k):
                x = W[at + j] * factor * source[j]
                if value[j] > 0 and W[at + j] > 0:
                    row[j] += x * value[j] if flow else x
        else:
            for j in range(k):
                x = source[start + j] * factor
                if value[j] > 0:
                    row[j] += x * value[j] if flow else x


@inner(fastmath=FAST)
def _from_scalar_sum_plain(P, W, B, V, A, s, p, position, lo, hi):
    """From a SCALAR_SUM whose scales are all zero: one multiplication per row."""
    weight = W[P.steps[p, WEIGHT] + position]
    n = hi - lo
    to, source, value = B.at[s, ADJOINT] + lo, B.at[p, ADJOINT] + lo, B.at[s, VALUE] + lo
    if _is_flow(P.steps[s, KIND]):
        add_scaled_product(A, to, A, source, V, value, weight, n)
    else:
        add_scaled_row(A, to, A, source, weight, n)


@inner(forceinline=True)
def _unscaled(E, B, s, lo, n):
    if not B.at[s, SCALED]:
        return True
    high, low = extremes(E, B.at[s, ROW] + lo, n)
    return high == 0 and low == 0


@inner
def times_value(P, B, V, A, shared, s, lo, hi):
    """Adjoint to flow."""
    stride, base, base_v = P.steps[s, STRIDE], B.at[s, ADJOINT], B.at[s, VALUE]
    if shared:  # rows correspond: one long loop
        times_row(A, base + lo * stride, V, base_v + lo * stride, (hi - lo) * stride)
    else:
        for r in range(lo, hi):
            times_row(A, base + r * stride, V, base_v + value_row(P, B, s, r, shared) * stride, stride)


@inner
def pull(P, B, W, V, E, A, loops, root_flow, shared, s, lo, hi):
    if s == len(P.steps) - 1:
        start = B.at[s, ADJOINT]
        for r in range(lo, hi):
            value = V[B.at[s, VALUE] + value_row(P, B, s, r, shared)]
            if value > 0:
                A[start + r] = root_flow[r] if _is_flow(P.steps[s, KIND]) else root_flow[r] / value
            else:
                A[start + r] = 0
        return
    first, last = P.steps[s, PARENT], P.steps[s, PARENT_END]
    if last - first == 1 and P.steps[P.parent[first, 0], KIND] == DENSE_SUM:  # it was pushed
        if _is_flow(P.steps[s, KIND]):
            times_value(P, B, V, A, shared, s, lo, hi)
        return
    if shared and last - first == 1 and P.steps[P.parent[first, 0], KIND] == HADAMARD:
        _from_only_hadamard(P, B, V, A, s, P.parent[first, 0], lo, hi)
        return
    stride = P.steps[s, STRIDE]
    A[B.at[s, ADJOINT] + lo * stride : B.at[s, ADJOINT] + hi * stride] = 0
    for q in range(first, last):
        p, position = P.parent[q, 0], P.parent[q, 1]
        if P.steps[p, KIND] == HADAMARD:
            _from_hadamard(P, B, V, A, shared, s, p, lo, hi)
        else:
            number = FROM_KRONECKER if P.steps[p, KIND] == KRONECKER else FROM_SUM
            pull_from(loops[number], P, B, W, V, E, A, shared, s, p, position, lo, hi)


@inner(fastmath=FAST)
def deal_with_weights(P, B, W, V, A, FL, mode, rule, s, n_lo, n_hi):
    """Flows of a dense sum's weights into units n_lo:n_hi, kept or turned into new weights."""
    c = P.child[P.steps[s, CHILD]]
    n_in, k = P.steps[c, STRIDE], P.steps[c, WIDTH]
    g, p = block_of(A, B, P, s), view(V, B, P, c)
    start = P.steps[s, WEIGHT] + n_lo * n_in
    end = P.steps[s, WEIGHT] + n_hi * n_in
    if mode == FLOWS:
        accumulate_outer(g, p, FL[start:end].reshape(n_hi - n_lo, n_in), n_lo, n_hi)
        return
    # A few units at a time, so that their flows stay in the first-level cache.
    f = np.empty((UNITS_PER_ITEM, n_in), W.dtype)
    flat = f.reshape(UNITS_PER_ITEM * n_in)
    totals = np.empty(UNITS * VECTOR_BYTES // W.itemsize, W.dtype)
    mu = rule.mu[s]
    one_sweep = (mu <= 0 or rule.kind <= QUADRATIC) and rule.pseudocount == 0 and fits(n_in, W.itemsize)
    four_mu = W.dtype.type(4 * mu if rule.kind == QUADRATIC else 0)
    for n in range(n_lo, n_hi, UNITS_PER_ITEM):
        n_end = min(n + UNITS_PER_ITEM, n_hi)
        rest = n
        if one_sweep:
            rest = n_end - (n_end - n) % UNITS
            new_weights(g, p, f, totals, W, P.steps[s, WEIGHT] + n * n_in, n, rest, four_mu, rule.alpha)
        if rest < n_end:
            f[:] = 0
            accumulate_outer(g, p, f, rest, n_end)
            for m in range(rest, n_end):
                at = P.steps[s, WEIGHT] + m * n_in
                update_unit(rule, flat, (m - rest) * n_in, W, at, k, n_in, mu)


@inner(fastmath=FAST)
def push(P, B, W, V, A, shared, s, lo, hi):
    """A dense sum's adjoints to its child; an inlined product's become flows at once."""
    c = P.child[P.steps[s, CHILD]]
    rows, columns = P.steps[s, WIDTH], P.steps[c, STRIDE]
    start = P.steps[s, WEIGHT]
    w = W[start : start + rows * columns].reshape(rows, columns)
    multiply(block_of(A, B, P, s), w, block_of(A, B, P, c), lo, hi)
    if P.steps[s, INLINED] >= 0:
        times_value(P, B, V, A, shared, c, lo, hi)
