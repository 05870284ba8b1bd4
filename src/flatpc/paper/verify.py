"""Run committed cells again and compare: what `flatpc reproduce NAME --verify 5` does."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from flatpc.errors import DataError
from flatpc.paper.cells import Cell, Result
from flatpc.paper.results import read_table
from flatpc.paper.runner import run_cell
from flatpc.paper.tables import Table, table

LONGEST = 300.0
"""Seconds. What took longer is not run again, nor what was given a time to stop at."""


@dataclass(frozen=True)
class Check:
    """A committed cell, and by how much its numbers differ now."""

    cell: Cell
    difference: float
    """The largest, relative to the number or, where that is small, to 1."""
    tolerance: float
    error: str = ""

    @property
    def passes(self) -> bool:
        """Whether the same came out."""
        return not self.error and self.difference <= self.tolerance


def verify(
    name: str,
    folder: str | os.PathLike[str] = "results",
    n: int = 5,
    *,
    seed: int | None = None,
    protocols: Sequence[str] | None = None,
    watch: Callable[[Check], None] | None = None,
) -> list[Check]:
    """Run `n` random rows of the table in `folder` again, drawn by `seed`."""
    declared = table(name)
    path = Path(folder) / f"{name}.csv"
    rows = [row for row in read_table(path, name) if protocols is None or row.cell.protocol in protocols]
    if not rows:
        raise DataError(f"{path} has no rows that could be run again; run `flatpc reproduce {name}` first.")
    reasons = {row.key: _hindrance(row, declared) for row in rows}
    rows = [row for row in rows if not reasons[row.key]]
    if not rows:
        raise DataError(f"{path} has no rows that could be run again: {'; '.join(dict.fromkeys(reasons.values()))}")
    drawn = np.random.default_rng(seed).permutation(len(rows))[:n]
    checks = []
    for row in (rows[i] for i in drawn):
        check = compare(row, declared)
        checks.append(check)
        if watch is not None:
            watch(check)
    return checks


def _hindrance(row: Result, declared: Table) -> str:
    """Why a row can't be run again here, or nothing."""
    if row.cell.method in declared.timed:
        return f"{row.cell.method} does as much as it can within a time, which is never quite the same."
    if row.seconds > LONGEST:
        return f"some took more than {LONGEST:.0f} s."
    return "" if declared.missing is None else declared.missing(row.cell)


def compare(row: Result, declared: Table) -> Check:
    """Run one row again."""
    again = run_cell(row.cell, declared.run, declared.settings[row.cell.protocol], row.key)
    names = [metric for metric in declared.compared if metric in row.metrics]
    tolerance = declared.tolerances.get(row.cell.method, declared.tolerance)
    if again.error or not names:
        return Check(row.cell, math.inf, tolerance, again.error or "it has no number to compare")
    gaps = [abs(again.metrics[m] - row.metrics[m]) / max(1.0, abs(row.metrics[m])) for m in names]
    return Check(row.cell, max(gaps), tolerance)
