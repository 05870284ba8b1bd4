"""Damaged kernel caches: whatever became of the files, the answer is right, and what was damaged is named and compiled again."""

import errno
import os
import shutil
import subprocess
import sys

import numba
import numpy as np
import pytest

from flatpc.engine.numba import kernel_cache, kernel_files
from flatpc.engine.numba._kernels import threads
from tests.hostile.tally import Tally, how_many


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kernel_cache, "_folders", set())
    monkeypatch.setattr(kernel_files, "_full", set())
    return tmp_path


def _kernel(folder):
    """The same function as if a new process had imported it."""

    def half_of(x):
        return x / 2

    with kernel_cache.kernel_cache(folder):
        return numba.njit(cache=True)(half_of)


def _files(folder):
    return sorted(folder.rglob(f"*{kernel_files.ENDING}"))


def _mutated(data, rng):
    """The bytes after one of six accidents."""
    kind = rng.integers(6)
    data = bytearray(data)
    at = int(rng.integers(len(data)))
    if kind == 0:
        return b""
    if kind == 1:
        return bytes(data[:at])
    if kind == 2:
        data[at] ^= 1 << int(rng.integers(8))
    elif kind == 3:
        data[at : at + 64] = bytes(64) if any(data[at : at + 64]) else b"\1" * 64
    elif kind == 4:
        data += rng.bytes(1 + int(rng.integers(64)))
    else:
        return rng.bytes(len(data))
    return bytes(data)


def test_mutated_kernels_are_compiled_again(folder, capsys):
    assert _kernel(folder)(3) == 1.5
    (path,) = _files(folder)
    good = path.read_bytes()
    again = _kernel(folder)
    assert again(3) == 1.5
    assert sum(again.stats.cache_hits.values()) == 1  # so that the cases below do read the file
    capsys.readouterr()
    rng = np.random.default_rng(5)
    with Tally("damaged kernels") as tally:
        for number in range(how_many(40, 400)):
            with tally.case(f"mutation {number} of seed 5"):
                path.write_bytes(_mutated(good, rng))
                kernel = _kernel(folder)
                assert kernel(3) == 1.5
                said = capsys.readouterr().err
                assert f"{path} is damaged" in said
                assert sum(kernel.stats.cache_misses.values()) == 1
                # What stands there now is whole.
                kernel = _kernel(folder)
                assert kernel(3) == 1.5
                assert sum(kernel.stats.cache_hits.values()) == 1
                assert capsys.readouterr().err == ""


def test_a_kernel_under_another_ones_name_is_not_taken_for_it(folder):
    kernel = _kernel(folder)
    assert (kernel(3), kernel(3.0)) == (1.5, 1.5)
    one, other = _files(folder)
    shutil.copy(one, other)
    kernel = _kernel(folder)
    assert (kernel(3), kernel(3.0)) == (1.5, 1.5)


def test_a_full_disk_means_no_cache(folder, monkeypatch, capsys):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    kernel = _kernel(folder)
    monkeypatch.setattr(os, "fsync", full)
    assert (kernel(3), kernel(3.0)) == (1.5, 1.5)
    assert capsys.readouterr().err.count("No space left on device") == 1
    assert [path for path in folder.rglob("*") if path.is_file()] == []


SCRIPT = """
import numpy as np, flatpc as fp
from flatpc.engine.numba._kernels import threads
X = np.random.default_rng(0).integers(0, 2, (200, 6))
c = fp.structures.hclt(X, n_latents=4)
print(float(fp.fit(c, X, epochs=2, n_threads=2, progress=False).circuit.log_prob(X).sum()).hex())
threads._listen(threads._bell, -1)  # if no worker has come to it
"""


def _run(folder):
    child = subprocess.run(
        [sys.executable, "-c", SCRIPT], env={**os.environ, "NUMBA_CACHE_DIR": str(folder)}, capture_output=True, text=True,
        timeout=300, check=True,
    )  # fmt: skip
    return child.stdout, child.stderr


def test_a_process_whose_workers_find_a_damaged_kernel_neither_fails_nor_hangs(tmp_path):
    for used in kernel_cache._folders:
        shutil.copytree(used, tmp_path / used.name)
    right, _ = _run(tmp_path)
    listens = [path for path in _files(tmp_path) if path.name.startswith("threads._listen")]
    assert listens
    for path in listens:
        path.write_bytes(b"")
    found, said = _run(tmp_path)
    assert found == right
    assert f"{listens[0]} is damaged" in said
    assert _run(tmp_path) == (right, "")


def test_a_worker_that_dies_ends_the_pass_with_its_error(monkeypatch):
    """Whether it dies before it begins or while others wait for it; the next pass has new workers."""

    def fail(*_):
        raise MemoryError("no room for a worker")

    def waits(t, n_threads, barrier):
        barrier[8 * t] = 1
        while min(barrier[8 * other] for other in range(n_threads)) < 1:
            if barrier[threads._FAILED]:
                raise RuntimeError("another thread has failed")

    monkeypatch.setattr(threads, "_team", [])
    with monkeypatch.context() as broken:
        broken.setattr(threads, "_listen", fail)
        with pytest.raises(MemoryError, match="no room"):
            threads.run(waits, 3)
    threads.run(waits, 3)

    def fails_in_one(t, n_threads, barrier):
        if t == 1:
            raise MemoryError("in the middle")
        waits(t, n_threads, barrier)

    with pytest.raises(MemoryError, match="in the middle"):
        threads.run(fails_in_one, 3)
    threads.run(waits, 3)
