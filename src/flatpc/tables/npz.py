"""Archives of arrays, read so that neither damage nor malice leads to more than an error: no pickles, no made-up sizes."""

from __future__ import annotations

import math
import struct
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

from numpy.lib import format as npy
from numpy.typing import NDArray

from flatpc.errors import DataError

_PROBLEMS = (
    OSError, ValueError, TypeError, KeyError, EOFError, NotImplementedError, RuntimeError, SyntaxError, OverflowError,
    MemoryError, struct.error, zlib.error, zipfile.BadZipFile,
)  # fmt: skip
"""All that NumPy and zipfile raise for a file that isn't what it should be."""


def read_npz(file: Path) -> dict[str, NDArray[Any]]:
    """All arrays of numbers in an archive, by name; a `DataError` if it is none."""
    out = {}
    try:
        with zipfile.ZipFile(file) as archive:
            for member in archive.infolist():
                if not member.filename.endswith(".npy"):
                    raise DataError(f"it holds {member.filename!r}, which is not an array")
                with archive.open(member) as data:
                    _check_header(member, data)
                with archive.open(member) as data:
                    out[member.filename.removesuffix(".npy")] = npy.read_array(data, allow_pickle=False)
    except _PROBLEMS as error:
        line = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise DataError(f"{file} can't be read as an npz archive of numbers: {line}.") from None
    return out


def _check_header(member: zipfile.ZipInfo, data: IO[bytes]) -> None:
    """An array is as large as its header says, or nothing is allocated."""
    version = npy.read_magic(data)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = read(data)
    if dtype.kind not in "biuf":
        raise DataError(f"{member.filename} holds {dtype}, not numbers")
    if math.prod(shape) * dtype.itemsize != member.file_size - data.tell():
        raise DataError(f"{member.filename} says that its shape is {shape}, which its size doesn't bear out")
