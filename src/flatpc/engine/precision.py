"""Which circuits float32 has the numbers for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from flatpc.engine.contract import Dtype
from flatpc.engine.numba.packing import SMALLEST_FLOAT32

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit


def wide_enough(circuit: Circuit, dtype: Dtype) -> Dtype:
    """float64 for a circuit with weights that float32 has no number for."""
    if dtype == "float64":
        return dtype
    weights = [np.asarray(p) for p in circuit.parameters.values() if not isinstance(p, Mapping)]
    tiny = any(((w > 0) & (w < SMALLEST_FLOAT32)).any() for w in weights)
    return "float64" if tiny else dtype
