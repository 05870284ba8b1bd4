"""`flatpc bench` and `flatpc demo`: what is in a checkout but not in the installed package; and `flatpc datasets`."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from flatpc.cli.application import INTERRUPTED, examples
from flatpc.cli.options import Json
from flatpc.cli.output import print_json, show_table
from flatpc.errors import OptionError

BENCH = examples("flatpc bench", "flatpc bench engine curvature")
DEMO = examples("flatpc demo")
DATASETS = examples("flatpc datasets", "flatpc datasets --json | jq -r '.[].name'")


def datasets(json: Json = False) -> None:
    """List the data sets that have a name: the manifolds, which are drawn by seed, and the binary benchmarks.

    Benchmarks are read from the folder that the environment variable FLATPC_DATA names; without it they are downloaded once.
    """
    from flatpc.data import datasets as all_of_them

    if json:
        print_json([asdict(data) for data in all_of_them()])
        return
    rows = []
    for data in all_of_them():
        where = "drawn" if data.source == "drawn by seed" else "here" if data.local else "to download"
        rows.append((data.name, f"{data.n_variables:,} {data.kind}", *(f"{n:,}" for n in data.rows.values()), where))
    show_table("Data sets", rows, ("name", "columns", "train", "valid", "test", "where"))


def bench(
    sections: Annotated[
        list[str] | None, typer.Argument(help="Which ones, such as engine or curvature; all unless given.", show_default=False)
    ] = None,
) -> None:
    """Measure speed: every ratio that the documentation quotes. It runs in a checkout of the project."""
    root = checkout("benchmarks/__main__.py", "python -m benchmarks")
    _run([sys.executable, "-m", "benchmarks", *(sections or [])], root)


def demo() -> None:
    """See what sharpness-aware learning does, on data made on the spot. It runs in a checkout of the project."""
    root = checkout("examples/demo.py", "make demo")
    _run([sys.executable, str(root / "examples" / "demo.py")], Path.cwd())


def checkout(file: str, command: str) -> Path:
    """The folder of the checkout that this package runs from; an error if it was installed elsewhere."""
    import flatpc

    root = Path(flatpc.__file__).parents[2]
    if not (root / file).is_file():
        raise OptionError(f"{file} is not part of the installed package; in a checkout of flatpc, run: {command}")
    return root


def _run(command: list[str], folder: Path) -> None:
    try:
        code = subprocess.run(command, cwd=folder, check=False).returncode
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code:
        raise typer.Exit(code)
