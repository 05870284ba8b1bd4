"""`flatpc fit --checkpoint FOLDER --resume`: a run that was killed ends with the file that it would have written."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.running import Answer, run

SEARCH = ("--effort", "quick")
TOLD = ("--structure", "hclt", "--latents", 8, "--epochs", 40, "--patience", 0, "--batch-size", 10, "--mu", 0.1)
ADAPTIVE = ("--structure", "mixture", "--latents", 8, "--epochs", 40, "--patience", 0, "--batch-size", 10, "--mu", "auto")


@pytest.fixture(autouse=True)
def little_effort() -> None:
    """All of it: processes of their own do as much."""


def _killed(folder: Path, *arguments: object, files: int) -> dict[str, int]:
    """Kill the command once so many fits have begun; when each of their files was written."""
    child = subprocess.Popen([sys.executable, "-m", "flatpc", *map(str, arguments)], stdout=subprocess.PIPE)
    end = time.monotonic() + 300
    while child.poll() is None and time.monotonic() < end and len(_written(folder)) < files:
        time.sleep(0.002)
    child.kill()
    child.communicate()
    return _written(folder)


def _written(folder: Path) -> dict[str, int]:
    if not folder.is_dir():
        return {}
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir() if path.suffix != ".tmp"}


@pytest.mark.parametrize(
    ("file", "options", "files"),
    [
        ("people.csv", SEARCH, 12),
        ("holes.csv", (*TOLD, "--missing", "marginalize"), 1),
        ("people.csv", ADAPTIVE, 4),
    ],
)
def test_killed_runs_end_with_the_same_file(
    desk: Path, tmp_path: Path, file: str, options: tuple[object, ...], files: int
) -> None:
    command = ("fit", desk / file, *options, "--seed", 2)
    run(*command, "-o", tmp_path / "whole")
    folder = tmp_path / "checkpoint"
    before = _killed(folder, *command, "-o", tmp_path / "resumed", "--checkpoint", folder, files=files)
    assert len(before) >= files
    assert not (tmp_path / "resumed").exists()
    run(*command, "-o", tmp_path / "resumed", "--checkpoint", folder, "--resume")
    assert (tmp_path / "resumed").read_bytes() == (tmp_path / "whole").read_bytes()
    # What was finished was not done again.
    after = _written(folder)
    assert sum(after[name] != when for name, when in before.items()) <= 1
    # Nothing is left to be done now, and the end is the same.
    run(*command, "-o", tmp_path / "again", "--checkpoint", folder, "--resume")
    assert _written(folder) == after
    assert (tmp_path / "again").read_bytes() == (tmp_path / "whole").read_bytes()


def test_other_options_in_the_same_folder_are_another_run(desk: Path, tmp_path: Path) -> None:
    folder, short = tmp_path / "checkpoint", (*TOLD, "--epochs", 4)
    run("fit", desk / "people.csv", *short, "-o", tmp_path / "first", "--checkpoint", folder)
    for name, option in (("seed", 3), ("mu", 0.5), ("fraction", 0.5)):
        other = ("fit", desk / "people.csv", *short, f"--{name}", option)
        run(*other, "-o", tmp_path / f"{name}.whole")
        run(*other, "-o", tmp_path / f"{name}.resumed", "--checkpoint", folder, "--resume")
        assert (tmp_path / f"{name}.resumed").read_bytes() == (tmp_path / f"{name}.whole").read_bytes()


@pytest.mark.parametrize(
    ("made", "options", "words"),
    [
        ("nothing", ("--resume",), "name it: --checkpoint FOLDER"),
        ("nothing", ("--resume", "--checkpoint", "here"), "nothing in"),
        ("folder", ("--resume", "--checkpoint", "here"), "nothing in"),
        ("files", ("--checkpoint", "here"), "add --resume"),
        ("file", ("--checkpoint", "here"), "is a file"),
        ("nothing", ("--checkpoint", "none/here"), "can't be written"),
    ],
)
def test_mistakes(
    desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: str, options: tuple[object, ...], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    here = tmp_path / "here"
    if made == "file":
        here.write_text("")
    elif made != "nothing":
        here.mkdir()
        if made == "files":
            (here / "0").write_text("")
    answer = Answer("fit", desk / "people.csv", "-o", "model", *TOLD, *options)
    assert answer.code == 1, answer.err
    assert words in " ".join(answer.err.split())
    assert not (tmp_path / "model").exists()


def test_a_damaged_checkpoint_is_refused(desk: Path, tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    command = ("fit", desk / "people.csv", *TOLD, "--epochs", 3, "--checkpoint", folder)
    run(*command, "-o", tmp_path / "model")
    for path in folder.iterdir():
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(bytes(data))
    answer = Answer(*command, "-o", tmp_path / "other", "--resume")
    assert answer.code == 1, answer.err
    assert "checksum" in answer.err
