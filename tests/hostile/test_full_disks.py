"""Full disks and folders that can't be written to: said in a line, before any work if possible; nothing learnt is lost."""

import json
import os
import subprocess
import sys
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import flatpc as fp
from flatpc._writing import check_target, replace_file
from flatpc.errors import FlatpcError, WriteError
from flatpc.learning.run.history import JsonLines
from flatpc.learning.run.notes import LearningWarning
from tests.cli.running import Answer, bits
from tests.hostile.tally import Tally, how_many

resource = pytest.importorskip("resource")
X = bits(60).astype(float)
CIRCUIT = fp.structures.hclt(X, 3)
READ_ONLY = Path("/sys")
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/sys and /dev/full")


@contextmanager
def room(n_bytes):
    """No file may grow beyond so many bytes: as on a full disk, but for this process alone."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_every_place_at_which_a_disk_can_be_full(tmp_path):
    """The old file stays whole, whichever byte has no room, and nothing is left beside it."""
    path = tmp_path / "file"
    rng = np.random.default_rng(2)
    new = rng.bytes(5000)
    with Tally("files on a full disk") as tally:
        for number in range(how_many(100, 1000)):
            replace_file(path, b"old")
            with tally.case(f"case {number} of seed 2"), room(int(rng.integers(len(new)))):
                replace_file(path, new)
            assert path.read_bytes() == b"old"
            assert os.listdir(tmp_path) == ["file"]
    assert tally.counts["refused"] == how_many(100, 1000)


def test_a_model_that_finds_no_room(tmp_path):
    path = tmp_path / "model"
    CIRCUIT.save(path)
    before = path.read_bytes()
    with room(100), pytest.raises(WriteError, match=r"model can't be written: File too large"):
        CIRCUIT.randomize(1).save(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("n_bytes", [0, 200, 2000])
def test_side_files_that_fail_cost_a_warning_only(n_bytes, tmp_path):
    plain = fp.fit(CIRCUIT, X, epochs=6, progress=False)

    def fill(row, circuit):
        if row["epoch"] == 1:
            _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))

    run = fp.learning.Run(checkpoint=tmp_path / "run", log=tmp_path / "log", callbacks=[fill])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with pytest.warns(LearningWarning, match="Learning goes on"):
            result = fp.fit(CIRCUIT, X, epochs=6, run=run, progress=False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    for i, value in plain.circuit.parameters.items():
        np.testing.assert_equal(result.circuit.parameters[i], value)
    assert len(result.history) == 6
    assert result.stopped == "epochs"
    assert any("can't be written" in note for note in result.notes)
    for line in (tmp_path / "log").read_text().splitlines():
        json.loads(line)
    assert not list(tmp_path.glob("*.tmp"))
    # With room again, it goes on from what there is.
    again = fp.fit(CIRCUIT, X, epochs=6, run=tmp_path / "run", progress=False)
    np.testing.assert_array_equal(again.history["train_nll"], plain.history["train_nll"])


@pytest.mark.parametrize("option", ["checkpoint", "log"])
def test_a_side_file_without_a_folder_is_noticed_before_the_first_epoch(option, tmp_path):
    (tmp_path / "file").write_text("")
    epochs = []
    places = [tmp_path / "none" / "run", tmp_path / "file" / "run", tmp_path]
    for path in [*places, *([READ_ONLY / "run"] if READ_ONLY.is_dir() else [])]:
        run = fp.learning.Run(callbacks=[lambda row, _: epochs.append(row)], **{option: path})
        with pytest.raises(FlatpcError, match=str(path.parent)):
            fp.fit(CIRCUIT, X, epochs=2, progress=False, run=run)
    assert epochs == []


@linux
def test_folders_that_refuse(tmp_path):
    for write in (CIRCUIT.save, check_target, lambda path: replace_file(path, b"x"), lambda path: JsonLines(path, [])):
        with pytest.raises(WriteError, match="/sys/model can't be written"):
            write(READ_ONLY / "model")


@linux
def test_commands_notice_before_they_work(tmp_path, monkeypatch):
    np.savez(tmp_path / "bits.npz", X=X)
    monkeypatch.setattr("flatpc.cli.training.Run", lambda *_, **__: 1 / 0)
    answer = Answer("fit", tmp_path / "bits.npz", "-o", "/sys/bits.model")
    assert answer.code == 1
    assert answer.err.startswith("Error: /sys/bits.model can't be written: ")


def _command(*arguments, stdout=subprocess.PIPE, n_bytes=None):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, n_bytes))

    return subprocess.run(
        [sys.executable, "-m", "flatpc", *map(str, arguments)], stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=120,
        preexec_fn=None if n_bytes is None else limit,
    )  # fmt: skip


@linux
def test_a_full_standard_output_is_no_bug(tmp_path):
    CIRCUIT.save(tmp_path / "model")
    for arguments in (("sample", tmp_path / "model", "-n", 3), ("sample", tmp_path / "model", "-n", 20000, "--json")):
        with open("/dev/full", "w") as full:
            done = _command(*arguments, stdout=full)
        assert done.returncode == 1
        assert done.stderr == "Error: standard output: No space left on device.\n"


@linux
def test_a_reader_that_has_seen_enough_is_no_bug(tmp_path):
    CIRCUIT.save(tmp_path / "model")
    command = f"{sys.executable} -m flatpc sample {tmp_path / 'model'} -n 20000 | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=120)
    assert done.stdout == "x0,x1,x2,x3,x4\n"
    assert done.stderr == ""


def test_a_table_that_finds_no_room(tmp_path):
    CIRCUIT.save(tmp_path / "model")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        done = _command("sample", tmp_path / "model", "-n", 5000, "-o", tmp_path / "rows.csv", n_bytes=1000)
    assert done.returncode == 1
    assert "rows.csv can't be written: File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert os.listdir(tmp_path) == ["model"]
