"""A few Python threads that run one kernel together, and the barrier at which they meet between phases.

Kernels release the interpreter's lock. This compiles in a fraction of the time of numba's own parallel loops, costs nothing
for one thread, and survives forks.
"""

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from flatpc.engine._kernels.compiling import inner

_LINE = 8
"""Entries of a cache line: each thread's counter has its own."""
_SPINS_BEFORE_YIELD = 1 << 12
_SPINS_BEFORE_GIVING_UP = 1 << 34

_lock = threading.Lock()
_pool: tuple[int, int, ThreadPoolExecutor] | None = None


def run(kernel: Callable[..., Any], n_threads: int, *arguments: Any) -> None:
    """Call `kernel(*arguments, t, n_threads, barrier)` in n_threads threads, t = 0, 1, ..."""
    barrier = np.zeros(n_threads * _LINE, np.int64)
    if n_threads == 1:
        kernel(*arguments, 0, 1, barrier)
        return
    with _lock:
        others = [_workers(n_threads - 1).submit(kernel, *arguments, t, n_threads, barrier) for t in range(1, n_threads)]
        kernel(*arguments, 0, n_threads, barrier)
        for other in others:
            other.result()


def _workers(n: int) -> ThreadPoolExecutor:
    global _pool
    if _pool is None or _pool[0] != os.getpid() or _pool[1] < n:
        _pool = os.getpid(), n, ThreadPoolExecutor(n, thread_name_prefix="flatpc")
    return _pool[2]


def _entry(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    return cgutils.get_item_pointer(context, builder, signature.args[0], array, [arguments[1]])


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
def meet(barrier, t, n_threads, phase):
    """Wait until all threads have finished this phase."""
    if n_threads == 1:
        return
    _publish(barrier, t * _LINE, phase + 1)
    for other in range(n_threads):
        spins = 0
        while _observe(barrier, other * _LINE) <= phase:
            spins += 1
            if spins % _SPINS_BEFORE_YIELD == 0:
                _yield_core()
                if spins > _SPINS_BEFORE_GIVING_UP:
                    raise RuntimeError("a worker thread has stopped")
