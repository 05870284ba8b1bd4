"""The present version against another: `python -m benchmarks.against COMMIT`.

Both do the same work (`benchmarks.cases`) in turns, and the quickest call of all turns counts; cases that look slower have as
many turns again. Each turn has processes of its own, since where a process's memory happens to lie makes the same code quicker or
slower by a tenth. A version measures itself with `python -m benchmarks.against HEAD`, which shows what the machine makes of equal
code.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.cases import ASKED

HERE = Path(__file__).parent.parent
TURNS, LIMIT = 15, 1.05


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """The sources of another version, in a folder that goes away."""
    with tempfile.TemporaryDirectory() as folder:
        packed = subprocess.run(["git", "archive", commit, "src"], cwd=HERE, capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=packed, check=True)
        yield Path(folder) / "src"


class Version:
    """A process that does the work with the sources of one folder."""

    def __init__(self, sources: Path) -> None:
        settings = {**os.environ, "PYTHONPATH": str(sources), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        settings["NUMBA_NUM_THREADS"] = "1"  # the thread whose time is counted does all the work
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.cases"], cwd=HERE, env=settings, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def seconds(self, case: str) -> float:
        """What the case takes."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        print(case, file=process.stdin, flush=True)
        return float(process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def take_turns(sources: Path, least: dict[str, list[float]], cases: list[str], turns: int) -> None:
    """Measure some cases with other sources and with these; `least` keeps the quickest call of each."""
    for turn in range(turns if cases else 0):
        versions = [Version(sources), Version(HERE / "src")]
        for case in cases:
            for i in (turn % 2, 1 - turn % 2):
                least[case][i] = min(least[case][i], versions[i].seconds(case))
        for version in versions:
            version.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.against", description=__doc__)
    parser.add_argument("commit", help="the other version")
    parser.add_argument("--only", default="", help="cases whose names have this text in them")
    parser.add_argument("--turns", type=int, default=TURNS)
    given = parser.parse_args()
    print(f"{'work, one thread':<50}{given.commit[:12] + ', ms':>18}{'this version, ms':>18}{'times as long':>15}")
    slower = 0
    least = {case: [math.inf, math.inf] for case in ASKED if given.only in case}
    with checked_out(given.commit) as sources:
        take_turns(sources, least, list(least), given.turns)
        # On a machine that others share, one of many cases has bad luck; whoever is slower is so a second time.
        take_turns(sources, least, [case for case, (before, now) in least.items() if now > LIMIT * before], given.turns)
    for case, (before, now) in least.items():
        slower += now > LIMIT * before
        print(f"{case:<50}{1e3 * before:18.3f}{1e3 * now:18.3f}{now / before:15.2f}")
    print(f"{slower} slower by more than {LIMIT - 1:.0%}.")


if __name__ == "__main__":
    main()
