"""In which order several threads go through a circuit: whole parts of it, then what is above them, the most urgent first.

A core reads what it has just written many times as fast as what another one has. So threads share out **parts** of the circuit,
each to be gone through depth first by one of them: steps with numbers in a row, of which few but the last are used from outside.
Where such a part would be a large share of all the work, near the root, every step is a part of its own.
"""

import numpy as np
from numpy.typing import NDArray

from flatpc._typing import Ints
from flatpc.engine.numba._kernels.columns import CHILD, CHILD_END, INLINED, PARENT, PARENT_END, Structure
from flatpc.engine.numba._kernels.compiling import inner, kernel

OVERHEAD = 2e3
"""Of a step, in multiplications."""
PARTS_PER_THREAD = 16
NO_PART = -1


def orders(
    P: Structure, task: Ints, rows_of: NDArray[np.int32], cost_of: NDArray[np.float64], n_threads: int
) -> tuple[tuple[Ints, Ints], tuple[Ints, Ints]]:
    """The tasks in the order upward and in the order downward, each with their parts; NO_PART for a step that has none."""
    work = OVERHEAD + rows_of * cost_of
    part, alone, up, down = _rank(P, work, work[task].sum() / (n_threads * PARTS_PER_THREAD))

    def ordered(urgency: NDArray[np.float64], number: Ints) -> tuple[Ints, Ints]:
        order = task[np.lexsort((number, part[task], -urgency[part[task]]))]
        return order, np.where(alone[order], NO_PART, part[order])

    return ordered(up, task), ordered(down, -task)


@kernel
def _rank(P, work, most):
    """The part of each step, whether it is alone in it, and per part the work on the longest ways to the root and to inputs."""
    n = len(P.steps)
    inlined = np.zeros(n, np.bool_)
    for s in range(n):
        if P.steps[s, INLINED] >= 0:
            inlined[P.steps[s, INLINED]] = True
    part, alone = _parts(P, inlined, work, most)
    cost = np.zeros(part[-1] + 1)
    for s in range(n):
        if not inlined[s]:
            cost[part[s]] += work[s]
    up, down = cost.copy(), cost.copy()
    for s in range(n - 1, -1, -1):
        for q in range(P.steps[s, PARENT], P.steps[s, PARENT_END]):
            above = part[_user(P, inlined, P.parent[q, 0])]
            if above != part[s] and not inlined[s]:
                up[part[s]] = max(up[part[s]], cost[part[s]] + up[above])
    for s in range(n):
        if inlined[s]:
            continue
        t = P.steps[s, INLINED] if P.steps[s, INLINED] >= 0 else s
        for q in range(P.steps[t, CHILD], P.steps[t, CHILD_END]):
            below = part[P.child[q]]
            if below != part[s]:
                down[part[s]] = max(down[part[s]], cost[part[s]] + down[below])
    return part, alone, up, down


@inner
def _user(P, inlined, s):
    """The step with which s is computed: itself, unless it is a product that its only user computes."""
    return P.parent[P.steps[s, PARENT], 0] if inlined[s] else s


@inner
def _parts(P, inlined, work, most):
    """Per step its part, parts numbered in the order of steps, and whether it is alone.

    A step and the open parts that nobody uses after it become one part, unless that would be too much work.
    """
    n = len(work)
    begins, alone = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    first, cost, last_use = np.empty(n + 1, np.int64), np.empty(n), np.empty(n, np.int64)  # of open parts, a stack
    size = 0
    for s in range(n):
        if inlined[s]:
            continue
        below, total = size, work[s]
        while below > 0 and last_use[below - 1] <= s:
            below -= 1
            total += cost[below]
        start = first[below] if below < size else s
        if total > most:
            _close(first, cost, below, size, most, begins)
            alone[s], start, total = True, s, np.inf
        use = s
        for q in range(P.steps[s, PARENT], P.steps[s, PARENT_END]):
            use = max(use, _user(P, inlined, P.parent[q, 0]))
        size = below + 1
        first[below], cost[below], last_use[below] = start, total, use
    _close(first, cost, 0, size, most, begins)
    for s in range(n - 1):
        begins[s] |= alone[s]
        begins[s + 1] |= alone[s]
    begins[n - 1] |= alone[n - 1]
    part = np.cumsum(begins) - 1
    return part, alone


@inner
def _close(first, cost, below, size, most, begins):
    """Parts from `below` on grow no more; neighbours that are small become one."""
    total = np.inf
    for i in range(below, size):
        total += cost[i]
        if total > most:
            begins[first[i]] = True
            total = cost[i]
