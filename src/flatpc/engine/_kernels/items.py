"""Work items, in an order in which everything comes after what it uses, and tickets: a few items that one thread does.

How steps are cut into items depends on the batch alone, never on the number of threads, and every number is written by one item
in a fixed order of operations: results have the same bits however many threads there are.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from flatpc.engine._kernels.columns import (
    ALONE,
    BARE,
    CHILD,
    CHILD_END,
    INLINED,
    PARENT,
    PARENT_END,
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

_OVERHEAD = 2e3
"""Of an item, in multiplications."""
_WORTH_A_TICKET = 2e4
_LAG = 2
"""A sum's weights are dealt with so many steps after the sum: others may still be at work on its last rows."""


class Items(NamedTuple):
    """Ticket k has the items `ptr[k]:ptr[k + 1]`; an item is `(what, step or block, lo, hi)`."""

    ptr: NDArray[np.int32]
    item: NDArray[np.int32]
    start: NDArray[np.int32]
    """Per step the first of the items that evaluate it or descend to it, and how many there are."""
    count: NDArray[np.int32]


@njit(cache=True, boundscheck=False)
def urgency(P, rows_of, cost_of):
    """Per step the work on the longest way from it up to the root, and on the longest way down to an input."""
    n = len(P.steps)
    up, down = np.zeros(n), np.zeros(n)
    for s in range(n - 1, -1, -1):
        for q in range(P.steps[s, PARENT], P.steps[s, PARENT_END]):
            up[s] = max(up[s], up[P.parent[q, 0]])
        up[s] += _OVERHEAD + rows_of[s] * cost_of[s]
    for s in range(n):
        for q in range(P.steps[s, CHILD], P.steps[s, CHILD_END]):
            down[s] = max(down[s], down[P.child[q]])
        down[s] += _OVERHEAD + rows_of[s] * cost_of[s]
    return up, down


@njit(cache=True, boundscheck=False)
def upward(steps, task, rows_of, cost_of, n_threads):
    """Every task cut into ranges of rows; scalar steps, of which there are many if any, stay whole."""
    total = 0
    for i in range(len(task)):
        total += (rows_of[task[i]] + ROWS_PER_ITEM - 1) // ROWS_PER_ITEM
    work = _nothing(len(steps), total)
    n, tickets = 0, np.zeros(2)
    for i in range(len(task)):
        s = np.int64(task[i])
        n = _cut_rows(work, n, EVALUATE, steps, s, rows_of, cost_of[s], tickets, n_threads)
    return _finished(work, n, tickets)


@njit(cache=True, boundscheck=False)
def downward(steps, task, rows_of, cost_of, n_input_blocks, n_weight_blocks, n_threads):
    """Every task, each sum's weights shortly after it, inputs and shared weights at the end.

    Weights of sums with many rows are cut into small items, which even out what the threads have to do.
    """
    total = n_input_blocks + n_weight_blocks
    for i in range(len(task)):
        s = task[i]
        total += (rows_of[s] + ROWS_PER_ITEM - 1) // ROWS_PER_ITEM
        if steps[s, ALONE] and rows_of[s] > ROWS_PER_ITEM:
            total += (steps[s, WIDTH] + UNITS_PER_ITEM - 1) // UNITS_PER_ITEM
    work = _nothing(len(steps), total)
    n, tickets = 0, np.zeros(2)
    lag = 0 if n_threads == 1 else _LAG
    for i in range(len(task) + lag):
        if i < len(task):
            s = np.int64(task[i])
            cost = 2 * cost_of[s] if steps[s, ALONE] and rows_of[s] <= ROWS_PER_ITEM else cost_of[s]
            n = _cut_rows(work, n, DESCEND, steps, s, rows_of, cost, tickets, n_threads)
        if i >= lag:
            s = np.int64(task[i - lag])
            if steps[s, ALONE] and rows_of[s] > ROWS_PER_ITEM:
                cost = cost_of[s] * rows_of[s] / steps[s, WIDTH]
                n = _cut(work, n, WEIGHTS, s, np.int64(steps[s, WIDTH]), UNITS_PER_ITEM, cost, tickets, n_threads)
    for block in range(n_input_blocks):
        n = _cut(work, n, INPUT_BLOCK, block, 1, 1, 0.0, tickets, n_threads)
    for block in range(n_weight_blocks):
        n = _cut(work, n, WEIGHT_BLOCK, block, 1, 1, 0.0, tickets, n_threads)
    return _finished(work, n, tickets)


@inner
def _nothing(n_steps, n_items):
    start, count = np.zeros(n_steps, np.int32), np.zeros(n_steps, np.int32)
    return Items(np.zeros(n_items + 2, np.int32), np.empty((n_items, 4), np.int32), start, count)


@inner
def _finished(work, n, tickets):
    """Without what was reserved and not needed; the last ticket, still open, ends here."""
    k = int(tickets[0])
    if work.ptr[k] < n:
        k += 1
        work.ptr[k] = n
    return Items(work.ptr[: k + 1], work.item[:n], work.start, work.count)


@inner
def _cut_rows(work, n, what, steps, s, rows_of, cost, tickets, n_threads):
    rows = np.int64(rows_of[s])
    work.start[s] = n
    whole = steps[s, WIDTH] == 1 and steps[s, INLINED] < 0
    end = _cut(work, n, what, s, rows, rows if whole else ROWS_PER_ITEM, cost, tickets, n_threads)
    work.count[s] = end - n
    return end


@inner
def _cut(work, n, what, step, size, most, cost, tickets, n_threads):
    """Append the ranges of 0:size. `tickets` has the number of finished ones, and the work in the one that is open.

    One thread has all items in one ticket. A step that was cut has tickets of its own.
    """
    start = 0
    while start < size:
        end = min(start + most, size)
        work.item[n, 0], work.item[n, 1], work.item[n, 2], work.item[n, 3] = what, step, start, end
        if n_threads > 1:
            if tickets[1] > 0 and size > most:
                tickets[0] += 1
                work.ptr[int(tickets[0])] = n
                tickets[1] = 0
            tickets[1] += _OVERHEAD + (end - start) * cost
            if tickets[1] > _WORTH_A_TICKET or size > most:
                tickets[0] += 1
                work.ptr[int(tickets[0])] = n + 1
                tickets[1] = 0
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
