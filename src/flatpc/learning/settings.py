"""The options of one fit, all checked."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from flatpc.engine.contract import Arithmetic
from flatpc.learning.regularizers.together import Regularizers
from flatpc.learning.run.options import Run
from flatpc.learning.run.stopping import Stopping
from flatpc.learning.steps.method import Method


@dataclass(frozen=True)
class Settings:
    """What `fit` was asked for, but for the circuit and the rows."""

    valid: Any
    sample_weight: Any
    valid_weight: Any
    method: Method
    epochs: int
    batch_size: int | None
    regularizers: Regularizers
    stopping: Stopping
    run: Run
    seed: int
    missing: str
    engine: str
    device: Any
    dtype: Arithmetic
    n_threads: int | None
    progress: bool

    def identity(self) -> dict[str, Any]:
        """What must be the same for a run to be resumed."""
        return {
            "method": self.method.name, **{option.name: getattr(self.method, option.name) for option in fields(self.method)},
            "batch_size": self.batch_size, "regularizer": self.regularizers.parts, "seed": self.seed,
            "patience": self.stopping.patience, "dtype": self.dtype,
        }  # fmt: skip
