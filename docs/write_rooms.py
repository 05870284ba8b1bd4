"""Write the table of rooms into `docs/architecture.md` and `CONTRIBUTING.md`: `python docs/write_rooms.py`.

A room is a folder of `src/flatpc`, and its first line says what it holds. `ROOMS` is the order in which they may use each
other: a room uses those above it, never those below. `DOORS` lists the uses that go the other way, which a test allows by name.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).parent.parent
SOURCES = PROJECT / "src" / "flatpc"
PAGES = (PROJECT / "docs" / "architecture.md", PROJECT / "CONTRIBUTING.md")

ROOMS = (
    "errors", "_typing", "_extras", "_printable", "_messages", "_options", "_row_weights", "_row_groups", "_processes",
    "_writing", "families", "tables", "circuit", "structures", "engine", "queries", "curvature", "learning", "compile_kernels",
    "search", "datasets", "estimator", "adapters", "testing", "pages", "paper", "cli",
)  # fmt: skip
DOORS = {("circuit/questions.py", "queries"), ("circuit/questions.py", "engine")}
"""Methods of `Circuit` that ask a question: one line each, imported when called."""


def uses() -> Iterator[tuple[str, str]]:
    """(file, room that it uses), for every import of another room, wherever it stands in the file."""
    for file in sorted(SOURCES.rglob("*.py")):
        name = file.relative_to(SOURCES).as_posix()
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom):
                modules = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            else:
                continue
            for parts in (module.split(".") for module in modules):
                if parts[0] == "flatpc" and len(parts) > 1 and parts[1] in ROOMS and parts[1] != room_of(name):
                    yield name, parts[1]


def room_of(file: str) -> str:
    """The room that a file of `src/flatpc` is in.

    >>> room_of("engine/numba/program.py"), room_of("errors.py")
    ('engine', 'errors')
    """
    return file.split("/")[0].removesuffix(".py")


def against_the_order() -> list[str]:
    """Uses of a room below, other than the doors."""
    place = {room: i for i, room in enumerate(ROOMS)}
    return sorted(
        {
            f"{file} uses {room}"
            for file, room in uses()
            if room_of(file) in place and place[room] > place[room_of(file)] and (file, room) not in DOORS
        }
    )


def holds(room: str) -> str:
    """The first sentence of a room's docstring."""
    folder = SOURCES / room
    text = ast.get_docstring(ast.parse((folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")).read_text()))
    assert text, f"{room} doesn't say what it holds"
    return text.split("\n")[0].removesuffix(".")


def table() -> str:
    """Rooms and what they hold, as Markdown."""
    lines = ["| room | holds |", "|---|---|"]
    for room in ROOMS:
        lines.append(f"| `{room}{'/' if (SOURCES / room).is_dir() else '.py'}` | {holds(room)} |")
    return "\n".join(lines)


def with_table(page: str) -> str:
    """The page with the table between its marks."""
    begin, end = "<!-- begin rooms -->", "<!-- end rooms -->"
    assert begin in page
    assert end in page
    return re.sub(f"(?s){begin}.*?{end}", lambda _: f"{begin}\n{table()}\n{end}", page)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(with_table(page.read_text()))
