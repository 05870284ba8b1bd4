"""The penalty and its gradient for a batch of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc.engine.evaluator import Evaluator
from flatpc.engine.evidence import Evidence

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


class Penalty:
    def __init__(self, evaluator: Evaluator, space: str) -> None:
        self.evaluator = evaluator

    def __call__(self, evidence: Evidence, rows: Ints) -> tuple[float, NDArray[Any], Array]:
        raise NotImplementedError
