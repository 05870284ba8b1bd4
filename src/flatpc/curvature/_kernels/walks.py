"""The walks over a batch that the kernels of this folder make, level by level: a level uses only what lower ones have made."""

import numpy as np

from flatpc.curvature._kernels.downward import pull, push
from flatpc.curvature._kernels.row_statistics import add_row_statistics
from flatpc.curvature._kernels.rows import COUNTED, STILL, UNWANTED
from flatpc.curvature._kernels.sums_over_rows import gather_dense, gather_sum, gather_table
from flatpc.curvature._kernels.upward import move_dense_sum, move_hadamard, move_join, move_kronecker, move_sum, move_table
from flatpc.engine.numba._kernels.columns import (
    DENSE_SUM,
    HADAMARD,
    INLINED,
    JOIN,
    KIND,
    KRONECKER,
    TABLE_INPUT,
)
from flatpc.engine.numba._kernels.compiling import inner, kernel
from flatpc.engine.numba._kernels.threads import meet

ROWS_PER_ITEM = 64


@kernel
def cut(task_ptr, task, rows_of, cost_of, n_threads):
    """Items `(step, lo, hi, thread)` of every task, and where each level's items start."""
    total = 0
    for i in range(len(task)):
        total += (rows_of[task[i]] + ROWS_PER_ITEM - 1) // ROWS_PER_ITEM
    item = np.empty((total, 4), np.int64)
    ptr = np.zeros(len(task_ptr), np.int64)
    load = np.empty(n_threads)
    n = 0
    for level in range(len(task_ptr) - 1):
        load[:] = 0
        for i in range(task_ptr[level], task_ptr[level + 1]):
            s = task[i]
            for lo in range(0, rows_of[s], ROWS_PER_ITEM):
                hi = min(lo + ROWS_PER_ITEM, rows_of[s])
                least = np.argmin(load)
                load[least] += 1.0 + (hi - lo) * cost_of[s]
                item[n, 0], item[n, 1], item[n, 2], item[n, 3] = s, lo, hi, least
                n += 1
        ptr[level + 1] = n
    return ptr, item


@inner
def _rise_one(P, B, W, dW, T, dT, M, marks, V, E, A, VT, shared, space, s, lo, hi):
    kind, inlined = P.steps[s, KIND], P.steps[s, INLINED]
    if inlined >= 0 and not marks[inlined] & STILL:
        move_hadamard(P, B, marks, V, E, VT, shared, inlined, lo, hi)
    if marks[s] & STILL:
        return
    if kind == DENSE_SUM:
        move_dense_sum(P, B, W, dW, M, marks, V, A, VT, shared, space, s, lo, hi)
    elif kind == HADAMARD:
        move_hadamard(P, B, marks, V, E, VT, shared, s, lo, hi)
    elif kind == TABLE_INPUT:
        move_table(P, B, T, dT, V, E, A, VT, shared, space, s, lo, hi)
    elif kind == KRONECKER:
        move_kronecker(P, B, marks, V, E, VT, shared, s, lo, hi)
    elif kind == JOIN:
        move_join(P, B, marks, E, VT, shared, s, lo, hi)
    else:
        move_sum(P, B, W, dW, M, marks, V, E, A, VT, shared, space, s, lo, hi)


@kernel
def rise(P, B, ptr, item, W, dW, T, dT, M, marks, V, E, A, VT, shared, space, t, n_threads, barrier):
    """Fill VT, direction by direction while a step's weights and values are in cache."""
    for phase in range(len(ptr) - 1):
        for i in range(ptr[phase], ptr[phase + 1]):
            if item[i, 3] != t:
                continue
            for d in range(len(VT)):
                _rise_one(
                    P, B, W, dW[d], T, dT[d], M, marks, V, E, A, VT[d], shared, space, item[i, 0], item[i, 1], item[i, 2]
                )  # fmt: skip
        meet(barrier, t, n_threads, phase)


@kernel
def descend(P, B, ptr, item, W, dW, M, marks, V, E, A, VT, AT, root_flow, shared, second, space, t, n_threads, barrier):
    """Fill A, or AT if `second`; items in the opposite order."""
    for phase in range(len(ptr) - 1):
        level = len(ptr) - 2 - phase
        for i in range(ptr[level + 1] - 1, ptr[level] - 1, -1):
            if item[i, 3] != t or marks[item[i, 0]] & UNWANTED:
                continue
            s, lo, hi = item[i, 0], item[i, 1], item[i, 2]
            for d in range(len(AT)):
                pull(P, B, W, dW[d], M, marks, V, E, A, VT[d], AT[d], root_flow, shared, second, space, s, lo, hi)
                if P.steps[s, KIND] == DENSE_SUM:
                    push(P, B, W, dW[d], M, marks, V, A, AT[d], second, space, s, lo, hi)
        meet(barrier, t, n_threads, phase)


@kernel
def gather(P, B, owners, W, T, M, marks, V, E, A, VT, AT, count, OW, OT, shared, what, space, t, n_threads, barrier):
    """Add to OW and OT, in each direction, what `sums_over_rows.py` says, one block of parameters at a time."""
    for block in range(t, len(owners.weight_ptr) - 1, n_threads):
        for q in range(owners.weight_ptr[block], owners.weight_ptr[block + 1]):
            s = owners.weight_step[q]
            if marks[s] & UNWANTED:
                continue
            for d in range(len(OW)):
                if P.steps[s, KIND] == DENSE_SUM:
                    gather_dense(P, B, W, M, marks, V, A, VT[d], AT[d], count, OW[d], shared, what, space, s)
                else:
                    gather_sum(P, B, W, M, marks, V, E, A, VT[d], AT[d], count, OW[d], shared, what, space, s)
    for block in range(t, len(owners.input_ptr) - 1, n_threads):
        for q in range(owners.input_ptr[block], owners.input_ptr[block + 1]):
            s = owners.input_step[q]
            if marks[s] & COUNTED and not marks[s] & UNWANTED:
                for d in range(len(OT)):
                    gather_table(P, B, T, V, E, A, AT[d], count, OT[d], shared, what, space, s)


@kernel
def row_statistics(P, B, owners, T, V, G, count, ST, t, n_threads, barrier):
    """Add to ST, in the layout of the input parameters, one block of parameters at a time."""
    for block in range(t, len(owners.input_ptr) - 1, n_threads):
        for q in range(owners.input_ptr[block], owners.input_ptr[block + 1]):
            add_row_statistics(P, B, T, V, G, count, ST, owners.input_step[q])
