"""Peak memory of an E-step over all rows of the longest and one of the widest data sets, in a process of its own."""

import os
from pathlib import Path

import pytest

from tests.peak_memory import GIB, peak_memory

SCRIPT = """
import sys
import numpy as np
import flatpc as fp
from flatpc.engine.numba.evaluator import Evaluator
from flatpc.engine.numba.evidence import Evidence

with np.load(sys.argv[1]) as packed:
    X = np.unpackbits(packed["train"], axis=1, count=int(packed["num_vars"])).astype(float)
evaluator = Evaluator(fp.structures.hclt(X, 100), "float32", n_threads=1)
log_prob, gradient, statistics = evaluator.statistics(Evidence(evaluator.program, X), np.arange(len(X)))
assert np.isfinite(log_prob).all() and np.isfinite(gradient).all()
"""


@pytest.mark.data
@pytest.mark.parametrize("name", ["msnbc", "c20ng"])
def test_an_e_step_over_all_rows_stays_under_four_gibibytes(name):
    path = Path(os.environ.get("FLATPC_DATA", "")) / "debd" / f"{name}.npz"
    if not path.is_file():
        pytest.skip("needs the binary data sets: set FLATPC_DATA to a folder that has debd/*.npz")
    assert peak_memory(SCRIPT, path) < 4 * GIB
