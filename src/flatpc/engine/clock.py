"""The clock of all time budgets: it stands still while kernels are compiled, which happens once and is not the model's fault."""

from __future__ import annotations

import time
from typing import Any

from numba.core import event


class _Compiling(event.Listener):
    """Adds up the time from the first of several nested starts to the last end; numba compiles in one thread at a time."""

    def __init__(self) -> None:
        self.depth, self.began, self.total = 0, 0.0, 0.0

    def on_start(self, event: Any) -> None:
        """A function is being compiled, perhaps for another one."""
        if self.depth == 0:
            self.began = time.perf_counter()
        self.depth += 1

    def on_end(self, event: Any) -> None:
        """It is compiled."""
        self.depth -= 1
        if self.depth == 0:
            self.total += time.perf_counter() - self.began


_compiling = _Compiling()
event.register("numba:compile", _compiling)  # type: ignore[no-untyped-call]


def now() -> float:
    """Seconds since some moment, those of compiling left out."""
    until = _compiling.began if _compiling.depth else time.perf_counter()
    return until - _compiling.total
