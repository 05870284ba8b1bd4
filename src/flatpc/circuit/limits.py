"""How much a model file may ask for. A few kilobytes can name tables of many gigabytes, and a file may come from anyone.

The one limit is in bytes, 2 GiB unless the environment variable FLATPC_LARGEST_MODEL says otherwise, and holds for
- the file itself, before it is read;
- the tables of all inputs over finitely many values (width × number of values), which a file need not hold;
- the values of all units for one row.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from flatpc.circuit.nodes import Input, Node
from flatpc.errors import FileFormatError, OptionError

VARIABLE = "FLATPC_LARGEST_MODEL"
DEFAULT = 2 * 1024**3
_NUMBER = 8


def largest() -> int:
    """The limit in bytes."""
    text = os.environ.get(VARIABLE, "")
    if not text:
        return DEFAULT
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise OptionError(f"{VARIABLE}={text!r}; give a number of bytes, such as {DEFAULT}.")
    return int(text)


def check_bytes(n_bytes: int, what: str) -> None:
    """Raise if something would be larger than the limit."""
    if n_bytes > largest():
        raise FileFormatError(
            f"{what}: {n_bytes:,} bytes, and the limit is {largest():,}. If you trust the file and have the memory, "
            f"set the environment variable {VARIABLE} to a higher number."
        )


def check_memory(nodes: Sequence[Node], widths: Sequence[int]) -> None:
    """Raise if a circuit's tables, or its values for one row, would be larger than the limit."""
    tables = sum(node.width * (node.family.n_categories or 0) for node in nodes if isinstance(node, Input) and node.tie is None)
    check_bytes(_NUMBER * tables, "its inputs' tables would be too large")
    check_bytes(_NUMBER * sum(widths), "the values of one row would be too large")
