"""What first calls on a fresh machine take: seconds of the processor and of the clock, import included, each in its own process.

`import` is what a process without kernels takes. The clock's seconds mean something on a quiet machine only; the least of three
turns counts. Python's own bytecode is there, as `pip install` leaves it, whatever this environment says of it.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.engine import Numbers

_START = """
import numpy as np, flatpc as fp
rng = np.random.default_rng(0)
X = rng.integers(0, 2, (200, 8))
circuit = fp.structures.hclt(X, n_latents=4)
numbers = rng.normal(size=(200, 8))
gaussian = fp.structures.hclt(numbers, n_latents=4, family="gaussian")
table = np.column_stack([X[:, :3], rng.normal(size=200), rng.lognormal(size=200)])
"""
CALLS = {
    "import": "import flatpc.engine.numba.evaluator",
    "log_prob": "circuit.log_prob(X)",
    "log_prob of numbers": "gaussian.log_prob(numbers)",
    "fit": "fp.fit(circuit, X, epochs=1, progress=False)",
    "fit to numbers": "fp.fit(gaussian, numbers, epochs=1, progress=False)",
    "CircuitDensity().fit": "fp.CircuitDensity(effort='quick', verbose=False).fit(table)",
}

TURNS = 3


def first_call(call: str, bytecode: str) -> dict[str, float]:
    """Seconds of the processor and of the clock, and how many functions are compiled; Python's bytecode is kept in a folder."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {"NUMBA_CACHE_DIR": folder, "PYTHONPYCACHEPREFIX": bytecode, "PYTHONDONTWRITEBYTECODE": ""}
        began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-c", _START + call],
            env={**os.environ, **settings},
            check=True,
            stderr=subprocess.DEVNULL,
        )
        wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        n_kernels = len(list(Path(folder).rglob("*.kernel")))
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"processor": processor, "clock": wall, "kernels": float(n_kernels)}


def first_calls() -> Numbers:
    """A table of all first calls."""
    table = Table("first call", "processor, s", "clock, s", "functions compiled", title="On a fresh machine")
    found = {}
    with tempfile.TemporaryDirectory() as bytecode:
        first_call(CALLS["CircuitDensity().fit"], bytecode)  # imports all that the others do
        for name, call in CALLS.items():
            numbers = min((first_call(call, bytecode) for _ in range(TURNS)), key=lambda turn: turn["processor"])
            table.add_row(name, f"{numbers['processor']:.1f}", f"{numbers['clock']:.1f}", f"{numbers['kernels']:.0f}")
            found |= {f"{name}.{what}": number for what, number in numbers.items()}
    Console(width=150, highlight=False).print(table)
    return found


PIECES = {"first_calls": first_calls}
