"""Run a declared table with a progress bar: what `flatpc reproduce table1` does."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from flatpc.compile_kernels import compile_kernels
from flatpc.paper.cells import Result
from flatpc.paper.results import Results
from flatpc.paper.runner import Outcome, sweep
from flatpc.paper.tables import table


def reproduce(
    name: str,
    folder: str | os.PathLike[str] = "results",
    *,
    protocol: str = "text",
    quick: bool = False,
    datasets: Sequence[str] | None = None,
    fractions: Sequence[float] | None = None,
    trials: Sequence[int] | None = None,
    methods: Sequence[str] | None = None,
    n_jobs: int | None = None,
    budget: float | None = None,
    retry: bool = False,
    progress: bool = True,
) -> Outcome:
    """Run what the table lacks; results go to `folder`, see `flatpc.paper.results`.

    `quick` restricts the grid to a small part, unless the parts are named.
    """
    declared = table(name)
    wanted: dict[str, Any] = {"datasets": datasets, "fractions": fractions, "trials": trials, "methods": methods}
    if quick:
        wanted = {axis: declared.quick[axis] if values is None else values for axis, values in wanted.items()}
    cells = declared.cells(protocol, **wanted)
    if declared.n_threads > 1:
        n_jobs = max(1, (n_jobs or os.cpu_count() or 1) // declared.n_threads)
    console = Console(stderr=True)
    if declared.missing is not None:
        reasons = {cell: declared.missing(cell) for cell in cells}
        for reason in dict.fromkeys(filter(None, reasons.values())):
            console.print(f"[yellow]Skipped: {reason}")
        cells = [cell for cell in cells if not reasons[cell]]
    compile_kernels(single=True)  # or every process would do it for itself
    done = len(cells) - _left(name, folder, cells, declared.settings)
    columns = (
        TextColumn("[bold]{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("{task.fields[eta]}"), TextColumn("[dim]{task.fields[last]}"),
    )  # fmt: skip
    with Progress(*columns, console=console, disable=not progress) as bar:
        task = bar.add_task(name, total=len(cells), completed=done, eta="", last="")

        def watch(result: Result, left: int, seconds: float) -> None:
            if result.error:
                bar.console.print(f"[red]{result.cell.label}: {result.error}")
            eta = f"about {seconds / 60:.0f} min left" if seconds >= 90 else f"about {seconds:.0f} s left"
            bar.update(task, completed=len(cells) - left, eta=eta, last=result.cell.label)

        return sweep(
            cells, declared.run, declared.settings, folder,
            n_jobs=n_jobs, budget=budget, retry=retry, watch=watch, twin=declared.twin,
        )  # fmt: skip


def _left(name: str, folder: str | os.PathLike[str], cells: Sequence[object], settings: dict[str, object]) -> int:
    known = Results(folder, name).all()
    return sum(cell.key(settings[cell.protocol]) not in known for cell in cells)  # type: ignore[attr-defined]
