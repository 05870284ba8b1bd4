"""Native loops of learning."""

from pathlib import Path

from flatpc.engine.numba import _kernels as engine_kernels
from flatpc.engine.numba.kernel_cache import kernel_cache

with kernel_cache(engine_kernels.SOURCES, Path(__file__).parent):
    from flatpc.learning._kernels import entropy, input_tables, simplex

__all__ = ["entropy", "input_tables", "simplex"]
