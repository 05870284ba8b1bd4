"""Where compiled kernels are kept: a folder named after a hash of their sources.

Numba itself looks only at the file of the function it loads, and would go on using code that a change in another file has
made stale.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba

_UNUSED_SECONDS = 30 * 24 * 3600

found_empty = False
"""Whether there were no kernels yet when one was first asked for, in a folder that keeps them."""


@contextmanager
def kernel_cache(*folders: Path) -> Iterator[None]:
    """Functions decorated with `njit(cache=True)` inside are cached for exactly the sources in `folders`."""
    global found_empty
    config: Any = numba.config
    before = config.CACHE_DIR
    folder = _cache_folder(folders)
    kept = _keep(folder)
    if not any(folder.rglob("*.nbi")):
        found_empty |= kept
        _announce()
    config.CACHE_DIR = str(folder if kept else _for_this_process(folder.parent))
    try:
        yield
    finally:
        config.CACHE_DIR = before


def _keep(folder: Path) -> bool:
    """Remember that the folder is in use, and remove those that nobody has used for a month; False if it can't be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
    except OSError:
        return False
    for other in folder.parent.glob("kernels-*"):
        with suppress(OSError):
            if time.time() - other.stat().st_mtime > _UNUSED_SECONDS:
                shutil.rmtree(other, ignore_errors=True)
    return os.access(folder, os.W_OK)


@cache
def _announce() -> None:
    print("flatpc: compiling its kernels for this machine; this happens once and takes about a minute.", file=sys.stderr)


@cache
def _for_this_process(root: Path) -> Path:
    """A folder that is removed at the end."""
    print(f"flatpc: {root} can't be written to; to keep kernels, name a folder in NUMBA_CACHE_DIR.", file=sys.stderr)
    temporary = tempfile.TemporaryDirectory(prefix="flatpc-")
    atexit.register(temporary.cleanup)
    return Path(temporary.name)


def _cache_folder(folders: tuple[Path, ...]) -> Path:
    config: Any = numba.config
    # Kernels that check their indices are others.
    digest = hashlib.sha256(f"{numba.__version__} {config.BOUNDSCHECK}".encode())
    for folder in folders:
        for source in sorted(folder.glob("*.py")):
            digest.update(source.read_bytes())
    root = os.environ.get("NUMBA_CACHE_DIR") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "flatpc"
    )
    return Path(root) / f"kernels-{digest.hexdigest()[:16]}"
