"""Which thread does what, decided while they work: each takes the next ticket, and waits for what the ticket's items use.

Tickets are taken in the order of the items, in which everything comes after what it uses; so whoever has the oldest ticket that
isn't done never waits, however many threads there are and whenever they start.
"""

from flatpc.engine.numba._kernels.columns import CHILD, CHILD_END, INLINED, PARENT, PARENT_END
from flatpc.engine.numba._kernels.compiling import inner
from flatpc.engine.numba._kernels.threads import DONE, NEXT, add, publish, wait_for
from flatpc.engine.numba._kernels.work_items import DESCEND, INPUT_BLOCK, WEIGHTS


@inner
def take(progress):
    """The next ticket."""
    return add(progress, NEXT, 1)


@inner
def _wait_for_step(work, progress, s, ticket):
    """Wait for all tickets of a step but one's own, in which it comes first."""
    for k in range(work.tickets[s, 0], work.tickets[s, 1] + 1):
        if k != ticket and k >= 0:
            wait_for(progress, DONE + k, 1)


@inner
def wait_below(P, work, progress, ticket):
    """Wait for everything that the values of a ticket's steps are made of."""
    for i in range(work.ptr[ticket], work.ptr[ticket + 1]):
        s = work.item[i, 1]
        if P.steps[s, INLINED] >= 0:
            s = P.steps[s, INLINED]
        for q in range(P.steps[s, CHILD], P.steps[s, CHILD_END]):
            _wait_for_step(work, progress, P.child[q], ticket)


@inner
def wait_above(P, work, owners, progress, ticket):
    """Wait for everything that a ticket's items of the pass downward use."""
    for i in range(work.ptr[ticket], work.ptr[ticket + 1]):
        what, s = work.item[i, 0], work.item[i, 1]
        if what == DESCEND:
            for q in range(P.steps[s, PARENT], P.steps[s, PARENT_END]):
                p = P.parent[q, 0]
                if work.tickets[p, 0] < 0:  # inlined: its only user passes its adjoints on
                    p = P.parent[P.steps[p, PARENT], 0]
                _wait_for_step(work, progress, p, ticket)
        elif what == WEIGHTS:
            _wait_for_step(work, progress, s, ticket)
        elif what == INPUT_BLOCK:
            for q in range(owners.input_ptr[s], owners.input_ptr[s + 1]):
                _wait_for_step(work, progress, owners.input_step[q], ticket)
        else:
            for q in range(owners.weight_ptr[s], owners.weight_ptr[s + 1]):
                _wait_for_step(work, progress, owners.weight_step[q], ticket)


@inner
def hand_in(progress, ticket):
    """Say that a ticket is done."""
    publish(progress, DONE + ticket, 1)


@inner
def finish(progress, n_tickets, t):
    """Thread 0 waits until all tickets are done; the others may go."""
    if t == 0:
        for ticket in range(n_tickets):
            wait_for(progress, DONE + ticket, 1)
