"""Say that kernels are being compiled, from the moment when the first one is: a bar on a terminal, elsewhere one line.

What is found on disk is not compiled, and nothing is said of it.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from numba.core import event
from numba.core.dispatcher import Dispatcher

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
            self._begin(self.done + len(to_compile(event.data["dispatcher"])))

    def on_end(self, event: Any) -> None:
        """It is compiled."""
        if not _is_ours(event):
            return
        self.depth -= 1
        self.done += 1
        if self._bar is not None:
            task = self._bar.tasks[0]
            # A function is compiled once for each kind of arguments, so that there may be more than were counted.
            self._bar.update(task.id, completed=self.done, total=max(task.total or 0, self.done + self.depth))
            if self.depth == 0:
                self._bar.stop()
                self._bar = None

    def _begin(self, total: int) -> None:
        from rich.console import Console

        console = Console(stderr=True)
        if console.is_terminal:
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            done = TextColumn("{task.completed} of {task.total} done")
            self._bar = Progress(TextColumn(TEXT), BarColumn(10), done, TimeElapsedColumn(), console=console, transient=True)
            self._bar.add_task("", total=total, completed=self.done)
            self._bar.start()
        elif not self._said:
            print(f"{TEXT}; this can take a minute.", file=sys.stderr)
        self._said = True


def to_compile(kernel: Any) -> set[Any]:
    """The kernel and all functions that it calls, as far as they are not compiled yet; some may be on disk."""
    found, asked = set(), [kernel]
    while asked:
        function = asked.pop()
        if function in found:
            continue
        found.add(function)
        code, known = function.py_func.__code__, function.py_func.__globals__
        named = [known.get(name) for name in code.co_names]
        modules = [each for each in named if isinstance(each, ModuleType)]
        named += [getattr(module, name, None) for module in modules for name in code.co_names]
        asked += [each for each in named if isinstance(each, Dispatcher) and _is_flatpcs(each)]
    return {function for function in found if not function.overloads}


def _is_ours(event: Any) -> bool:
    return _is_flatpcs(event.data["dispatcher"])


def _is_flatpcs(dispatcher: Any) -> bool:
    return str(dispatcher.py_func.__module__).startswith("flatpc.")


_announcer = Announcer()
event.register("numba:compile", _announcer)  # type: ignore[no-untyped-call]
