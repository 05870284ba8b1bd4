"""Where results live: a file for each run while a sweep goes on, and one compact table to keep.

`folder/runs/<experiment>/<key>.json` is written in one step as soon as a run ends. `folder/<experiment>.csv` holds the same, a
row for each run, and is what is committed; a sweep counts its rows as done.
"""

from __future__ import annotations

import csv
import io
import math
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from flatpc._writing import replace_file
from flatpc.errors import DataError
from flatpc.paper.cells import Cell, Result

DIGITS = 7
_CELL = {"dataset": str, "fraction": float, "trial": int, "method": str, "protocol": str}
_HEAD = (*_CELL, "key", "version", "seconds")


class Results:
    """The results of one experiment in a folder."""

    def __init__(self, folder: str | os.PathLike[str], experiment: str) -> None:
        self.folder, self.experiment = Path(folder), experiment
        self.runs = self.folder / "runs" / experiment
        self.table = self.folder / f"{experiment}.csv"

    def all(self) -> dict[str, Result]:
        """By key. A run's own file outranks the table's row."""
        found = {result.key: result for result in self.kept()}
        for path in sorted(self.runs.glob("*.json")) if self.runs.is_dir() else ():
            try:
                result = Result.from_json(path.read_text())
            except (ValueError, KeyError, TypeError, AttributeError):
                raise DataError(f"{path} is not a result; remove it, and the run is done again.") from None
            found[result.key] = result
        return found

    def kept(self) -> list[Result]:
        """What the table has, whatever has been run or has failed since it was written."""
        return read_table(self.table, self.experiment)

    def add(self, result: Result) -> None:
        """Keep a result: after a crash it is there or it is not, but never half."""
        self.runs.mkdir(parents=True, exist_ok=True)
        replace_file(self.runs / f"{result.key}.json", result.to_json().encode())

    def compact(self) -> Path:
        """Write the table of all results that have no error."""
        self.folder.mkdir(parents=True, exist_ok=True)
        replace_file(self.table, _csv(self.all().values()).encode())
        return self.table

    def failed(self) -> list[Result]:
        """Runs that ended with an error."""
        return [result for result in self.all().values() if result.error]


def read_table(path: Path, experiment: str) -> list[Result]:
    """The rows of a compact table; none if there is no file."""
    if not path.is_file():
        return []
    out = []
    try:
        for row in csv.DictReader(path.read_text().splitlines()):
            cell = Cell(experiment, **{name: read(row[name]) for name, read in _CELL.items()})
            metrics = {name: float(text) for name, text in row.items() if name not in _HEAD and text}
            out.append(Result(cell, row["key"], row["version"], float(row["seconds"]), metrics))
    except (KeyError, TypeError, ValueError) as problem:
        raise DataError(f"{path} is not a table of results ({problem}); remove it or restore it.") from None
    return out


def versions(results: Iterable[Result]) -> str:
    """With which versions of flatpc these were run: one, or several with the number of runs of each."""
    runs = Counter(result.version for result in results if not result.error)
    if len(runs) < 2:
        return "".join(runs)
    *first, last = (f"{version} ({n:,} {'runs' if n > 1 else 'run'})" for version, n in sorted(runs.items()))
    return f"{', '.join(first)} and {last}"


def _csv(results: Iterable[Result]) -> str:
    good = sorted((r for r in results if not r.error), key=lambda r: tuple(asdict(r.cell).values()))
    names = list(dict.fromkeys(name for result in good for name in result.metrics))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*_HEAD, *names])
    for r in good:
        cell = [getattr(r.cell, f.name) for f in fields(Cell) if f.name != "experiment"]
        writer.writerow([*cell, r.key, r.version, f"{r.seconds:.2f}", *(_number(r.metrics.get(name)) for name in names)])
    return out.getvalue()


def _number(value: Any) -> str:
    if value is None or math.isnan(value):
        return ""
    return f"{value:.{DIGITS}g}"
