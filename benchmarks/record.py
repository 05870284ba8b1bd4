"""Numbers of the pieces, kept in `benchmarks/results.json` as soon as each is there: what README and docs show is made from it.

A piece is recorded with a digest of the code that it times, and those of `scaling` with `FLATPC_SCALE`.
`python -m benchmarks --record` skips what has been measured with the code as it is, at this scale or a larger one, so that it
goes on where it was stopped. A number at a larger scale stays when a smaller one is measured, with the digest of its own code.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flatpc.circuit.files import replace_file

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
TIMED = ("circuit", "curvature", "engine", "families", "learning", "queries", "structures", "tables")
"""Folders of `flatpc` whose code benchmarks time."""
SCALE = float(os.environ.get("FLATPC_SCALE", "0.02"))
"""Of the sections that have one: 1 is full size."""
SCALED = ("scaling",)
DIGITS = 4


def digest(section: str) -> str:
    """Of the code that is timed, and of the section that times it."""
    source = HERE.parent / "src" / "flatpc"
    files = [path for folder in TIMED for path in sorted((source / folder).rglob("*.py"))]
    content = b"".join(path.read_bytes() for path in [*files, HERE / f"{section}.py", HERE / "clock.py"])
    return hashlib.sha256(content).hexdigest()[:12]


def read(path: Path = RESULTS) -> dict[str, Any]:
    """Name of a piece, as `engine.steps` -> what was recorded."""
    return dict(json.loads(path.read_text())["pieces"]) if path.is_file() else {}


def numbers(path: Path = RESULTS) -> dict[str, Any]:
    """Name of a piece -> its numbers."""
    return {name: piece["numbers"] for name, piece in read(path).items()}


def measure(section: str, name: str, piece: Callable[[], Any], path: Path = RESULTS) -> None:
    """Run a piece and record what it returns; None, of a piece that could not run here, is not recorded."""
    begin = time.perf_counter()
    found = piece()
    if found is None:
        return
    known = read(path)
    if section in SCALED and known.get(f"{section}.{name}", {}).get("scale", 0.0) > SCALE:
        print(f"{section}.{name} is recorded at a larger scale than {SCALE:g}; that stays.")
        return
    recorded = {
        "numbers": _rounded(found),
        "seconds": round(time.perf_counter() - begin),
        "code": digest(section),
        "machine": f"{processor()}, {os.cpu_count()} cores",
        **({"scale": SCALE} if section in SCALED else {}),
    }
    kept = known | {f"{section}.{name}": recorded}
    lines = [f"{json.dumps(key)}: {json.dumps(kept[key])}" for key in sorted(kept)]
    replace_file(path, ('{"pieces": {\n' + ",\n".join(lines) + "\n}}\n").encode())


def is_measured(section: str, name: str, path: Path = RESULTS) -> bool:
    """Whether a piece has been recorded with the code as it is, and no smaller than asked for."""
    known = read(path).get(f"{section}.{name}", {})
    return known.get("code") == digest(section) and (section not in SCALED or known.get("scale", 0.0) >= SCALE)


def processor() -> str:
    """Its name, where the system tells.

    >>> bool(processor())
    True
    """
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    if isinstance(value, bool | str | int):
        return value
    return float(f"{float(value):.{DIGITS}g}")
