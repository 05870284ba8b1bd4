"""Work items: a step and a range of its rows. Splitting depends on the batch alone, never on the number of threads."""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

ROWS_PER_ITEM = 64
UNITS_PER_BLOCK = 16


class Items(NamedTuple):
    """Items of a batch, level by level, each given to a thread."""

    level_ptr: NDArray[np.int64]
    step: NDArray[np.int64]
    lo: NDArray[np.int64]
    hi: NDArray[np.int64]
    thread: NDArray[np.int64]


@njit(cache=True, boundscheck=False)
def make_items(task_ptr, task, rows_of, cost_of, n_threads):
    """Cut every task into ranges of rows and deal them out, each to the thread with the least work so far."""
    total = 0
    for i in range(len(task)):
        total += max(1, (rows_of[task[i]] + ROWS_PER_ITEM - 1) // ROWS_PER_ITEM)
    n_levels = len(task_ptr) - 1
    level_ptr = np.zeros(n_levels + 1, np.int64)
    step, lo, hi, thread = (
        np.empty(total, np.int64),
        np.empty(total, np.int64),
        np.empty(total, np.int64),
        np.zeros(total, np.int64),
    )
    load = np.empty(n_threads, np.float64)
    n = 0
    for level in range(n_levels):
        load[:] = 0
        for i in range(task_ptr[level], task_ptr[level + 1]):
            s = task[i]
            rows = rows_of[s]
            start = 0
            while start < rows or (start == 0 and rows == 0):
                end = min(start + ROWS_PER_ITEM, rows)
                step[n], lo[n], hi[n] = s, start, end
                t = np.argmin(load) if n_threads > 1 else 0
                thread[n] = t
                load[t] += 1.0 + (end - start) * cost_of[s]
                n += 1
                start = end
                if rows == 0:
                    break
        level_ptr[level + 1] = n
    return level_ptr, step, lo, hi, thread


@njit(cache=True, inline="always")
def view(V, B, P, s):
    """A step's values, [rows, stride]."""
    start, end = B.value_ptr[s], B.value_ptr[s + 1]
    return V[start:end].reshape((end - start) // P.stride[s], P.stride[s])


@njit(cache=True, inline="always")
def child_row(P, B, s, c, u):
    """The sub-row of child c that belongs to sub-row u of step s."""
    return B.where[P.scope[c], B.representative[P.scope[s], u]]


@njit(cache=True, boundscheck=False)
def make_blocks(P, rows_of, n_threads):
    """Ranges of output units of the dense sums with many rows: their weights are dealt with after all their rows."""
    n_levels = len(P.task_ptr) - 1
    level_ptr = np.zeros(n_levels + 1, np.int64)
    total = 0
    for i in range(len(P.task)):
        s = P.task[i]
        if P.alone[s] and rows_of[s] > ROWS_PER_ITEM:
            total += (P.width[s] + UNITS_PER_BLOCK - 1) // UNITS_PER_BLOCK
    step, lo, hi, thread = (
        np.empty(total, np.int64),
        np.empty(total, np.int64),
        np.empty(total, np.int64),
        np.zeros(total, np.int64),
    )
    n = 0
    for level in range(n_levels):
        for i in range(P.task_ptr[level], P.task_ptr[level + 1]):
            s = P.task[i]
            if P.alone[s] and rows_of[s] > ROWS_PER_ITEM:
                start = 0
                while start < P.width[s]:
                    end = min(start + UNITS_PER_BLOCK, P.width[s])
                    step[n], lo[n], hi[n], thread[n] = s, start, end, n % n_threads
                    n += 1
                    start = end
        level_ptr[level + 1] = n
    return level_ptr, step, lo, hi, thread
