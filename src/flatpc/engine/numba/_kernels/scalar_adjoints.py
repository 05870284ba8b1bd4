"""Runs of scalar steps on the way down, where nothing was rescaled on the way up: the counterpart of `scalars.py`.

Over distinct sub-rows only. Flow that comes from products is added up first and divided by the step's value once.
"""

import numpy as np

from flatpc.engine.numba._kernels.columns import (
    ADJOINT,
    BARE,
    CHILD,
    CHILD_END,
    HADAMARD,
    KIND,
    PARENT,
    PARENT_END,
    ROWS,
    SCALAR_SUM,
    SCALED,
    SCOPE,
    TABLE,
    TABLE_INPUT,
    VALUE,
    VARIABLE,
    WEIGHT,
    WIDTH,
)
from flatpc.engine.numba._kernels.compiling import inner, loop
from flatpc.engine.numba._kernels.factor_rows import add_scattered, sub_rows
from flatpc.engine.numba._kernels.rows import (
    add_row,
    add_scaled_product,
    add_scaled_row,
    divide_row,
    dot_rows,
    fill_row,
    largest_gradient,
)
from flatpc.engine.numba._kernels.work_items import DESCEND, INPUT_BLOCK, WEIGHT_BLOCK


@loop
def descend_scalars(P, B, W, V, A, index, item, i, last):
    """Fill the adjoints of items from i on while they are scalar and unscaled; returns the first that is not done."""
    steps, parent, at, share = P.steps, P.parent, B.at, B.share
    while i < last:
        s = item[i, 1]
        if item[i, 0] != DESCEND or not steps[s, BARE] or at[s, SCALED]:
            return i
        first, end = steps[s, PARENT], steps[s, PARENT_END]
        n_sums = 0
        for q in range(first, end):
            p = parent[q, 0]
            if steps[p, KIND] == SCALAR_SUM:
                n_sums += 1
                if at[p, SCALED]:
                    return i
        n, base, value = np.int64(at[s, ROWS]), at[s, ADJOINT], at[s, VALUE]
        flow = steps[s, KIND] != SCALAR_SUM
        fill_row(A, base, A.dtype.type(0), n)
        if n_sums < end - first:
            for q in range(first, end):
                p = parent[q, 0]
                if steps[p, KIND] != HADAMARD:
                    continue
                n_above = np.int64(at[p, ROWS])
                if n_above == n:
                    add_row(A, base, A, at[p, ADJOINT], n)
                else:
                    where = sub_rows(share, index, 0, steps[p, SCOPE], steps[s, SCOPE], n_above)
                    add_scattered(A, base, index, where, A, at[p, ADJOINT], n_above)
            if not flow:
                divide_row(A, base, V, value, n)
        if n_sums > 0:
            for q in range(first, end):
                p = parent[q, 0]
                if steps[p, KIND] == HADAMARD:
                    continue
                weight = W[steps[p, WEIGHT] + parent[q, 1]]
                if flow:
                    add_scaled_product(A, base, A, at[p, ADJOINT], V, value, weight, n)
                else:
                    add_scaled_row(A, base, A, at[p, ADJOINT], weight, n)
        i += 1
    return i


@inner(forceinline=True)
def _plain(steps, child, at, users, kind):
    """Whether the steps that use a block of parameters are all scalar, of one kind, and unscaled with what they use."""
    plain = True
    for s in users:
        plain &= steps[s, WIDTH] == 1 and steps[s, KIND] == kind and (kind == TABLE_INPUT or not at[s, SCALED])
        for q in range(steps[s, CHILD], steps[s, CHILD_END]):
            plain &= at[child[q], SCALED] == 0
    return plain


@loop
def collect_scalars(P, B, owners, V, A, FL, ST, item, i, last):
    """Statistics of inputs and gradients of weights from i on while scalar and unscaled; returns the first that is not done."""
    steps, child, at, X, rows, share = P.steps, P.child, B.at, B.X, B.rows, B.share
    input_ptr, input_step, weight_ptr, weight_step = owners.input_ptr, owners.input_step, owners.weight_ptr, owners.weight_step
    while i < last:
        block = item[i, 1]
        if item[i, 0] == INPUT_BLOCK:
            users = input_step[input_ptr[block] : input_ptr[block + 1]]
            if not _plain(steps, child, at, users, TABLE_INPUT):
                return i
            for s in users:
                table, variable, scope, base = steps[s, TABLE], steps[s, VARIABLE], steps[s, SCOPE], at[s, ADJOINT]
                for u in range(at[s, ROWS]):
                    x = X[rows[share[1, scope, u]], variable]
                    if x == x:
                        ST[table + np.int64(x)] += A[base + u]
        elif item[i, 0] == WEIGHT_BLOCK:
            users = weight_step[weight_ptr[block] : weight_ptr[block + 1]]
            if not _plain(steps, child, at, users, SCALAR_SUM):
                return i
            for s in users:
                first, base, n = steps[s, CHILD], at[s, ADJOINT], np.int64(at[s, ROWS])
                for q in range(first, steps[s, CHILD_END]):
                    # An edge of weight zero may have a gradient beyond all bounds; its flow is zero all the same.
                    to = steps[s, WEIGHT] + q - first
                    FL[to] = min(FL[to] + dot_rows(V, at[child[q], VALUE], A, base, n), largest_gradient(FL))
        else:
            return i
        i += 1
    return i
