"""A few Python threads that run one kernel together: in phases, between which they meet, or by tickets (`tickets.py`).

Kernels release the interpreter's lock. This compiles in a fraction of the time of numba's own parallel loops, costs nothing
for one thread, and survives forks.
"""

import os
import sys
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from flatpc.engine._kernels.compiling import inner

_LINE = 8
"""Entries of a cache line: each thread's counter has its own."""
_SPINS_BEFORE_YIELD = 1 << 12
_SPINS_BEFORE_SLEEP = 1 << 21
_SPINS_BEFORE_GIVING_UP = 1 << 34
PROGRESS = 2 * _LINE
"""Where the counters of steps begin, after the next ticket and the number of tickets done."""

_lock = threading.Lock()
"""Whoever holds it has the workers for itself."""
_bell = np.zeros(_LINE, np.int64)
_team: list["_Worker"] = []


class _Worker:
    """A thread that waits for jobs: for a millisecond or so awake, since waking it would take as long as a small pass."""

    def __init__(self) -> None:
        self.jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        threading.Thread(target=self._serve, name="flatpc", daemon=True).start()

    def _serve(self) -> None:
        while True:
            heard = _bell[0]
            if self.jobs.empty():
                _listen(_bell, heard)
            self.jobs.get()()

    def forget(self) -> None:
        """Drop jobs that came too late."""
        try:
            while True:
                self.jobs.get_nowait()
        except Empty:
            pass


def run(kernel: Callable[..., Any], n_threads: int, *arguments: Any) -> None:
    """Call `kernel(*arguments, t, n_threads, barrier)` in n_threads threads, t = 0, 1, ..."""
    barrier = np.zeros(n_threads * _LINE, np.int64)
    if n_threads == 1:
        kernel(*arguments, 0, 1, barrier)
        return
    ends: SimpleQueue[BaseException | None] = SimpleQueue()

    def work(t: int) -> None:
        try:
            kernel(*arguments, t, n_threads, barrier)
            ends.put(None)
        except BaseException as error:
            ends.put(error)

    with _lock:
        for t, worker in enumerate(_workers(n_threads - 1), start=1):
            worker.forget()
            worker.jobs.put(lambda t=t: work(t))  # type: ignore[misc]
        _bell[0] += 1
        kernel(*arguments, 0, n_threads, barrier)
        errors = [ends.get() for _ in range(1, n_threads)]
    for error in errors:
        if error is not None:
            raise error


def run_tickets(kernel: Callable[..., Any], n_threads: int, n_steps: int, *arguments: Any) -> None:
    """Call `kernel(*arguments, t, n_threads, progress, bell)` in up to n_threads threads, those that come in time for a ticket.

    The kernel's thread 0 rings, and returns when all tickets are done. Nobody waits for the others to start or to end.
    """
    if n_threads == 1 or not _lock.acquire(blocking=False):
        progress = np.zeros(PROGRESS, np.int64)
        kernel(*arguments, 0, 1, progress, progress)
        return
    try:
        progress = np.zeros(PROGRESS + n_steps, np.int64)
        for t, worker in enumerate(_workers(n_threads - 1), start=1):
            worker.forget()
            worker.jobs.put(lambda t=t: kernel(*arguments, t, n_threads, progress, _bell))  # type: ignore[misc]
        kernel(*arguments, 0, n_threads, progress, _bell)
    finally:
        _lock.release()


def _workers(n: int) -> list[_Worker]:
    while len(_team) < n:
        _team.append(_Worker())
    return _team[:n]


def _forget_team() -> None:
    """A forked process has none of its parent's threads, and nobody who would release the lock."""
    global _lock
    _lock = threading.Lock()
    _team.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_team)


def _entry(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    return cgutils.get_item_pointer(context, builder, signature.args[0], array, [arguments[1]])


@intrinsic
def add(typing_context, array, index, value):
    """array[index] += value as one operation, seen by other threads after everything written before; the number it was."""

    def generate(context, builder, signature, arguments):
        return builder.atomic_rmw("add", _entry(context, builder, signature, arguments), arguments[2], "acq_rel")

    return types.int64(array, types.intp, types.int64), generate


@intrinsic
def _publish(typing_context, array, index, value):
    """array[index] = value, seen by other threads after everything written before."""

    def generate(context, builder, signature, arguments):
        builder.store_atomic(arguments[2], _entry(context, builder, signature, arguments), "release", 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.int64), generate


@intrinsic
def _observe(typing_context, array, index):
    """array[index] as the last thread wrote it."""

    def generate(context, builder, signature, arguments):
        return builder.load_atomic(_entry(context, builder, signature, arguments), "acquire", 8)

    return types.int64(array, types.intp), generate


@intrinsic
def _yield_core(typing_context):
    """Let another thread have the core, where the platform has a call for it."""

    def generate(context, builder, signature, arguments):
        if sys.platform != "win32":
            function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.IntType(32), []), "sched_yield")
            builder.call(function, [])
        return context.get_dummy_value()

    return types.void(), generate


@inner
def wait_for(counters, index, value):
    """Wait until a counter has reached a value."""
    spins = 0
    while _observe(counters, index) < value:
        spins += 1
        if spins % _SPINS_BEFORE_YIELD == 0:
            _yield_core()
            if spins > _SPINS_BEFORE_GIVING_UP:
                raise RuntimeError("a worker thread has stopped")


@njit(cache=True, nogil=True)
def _listen(bell, heard):
    """Wait for the next ring, but not for ever."""
    for spins in range(1, _SPINS_BEFORE_SLEEP):
        if _observe(bell, 0) != heard:
            return
        if spins % _SPINS_BEFORE_YIELD == 0:
            _yield_core()


@inner
def ring(bell, t, n_threads):
    """Thread 0 calls the others, which listen."""
    if t == 0 and n_threads > 1:
        add(bell, 0, 1)


@inner
def meet(barrier, t, n_threads, phase):
    """Wait until all threads have finished this phase."""
    if n_threads == 1:
        return
    _publish(barrier, t * _LINE, phase + 1)
    for other in range(n_threads):
        wait_for(barrier, other * _LINE, phase + 1)
