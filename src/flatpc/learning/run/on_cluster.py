"""A batch whose pieces are parts of a source, worked on by a cluster."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flatpc.circuit.rows import read_rows
from flatpc.engine.contract import Arithmetic, Evaluator, Gradients, get_evaluator
from flatpc.errors import OptionError
from flatpc.learning.run.memory import MEMORY
from flatpc.learning.steps.collect import Collect, Plain
from flatpc.learning.steps.pieces import Task
from flatpc.tables.sources import Source
from flatpc.tables.sums import Arrays, tree_sum

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

_local = threading.local()
"""The evaluator of each thread of a worker: its buffers have one user at a time."""


@dataclass(frozen=True)
class Setting:
    """What all steps of a run share."""

    circuit: Circuit
    dtype: Arithmetic
    missing: str
    engine: str = "numba"
    device: Any = None
    key: str = field(default_factory=lambda: uuid.uuid4().hex)

    def evaluator(self) -> Evaluator:
        """The present thread's, made when it is first needed."""
        if getattr(_local, "key", None) != self.key:
            how: dict[str, Any] = {"engine": self.engine, "device": self.device, "dtype": self.dtype}
            _local.key, _local.evaluator = self.key, get_evaluator(self.circuit, n_threads=1, memory=MEMORY, **how)
        found: Evaluator = _local.evaluator
        return found


@dataclass(frozen=True)
class There:
    """Some parts of a source."""

    source: Source
    setting: Setting
    order: tuple[int, ...]
    n_rows: int

    def add_up(self, task: Task, evaluator: Evaluator, collect: Collect | None) -> Gradients:
        """Each part where a worker is free."""
        if not isinstance(collect, Plain | None):
            raise OptionError(
                f"{type(collect).__name__} changes the flows of rows, which workers don't know of; learn here: source.on(None).",
                option="regularizer",
            )
        parameters = evaluator.weights, evaluator.inputs
        return Gradients(*self.source.add_up(work_on, self.setting, (task, *parameters), self.order))


def work_on(blocks: Iterator[Any], setting: Setting, now: tuple[Any, ...]) -> Arrays:
    """The sums over one part."""
    task, weights, inputs = now
    evaluator = setting.evaluator()
    evaluator.weights[:], evaluator.inputs[:] = weights, inputs
    rows = (read_rows(setting.circuit, block, setting.missing) for block in blocks)
    return tree_sum(task.work_out(evaluator, evaluator.evidence(X)) for X in rows)
