"""What native loops of other rooms are made of: how they are compiled and kept, and what they share with those of the engine."""

from flatpc.engine.numba._kernels import SOURCES
from flatpc.engine.numba._kernels.compiling import inner, kernel
from flatpc.engine.numba._kernels.dense import FAST
from flatpc.engine.numba._kernels.update import (
    CUBIC,
    CUBIC_EXACT,
    QUADRATIC_EXACT,
    cubic_root,
    exact_multiplier,
    least_flow,
)
from flatpc.engine.numba.kernel_cache import kernel_cache

__all__ = [
    "CUBIC",
    "CUBIC_EXACT",
    "FAST",
    "QUADRATIC_EXACT",
    "SOURCES",
    "cubic_root",
    "exact_multiplier",
    "inner",
    "kernel",
    "kernel_cache",
    "least_flow",
]
