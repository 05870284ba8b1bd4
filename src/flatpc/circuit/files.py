"""Circuits on disk: JSON for the structure, safetensors for the parameters."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit


def save(circuit: Circuit, path: str | os.PathLike[str]) -> None:
    raise NotImplementedError


def load(path: str | os.PathLike[str]) -> Circuit:
    raise NotImplementedError
