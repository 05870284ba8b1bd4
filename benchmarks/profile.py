"""Where the time of one EM step goes, next to what the machine could do: `python -m benchmarks profile [--data nltcs,plants]`.

HCLTs with 100 latents, batch 200, float32, one thread. Every phase is timed inside the two passes, in the order and with the
caches of a real step; the least of many steps counts, phase by phase.

The limits: `sgemm` is the time of the three matrix products of a step (values up, adjoints down, flows of weights) at the rate
of this machine's large matrix product, over the distinct sub-rows only; `memory` the time to read all weights twice and to
write them once at the rate of a copy of an array of 64 MB.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from rich.console import Console
from rich.table import Table

import flatpc as fp
from benchmarks.binary_data import train_rows
from benchmarks.clock import best, sgemm_rate
from benchmarks.engine import BATCH, LATENTS, Numbers, has_data, prepare, quadratic
from flatpc.engine.numba._kernels import passes
from flatpc.engine.numba._kernels import work_items as items
from flatpc.engine.numba._kernels.adjoints import FUSED, deal_with_weights, pull, push
from flatpc.engine.numba._kernels.collect import add_statistics
from flatpc.engine.numba._kernels.columns import (
    ADJOINT,
    ADJOINT_ROWS,
    CHILD,
    DENSE_SUM,
    INLINED,
    KIND,
    ROWS,
    TABLE_INPUT,
    VALUE,
    WIDTH,
)
from flatpc.engine.numba._kernels.input_values import evaluate_table
from flatpc.engine.numba._kernels.product_values import evaluate_hadamard
from flatpc.engine.numba._kernels.sum_values import evaluate_dense_sum
from flatpc.engine.numba._kernels.work_items import DESCEND, INPUT_BLOCK, ROWS_PER_ITEM, WEIGHTS
from flatpc.engine.numba.evaluator import Evaluator
from flatpc.engine.numba.evidence import Evidence
from flatpc.engine.numba.weight_update import solvable

NAMES = ("nltcs", "kdd", "plants", "bnetflix", "msweb", "dna", "bbc")
UP = ("inputs", "products", "sums")
DOWN = ("to children", "through sums", "new weights", "statistics")
console = Console(width=150, highlight=False)


@intrinsic
def _ticks(typing_context):  # type: ignore[no-untyped-def]
    """The processor's time stamp."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        counter = builder.module.declare_intrinsic("llvm.readcyclecounter", (), ir.FunctionType(ir.IntType(64), []))
        return builder.call(counter, [])

    return types.int64(), generate


@njit
def _timed_up(P, B, item, W, T, V, E, L, spent):  # type: ignore[no-untyped-def]
    for i in range(len(item)):
        s, lo, hi = item[i, 1], item[i, 2], item[i, 3]
        start = _ticks()
        if P.steps[s, KIND] == TABLE_INPUT:
            evaluate_table(P, B, W, T, V, E, L, s, lo, hi)
            spent[0] += _ticks() - start
            continue
        if P.steps[s, KIND] != DENSE_SUM:
            evaluate_hadamard(P, B, W, T, V, E, L, s, lo, hi)
            spent[1] += _ticks() - start
            continue
        if P.steps[s, INLINED] >= 0:
            evaluate_hadamard(P, B, W, T, V, E, L, P.steps[s, INLINED], lo, hi)
        middle = _ticks()
        evaluate_dense_sum(P, B, W, T, V, E, L, s, lo, hi)
        spent[1] += middle - start
        spent[2] += _ticks() - middle


@njit
def _timed_down(P, B, item, loops, owners, W, T, V, E, A, root_flow, FL, ST, rule, spent):  # type: ignore[no-untyped-def]
    for i in range(len(item)):
        what, s, lo, hi = item[i, 0], item[i, 1], item[i, 2], item[i, 3]
        start = _ticks()
        if what == DESCEND:
            pull(P, B, W, V, E, A, loops, root_flow, True, s, lo, hi)
            now = _ticks()
            spent[0] += now - start
            start = now
            if P.steps[s, KIND] == DENSE_SUM:
                push(P, B, W, V, A, True, s, lo, hi)
                now = _ticks()
                spent[1] += now - start
                start = now
                if B.at[s, ADJOINT_ROWS] <= ROWS_PER_ITEM:
                    what, lo, hi = WEIGHTS, 0, P.steps[s, WIDTH]
        if what == WEIGHTS:
            deal_with_weights(P, B, W, V, A, FL, FUSED, rule, s, lo, hi)
            spent[2] += _ticks() - start
        elif what == INPUT_BLOCK:
            for q in range(owners.input_ptr[s], owners.input_ptr[s + 1]):
                add_statistics(P, B, T, A, ST, owners.input_step[q])
            spent[3] += _ticks() - start


