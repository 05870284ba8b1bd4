"""Native loops of learning."""

from pathlib import Path

from flatpc.engine import _kernels as engine_kernels
from flatpc.engine.kernel_cache import kernel_cache

with kernel_cache(engine_kernels.SOURCES, Path(__file__).parent):
    from flatpc.learning._kernels import entropy, simplex, tables

__all__ = ["entropy", "simplex", "tables"]
