"""One progress bar over all models that `flatpc fit` learns, on standard error and on a terminal only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from flatpc.cli.candidates import Plan
    from flatpc.learning.history import Row


class Bar:
    """`with Bar(n, epochs, volume) as bar`: `bar.begin(plan)` for each of n plans, `bar.watch(plan, row)` after every epoch."""

    def __init__(self, n: int, epochs: int, volume: float) -> None:
        terminal = Console(stderr=True)
        columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
        self._progress = Progress(*columns, console=terminal, disable=not terminal.is_terminal, transient=True)
        self._task = self._progress.add_task("", total=n * epochs)
        self._epochs, self._volume = epochs, volume
        self._begun = -1

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def begin(self, plan: Plan) -> None:
        """Another model; one that stopped early leaves a gap, which is jumped."""
        self._begun += 1
        self._progress.update(self._task, completed=self._begun * self._epochs, description=str(plan))

    def watch(self, plan: Plan, row: Row) -> None:
        """An epoch has ended; losses are shown in the user's units."""
        text = f"{plan}  train {row['train_nll'] + self._volume:.4f}"
        if row["valid_nll"] == row["valid_nll"]:
            text += f"  valid {row['valid_nll'] + self._volume:.4f}"
        self._progress.update(self._task, completed=self._begun * self._epochs + row["epoch"], description=text)
