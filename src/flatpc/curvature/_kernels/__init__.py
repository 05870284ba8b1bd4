"""Native loops of the curvature: adjoints, their tangents, and what is added up from them, one idea per file."""

from pathlib import Path

from flatpc.engine import _kernels as engine_kernels
from flatpc.engine.kernel_cache import kernel_cache

with kernel_cache(engine_kernels.SOURCES, Path(__file__).parent):
    from flatpc.curvature._kernels import downward, gather, own, pairs, passes, products, row_statistics, rows, squares, upward

__all__ = ["downward", "gather", "own", "pairs", "passes", "products", "row_statistics", "rows", "squares", "upward"]
