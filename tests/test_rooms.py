"""The order of the rooms, read from the imports, and the pages that tell it."""

import ast
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

import flatpc as fp

write_rooms = SimpleNamespace(**runpy.run_path(str(Path(__file__).parent.parent / "docs" / "write_rooms.py")))


def test_every_folder_and_module_is_a_room() -> None:
    found = {write_rooms.room_of(file.relative_to(write_rooms.SOURCES).as_posix()) for file in write_rooms.SOURCES.rglob("*.py")}
    assert found - {"__init__", "__main__"} == set(write_rooms.ROOMS)


def test_rooms_use_those_above_them() -> None:
    assert write_rooms.against_the_order() == []


def test_every_door_is_used() -> None:
    assert set(write_rooms.uses()) >= write_rooms.DOORS


def test_learning_names_no_engine() -> None:
    """It knows the contract, flat parameters and how native loops are made; which engine makes the passes is not its business."""
    found = []
    for file in (write_rooms.SOURCES / "learning").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or "", *(f"{node.module}.{name}" for name in names)]
            found += [f"{file.name}: {name}" for name in names if name.startswith(("flatpc.engine.numba", "flatpc.engine.torch"))]
    assert found == []


def test_no_room_but_theirs_looks_at_the_class_of_a_family() -> None:
    """A family says what it is; whoever looks at its class leaves out families to come."""
    classes = {name for name in fp.families.__all__ if isinstance(getattr(fp.families, name), type)} - {"Family", "Transform"}
    found = []
    for file in write_rooms.SOURCES.rglob("*.py"):
        if write_rooms.room_of(file.relative_to(write_rooms.SOURCES).as_posix()) == "families":
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass"):
                looked_at = {part.id for part in ast.walk(node.args[1]) if isinstance(part, ast.Name)}
                looked_at |= {part.attr for part in ast.walk(node.args[1]) if isinstance(part, ast.Attribute)}
                found += [f"{file.name}: {name}" for name in looked_at & classes]
    assert len(classes) > 10
    assert found == []


@pytest.mark.parametrize("page", write_rooms.PAGES, ids=lambda page: page.name)
def test_pages_have_the_table(page: Path) -> None:
    """`python docs/write_rooms.py` writes it."""
    text = page.read_text()
    assert write_rooms.with_table(text) == text
