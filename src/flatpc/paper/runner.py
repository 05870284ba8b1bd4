"""Run the cells of a grid over processes; killed and started again, it loses nothing and repeats nothing."""

from __future__ import annotations

import os
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import flatpc
from flatpc._processes import end_with_parent, returned_as
from flatpc.paper.cells import Cell, Metrics, Result
from flatpc.paper.results import Results

COMPACT_EVERY = 60.0
"""Seconds between writings of the compact table."""


@dataclass(frozen=True)
class Outcome:
    """What a sweep did."""

    ran: int
    failed: int
    left: int
    """Cells that the time budget left undone."""
    seconds: float
    core_hours: float
    """Of all runs that the cells have results for, in this sweep or before."""


def sweep(
    cells: Sequence[Cell],
    run: Callable[[Cell, Any], Metrics],
    settings: dict[str, Any],
    folder: str | os.PathLike[str],
    *,
    n_jobs: int | None = None,
    budget: float | None = None,
    retry: bool = False,
    watch: Callable[[Result, int, float], None] | None = None,
    twin: Callable[[Cell], Cell | None] = lambda cell: None,
) -> Outcome:
    """Run every cell that has no result yet.

    Parameters
    ----------
    cells, run, settings
        What to run: `run(cell, settings[cell.protocol])` returns the numbers.
    folder
        Where results live; see `flatpc.paper.results`.
    n_jobs
        Processes; None takes joblib's own setting, so that `joblib.parallel_config("dask")` or `"ray"` sends the same cells to a
        cluster. Each process uses one thread.
    budget
        Seconds after which no further cell is begun.
    retry
        Run cells again that ended with an error.
    watch
        Called after every run with its result, how many are left, and the seconds those will take.
    twin
        The cell whose run is the same, if there is one; where it has been done, its numbers are taken.
    """
    import joblib

    begin = time.monotonic()
    results = Results(folder, cells[0].experiment) if cells else None
    if results is None:
        return Outcome(0, 0, 0, 0.0, 0.0)
    known = results.all()
    keys = {cell: cell.key(settings[cell.protocol]) for cell in cells}
    for cell, key in keys.items():
        done = _done(twin(cell), settings, known) if key not in known else None
        if done is not None:
            known[key] = replace(done, cell=cell, key=key, seconds=0.0)
            results.add(known[key])
    pending = [cell for cell in cells if keys[cell] not in known or (retry and known[keys[cell]].error)]
    forecast = Forecast(known.values())

    def tasks() -> Iterator[Any]:
        for cell in pending:
            if budget is not None and time.monotonic() - begin > budget:
                return
            yield joblib.delayed(run_cell)(cell, run, settings[cell.protocol], keys[cell], os.getpid())

    # One task at a time to each process: a batch of several would be lost as a whole.
    workers = joblib.Parallel(n_jobs=n_jobs, return_as=returned_as("generator_unordered"), batch_size=1, pre_dispatch="n_jobs")
    ran, failed, compacted = 0, 0, time.monotonic()
    left = dict.fromkeys(pending)
    for result in workers(tasks()):
        results.add(result)
        forecast.add(result)
        ran, failed = ran + 1, failed + bool(result.error)
        left.pop(result.cell, None)
        if watch is not None:
            watch(result, len(left), forecast.seconds(left) / max(1, workers.n_jobs))
        if time.monotonic() - compacted > COMPACT_EVERY:
            results.compact()
            compacted = time.monotonic()
    results.compact()
    known = results.all()
    spent = sum(known[key].seconds for key in keys.values() if key in known)
    return Outcome(ran, failed, len(left), time.monotonic() - begin, spent / 3600)


def _done(cell: Cell | None, settings: dict[str, Any], known: dict[str, Result]) -> Result | None:
    """The result of a cell, if it has one."""
    found = None if cell is None else known.get(cell.key(settings[cell.protocol]))
    return None if found is None or found.error else found


def run_cell(cell: Cell, run: Callable[[Cell, Any], Metrics], settings: Any, key: str, parent: int = 0) -> Result:
    """One cell; its error is its result, so that the rest goes on. A worker ends with the process `parent` that started it.

    Its seconds are the processor's: those of the clock say as much of what else the machine is doing.
    """
    end_with_parent(parent)
    begin = time.process_time()
    metrics: Metrics = {}
    error = ""
    try:
        from threadpoolctl import threadpool_limits

        with threadpool_limits(1):
            metrics = run(cell, settings)
    except Exception as problem:
        error = "".join(traceback.format_exception_only(problem)).strip()
    return Result(cell, key, flatpc.__version__, time.process_time() - begin, metrics, error)


class Forecast:
    """How long cells will take, by how long others took: of the same data set and fraction, else on average."""

    def __init__(self, results: Any) -> None:
        self._seen: dict[tuple[str, float], list[float]] = defaultdict(list)
        for result in results:
            self.add(result)

    def add(self, result: Result) -> None:
        """Learn from a result."""
        if not result.error and result.seconds > 0:  # else taken from another protocol
            self._seen[result.cell.dataset, result.cell.fraction].append(result.seconds)

    def seconds(self, cells: Any) -> float:
        """Of all of them, one after another; 0 while nothing is known."""
        if not self._seen:
            return 0.0
        means = {place: float(np.mean(times)) for place, times in self._seen.items()}
        usual = float(np.mean(list(means.values())))
        return float(sum(means.get((cell.dataset, cell.fraction), usual) for cell in cells))
