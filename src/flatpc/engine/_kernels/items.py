"""Work items, in phases: items of a phase are independent of each other and use only what earlier phases made.

How work is cut depends on the batch alone, never on the number of threads, and every number is written by one item in a
fixed order of operations: results have the same bits however many threads there are.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from flatpc.engine._kernels.columns import (
    ALONE,
    BARE,
    ROW,
    ROWS,
    SCALED,
    SCOPE,
    STRIDE,
    VALUE,
    WIDTH,
)
from flatpc.engine._kernels.compiling import inner
from flatpc.engine._kernels.simd import LANES

ROWS_PER_ITEM = 64
UNITS_PER_ITEM = 16

EVALUATE, DESCEND, WEIGHTS, INPUT_BLOCK, WEIGHT_BLOCK = range(5)


class Items(NamedTuple):
    """Phase p has the items `ptr[p]:ptr[p + 1]`; an item is `(what, step or block, lo, hi, thread)`."""

    ptr: NDArray[np.int64]
    item: NDArray[np.int32]


@njit(cache=True, boundscheck=False)
def upward(steps, task_ptr, task, rows_of, cost_of, n_threads):
    """Every task cut into ranges of rows, level by level; scalar steps, of which there are many if any, stay whole."""
    total = 0
    for i in range(len(task)):
        total += (rows_of[task[i]] + ROWS_PER_ITEM - 1) // ROWS_PER_ITEM
    n_levels = len(task_ptr) - 1
    ptr = np.zeros(n_levels + 1, np.int64)
    item = np.empty((total, 5), np.int32)
    load = np.empty(n_threads, np.float64)
    n = 0
    for level in range(n_levels):
        load[:] = 0
        for i in range(task_ptr[level], task_ptr[level + 1]):
            s = np.int64(task[i])
            rows = np.int64(rows_of[s])
            n = _cut(item, n, EVALUATE, s, rows, rows if steps[s, WIDTH] == 1 else ROWS_PER_ITEM, cost_of[s], load)
        ptr[level + 1] = n
    return ptr, item[:n]


@njit(cache=True, boundscheck=False)
def downward(steps, task_ptr, task, rows_of, cost_of, n_input_blocks, n_weight_blocks, n_threads):
    """Levels from the top, each in one phase with the weights of the level before it; inputs and shared weights at the end.

    Weights of sums with many rows are cut into small items, which even out what the threads have to do. One thread needs no
    phases: there, a sum's weights follow the sum.
    """
    total = n_input_blocks + n_weight_blocks
    for i in range(len(task)):
        s = task[i]
        total += (rows_of[s] + ROWS_PER_ITEM - 1) // ROWS_PER_ITEM
        if steps[s, ALONE] and rows_of[s] > ROWS_PER_ITEM:
            total += (steps[s, WIDTH] + UNITS_PER_ITEM - 1) // UNITS_PER_ITEM
    n_levels = len(task_ptr) - 1
    ptr = np.zeros(n_levels + 2, np.int64)
    item = np.empty((total, 5), np.int32)
    load = np.empty(n_threads, np.float64)
    n = 0
    for phase in range(n_levels + 1):
        level = n_levels - 1 - phase
        load[:] = 0
        if level >= 0:
            for i in range(task_ptr[level + 1] - 1, task_ptr[level] - 1, -1):
                s = np.int64(task[i])
                rows = np.int64(rows_of[s])
                weights_too = steps[s, ALONE] and rows <= ROWS_PER_ITEM
                cost = 2 * cost_of[s] if weights_too else cost_of[s]
                n = _cut(item, n, DESCEND, s, rows, rows if steps[s, WIDTH] == 1 else ROWS_PER_ITEM, cost, load)
                if n_threads == 1:
                    n = _cut_weights(item, n, steps, s, rows_of, cost_of, load)
        if n_threads > 1 and phase > 0:
            for i in range(task_ptr[level + 1], task_ptr[level + 2]):
                n = _cut_weights(item, n, steps, np.int64(task[i]), rows_of, cost_of, load)
        ptr[phase + 1] = n
    for block in range(n_input_blocks):
        n = _cut(item, n, INPUT_BLOCK, block, 1, 1, 1.0, load)
    for block in range(n_weight_blocks):
        n = _cut(item, n, WEIGHT_BLOCK, block, 1, 1, 1.0, load)
    ptr[n_levels + 1] = n
    return ptr, item[:n]


@inner(forceinline=True)
def _cut_weights(item, n, steps, s, rows_of, cost_of, load):
    """The weights of a sum with many rows, a few units at a time."""
    if steps[s, ALONE] and rows_of[s] > ROWS_PER_ITEM:
        cost = cost_of[s] * rows_of[s] / steps[s, WIDTH]
        n = _cut(item, n, WEIGHTS, s, np.int64(steps[s, WIDTH]), UNITS_PER_ITEM, cost, load)
    return n


@inner(forceinline=True)
def _cut(item, n, what, step, size, most, cost, load):
    """Append the ranges of 0:size, each to the thread with the least work so far; callers pass int64, to compile it once."""
    start = 0
    while start < size:
        end = min(start + most, size)
        t = 0
        for other in range(1, len(load)):
            if load[other] < load[t]:
                t = other
        load[t] += 1.0 + (end - start) * cost
        item[n, 0], item[n, 1], item[n, 2], item[n, 3], item[n, 4] = what, step, start, end, t
        n += 1
        start = end
    return n


@njit(cache=True, boundscheck=False)
def places(steps, count, at):
    """Fill the places of values and per-row numbers; returns how many of each there are. Row 0 belongs to nobody: `scale_of`."""
    value, row = 0, 1
    for s in range(len(steps)):
        rows = count[steps[s, SCOPE]]
        if steps[s, STRIDE] >= LANES:
            value += -value % LANES  # whole vectors don't straddle cache lines
        at[s, VALUE], at[s, ROW], at[s, ROWS] = value, row, rows
        at[s, SCALED] = not steps[s, BARE]
        value += rows * steps[s, STRIDE]
        row += rows
    return value, row


@inner
def view(V, B, P, s):
    """A step's values, [rows, stride]."""
    start, rows, stride = B.at[s, VALUE], B.at[s, ROWS], P.steps[s, STRIDE]
    return V[start : start + rows * stride].reshape(rows, stride)


@inner(forceinline=True)
def scale_of(E, B, s, r):
    """E of a step's sub-row r, also where it was not written: E[0] is a zero that belongs to nobody.

    With a branch in its place, numba would count references to B row by row, which takes longer than all the rest.
    """
    return E[(B.at[s, ROW] + r) * B.at[s, SCALED]]


@inner
def child_row(P, B, s, c, u):
    """The sub-row of child c that belongs to sub-row u of step s."""
    return B.share[0, P.steps[c, SCOPE], B.share[1, P.steps[s, SCOPE], u]]
