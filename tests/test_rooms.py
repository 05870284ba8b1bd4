"""The order of the rooms, read from the imports, and the pages that tell it."""

import ast
import re
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


CLASSES = {name for name in fp.families.__all__ if isinstance(getattr(fp.families, name), type)} - {"Family", "Transform"}
NAMES = set(fp.families.family_names())


def names_in(tree: ast.AST) -> set[str]:
    plain = {part.id for part in ast.walk(tree) if isinstance(part, ast.Name)}
    return plain | {part.attr for part in ast.walk(tree) if isinstance(part, ast.Attribute)}


def peeks(source: str) -> list[str]:
    """Where code looks at the class of a family, compares its name, or tries whether it has an attribute."""
    found = []
    for node in ast.walk(ast.parse(source)):
        called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else None
        if called in ("isinstance", "issubclass"):
            first, second = node.args
            found += sorted(names_in(second) & CLASSES)
            if "Family" in names_in(second) and not isinstance(first, ast.Name | ast.Attribute):
                found.append(f"{called} {ast.unparse(first)}")  # of what a family holds; that of an argument is a check
        elif called in ("getattr", "hasattr") and "family" in names_in(node.args[0]) and isinstance(node.args[1], ast.Constant):
            found.append(f"{called} {node.args[1].value}")
        elif isinstance(node, ast.Compare) and names_in(node.left) & {"family", "native", "native_formula", "kind"}:
            texts = [part.value for side in node.comparators for part in ast.walk(side) if isinstance(part, ast.Constant)]
            if "binary" not in texts:  # which is a kind of columns
                found += [f"name {text}" for text in texts if isinstance(text, str) and text in NAMES]
    return found


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
    found = []
    for file in write_rooms.SOURCES.rglob("*.py"):
        if write_rooms.room_of(file.relative_to(write_rooms.SOURCES).as_posix()) != "families":
            found += [f"{file.name}: {peek}" for peek in peeks(file.read_text())]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "isinstance(node.family, fp.Gaussian)",
        "isinstance(getattr(f, 'family', None), Family)",
        "getattr(family, 'transforms', ())",
        "hasattr(node.family, 'transforms')",
        "kind == 'binomial'",
        "kind in ('categorical',)",
        "family.native_formula == 'gaussian'",
    ],
)
def test_peeks_are_found(source: str) -> None:
    assert peeks(source)


@pytest.mark.parametrize("page", write_rooms.PAGES, ids=lambda page: page.name)
def test_pages_have_the_table(page: Path) -> None:
    """`python docs/write_rooms.py` writes it."""
    text = page.read_text()
    assert write_rooms.with_table(text) == text


def test_one_file_knows_where_parameters_lie() -> None:
    """Others ask `engine/numba/views.py`; kernels ask `edge_stride`."""
    at_home = {"views.py", "program.py"}
    sources = {file: file.read_text() for file in write_rooms.SOURCES.rglob("*.py") if file.name not in at_home}
    assert [file.name for file, text in sources.items() if re.search(r"(input|weight)_blocks(\[|\.items|\.values)", text)] == []
    assert [file.name for file, text in sources.items() if re.search(r"else P\.steps\[\w, STRIDE\]|== MIXTURE else 1", text)] == [
        "work_items.py"
    ]
