"""Compile the kernels now, in two processes, rather than one after the other when they are first needed.

    python -m flatpc.compile_kernels

is for images and test machines; `make demo` and `make test` begin with it. Where kernels are compiled already, for this machine
and these settings, it does nothing.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np

import flatpc.curvature._kernels
import flatpc.learning._kernels  # noqa: F401 - so that it is known where all kernels are kept
from flatpc import structures
from flatpc.engine.contract import Dtype
from flatpc.engine.numba import kernel_cache
from flatpc.engine.numba.evaluator import Evaluator
from flatpc.engine.numba.evidence import Evidence, Plan

DTYPES: tuple[Dtype, ...] = ("float64", "float32")
"""What is compiled always, and what for training in single precision."""
_tried: set[Dtype] = set()


def compile_kernels(*, single: bool = False) -> None:
    """Compile what is needed in double precision, and for training in `single` precision as well; a minute, once."""
    wanted = DTYPES if single else DTYPES[:1]
    if all(kernel_cache.is_ready(dtype) or dtype in _tried for dtype in wanted):
        return
    _tried.update(wanted)
    theirs = ["curvature", "training"] if single else ["curvature"]
    with subprocess.Popen([sys.executable, "-m", "flatpc.compile_kernels", *theirs], stderr=subprocess.DEVNULL) as other:
        _engine()
    if other.returncode:
        print("flatpc: the second process failed; what it left is compiled when it is needed.", file=sys.stderr)
        return
    for dtype in wanted:
        kernel_cache.mark_ready(dtype)


def _rows() -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.random.default_rng(0).integers(0, 2, (16, 4)).astype(np.float64)


def _engine() -> None:
    """Steps of EM and of Adam."""
    from flatpc.learning import fit

    _training("float64")
    rows = _rows()
    grid = structures.rat_spn(4, depth=1, n_repetitions=2, n_sums=2, n_inputs=2, family="gaussian")
    fit(grid, rows, valid=1e3 * rows, method="adam", epochs=1, progress=False, n_threads=1, dtype="float64")


def _training(dtype: Dtype = "float32") -> None:
    """Steps of EM, fused and not."""
    from flatpc.learning import Sharpness, fit

    rows = _rows()
    start = structures.hclt(rows, n_latents=2)
    for sharpness in (None, Sharpness(mu=0.1, unit="mean-flow", inputs=True)):
        fit(start, rows, valid=rows, epochs=1, batch_size=8, sharpness=sharpness, progress=False, n_threads=1, dtype=dtype)


class _Unfilled(Evaluator):
    """Takes every value for 1, so that nothing of the engine has to be compiled."""

    def up(self, plan: Plan) -> None:
        self._values = np.ones(plan.n_values, self.dtype)
        self._scales, self._losses = np.zeros(plan.n_rows), np.full(plan.n_rows, -np.inf)


def _curvature() -> None:
    """Adjoints, their tangents, squares, and what is gathered from them."""
    from flatpc.curvature.penalised import Penalised

    rows = _rows()
    evaluator = _Unfilled(structures.hclt(rows, n_latents=2), n_threads=1)
    Penalised(evaluator, "weights").gradients(Evidence(evaluator.program, rows), np.arange(len(rows)), value=True)


PARTS = {"curvature": _curvature, "training": _training}
"""What the second process may be asked for."""

if __name__ == "__main__":
    for part in sys.argv[1:]:
        PARTS[part]()
    if not sys.argv[1:]:
        compile_kernels(single=True)
