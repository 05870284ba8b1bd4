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
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from flatpc.engine.numba._kernels.compiling import inner, kernel

_LINE = 8
"""Entries of a cache line: each thread's counter has its own."""
_SPINS_BEFORE_YIELD = 1 << 12
_SPINS_BEFORE_SLEEP = 1 << 21
_FAILED = 1
"""Where counters say that a thread has failed: nobody may wait for it."""
NEXT, DONE = 0, _LINE
"""Where the progress of tickets has the next one, and for each one whether it is done."""

_lock = threading.Lock()
"""Whoever holds it has the workers for itself."""
_bell = np.zeros(_LINE, np.int64)
_team: list["_Worker"] = []


class _Job:
    """A call of a kernel by a worker, which may be taken back until it begins."""

    def __init__(self, kernel: Callable[..., Any], arguments: tuple[Any, ...], counters: Any) -> None:
        self.kernel, self.arguments, self.counters = kernel, arguments, counters
        self.error: BaseException | None = None
        self.cancelled = False
        self.running, self.ended = threading.Lock(), threading.Lock()
        self.ended.acquire()

    def do(self) -> None:
        with self.running:
            if self.cancelled:
                return
            try:
                self.kernel(*self.arguments)
            except BaseException as error:
                self.error = error
                self.counters[_FAILED] = 1
            finally:
                self.ended.release()

    def fail(self, error: BaseException) -> None:
        """Say that nobody is going to do it."""
        self.error = error
        self.counters[_FAILED] = 1
        self.ended.release()

    def cancel(self) -> None:
        """Take it back; if it has begun, wait for its end."""
        self.cancelled = True
        with self.running:
            pass


class _Worker:
    """A thread that waits for jobs: for a millisecond or so awake, since waking it would take as long as a small pass."""

    def __init__(self) -> None:
        self.jobs: SimpleQueue[_Job] = SimpleQueue()
        self.death: BaseException | None = None
        """What ended the thread, if something did."""
        threading.Thread(target=self._serve, name="flatpc", daemon=True).start()

    def _serve(self) -> None:
        try:
            while True:
                heard = _bell[0]
                if self.jobs.empty():
                    _listen(_bell, heard)
                self.jobs.get().do()
        except BaseException as error:
            self.death = error
            self._fail_jobs()

    def give(self, job: _Job) -> None:
        """Hand over a job; a worker that has died fails it, so that nobody waits."""
        self.jobs.put(job)
        if self.death is not None:
            self._fail_jobs()

    def _fail_jobs(self) -> None:
        assert self.death is not None
        for job in self._left():
            job.fail(self.death)

    def forget(self) -> None:
        """Drop jobs that it has not come to."""
        self._left()

    def _left(self) -> list[_Job]:
        """Take all jobs that wait."""
        left = []
        try:
            while True:
                left.append(self.jobs.get_nowait())
        except Empty:
            return left


def run(kernel: Callable[..., Any], n_threads: int, *arguments: Any) -> None:
    """Call `kernel(*arguments, t, n_threads, barrier)` in n_threads threads, t = 0, 1, ..."""
    barrier = np.zeros(n_threads * _LINE, np.int64)
    if n_threads == 1:
        kernel(*arguments, 0, 1, barrier)
        return
    with _lock:
        jobs = _hand_out(kernel, n_threads, arguments, barrier)
        _bell[0] += 1
        try:
            kernel(*arguments, 0, n_threads, barrier)
        except BaseException as error:
            barrier[_FAILED] = 1
            _wait(jobs)
            raise _cause(jobs, error) from error
        _wait(jobs)
        for job in jobs:
            if job.error is not None:
                raise job.error


def run_tickets(kernel: Callable[..., Any], n_threads: int, n_tickets: int, *arguments: Any) -> None:
    """Call `kernel(*arguments, t, n_threads, progress, bell)` in up to n_threads threads, those that come in time for a ticket.

    The kernel's thread 0 rings, and returns when all tickets are done. Nobody waits for the others to start or to end.
    """
    progress = np.zeros(DONE + n_tickets, np.int64)
    if n_threads == 1 or not _lock.acquire(blocking=False):
        kernel(*arguments, 0, 1, progress, progress)
        return
    try:
        jobs = _hand_out(kernel, n_threads, arguments, progress, _bell)
        try:
            kernel(*arguments, 0, n_threads, progress, _bell)
        except BaseException as error:
            progress[NEXT], progress[_FAILED] = n_tickets, 1
            for job in jobs:
                job.cancel()
            raise _cause(jobs, error) from error
    finally:
        _lock.release()


def _hand_out(kernel: Callable[..., Any], n_threads: int, arguments: tuple[Any, ...], counters: Any, *rest: Any) -> list[_Job]:
    """Give every worker its job."""
    jobs = [_Job(kernel, (*arguments, t, n_threads, counters, *rest), counters) for t in range(1, n_threads)]
    for job, worker in zip(jobs, _workers(n_threads - 1), strict=True):
        worker.forget()
        worker.give(job)
    return jobs


def _wait(jobs: list[_Job]) -> None:
    for job in jobs:
        job.ended.acquire()


def _cause(jobs: list[_Job], error: BaseException) -> BaseException:
    """What made a pass fail, rather than that it failed."""
    if isinstance(error, RuntimeError):
        return next((job.error for job in jobs if job.error is not None), error)
    return error


def _workers(n: int) -> list[_Worker]:
    _team[:] = [worker for worker in _team if worker.death is None]
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
def publish(typing_context, array, index, value):
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
            if _observe(counters, _FAILED) != 0:
                raise RuntimeError("another thread has failed")


@kernel
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
    publish(barrier, t * _LINE, phase + 1)
    for other in range(n_threads):
        wait_for(barrier, other * _LINE, phase + 1)
