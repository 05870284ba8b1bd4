"""What all tests share."""

from __future__ import annotations

import pytest

from flatpc.search import work


@pytest.fixture(autouse=True)
def little_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches by name do a fiftieth of their work: the way is tested, not the length of it."""
    for name, effort in list(work.EFFORTS.items()):
        monkeypatch.setitem(work.EFFORTS, name, effort / 50)