def _seconds_per_tick() -> float:
    read = njit(lambda: _ticks())
    first, start = read(), time.perf_counter()
    time.sleep(0.2)
    return (time.perf_counter() - start) / (read() - first)


def _phases(evaluator: Evaluator, evidence: Evidence, steps: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Ticks of the phases of the two passes: the least over some steps."""
    rows, rule, program = np.arange(BATCH), solvable(quadratic(evaluator), evaluator.dtype), evaluator.program
    structure, owners, work = program.structure, program.owners, evaluator
    least = [np.full(len(UP), np.iinfo(np.int64).max), np.full(len(DOWN), np.iinfo(np.int64).max)]
    for _ in range(steps):
        evaluator.em_step(evidence, rows, rule)
        plan = evidence.plan(rows)
        at = plan.batch.at
        at[:, ADJOINT], at[:, ADJOINT_ROWS] = at[:, VALUE], at[:, ROWS]
        up = items.upward(work._most_rows, *work._depth_first[0], at[:, ROWS], work._cost).item
        n_blocks = len(owners.input_ptr) - 1, len(owners.weight_ptr) - 1
        down = items.downward(structure.steps, work._most_rows, *work._depth_first[1], at[:, ROWS], work._cost, *n_blocks).item
        spent = [np.zeros(len(UP), np.int64), np.zeros(len(DOWN), np.int64)]
        buffers = work.weights, work.inputs, work._values, work._scales
        _timed_up(structure, plan.batch, up, *buffers, work._losses, spent[0])
        flow = np.bincount(plan.distinct).astype(np.float64)
        statistics = np.zeros(program.n_inputs)
        _timed_down(
            structure,
            plan.batch,
            down,
            passes.DOWNWARD.table(work._downward, work.dtype),
            owners,
            *buffers,
            work._adjoints,
            flow,
            np.empty(0, np.float32),
            statistics,
            rule,
            spent[1],
        )
        least = [np.minimum(a, b) for a, b in zip(least, spent, strict=True)]
    return least[0], least[1]


def _copy_rate() -> float:
    """Bytes per second that a copy reads and writes."""
    a = np.ones(1 << 23)
    b = np.empty_like(a)
    return 2 * a.nbytes / best(lambda: np.copyto(b, a), clock=time.thread_time)[0]


def phases(names: tuple[str, ...] = NAMES) -> Numbers | None:
    """Where the milliseconds of one EM step go, by data set."""
    if not has_data():
        return None
    rate, bandwidth, tick = sgemm_rate(), _copy_rate(), _seconds_per_tick()
    table = Table(title=f"Milliseconds of one EM step, batch {BATCH}, one thread", title_justify="left")
    found = {}
    parts = ("step", "planning", *UP, *DOWN, "sgemm", "memory")
    for column in ("data", "MB of weights", *parts):
        table.add_column(column, justify="right")
    for name in names:
        X = train_rows(name)
        circuit = fp.structures.hclt(X, LATENTS)
        evaluator, evidence = prepare(circuit, X)
        rule, rows = quadratic(evaluator), np.arange(BATCH)
        step, planning = best(
            lambda e=evaluator, v=evidence, r=rule, b=rows: e.em_step(v, b, r),
            lambda v=evidence, b=rows: v.plan(b),
            clock=time.thread_time,
        )
        up, down = _phases(evaluator, evidence, steps=10 + int(0.3 / step))
        steps, plan = evaluator.program.structure.steps, evidence.plan(rows)
        dense = np.flatnonzero(steps[:, KIND] == DENSE_SUM)
        below = steps[evaluator.program.structure.child[steps[dense, CHILD]], WIDTH].astype(np.float64)
        products = 6.0 * float((plan.batch.at[dense, ROWS] * steps[dense, WIDTH] * below).sum()) / rate
        streamed = 3.0 * evaluator.weights.nbytes / bandwidth
        times = [step, planning, *(tick * up), *(tick * down), products, streamed]
        found[name] = {part: 1e3 * t for part, t in zip(parts, times, strict=True)}
        table.add_row(name, f"{evaluator.weights.nbytes / 1e6:.1f}", *(f"{1e3 * t:.2f}" for t in times))
    console.print(table)
    console.print(f"sgemm: {rate / 1e9:.0f} gigaflops; memory: {bandwidth / 1e9:.0f} GB/s\n")
    return {"ms": found, "gigaflops": rate / 1e9, "GB/s": bandwidth / 1e9}


PIECES = {"phases": phases}
BY_DATA = ("phases",)
