"""One progress bar over all models that `flatpc fit` learns, on standard error and on a terminal only."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn


class Bar:
    """`with Bar() as bar`: `bar.watch(name, share)` after every epoch."""

    def __init__(self) -> None:
        terminal = Console(stderr=True)
        columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
        self._progress = Progress(*columns, console=terminal, disable=not terminal.is_terminal, transient=True)
        self._task = self._progress.add_task("", total=1.0)

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def watch(self, name: str, share: float) -> None:
        """An epoch has ended, and with it this share of the work."""
        self._progress.update(self._task, completed=share, description=escape(name))
