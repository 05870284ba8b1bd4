"""How commands begin and end: help, version, JSON, exit codes, Ctrl-C, bugs, and how little is imported for it."""

from __future__ import annotations

import errno
import os
import pickle
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import flatpc
import flatpc.cli.models  # now: what it imports must not be what a test puts in its place
from flatpc._messages import DROP, Message, Option
from flatpc._options import wrong
from flatpc.cli import PANELS
from flatpc.cli.application import spelled
from tests.cli.running import Answer, run

COMMANDS = [command.__name__ for commands in PANELS.values() for command in commands]


def shell(*arguments: object, code: int = 0, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The command as a user's shell runs it."""
    words = [sys.executable, "-m", "flatpc", *(str(argument) for argument in arguments)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False, cwd=cwd)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def test_all_commands_are_there() -> None:
    expected = {
        "fit", "score", "sample", "impute", "curvature", "landscape", "reproduce", "report", "datasets", "bench", "demo",
        "explain",
    }  # fmt: skip
    assert set(COMMANDS) == expected
    out = run("--help").out
    assert all(command in out for command in expected)
    assert "Exit codes" in out


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples(command: str) -> None:
    out = run(command, "--help").out
    assert "Examples:" in out
    assert f"flatpc {command}" in out.split("Examples:")[1]


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_name_options_that_exist(command: str) -> None:
    out = run(command, "--help").out
    above, below = out.split("Examples:")
    for option in re.findall(r"--[a-z-]+", below):
        assert option in above, f"{command} has no {option}"


def test_nothing_typed_is_help() -> None:
    assert "Usage: flatpc" in run().out


def test_version() -> None:
    assert run("--version").out == f"flatpc {flatpc.__version__}\n"
    assert shell("--version").stdout == f"flatpc {flatpc.__version__}\n"


def test_help_imports_nothing_heavy() -> None:
    """NumPy alone takes a tenth of a second, torch seconds."""
    heavy = {"torch", "numba", "numpy", "scipy", "polars", "pandas", "matplotlib", "plotly", "sklearn"}
    program = """
import sys
from flatpc.cli import app
for words in (["--help"], ["fit", "--help"], ["score", "--bogus"], ["fit", "a.csv", "-o", "nowhere/model"]):
    try:
        app(words, prog_name="flatpc")
    except SystemExit:
        pass
print(*sorted({name.split('.')[0] for name in sys.modules}))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert heavy & set(done.stdout.splitlines()[-1].split()) == set()


def test_a_shell_runs_it(desk: Path, tmp_path: Path) -> None:
    """In a process of its own, well and badly."""
    shell("fit", desk / "bits.npz", "-o", "model", "--structure", "chow-liu", cwd=tmp_path)
    assert run("score", tmp_path / "model", desk / "bits.npz").code == 0
    failed = shell("score", "model", "nowhere.csv", cwd=tmp_path, code=1)
    assert failed.stdout == ""
    assert failed.stderr == "Error: There is no file nowhere.csv; check the name and the folder you are in.\n"


def test_letters_that_the_machine_does_not_write(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows, where what goes to a file is written in the letters of the country."""
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    words = [sys.executable, "-m", "flatpc", "score", desk / "people.model", desk / "people.csv"]
    done = subprocess.run(words, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "±" in done.stdout.decode()


def test_usage_is_two_lines() -> None:
    answer = Answer("sample")
    assert answer.code == 2
    assert answer.err.splitlines() == ["Error: Missing argument 'MODEL'.", "See flatpc sample --help."]


def test_a_bug_keeps_its_traceback(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Any) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr("flatpc.estimator.model_files.load_model", fail)
    answer = Answer("sample", desk / "bits.model")
    assert answer.code == 70
    assert "Traceback" in answer.err
    assert "RuntimeError: boom" in answer.err
    assert answer.err.splitlines()[-1].startswith("This is a bug in flatpc")
    assert answer.out == ""


def test_an_error_of_the_system_is_told_in_a_line(desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device", str(tmp_path / "rows.csv"))

    monkeypatch.setattr("flatpc._writing.replace_file", full)
    answer = Answer("sample", desk / "bits.model", "-o", tmp_path / "rows.csv")
    assert answer.code == 1
    assert answer.err == f"Error: {tmp_path / 'rows.csv'}: No space left on device.\n"


def test_ctrl_c_leaves_no_traceback(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("flatpc.estimator.model_files.load_model", interrupted)
    answer = Answer("sample", desk / "bits.model")
    assert answer.code == 130
    assert answer.err == "Stopped. Files are written in one step, so none is half-written.\n"


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_from_outside_keeps_the_model(desk: Path, tmp_path: Path) -> None:
    """A real signal to a real process, in the middle of learning."""
    program = """
import sys
from flatpc.cli import main
from flatpc.cli.progress import Bar
Bar.watch = lambda self, name, share: print(name.rsplit(maxsplit=1)[1], file=sys.stderr, flush=True)
sys.argv[1:] = sys.argv[1:]
main()
"""
    words = ["fit", desk / "bits.npz", "-o", tmp_path / "model", "--structure", "hclt", "--mu", 0.1]
    words += ["--latents", 3, "--epochs", 10**7, "--patience", 0]
    command = [sys.executable, "-c", program, *(str(word) for word in words)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    while int(process.stderr.readline()) < 5:
        pass
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "train NLL" in out
    assert "Interrupted: the model is the best so far." in err
    assert "Traceback" not in err
    assert run("score", tmp_path / "model", desk / "bits.npz").code == 0


def test_a_closed_pipe_is_no_traceback(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in `flatpc sample model -n 100000 | head`."""

    def closed(*_: Any) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr("flatpc.cli.asking._put", closed)
    answer = Answer("sample", desk / "bits.model")
    assert answer.code == 1
    assert answer.err == ""


def test_data_sets_are_listed() -> None:
    sets = {data["name"]: data for data in run("datasets", "--json").json}
    assert sets["nltcs"]["rows"] == {"train": 16181, "valid": 2157, "test": 3236}
    assert sets["helix"]["n_variables"] == 3
    assert sets["helix"]["local"]
    assert "interlocked_circles" in run("datasets").out


def test_messages_name_options() -> None:
    def said(text: str, *options: Option) -> str:
        return spelled(Message(text, *options), {"--kind", "--drop", "--unseen", "--time-budget", "--structure"})

    zips, unseen, tree = Option("kinds", {"zip": "categorical"}), Option("unseen", "missing"), Option("structure", "chow_liu")
    assert said(f"say {zips}, or {DROP}", zips, DROP) == "say --kind zip=categorical, or leave it out with --drop"
    assert said(f"or pass {unseen} to", unseen) == "or pass --unseen missing to"
    assert said(f"raise {Option('time_budget')}", Option("time_budget")) == "raise --time-budget"
    assert said(f"{tree} is", tree) == "--structure chow-liu is"
    assert said("mu=1 is", Option("mu", 1)) == "mu=1 is"  # the command has no such option


@pytest.mark.parametrize(
    ("name", "value", "offered", "message"),
    [
        ("n_latents", 0, "--latents", "--latents 0; give 1."),
        ("Sharpness: mu", -1, "--mu", "--mu -1; give 1."),
        ("time_budget", "soon", "--time-budget", "--time-budget soon; give 1."),
        ("n_latents", 0, "--mu", "n_latents=0; give 1."),
    ],
)
def test_mistakes_in_options_name_them_as_they_were_given(name: str, value: object, offered: str, message: str) -> None:
    mistake = pickle.loads(pickle.dumps(wrong(name, value, "give 1.")))
    assert spelled(mistake.args[0], {offered}) == message


def test_the_demo_runs_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo itself has tests of its own."""
    seen: dict[str, Any] = {}
    monkeypatch.setattr("flatpc.pages.demo.run", lambda folder, **options: seen.update(options, folder=folder))
    run("demo", "--folder", tmp_path / "demo", "--quick")
    assert (seen["folder"], seen["quick"]) == (tmp_path / "demo", True)


def test_bench_says_where_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flatpc.__file__", str(tmp_path / "site-packages" / "flatpc" / "__init__.py"))
    answer = Answer("bench")
    assert answer.code == 1
    assert "in a checkout of flatpc, run: python -m benchmarks" in answer.err


def test_bench_runs_in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def record(command: list[str], cwd: Path, check: bool) -> Any:
        seen.update(command=command, cwd=cwd)
        return subprocess.CompletedProcess(command, 3)

    monkeypatch.setattr("subprocess.run", record)
    assert Answer("bench", "engine").code == 3
    assert seen["command"][1:] == ["-m", "benchmarks", "engine"]
    assert (seen["cwd"] / "benchmarks" / "__main__.py").is_file()
