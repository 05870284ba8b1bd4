"""Put what commands print into `docs/command-line.md`: `python docs/write_command_line.py`. Takes a minute or two."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PAGE = Path(__file__).parent / "command-line.md"
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (flatpc .*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


def written(page: str) -> str:
    """The page with each command's answer of today; its Python is run on the way, in an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        return BLOCK.sub(lambda block: _block(block, folder), page)


def _block(block: re.Match[str], folder: str) -> str:
    if block[1] == "python":
        _printed([sys.executable, "-c", block[2]], folder)
        return block[0]
    return "```console\n" + COMMAND.sub(lambda typed: _answer(typed[1], folder), block[2]) + "```"


def _answer(command: str, folder: str) -> str:
    program = Path(sys.executable).parent / "flatpc"
    lines = [line.rstrip() for line in _printed([str(program), *command.split()[1:]], folder).splitlines()]
    return "\n".join([f"$ {command}", *lines]) + "\n"


def _printed(command: list[str], folder: str) -> str:
    """Answers first, then what is said about them."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "COLUMNS": "80"},
        capture_output=True,
        text=True,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    return done.stdout + done.stderr


if __name__ == "__main__":
    # What is said while kernels compile is not for the page.
    subprocess.run([sys.executable, "-m", "flatpc.compile_kernels"], check=True)
    PAGE.write_text(written(PAGE.read_text()))
