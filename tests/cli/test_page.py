"""The page about the command line shows what its commands print; `python docs/write_command_line.py` brings it up to date."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.running import run

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?")
VOLATILE = ("seconds", "off by", "e-1")


@pytest.fixture(autouse=True)
def little_effort() -> None:
    """All of it: the page shows what readers see."""


def test_the_page_shows_what_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Word for word; numbers within 2%, since processors round differently."""
    monkeypatch.chdir(tmp_path)
    typed = 0
    for kind, body in BLOCK.findall(PAGE.read_text()):
        if kind == "python":
            exec(body, {})
            continue
        for command, shown in re.findall(r"^\$ flatpc (.*)\n((?:(?!\$ ).*\n)*)", body, re.MULTILINE):
            answer = run(*command.split())
            compare(command, shown, answer.out + answer.err)
            typed += 1
    assert typed >= 8


def compare(command: str, shown: str, printed: str) -> None:
    lines = [[line.rstrip() for line in text.rstrip().splitlines()] for text in (shown, printed)]
    assert len(lines[0]) == len(lines[1]), f"{command}\n{printed}"
    for expected, found in zip(*lines, strict=True):
        if any(word in expected for word in VOLATILE):
            continue
        assert words(expected) == words(found), f"{command}\n{printed}"
        assert numbers(found) == pytest.approx(numbers(expected), rel=0.02, abs=0.02), f"{command}\n{printed}"


def words(line: str) -> list[str]:
    """What is neither a number nor drawn around one: the width of a column goes with its numbers."""
    return re.sub(r"[─━┌┐└┘┏┓┗┛┡┩┳╇┬┴┼├┤│┃]", " ", NUMBER.sub("#", line)).split()


def numbers(line: str) -> list[float]:
    return [float(number.replace(",", "")) for number in NUMBER.findall(line)]
