"""Kills and Ctrl-C: fits resume to the bit, and neither processes nor temporary files are left."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import flatpc as fp
from flatpc._writing import replace_file
from flatpc.search import select
from tests.hostile.tally import Tally, how_many

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals")
X = np.random.default_rng(0).integers(0, 2, (60, 5)).astype(float)
CIRCUIT = fp.structures.hclt(X, 3)

FIT = """
import sys, numpy as np, flatpc as fp
X = np.random.default_rng(0).integers(0, 2, (60, 5)).astype(float)
def tell(row, circuit):
    print(row["epoch"], flush=True)
run = fp.learning.Run(checkpoint=sys.argv[1], callbacks=[tell])
fp.fit(fp.structures.hclt(X, 3), X, batch_size=20, epochs=10**6, run=run, progress=False)
"""


def _child(script, *arguments):
    return subprocess.Popen([sys.executable, "-c", script, *map(str, arguments)], stdout=subprocess.PIPE, text=True)


def test_killed_fits_resume_to_the_bit(tmp_path):
    """Killed at random moments after their first epoch; each life goes on from the last one's checkpoint."""
    path, rng, reached = tmp_path / "run", np.random.default_rng(41), 0
    with Tally("killed fits") as tally:
        for number in range(how_many(3, 30)):
            with tally.case(f"kill {number} of seed 41"):
                child = _child(FIT, path)
                reached = int(child.stdout.readline())
                time.sleep(rng.random() * 0.2)
                child.kill()
                said = child.stdout.read().split()
                child.wait()
                child.stdout.close()
                reached = int(said[-1]) if said else reached
    epochs = reached + 3
    options = {"batch_size": 20, "epochs": epochs, "progress": False}
    resumed, whole = fp.fit(CIRCUIT, X, **options, run=path), fp.fit(CIRCUIT, X, **options)
    np.testing.assert_array_equal(resumed.history["train_nll"], whole.history["train_nll"])
    for i, value in whole.circuit.parameters.items():
        np.testing.assert_equal(resumed.circuit.parameters[i], value)
    assert os.listdir(tmp_path) == ["run"]


WRITE = """
import sys
from flatpc import _writing
def die(*_):
    import os, signal
    os.kill(os.getpid(), signal.SIGKILL)
_writing.os.replace = die
_writing.replace_file(sys.argv[1], b"new")
"""


def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path):
    path = tmp_path / "model"
    replace_file(path, b"old")
    child = _child(WRITE, path)
    assert child.wait() == -signal.SIGKILL
    child.stdout.close()
    assert len(os.listdir(tmp_path)) == 2
    assert path.read_bytes() == b"old"
    # Those of others stay: a writer that lives, and one on another machine.
    lives = tmp_path / next(name for name in os.listdir(tmp_path) if name.endswith(".tmp")).replace(
        f"-{child.pid}-", f"-{os.getpid()}-"
    )
    elsewhere = tmp_path / ".model.00000000-1-00000000.tmp"
    for other in (lives, elsewhere):
        other.write_bytes(b"")
    replace_file(path, b"newer")
    assert sorted(os.listdir(tmp_path)) == sorted(["model", lives.name, elsewhere.name])


SWEEP = """
import os, sys, time, numpy as np, flatpc as fp
from flatpc.search import select
X = np.random.default_rng(0).integers(0, 2, (60, 5)).astype(float)
folder = sys.argv[1]
def tell(row, circuit):
    import os, time
    time.sleep(0.05)
    open(os.path.join(folder, str(os.getpid())), "w").close()
select(fp.structures.hclt(X, 3), X, valid=X, grid=[0.0, 0.1, 0.2], n_jobs=2, epochs=10**6, run=fp.learning.Run(callbacks=[tell]))
"""


def _is_alive(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="/proc")
def test_a_killed_sweep_leaves_no_processes(tmp_path):
    child = _child(SWEEP, tmp_path)
    end = time.monotonic() + 200
    while len(os.listdir(tmp_path)) < 2 and time.monotonic() < end:
        assert child.poll() is None
        time.sleep(0.1)
    workers = [int(name) for name in os.listdir(tmp_path)]
    assert len(workers) == 2
    assert all(map(_is_alive, workers))
    child.kill()
    child.wait()
    child.stdout.close()
    end = time.monotonic() + 15
    while any(map(_is_alive, workers)) and time.monotonic() < end:
        time.sleep(0.1)
    left = [worker for worker in workers if _is_alive(worker)]
    for worker in left:
        os.kill(worker, signal.SIGKILL)
    assert left == []


INTERRUPTED = """
import os, sys, time, numpy as np, flatpc as fp
from flatpc.search import select
X = np.random.default_rng(0).integers(0, 2, (60, 5)).astype(float)
folder, parent = sys.argv[1], os.getpid()
def slowly(progress):
    import os, time
    if os.getpid() != parent:  # which asks once, to see that it is a schedule
        open(os.path.join(folder, str(os.getpid())), "w").close()
        time.sleep(0.2)
    return 0.1
chosen = select(fp.structures.hclt(X, 3), X, valid=X, grid=[0.0, slowly, slowly], n_jobs=2, epochs=1000)
print(chosen.interrupted, chosen.mu, [candidate.result.stopped for candidate in chosen.candidates])
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="/proc")
def test_ctrl_c_ends_select_and_its_workers(tmp_path):
    """As a terminal sends it, to the whole group, when one candidate is complete and the others are with two workers."""
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        end = time.monotonic() + 200
        while len(os.listdir(tmp_path)) < 2 and time.monotonic() < end:
            assert child.poll() is None, child.stderr.read()
            time.sleep(0.1)
        workers = [int(name) for name in os.listdir(tmp_path)]
        assert len(workers) == 2
        time.sleep(3)  # until the first candidate has reached the parent
        os.killpg(child.pid, signal.SIGINT)
        said, errors = child.communicate(timeout=60)
        end = time.monotonic() + 15
        while any(map(_is_alive, workers)) and time.monotonic() < end:
            time.sleep(0.1)
        assert not any(map(_is_alive, workers))
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
    assert child.returncode == 0, errors
    assert said.startswith("True 0.0 ['epochs'")


def _interrupt_after(epochs):
    done = []

    def count(row, circuit):
        done.append(row)
        if len(done) == epochs:
            signal.raise_signal(signal.SIGINT)

    return [count]


@pytest.mark.parametrize("warm", [True, False])
def test_ctrl_c_ends_select_with_the_best_that_is_complete(warm):
    options = {"valid": X, "grid": [1.0, 0.0, 0.1, 0.2], "warm": warm, "n_jobs": 1, "epochs": 4, "progress": False}
    chosen = select(CIRCUIT, X, **options, run=fp.learning.Run(callbacks=_interrupt_after(6)))
    assert chosen.interrupted
    assert [candidate.result.stopped for candidate in chosen.candidates] == ["epochs", "interrupted"]
    assert chosen.mu == 1.0
    assert not select(CIRCUIT, X, **options).interrupted


def test_ctrl_c_in_the_first_candidate_is_flagged():
    chosen = select(CIRCUIT, X, valid=X, n_jobs=1, epochs=4, progress=False, run=fp.learning.Run(callbacks=_interrupt_after(2)))
    assert chosen.interrupted
    assert len(chosen.candidates) == 1
    assert chosen.best.result.stopped == "interrupted"
