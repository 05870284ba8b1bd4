"""Work items, in an order in which everything comes after what it uses, and tickets: a few items that one thread does.

How steps are cut into items depends on the batch alone, never on the number of threads, and every number is written by one item
in a fixed order of operations: results have the same bits however many threads there are.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from flatpc.engine.numba._kernels.columns import (
    ADJOINT,
    ADJOINT_ROWS,
    ALONE,
    BARE,
    DENSE_SUM,
    KIND,
    LARGEST,
    ROW,
    ROWS,
    SCALAR_SUM,
    SCALED,
    SCOPE,
    STRIDE,
    VALUE,
    WIDTH,
)
from flatpc.engine.numba._kernels.compiling import inner, kernel
from flatpc.engine.numba._kernels.order import OVERHEAD
from flatpc.engine.numba._kernels.simd import LANES

ROWS_PER_ITEM = 64
UNITS_PER_ITEM = 16

EVALUATE, DESCEND, WEIGHTS, INPUT_BLOCK, WEIGHT_BLOCK = range(5)

_WORTH_A_TICKET = 2e4
_LAG = 2
"""A sum's weights are dealt with so many steps after the sum: others may still be at work on its last rows."""
_NO_TICKETS = 0, -2, 0.0
"""The number of tickets, the part of the last one, and its work."""


class Items(NamedTuple):
    """Ticket k has the items `ptr[k]:ptr[k + 1]`; an item is `(what, step or block, lo, hi)`."""

    ptr: NDArray[np.int32]
    item: NDArray[np.int32]
    tickets: NDArray[np.int32]
    """`[steps, 2]`: the first and the last ticket that evaluates a step or descends to it; -1 if none does."""


def most_rows(steps: NDArray[np.int32]) -> NDArray[np.int64]:
    """Per step how many rows of it are one item; scalar steps, of which there are many if any, stay whole."""
    whole = (steps[:, WIDTH] == 1) & (steps[:, KIND] != DENSE_SUM)
    return np.where(whole, LARGEST, ROWS_PER_ITEM).astype(np.int64)


@kernel
def upward(most_rows, task, part, rows_of, cost_of):
    """Every task cut into ranges of at most so many rows."""
    total = 0
    for i in range(len(task)):
        total += (rows_of[task[i]] + ROWS_PER_ITEM - 1) // ROWS_PER_ITEM
    ptr, item, of_step = _nothing(len(most_rows), total)
    n, tickets = 0, _NO_TICKETS
    for i in range(len(task)):
        s = np.int64(task[i])
        before = tickets[0]
        n, tickets = _cut(ptr, item, n, EVALUATE, s, part[i], rows_of[s], most_rows[s], cost_of[s], tickets)
        of_step[s, 0], of_step[s, 1] = min(before, tickets[0] - 1), tickets[0] - 1
    return _finished(ptr, item, of_step, n, tickets)


@kernel
def downward(steps, most_rows, task, part, rows_of, cost_of, n_input_blocks, n_weight_blocks):
    """Every task, each sum's weights after it, inputs and shared weights at the end.

    Weights of sums with many rows are cut into small items, which even out what the threads have to do.
    """
    total = n_input_blocks + n_weight_blocks
    for i in range(len(task)):
        s = task[i]
        total += (rows_of[s] + ROWS_PER_ITEM - 1) // ROWS_PER_ITEM
        if steps[s, ALONE] and rows_of[s] > ROWS_PER_ITEM:
            total += (steps[s, WIDTH] + UNITS_PER_ITEM - 1) // UNITS_PER_ITEM
    ptr, item, of_step = _nothing(len(steps), total)
    n, tickets = 0, _NO_TICKETS
    behind = 0  # weights of the tasks from here on are to be dealt with
    for i in range(len(task)):
        s = np.int64(task[i])
        cost = 2 * cost_of[s] if steps[s, ALONE] and rows_of[s] <= ROWS_PER_ITEM else cost_of[s]
        before = tickets[0]
        n, tickets = _cut(ptr, item, n, DESCEND, s, part[i], rows_of[s], most_rows[s], cost, tickets)
        of_step[s, 0], of_step[s, 1] = min(before, tickets[0] - 1), tickets[0] - 1
        within = i + 1 < len(task) and part[i] >= 0 and part[i + 1] == part[i]
        while behind <= i and (part[behind] >= 0 or (behind + _LAG <= i and not within)):
            n, tickets = _cut_weights(ptr, item, n, steps, task[behind], part[behind], rows_of, cost_of, tickets)
            behind += 1
    for i in range(behind, len(task)):
        n, tickets = _cut_weights(ptr, item, n, steps, task[i], part[i], rows_of, cost_of, tickets)
    last = part[0] if len(task) and part[0] == part[-1] else -1  # all of them one part, or none
    for block in range(n_input_blocks):
        n, tickets = _cut(ptr, item, n, INPUT_BLOCK, block, last, 1, 1, OVERHEAD, tickets)
    for block in range(n_weight_blocks):
        n, tickets = _cut(ptr, item, n, WEIGHT_BLOCK, block, last, 1, 1, OVERHEAD, tickets)
    return _finished(ptr, item, of_step, n, tickets)


