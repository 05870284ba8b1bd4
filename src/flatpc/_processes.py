"""Worker processes that end when the process that started them does, even if that was killed."""

from __future__ import annotations

import os
import threading
import time

_watching: set[int] = set()


def end_with_parent(parent: int) -> None:
    """Watch the process `parent` from here on, once a second, and end this one when it is gone.

    A pool's workers wait for the next task for minutes, and finish the one they have, whatever became of their parent.
    """
    if os.name != "posix" or os.getppid() != parent or os.getpid() in _watching:
        return
    _watching.add(os.getpid())
    threading.Thread(target=_watch, args=(parent,), name="flatpc-parent", daemon=True).start()


def returned_as(wanted: str) -> str:
    """How joblib is asked for results: as `wanted`, one after the other, or all at once where the backend knows nothing else.

    >>> returned_as("generator")
    'generator'
    """
    from joblib.parallel import get_active_backend

    backend, _ = get_active_backend()
    return wanted if backend.supports_return_generator else "list"


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)
