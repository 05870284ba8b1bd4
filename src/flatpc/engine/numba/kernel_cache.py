"""Where compiled kernels are kept: a folder named after a hash of their sources and of all that changes the code made of them.

It doesn't matter where flatpc is installed: two environments with the same versions share what one of them has compiled.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numba
import numpy as np
from numba.core import dispatcher

from flatpc._writing import check_target, replace_file
from flatpc.engine.numba import announcing  # noqa: F401 - it says what is compiled
from flatpc.engine.numba.kernel_files import KernelFiles
from flatpc.errors import WriteError

_UNUSED_SECONDS = 30 * 24 * 3600
_SETTINGS = (
    "BOUNDSCHECK", "CPU_NAME", "CPU_FEATURES", "DEBUGINFO_DEFAULT", "DISABLE_INTEL_SVML", "ENABLE_AVX", "LOOP_VECTORIZE", "OPT",
    "SLP_VECTORIZE",
)  # fmt: skip
"""Numba's settings (NUMBA_BOUNDSCHECK and so on) that change the code it makes."""

_folders: set[Path | None] = set()
"""Those in use; None if one can't be written to."""


@contextmanager
def kernel_cache(*sources: Path) -> Iterator[None]:
    """Functions decorated with `njit(cache=True)` inside are kept for exactly the sources in these folders."""
    wanted = cache_folder(sources)
    folder = wanted if _keep(wanted) else None
    _folders.add(folder)
    module: Any = dispatcher
    before = module.FunctionCache
    module.FunctionCache = partial(KernelFiles, folder=folder)
    try:
        yield
    finally:
        module.FunctionCache = before


def is_ready(what: str) -> bool:
    """Whether this set of kernels was compiled to its end, with these sources and settings; True if none can be kept."""
    return None in _folders or all((folder / what).exists() for folder in _folders if folder)


def mark_ready(what: str) -> None:
    """Remember that this set of kernels is compiled."""
    for folder in _folders:
        if folder:
            with suppress(WriteError):
                replace_file(folder / what, b"")


def cache_folder(sources: tuple[Path, ...]) -> Path:
    """The folder for these sources, the present settings and this machine."""
    versions = (sys.version_info[:2], numba.__version__, llvmlite.__version__, np.__version__)
    settings = [(name, getattr(numba.config, name, None)) for name in _SETTINGS]
    digest = hashlib.sha256(repr((versions, settings, llvm.get_host_cpu_name())).encode())
    for folder in sources:
        for source in sorted(folder.glob("*.py")):
            digest.update(source.read_bytes())
    root = os.environ.get("NUMBA_CACHE_DIR") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "flatpc"
    )
    return Path(root) / f"kernels-{digest.hexdigest()[:16]}"


def _keep(folder: Path) -> bool:
    """Remember that the folder is in use, and remove those that nobody has used for a month; False if it can't be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
        check_target(folder / "kernels")
    except (OSError, WriteError):
        _say_that_none_are_kept(folder.parent)
        return False
    for other in folder.parent.glob("kernels-*"):
        with suppress(OSError):
            if time.time() - other.stat().st_mtime > _UNUSED_SECONDS:
                shutil.rmtree(other, ignore_errors=True)
    return True


@cache
def _say_that_none_are_kept(root: Path) -> None:
    print(f"flatpc: {root} can't be written to; to keep kernels, name a folder in NUMBA_CACHE_DIR.", file=sys.stderr)
