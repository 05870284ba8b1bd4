"""Native loops of the numba engine, one idea per file; `README.md` lists the traps."""

from pathlib import Path

from flatpc.engine.kernel_cache import kernel_cache

SOURCES = Path(__file__).parent

with kernel_cache(SOURCES):
    from flatpc.engine._kernels import (
        adjoints,
        collect,
        dense,
        fused,
        items,
        log_domain,
        passes,
        rows,
        scalars,
        sharing,
        simd,
        threads,
        update,
        values,
    )

__all__ = [
    "adjoints",
    "collect",
    "dense",
    "fused",
    "items",
    "log_domain",
    "passes",
    "rows",
    "scalars",
    "sharing",
    "simd",
    "threads",
    "update",
    "values",
]
