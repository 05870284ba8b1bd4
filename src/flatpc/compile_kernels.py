"""Compile the kernels now, in two processes, rather than one after the other when they are first needed.

    python -m flatpc.compile_kernels

is for images and test machines; `make demo` and `make test` begin with it. Where kernels are compiled already it does nothing.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from flatpc import structures
from flatpc.engine import kernel_cache
from flatpc.engine.contract import Dtype
from flatpc.engine.evaluator import Evaluator
from flatpc.engine.evidence import Evidence, Plan

CURVATURE = "curvature"
"""The argument of the second process."""


def compile_kernels() -> None:
    """Compile what the engine, learning and curvature need in double precision; a minute or so, once."""
    if not kernel_cache.found_empty:
        return
    with subprocess.Popen([sys.executable, "-m", "flatpc.compile_kernels", CURVATURE], stderr=subprocess.DEVNULL) as other:
        _engine()
    if other.returncode:
        print("flatpc: the second process failed; what it left is compiled when it is needed.", file=sys.stderr)


def _rows() -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.random.default_rng(0).integers(0, 2, (16, 4)).astype(np.float64)


def _engine() -> None:
    """A step of EM and one of Adam."""
    from flatpc.learning import Sharpness, fit

    rows = _rows()
    for sharpness in (None, Sharpness(mu=0.1, unit="mean-flow", inputs=True)):
        fit(structures.hclt(rows, n_latents=2), rows, valid=rows, epochs=1, sharpness=sharpness, progress=False, n_threads=1)
    grid = structures.rat_spn(4, depth=1, n_repetitions=2, n_sums=2, n_inputs=2, family="gaussian")
    fit(grid, rows, valid=1e3 * rows, method="adam", epochs=1, progress=False, n_threads=1)


class _Unfilled(Evaluator):
    """Takes every value for 1, so that nothing of the engine has to be compiled."""

    def up(self, plan: Plan) -> None:
        self._values = np.ones(plan.n_values, self.dtype)
        self._scales, self._losses = np.zeros(plan.n_rows), np.full(plan.n_rows, -np.inf)


def _curvature(dtype: Dtype = "float64") -> None:
    """Adjoints, their tangents, squares, and what is gathered from them."""
    from flatpc.learning.penalty import Penalised

    rows = _rows()
    evaluator = _Unfilled(structures.hclt(rows, n_latents=2), dtype, n_threads=1)
    Penalised(evaluator, "weights").gradients(Evidence(evaluator.program, rows), np.arange(len(rows)), value=True)


if __name__ == "__main__":
    if sys.argv[1:] == [CURVATURE]:
        _curvature()
    else:
        compile_kernels()
