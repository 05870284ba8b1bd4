"""One run of one experiment: what it is, what identifies it, and what comes of it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from flatpc.datasets.debd import registry
from flatpc.datasets.mixed import mixed_registry

Metrics = dict[str, float]

REVISIONS: dict[tuple[str, str], int] = {
    ("table1", ""): 2,
    ("table1", "default"): 3,
    ("table2", ""): 2,
    ("never-lose", ""): 2,
    ("never-lose", "default"): 1,
    ("tables", "default"): 7,
    **{("uses", method): 3 for method in ("default", "samples", "tuned", "one-class")},
    ("more-rows", "rows=3200"): 3,
    ("more-rows", "rows=12000"): 3,
    ("more-rows", "rows=48546"): 3,
    ("without-validation", "default"): 3,
}
"""By experiment and method; no method stands for all others of an experiment.

Raise one where a change of the code changes its numbers beyond what `flatpc reproduce NAME --verify` allows; its runs are then
done again.
"""


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
    def revision(self) -> int:
        """Of the code behind this cell."""
        return REVISIONS.get((self.experiment, self.method), REVISIONS.get((self.experiment, ""), 1))

    @property
    def label(self) -> str:
        """For people."""
        return f"{self.dataset} {self.fraction:.0%} trial {self.trial} {self.method}"

    def key(self, settings: Any) -> str:
        """A name for the result: it changes with all that its numbers depend on.

        These are the configuration, the protocol's `settings`, the digests of the data, and the revision of the code, which is
        not its version: most releases change no number.
        """
        content = {**asdict(self), "settings": asdict(settings), "data": _digests(self.dataset), "revision": self.revision}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


@cache
def _digests(dataset: str) -> dict[str, str]:
    """Of the splits of a benchmark or mixed table; none of what is drawn by seed or comes inside a package."""
    sets, tables = registry().sets, mixed_registry().sets
    known = sets.get(dataset) or tables.get(dataset.removeprefix("mixed/") if dataset.startswith("mixed/") else "")
    return {} if known is None else dict(known.sha256)


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
        if not all(type(value) in (int, float) for value in (read["seconds"], *read["metrics"].values())):
            raise ValueError("seconds and metrics are numbers")
        return cls(**{**read, "cell": Cell(**read["cell"])})
