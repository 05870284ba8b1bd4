"""What all tests share."""

from __future__ import annotations

import pytest
from hypothesis import settings

from flatpc.search import work

# How long an example takes says something of the machine and of kernels that are compiled on the way, nothing of the code.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


@pytest.fixture(autouse=True)
def little_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches by name do a fiftieth of their work: the way is tested, not the length of it."""
    for name, effort in list(work.EFFORTS.items()):
        monkeypatch.setitem(work.EFFORTS, name, effort / 50)
