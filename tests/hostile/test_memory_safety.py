"""No circuit and no file, however odd, makes a kernel touch memory that isn't its own: no process dies of it."""

import os
import subprocess
import sys

import numpy as np
import pytest

import flatpc as fp
from flatpc.errors import StructureError
from tests.hostile.tally import Tally, how_many

FIRST_SEED = 50_000
PER_PROCESS = 100


def test_a_variable_beyond_the_roots_is_refused():
    """Its column would be read from behind the rows."""
    nodes = [fp.Input(0, fp.Bernoulli()), fp.Input(1, fp.Bernoulli()), fp.Sum((0,))]
    with pytest.raises(StructureError, match=r"Node 1 .* not below the root"):
        fp.Circuit(nodes).log_prob(np.zeros((200_000, 1)))


def test_no_process_dies_of_a_circuit_or_a_file(tmp_path):
    with Tally("circuits and files against memory") as tally:
        count = how_many(60, 2_000)
        for first in range(FIRST_SEED, FIRST_SEED + count, PER_PROCESS):
            _run(tally, first, min(PER_PROCESS, FIRST_SEED + count - first), tmp_path)


def _run(tally, first, count, folder):
    """The cases of one process; after a crash the rest in another one."""
    while count > 0:
        command = [sys.executable, "-X", "faulthandler", "-m", "tests.hostile.memory_child", str(first), str(count), str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "MALLOC_PERTURB_": "165"}, check=False)
        lines = done.stdout.splitlines()
        for outcome in ("answered", "refused"):
            tally.add(outcome, lines.count(outcome))
        if done.returncode == 0:
            return
        tried = sum(line.startswith("seed") for line in lines)
        tally.add("failed")
        tally.failures.append(f"seed {first + tried - 1}: exit {done.returncode}: {done.stderr[-500:]}")
        first, count = first + max(1, tried), count - max(1, tried)
