"""Timing: both sides in one run, minimum of several, taking turns so that a busy machine disturbs both alike."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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


def two_sgemms(n: int = 500) -> float:
    """What two threads are worth on this machine: how many times the products of one they do, each its own and in float32."""
    a, b, c, d = np.random.default_rng(0).random((4, n, n), dtype=np.float32)
    with ThreadPoolExecutor(2) as pool:
        one, two = best(lambda: a @ b, lambda: list(pool.map(np.matmul, (a, c), (b, d))), seconds=2.0)
    return 2 * one / two


def two_copies(n: int = 1 << 20) -> float:
    """The same for work that only moves numbers: each thread copies some megabytes from one place to another."""
    a, b, c, d = np.ones((4, n))
    with ThreadPoolExecutor(2) as pool:
        one, two = best(lambda: np.copyto(b, a), lambda: list(pool.map(np.copyto, (b, d), (a, c))), seconds=2.0)
    return 2 * one / two
