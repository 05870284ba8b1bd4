"""Files written in one step: after a crash at any moment there is the old file or the new one, and no rubbish for long."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from flatpc.errors import FlatpcError, WriteError


def replace_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Put `data` at `path`: written beside it, flushed to the disk and renamed.

    Raises
    ------
    WriteError
        If the disk is full or the folder can't be written to; what was at `path` is still there.
    """
    with replacing(path) as file:
        file.write(data)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """`with replacing(path) as file`: the same for what is written bit by bit; nothing is at `path` before all of it is."""
    path = Path(path)
    try:
        _remove_stale(path)
        beside = _beside(path)
        try:
            with open(beside, "xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, path)
        finally:
            beside.unlink(missing_ok=True)
        if os.name == "posix":
            # The rename itself is on the disk once the folder is.
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    except OSError as error:
        if isinstance(error, FlatpcError):
            raise
        raise cant_write(path, error) from error


def check_target(path: str | os.PathLike[str]) -> None:
    """Find out, before any work is done, whether a file could be written there: by writing an empty one beside it.

    Raises
    ------
    WriteError
        If there is no such folder, or it can't be written to, or the path is a folder itself.
    """
    path = Path(path)
    try:
        if path.is_dir():
            raise WriteError(f"{path} is a folder; give the name of a file.")
        if not path.parent.is_dir():
            raise WriteError(f"There is no folder {path.parent} to write {path.name} into; create it first.")
        beside = _beside(path)
        try:
            with open(beside, "xb") as file:
                file.write(b"\0")
        finally:
            beside.unlink(missing_ok=True)
    except WriteError:
        raise
    except OSError as error:
        raise cant_write(path, error) from error


def cant_write(path: str | os.PathLike[str], error: OSError) -> WriteError:
    """The error to raise, or to tell of, for one of the operating system's."""
    return WriteError(f"{path} can't be written: {error.strerror or error}. Make room, or give another place.")


def _beside(path: Path) -> Path:
    """A new name in the same folder that says who writes."""
    return path.with_name(f".{path.name}.{_host()}-{os.getpid()}-{secrets.token_hex(4)}.tmp")


def _host() -> str:
    """Which machine a process runs on: numbers of processes mean nothing on another."""
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]


def _remove_stale(path: Path) -> None:
    """Remove what writers of this file left that were killed."""
    if os.name != "posix":
        return
    ours = re.compile(re.escape(f".{path.name}.{_host()}-") + r"(\d+)-[0-9a-f]{8}\.tmp")
    for name in os.listdir(path.parent):
        found = ours.fullmatch(name)
        if found and not _is_running(int(found[1])):
            with suppress(OSError):
                (path.parent / name).unlink()


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True
