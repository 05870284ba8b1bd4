"""Native loops of learning."""

from pathlib import Path

from flatpc.engine._kernels import SOURCES, kernel_cache

with kernel_cache(SOURCES, Path(__file__).parent):
    from flatpc.learning._kernels import entropy, input_tables, simplex

__all__ = ["entropy", "input_tables", "simplex"]
