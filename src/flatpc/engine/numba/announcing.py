"""Say that kernels are being compiled, from the moment when the first one is: a bar on a terminal, elsewhere one line.

What is found on disk is not compiled, and nothing is said of it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from numba.core import event

if TYPE_CHECKING:
    from rich.progress import Progress

TEXT = "flatpc: compiling kernels, once for this machine"


class Announcer(event.Listener):
    """Hears of every function that numba compiles, each perhaps for another one; speaks of flatpc's own."""

    def __init__(self) -> None:
        self.depth, self.done = 0, 0
        self._said = False
        self._bar: Progress | None = None

    def on_start(self, event: Any) -> None:
        """A function is being compiled."""
        if not _is_ours(event):
            return
        self.depth += 1
        if self.depth == 1:
            self._begin()

    def on_end(self, event: Any) -> None:
        """It is compiled."""
        if not _is_ours(event):
            return
        self.depth -= 1
        self.done += 1
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=self.done)
            if self.depth == 0:
                self._bar.stop()
                self._bar = None

    def _begin(self) -> None:
        from rich.console import Console

        console = Console(stderr=True)
        if console.is_terminal:
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (TextColumn(TEXT), BarColumn(10), TextColumn("{task.completed} done"), TimeElapsedColumn())
            # How many there will be is not known before they are needed.
            self._bar = Progress(*columns, console=console, transient=True)
            self._bar.add_task("", total=None, completed=self.done)
            self._bar.start()
        elif not self._said:
            print(f"{TEXT}; this takes half a minute or less.", file=sys.stderr)
        self._said = True


def _is_ours(event: Any) -> bool:
    return str(event.data["dispatcher"].py_func.__module__).startswith("flatpc.")


_announcer = Announcer()
event.register("numba:compile", _announcer)  # type: ignore[no-untyped-call]