@inner
def _nothing(n_steps, n_items):
    ptr, item, of_step = np.empty(n_items + 1, np.int32), np.empty((n_items, 4), np.int32), np.empty((n_steps, 2), np.int32)
    for s in range(n_steps):
        of_step[s, 0], of_step[s, 1] = -1, -1
    return ptr, item, of_step


@inner
def _finished(ptr, item, of_step, n, tickets):
    """Without what was reserved and not needed."""
    ptr[tickets[0]] = n
    return Items(ptr[: tickets[0] + 1], item[:n], of_step)


@inner(forceinline=True)
def _cut_weights(ptr, item, n, steps, s, part, rows_of, cost_of, tickets):
    """The weights of a sum with many rows, a few units at a time."""
    if steps[s, ALONE] and rows_of[s] > ROWS_PER_ITEM:
        cost = cost_of[s] * rows_of[s] / steps[s, WIDTH]
        n, tickets = _cut(ptr, item, n, WEIGHTS, s, part, steps[s, WIDTH], UNITS_PER_ITEM, cost, tickets)
    return n, tickets


@inner(forceinline=True)
def _cut(ptr, item, n, what, step, part, size, most, cost, tickets):
    """Append the ranges of 0:size. A part is one ticket; elsewhere every range is one, unless it is little work."""
    start = 0
    k, last, work = tickets
    while start < size:
        end = min(start + most, size)
        if part < 0 or part != last:
            if part != last or work > _WORTH_A_TICKET or size > most:
                ptr[k] = n
                k, last, work = k + 1, np.int64(part), 0.0
            work += OVERHEAD + (end - start) * cost if size <= most else np.inf
        item[n, 0], item[n, 1], item[n, 2], item[n, 3] = what, step, start, end
        n += 1
        start = end
    return n, (k, last, work)


@kernel
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


@kernel
def share_places(at):
    """Let adjoints lie as values do: one for each distinct sub-row."""
    for s in range(len(at)):
        at[s, ADJOINT], at[s, ADJOINT_ROWS] = at[s, VALUE], at[s, ROWS]


@kernel
def total_cost(rows_of, cost_of):
    """Of a pass, from the work per row of each step. Four sums go on at once: one alone would wait for each addition."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    n = len(cost_of)
    for s in range(0, n - 3, 4):
        a += cost_of[s] * rows_of[s]
        b += cost_of[s + 1] * rows_of[s + 1]
        c += cost_of[s + 2] * rows_of[s + 2]
        d += cost_of[s + 3] * rows_of[s + 3]
    for s in range(n - n % 4, n):
        a += cost_of[s] * rows_of[s]
    return (a + b) + (c + d)


@inner
def view(V, B, P, s):
    """A step's values, [rows, stride]."""
    start, rows, stride = B.at[s, VALUE], B.at[s, ROWS], P.steps[s, STRIDE]
    return V[start : start + rows * stride].reshape(rows, stride)


@inner
def edge_stride(P, s):
    """How far apart the weights of one unit of a MIXTURE or a SCALAR_SUM lie, from one child to the next."""
    return 1 if P.steps[s, KIND] == SCALAR_SUM else P.steps[s, STRIDE]


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
