"""Checkpoints of a whole run: one file for each call of `fit`, under a name that follows from all that the call depends on.

A run that is started again makes the same choices, because each fit is either found finished, or goes on where it was. What is
not trained is worked out again. No file is ever taken for that of another fit, so that other options in the same folder are safe.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flatpc.learning.run.checkpoint import fingerprint
from flatpc.search.samples import Sample

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit


@dataclass(frozen=True)
class Checkpoints:
    """The folder, which exists."""

    folder: Path

    def options(self, circuit: Circuit, rows: Sample, valid: Sample | None, every: int, **how: Any) -> dict[str, Any]:
        """Options of `Run` that make it go on with the same fit; `how` are those that make it another one."""
        weights = {"sample_weight": rows.weights, "valid_weight": None if valid is None else valid.weights}
        identity = fingerprint(circuit, rows.X, None if valid is None else valid.X, {**how, **weights})
        name = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:32]
        return {"checkpoint": self.folder / name, "checkpoint_every": every}
