"""How a pass is cut into items and tickets: every number once, and nothing before what it needs."""

import threading

import numpy as np
import pytest
from benchmarks.random_circuits import random_dag
from numba import njit

import flatpc as fp
from flatpc.engine.numba._kernels import threads, work_items
from flatpc.engine.numba._kernels.columns import CHILD, CHILD_END, INLINED, ROWS, WIDTH
from flatpc.engine.numba._kernels.order import orders
from flatpc.engine.numba._kernels.work_items import DESCEND, EVALUATE, INPUT_BLOCK, WEIGHT_BLOCK, WEIGHTS
from flatpc.engine.numba.evaluator import Evaluator
from flatpc.engine.numba.evidence import Evidence
from tests.engine.test_sharing import bits


def deep_and_shallow():
    """A deep part and an input below the root's product."""
    nodes = [fp.Input(0, fp.Bernoulli(), 64), *(fp.Sum((i,), 64) for i in range(40)), fp.Input(1, fp.Bernoulli(), 64)]
    return fp.Circuit([*nodes, fp.Product((40, 41)), fp.Sum((42,))])


STRUCTURES = {
    "hidden tree": lambda: fp.structures.hclt(bits(150, 40), 10),
    "random": lambda: fp.structures.rat_spn(16, 3, n_repetitions=3, n_sums=4, n_inputs=4, seed=0),
    "irregular": lambda: random_dag(500, 8),
    "deep and shallow": deep_and_shallow,
}


def cut(n_threads, share=False):
    """A pass upward and a pass downward."""
    X = bits(150, 9)
    evaluator = Evaluator(fp.structures.hclt(X, 20), n_threads=n_threads)
    program = evaluator.program
    rows_of = Evidence(program, X, share=share).plan(np.arange(150)).batch.at[:, ROWS]
    evaluator._cost = evaluator._cost * 1e6  # worth any number of threads
    found, (up, down) = evaluator._team(rows_of, evaluator._cost)
    assert found == n_threads
    steps = program.structure.steps
    upward = work_items.upward(evaluator._most_rows, *up, rows_of, evaluator._cost)
    return (
        program.structure,
        rows_of,
        upward,
        work_items.downward(steps, evaluator._most_rows, *down, rows_of, evaluator._cost, 3, 2),
    )


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_every_row_and_every_unit_is_in_one_item(n_threads):
    structure, rows_of, up, down = cut(n_threads)
    kinds = (
        (up, EVALUATE, rows_of),
        (down, DESCEND, rows_of),
        (down, WEIGHTS, structure.steps[:, WIDTH]),
    )
    for work, what, size_of in kinds:
        found = work.item[work.item[:, 0] == what]
        assert len(found) > 0
        for s in np.unique(found[:, 1]):
            ranges = sorted(map(tuple, found[found[:, 1] == s, 2:4]))
            assert np.concatenate([np.arange(*r) for r in ranges]).tolist() == list(range(size_of[s]))
    assert np.bincount(down.item[:, 0], minlength=5)[[INPUT_BLOCK, WEIGHT_BLOCK]].tolist() == [3, 2]


def tickets_of(work):
    """The ticket of each item."""
    return np.repeat(np.arange(len(work.ptr) - 1), np.diff(work.ptr))


def places_of(work, what):
    """Per step the places of its items."""
    return {s: np.flatnonzero((work.item[:, 0] == what) & (work.item[:, 1] == s)) for s in np.unique(work.item[:, 1])}


@pytest.mark.parametrize("n_threads", [1, 2, 3])
@pytest.mark.parametrize("share", [False, True])
def test_everything_comes_after_what_it_uses(n_threads, share):
    structure, _, up, down = cut(n_threads, share)
    steps = structure.steps
    going_up, going_down, weights = (
        places_of(up, EVALUATE),
        places_of(down, DESCEND),
        places_of(down, WEIGHTS),
    )
    for s, places in going_up.items():
        t = s if steps[s, INLINED] < 0 else steps[s, INLINED]
        for c in structure.child[steps[t, CHILD] : steps[t, CHILD_END]]:
            assert going_up[c].max() < places.min()
            assert going_down[s].max() < going_down[c].min()
    for s, places in weights.items():
        assert len(places) == 0 or going_down[s].max() < places.min()
    for work, places in ((up, going_up), (down, going_down)):
        for s, found in places.items():
            if len(found):
                assert work.tickets[s].tolist() == [tickets_of(work)[found[0]], tickets_of(work)[found[-1]]]
        assert (work.tickets[[s for s in range(len(steps)) if s not in places or not len(places[s])]] == -1).all()


