"""Native loops of the numba engine, one idea per file; `README.md` lists the traps."""

from pathlib import Path

from flatpc.engine.numba.kernel_cache import kernel_cache

SOURCES = Path(__file__).parent

with kernel_cache(SOURCES):
    from flatpc.engine.numba._kernels import (
        adjoints,
        collect,
        dense,
        fused,
        log_domain,
        log_flows,
        passes,
        rows,
        scalars,
        sharing,
        simd,
        threads,
        underflow,
        update,
        work_items,
    )

__all__ = [
    "adjoints",
    "collect",
    "dense",
    "fused",
    "log_domain",
    "log_flows",
    "passes",
    "rows",
    "scalars",
    "sharing",
    "simd",
    "threads",
    "underflow",
    "update",
    "work_items",
]
