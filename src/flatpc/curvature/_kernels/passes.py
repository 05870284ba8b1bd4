"""The walks over a batch that the kernels of this folder make, phase by phase; see the engine's `items.py` for phases."""

import numpy as np
from numba import njit

from flatpc.curvature._kernels.downward import pull, push
from flatpc.curvature._kernels.gather import gather_dense, gather_sum, gather_table
from flatpc.curvature._kernels.rows import COUNTED, DEAD, block_of
from flatpc.curvature._kernels.upward import move_dense_sum, move_hadamard, move_join, move_kronecker, move_sum, move_table
from flatpc.engine._kernels.columns import (
    DENSE_SUM,
    FORMULA_INPUT,
    HADAMARD,
    INLINED,
    JOIN,
    KIND,
    KRONECKER,
    TABLE_INPUT,
)
from flatpc.engine._kernels.threads import meet

ROWS_PER_ITEM = 64


@njit(cache=True, boundscheck=False)
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


@njit(cache=True, nogil=True, boundscheck=False)
def rise(P, B, ptr, item, W, dW, T, dT, M, marks, V, E, A, VT, shared, space, t, n_threads, barrier):
    """Fill VT."""
    for phase in range(len(ptr) - 1):
        for i in range(ptr[phase], ptr[phase + 1]):
            if item[i, 3] != t:
                continue
            s, lo, hi = item[i, 0], item[i, 1], item[i, 2]
            if marks[s] == DEAD:
                block_of(VT, B, P, s)[lo:hi] = 0
                continue
            if P.steps[s, INLINED] >= 0 and marks[P.steps[s, INLINED]] != DEAD:
                move_hadamard(P, B, marks, V, E, VT, shared, P.steps[s, INLINED], lo, hi)
            kind = P.steps[s, KIND]
            if kind == DENSE_SUM:
                move_dense_sum(P, B, W, dW, M, marks, V, A, VT, shared, space, s, lo, hi)
            elif kind == HADAMARD:
                move_hadamard(P, B, marks, V, E, VT, shared, s, lo, hi)
            elif kind == TABLE_INPUT:
                move_table(P, B, T, dT, marks, V, E, A, VT, shared, space, s, lo, hi)
            elif kind == FORMULA_INPUT:
                block_of(VT, B, P, s)[lo:hi] = 0
            elif kind == KRONECKER:
                move_kronecker(P, B, V, E, VT, shared, s, lo, hi)
            elif kind == JOIN:
                move_join(P, B, E, VT, shared, s, lo, hi)
            else:
                move_sum(P, B, W, dW, M, V, E, A, VT, shared, space, s, lo, hi)
        meet(barrier, t, n_threads, phase)


@njit(cache=True, nogil=True, boundscheck=False)
def descend(P, B, ptr, item, W, dW, M, marks, V, E, A, VT, AT, root_flow, shared, second, space, t, n_threads, barrier):
    """Fill A, or AT if `second`."""
    for phase in range(len(ptr) - 1):
        level = len(ptr) - 2 - phase
        for i in range(ptr[level], ptr[level + 1]):
            if item[i, 3] == t and marks[item[i, 0]] != DEAD:
                s, lo, hi = item[i, 0], item[i, 1], item[i, 2]
                pull(P, B, W, dW, M, V, E, A, VT, AT, root_flow, shared, second, space, s, lo, hi)
                if P.steps[s, KIND] == DENSE_SUM:
                    push(P, B, W, dW, M, marks, V, A, AT, second, space, s, lo, hi)
        meet(barrier, t, n_threads, phase)


@njit(cache=True, nogil=True, boundscheck=False)
def gather(P, B, owners, W, T, M, marks, V, E, A, VT, AT, count, OW, OT, shared, what, space, t, n_threads, barrier):
    """Add to OW and OT what `gather.py` says, one block of parameters at a time."""
    for block in range(t, len(owners.weight_ptr) - 1, n_threads):
        for q in range(owners.weight_ptr[block], owners.weight_ptr[block + 1]):
            s = owners.weight_step[q]
            if P.steps[s, KIND] == DENSE_SUM:
                gather_dense(P, B, W, M, marks, V, A, VT, AT, count, OW, shared, what, space, s)
            else:
                gather_sum(P, B, W, M, V, E, A, VT, AT, count, OW, shared, what, space, s)
    for block in range(t, len(owners.input_ptr) - 1, n_threads):
        for q in range(owners.input_ptr[block], owners.input_ptr[block + 1]):
            s = owners.input_step[q]
            if marks[s] == COUNTED:
                gather_table(P, B, T, V, E, A, AT, count, OT, shared, what, space, s)
