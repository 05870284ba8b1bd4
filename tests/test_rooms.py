"""The order of the rooms, read from the imports, and the pages that tell it."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

write_rooms = SimpleNamespace(**runpy.run_path(str(Path(__file__).parent.parent / "docs" / "write_rooms.py")))


def test_every_folder_and_module_is_a_room() -> None:
    found = {write_rooms.room_of(file.relative_to(write_rooms.SOURCES).as_posix()) for file in write_rooms.SOURCES.rglob("*.py")}
    assert found - {"__init__", "__main__"} == set(write_rooms.ROOMS)


def test_rooms_use_those_above_them() -> None:
    assert write_rooms.against_the_order() == []


def test_every_door_is_used() -> None:
    assert set(write_rooms.uses()) >= write_rooms.DOORS


@pytest.mark.parametrize("page", write_rooms.PAGES, ids=lambda page: page.name)
def test_pages_have_the_table(page: Path) -> None:
    """`python docs/write_rooms.py` writes it."""
    text = page.read_text()
    assert write_rooms.with_table(text) == text
