"""Figures are computed piece by piece, and each piece is kept as soon as it is there.

A file is `{"pieces": {name: {"configuration": ..., "data": ...}}}`. A piece whose configuration has not changed is not computed
again, so that a run that was cut short goes on where it stopped.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from flatpc._writing import replace_file
from flatpc.errors import DataError, FlatpcError

Pieces = Mapping[str, Mapping[str, Any]]
"""Name of a piece -> what it takes to compute it."""
Found = dict[str, dict[str, Any]]
"""Name of a piece -> what was computed."""

DIGITS = 5


def compact(value: Any, digits: int = DIGITS) -> Any:
    """The value as JSON holds it: arrays as lists, floats to so many digits, what is not finite as None.

    >>> compact({"loss": np.array([1 / 3, np.inf]), "n": 4})
    {'loss': [0.33333, None], 'n': 4}
    """
    if isinstance(value, Mapping):
        return {str(key): compact(item, digits) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return compact(value.tolist(), digits)
    if isinstance(value, list | tuple):
        return [compact(item, digits) for item in value]
    if isinstance(value, float | np.floating):
        return float(f"{value:.{digits}g}") if math.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value


def read(path: Path) -> Found:
    """The pieces of a file; none if there is no file."""
    return {name: piece["data"] for name, piece in _read(path).items()}


def stale(path: Path, pieces: Pieces) -> list[str]:
    """The pieces that the file lacks, or that it has of another configuration."""
    stored = _read(path)
    return [name for name, wanted in pieces.items() if name not in stored or stored[name]["configuration"] != compact(wanted, 17)]


def complete(
    path: Path,
    pieces: Pieces,
    compute: Callable[[Mapping[str, Any]], Mapping[str, Any]],
    *,
    deadline: float = math.inf,
    track: Callable[[Iterable[str]], Iterable[str]] = iter,
) -> Found:
    """Compute the pieces that the file lacks, and write each there; after `deadline` (of `time.monotonic`) begin no other.

    A piece that fails doesn't stop the rest; the error is raised when they are done.
    """
    stored = _read(path)
    wanted = {name: compact(configuration, 17) for name, configuration in pieces.items()}
    failed: dict[str, Exception] = {}
    kept = {name: piece for name, piece in stored.items() if wanted.get(name) == piece["configuration"]}
    for name in track([name for name in pieces if name not in kept]):
        if time.monotonic() > deadline:
            break
        begin = time.perf_counter()
        try:
            data = compact(compute(pieces[name]))
        except Exception as problem:
            failed[name] = problem
            continue
        kept[name] = {"configuration": wanted[name], "seconds": round(time.perf_counter() - begin, 2), "data": data}
        in_order = {each: kept[each] for each in pieces if each in kept}
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, _text(in_order).encode())
    if failed:
        first = next(iter(failed))
        raise FlatpcError(
            f"{len(failed)} of {len(pieces)} pieces of {path.name} failed, the others are kept; {first}: {failed[first]}"
        ) from failed[first]
    return {name: kept[name]["data"] for name in pieces if name in kept}


def _text(pieces: Mapping[str, Any]) -> str:
    """One piece per line, so that a changed piece is a changed line."""
    lines = [f"{json.dumps(name)}:{json.dumps(piece, separators=(',', ':'))}" for name, piece in pieces.items()]
    return '{"pieces":{\n' + ",\n".join(lines) + "\n}}\n"


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        return dict(json.loads(path.read_text())["pieces"])
    except (ValueError, KeyError, TypeError):
        raise DataError(f"{path} is not a file of a figure's data; remove it, and the figure is computed anew.") from None
