"""Compiled kernels on disk: one file for each function and each kind of arguments, with a checksum.

Numba's own cache has an index per function, which two processes can spoil for each other, and takes what it reads for granted:
an emptied file makes every later run fail. Here a file that is damaged is named, removed, and its kernel compiled again.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from numba.core import serialize

from flatpc._writing import replace_file
from flatpc.engine.numba import parts
from flatpc.errors import WriteError

_serialize: Any = serialize
"""Numba has no types."""

ENDING = ".kernel"
_DIGEST = 32
_full: set[Path] = set()
"""Folders of which was said that they can't be written to."""


class KernelFiles:
    """What numba asks for the compiled versions of a function; a folder of None keeps nothing."""

    def __init__(self, function: Callable[..., Any], folder: Path | None) -> None:
        module = function.__module__.rpartition(".")[2]
        self._name = f"{module}.{function.__qualname__}".replace("<", "").replace(">", "")
        self._folder = folder

    @property
    def cache_path(self) -> str:
        """For numba's statistics."""
        return str(self._folder or "")

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """The compiled function; None if it isn't there, or no more."""
        if self._folder is None:
            return None
        target_context.refresh()
        key = _key(signature, target_context.codegen())
        path = self._path(key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        try:
            if hashlib.sha256(data[_DIGEST:]).digest() != data[:_DIGEST]:
                raise ValueError("the checksum doesn't fit")
            kept, payload = _serialize.loads(data[_DIGEST:])
            return parts.rebuild(target_context, payload) if kept == key else None
        except Exception as error:
            print(f"flatpc: {path} is damaged ({error}); its kernel is compiled again.", file=sys.stderr)
            with suppress(OSError):
                path.unlink()
            return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep a compiled function; where that is impossible, say so once and go on."""
        if self._folder is None:
            return
        key = _key(signature, compiled.codegen)
        data = _serialize.dumps((key, compiled._reduce()))
        try:
            replace_file(self._path(key), hashlib.sha256(data).digest() + data)
        except WriteError as error:
            if self._folder not in _full:
                _full.add(self._folder)
                print(f"flatpc: kernels are not kept, and compiled again by the next run: {error}", file=sys.stderr)

    def _path(self, key: Any) -> Path:
        assert self._folder is not None
        return self._folder / f"{self._name}-{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}{ENDING}"


def _key(signature: Any, codegen: Any) -> Any:
    return signature, codegen.magic_tuple()
