"""Native loops of the curvature: adjoints, their tangents, and what is added up from them, one idea per file."""

from pathlib import Path

from flatpc.engine.numba import _kernels as engine_kernels
from flatpc.engine.numba.kernel_cache import kernel_cache

with kernel_cache(engine_kernels.SOURCES, Path(__file__).parent):
    from flatpc.curvature._kernels import (
        downward,
        pairs,
        penalty_directions,
        products,
        row_statistics,
        rows,
        squares,
        sums_over_rows,
        upward,
        walks,
    )

__all__ = [
    "downward",
    "pairs",
    "penalty_directions",
    "products",
    "row_statistics",
    "rows",
    "squares",
    "sums_over_rows",
    "upward",
    "walks",
]
