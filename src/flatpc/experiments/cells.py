"""One run of one experiment: what it is, what identifies it, and what comes of it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

import flatpc

Metrics = dict[str, float]


@dataclass(frozen=True)
class Cell:
    """One model to learn and measure.

    >>> Cell("table1", "spiral", 0.05, 0, "mu=0.1", "text").label
    'spiral 5% trial 0 mu=0.1'
    """

    experiment: str
    dataset: str
    fraction: float
    trial: int
    method: str
    protocol: str

    @property
    def label(self) -> str:
        """For people."""
        return f"{self.dataset} {self.fraction:.0%} trial {self.trial} {self.method}"

    def key(self, settings: Any, version: str = flatpc.__version__) -> str:
        """A name for the result: it changes with the configuration, the protocol's `settings`, and the version of flatpc."""
        content = {**asdict(self), "settings": asdict(settings), "version": version}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Result:
    """A cell, and its numbers or its error."""

    cell: Cell
    key: str
    version: str
    seconds: float
    metrics: Metrics
    error: str = ""

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Result:
        """What `to_json` made."""
        read = json.loads(text)
        return cls(**{**read, "cell": Cell(**read["cell"])})
