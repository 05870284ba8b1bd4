"""Timing: both sides in one run, minimum of several, taking turns so that a busy machine disturbs both alike."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np


def best(
    *functions: Callable[[], Any],
    turns: int = 3,
    seconds: float = 0.5,
    fewest: int = 2,
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """Seconds of each function.

    The functions take turns; in its turn a function is called again and again for a while, as in a training loop, and
    the quickest call of all turns counts. For functions of one thread, `clock=time.thread_time` counts only the time that the
    thread had the core: on a busy machine, short calls find a quiet moment more often than long ones.
    """
    found = [np.inf] * len(functions)
    for _ in range(turns):
        for i, function in enumerate(functions):
            function()
            start, calls = time.perf_counter(), 0
            while calls < fewest or (time.perf_counter() - start < seconds / turns and calls < 100):
                before = clock()
                function()
                found[i] = min(found[i], clock() - before)
                calls += 1
    return found


def geometric_mean(ratios: list[float]) -> float:
    return float(np.exp(np.mean(np.log(ratios))))


def sgemm_rate(n: int = 1000) -> float:
    """Operations per second of this machine's matrix product in float32 with one thread, which BLAS must have been told."""
    a, b = np.random.default_rng(0).random((2, n, n), dtype=np.float32)
    return 2 * n**3 / best(lambda: a @ b, clock=time.thread_time)[0]
