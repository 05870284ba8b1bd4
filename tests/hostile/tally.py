"""What becomes of hostile cases: each must end in a right answer or in an error of flatpc's own.

The short form of these tests runs with all others, the long form with `make hostile` (FLATPC_HOSTILE=long). Where
FLATPC_HOSTILE_LOG names a folder, each tally leaves its counts there, and `python docs/write_reliability.py` makes the table of
`docs/reliability.md` from them.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from flatpc.errors import FlatpcError

LONG = os.environ.get("FLATPC_HOSTILE") == "long"


def how_many(short: int, long: int) -> int:
    """The number of cases to try: few with all other tests, many with `make hostile`."""
    return long if LONG else short


class Tally:
    """Count cases by their outcome; at the end, fail with all that went wrong.

    with Tally("mutated model files") as tally:
        for seed in range(how_many(200, 8_000)):
            with tally.case(f"seed {seed}"):
                ...             # returning is `answered`, a FlatpcError `refused`; any other exception is a failure
    """

    def __init__(self, kind: str, allowed: tuple[type[BaseException], ...] = ()) -> None:
        self.kind, self.allowed = kind, allowed
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []
        self._began = time.perf_counter()

    def __enter__(self) -> Tally:
        return self

    @contextmanager
    def case(self, name: str) -> Iterator[None]:
        try:
            yield
        except FlatpcError:
            self.counts["refused"] += 1
        except self.allowed:
            self.counts["allowed"] += 1
        except Exception as error:
            self.counts["failed"] += 1
            self.failures.append(f"{name}: {type(error).__name__}: {str(error)[:300]}")
        else:
            self.counts["answered"] += 1

    def add(self, outcome: str, count: int = 1) -> None:
        """Count cases that ran elsewhere, in a child process for instance."""
        self.counts[outcome] += count

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        folder = os.environ.get("FLATPC_HOSTILE_LOG")
        if folder:
            row = {"kind": self.kind, "seconds": round(time.perf_counter() - self._began, 1), **self.counts}
            Path(folder, f"{uuid.uuid4().hex}.json").write_text(json.dumps(row))
        if error is None and self.failures:
            shown = "\n".join(self.failures[:20])
            raise AssertionError(f"{len(self.failures)} of {sum(self.counts.values())} cases of {self.kind} went wrong:\n{shown}")