@pytest.mark.parametrize("n_threads", [2, 3])
def test_a_ticket_is_a_range_of_one_step_or_some_whole_steps(n_threads):
    _, _, up, down = cut(n_threads)
    for work in (up, down):
        assert len(work.ptr) > 10
        assert (work.ptr[0], work.ptr[-1]) == (0, len(work.item))
        assert (np.diff(work.ptr) > 0).all()
        for first, last in zip(work.ptr[:-1], work.ptr[1:], strict=True):
            steps = [s for what, s, *_ in work.item[first:last] if what in (EVALUATE, DESCEND)]
            assert last - first == 1 or all(work.tickets[s, 0] == work.tickets[s, 1] for s in steps)


def test_the_last_blocks_are_shared_out():
    _, _, _, down = cut(2)
    blocks = np.isin(down.item[:, 0], (INPUT_BLOCK, WEIGHT_BLOCK))
    last_descent = tickets_of(down)[down.item[:, 0] == DESCEND].max()
    assert (tickets_of(down)[blocks] > last_descent).all()


def test_one_thread_has_one_ticket():
    _, _, up, down = cut(1)
    assert len(up.ptr) == len(down.ptr) == 2


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("n_threads", [2, 5])
def test_a_part_comes_after_what_it_uses_and_is_no_large_share(structure, n_threads):
    evaluator = Evaluator(STRUCTURES[structure]())
    program, P = evaluator.program, evaluator.program.structure
    rows_of = np.random.default_rng(0).integers(1, 200, program.n_steps)
    up, down = orders(P, program.depth_first, rows_of, evaluator._cost, n_threads)
    assert sorted(up[0]) == sorted(down[0]) == sorted(program.depth_first)
    place = {int(s): i for i, s in enumerate(up[0])}
    place_down = {int(s): i for i, s in enumerate(down[0])}
    hosts = {int(P.steps[s, INLINED]): int(s) for s in program.depth_first if P.steps[s, INLINED] >= 0}
    for s in range(program.n_steps):
        for c in P.child[P.steps[s, CHILD] : P.steps[s, CHILD_END]]:
            user, used = hosts.get(s, s), hosts.get(int(c), int(c))
            if user != used:
                assert place[used] < place[user]
                assert place_down[user] < place_down[used]
    for task, part in (up, down):
        share = (rows_of * evaluator._cost)[task].sum() / n_threads
        for number in np.unique(part[part >= 0]):
            members = np.flatnonzero(part == number)
            assert (np.diff(members) == 1).all()
            assert (rows_of * evaluator._cost)[task[members]].sum() <= share


@njit(nogil=True)
def _count_alone(out, t, n_threads, progress, bell):
    out[0] += n_threads


def test_who_finds_the_workers_busy_works_alone():
    out, done = np.zeros(1), threading.Event()

    def work():
        threads.run_tickets(_count_alone, 3, 0, out)
        done.set()

    with threads._lock:
        threading.Thread(target=work).start()
        assert done.wait(60)
    assert out[0] == 1


@njit(nogil=True)
def _each(out, t, n_threads, barrier):
    out[t] = n_threads
    if t == 1:
        raise ValueError("of a worker")


def test_what_a_worker_raises_is_raised():
    out = np.zeros(3)
    for _ in range(3):
        with pytest.raises(ValueError, match="of a worker"):
            threads.run(_each, 3, out)
        assert out.tolist() == [3, 3, 3]


@njit(nogil=True)
def _fails(out, t, n_threads, progress, bell):
    threads.ring(bell, t, n_threads)
    ticket = threads.add(progress, threads.NEXT, 1)
    while ticket < 2:
        if t > 0:
            out[0] += 1
            raise MemoryError("of a worker")
        while threads._observe(progress, threads.NEXT) < 2:
            pass
        threads.publish(progress, threads.DONE + ticket, 1)
        ticket = threads.add(progress, threads.NEXT, 1)
    if t == 0:
        threads.wait_for(progress, threads.DONE, 1)
        threads.wait_for(progress, threads.DONE + 1, 1)


def test_a_failed_ticket_is_an_error_and_not_for_ever():
    out = np.zeros(1)
    for _ in range(3):
        with pytest.raises(MemoryError, match="of a worker"):
            threads.run_tickets(_fails, 2, 2, out)
    assert out[0] == 3
