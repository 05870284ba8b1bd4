"""`flatpc reproduce` and `flatpc report`: the paper's tables and figures, and a page about them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from flatpc.cli.application import INTERRUPTED, MISTAKE, examples, say
from flatpc.cli.options import Force, Json
from flatpc.cli.output import check_output, console, print_json, show_table, shows_progress
from flatpc.errors import DataError, OptionError

REPRODUCE = examples(
    "flatpc reproduce table1 --quick",
    "flatpc reproduce table2 --datasets nltcs,dna --jobs 2 --budget 3600",
    "flatpc reproduce table2 --fractions 0.01,0.05 --trials 0,1,2",
    "flatpc reproduce table1 --protocol code --folder results",
    "flatpc reproduce table2 --verify 5",
    "flatpc reproduce figure-ablation --quick",
)
REPORT = examples("flatpc report results -o report.html")

Folder = Annotated[Path, typer.Option(help="Where results are kept.")]


def reproduce(
    name: Annotated[str, typer.Argument(metavar="NAME", help="table1, table2, figure-trace and so on; `list` lists them all.")],
    quick: Annotated[bool, typer.Option("--quick", help="A small part of it, unless parts are named.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where the last run stopped. It always does; runs that are done stay done.")
    ] = False,
    protocol: Annotated[
        str, typer.Option(help="As the paper's text says (text), as its code does (code), or as we recommend (ours).")
    ] = "text",
    datasets: Annotated[str | None, typer.Option(help="Names, with commas between them.", show_default=False)] = None,
    fractions: Annotated[str | None, typer.Option(help="Of the training rows, as 0.01,0.5.", show_default=False)] = None,
    trials: Annotated[str | None, typer.Option(help="Their numbers, from 0.", show_default=False)] = None,
    methods: Annotated[str | None, typer.Option(help="As plain,mu=0.1,adaptive.", show_default=False)] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; as many as cores unless given.", show_default=False)] = None,
    budget: Annotated[float | None, typer.Option(help="Seconds after which nothing new is begun.", show_default=False)] = None,
    check: Annotated[
        int | None,
        typer.Option(
            "--verify", min=1, help="Run so many random cells of the folder's table again, and compare.", show_default=False
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Of the cells to verify; chance unless given.", show_default=False)
    ] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Run again what ended with an error.")] = False,
    folder: Folder = Path("results"),
    json: Json = False,
) -> None:
    """Run one of the paper's experiments, and write a report of all that is there.

    Every result is kept as soon as it is there: stopped at any moment and started again, it loses nothing and repeats nothing.
    """
    if name == "list":
        _list(json)
        return
    if budget is not None and not budget > 0:
        raise OptionError(f"--budget {budget}; give a positive number of seconds.")
    if folder.exists() and not folder.is_dir():
        raise OptionError(f"{folder} is not a folder; give another one with --folder.")
    tables, figures = experiments()
    if name not in {**tables, **figures}:
        raise OptionError(f"There is no experiment {name}; choose one of {', '.join([*tables, *figures])}.")
    if check is not None:
        if name in figures:
            raise OptionError(f"--verify is for tables; {name} is a figure.")
        _verify(name, folder, check, seed, json)
        return
    parts = _parts(datasets, fractions, trials, methods)
    if name in figures and any(values is not None for values in parts.values()):
        raise OptionError(f"{name} is computed as a whole; --datasets, --fractions, --trials and --methods are for tables.")
    try:
        if name in tables:
            found = _table(name, folder, json, **parts, quick=quick, protocol=protocol, n_jobs=jobs, budget=budget, retry=retry)
        else:
            found = _figure(name, folder, quick, budget, json)
    except KeyboardInterrupt:
        say(f"Stopped. What is done is kept in {folder}; the same command goes on from there.")
        raise typer.Exit(INTERRUPTED) from None
    page = _report(folder, folder / "report.html")
    if json:
        print_json({"experiment": name, "folder": folder, "report": page, **found})
    else:
        show_table(name, [(key.replace("_", " "), _shown(value)) for key, value in found.items()])
        say(f"Results are in {folder}; wrote {page}.")
    if found["left"]:
        say(f"{found['left']} are left; the same command goes on with them.")
    if found.get("failed"):
        say(f"{found['failed']} runs ended with an error; run them again with --retry.")
        raise typer.Exit(MISTAKE)


def _verify(name: str, folder: Path, n: int, seed: int | None, json: bool) -> None:
    from flatpc.paper.verify import Check, verify

    def watch(check: Check) -> None:
        if not json:
            verdict = "the same" if check.passes else check.error or "DIFFERENT"
            said = "" if check.error else f", within {check.difference:.1e} (tolerance {check.tolerance:g})"
            say(f"{check.cell.label}, {check.cell.protocol}: {verdict}{said}")

    checks = verify(name, folder, n, seed=seed, watch=watch)
    failed = sum(not check.passes for check in checks)
    if json:
        found = [{**asdict(check), "passes": check.passes} for check in checks]
        print_json({"experiment": name, "verified": len(checks), "failed": failed, "cells": found})
    else:
        say(f"{len(checks) - failed} of {len(checks)} cells of {name} gave the same numbers.")
    if failed:
        raise typer.Exit(MISTAKE)


def experiments() -> tuple[dict[str, str], dict[str, str]]:
    """Tables and figures that are declared, with their titles."""
    from flatpc.paper.figures import FIGURES, figure
    from flatpc.paper.tables import TABLES

    return {name: table.title for name, table in TABLES.items()}, {name: figure(name).TITLE for name in FIGURES}


def _list(json: bool) -> None:
    tables, figures = experiments()
    both = {**tables, **figures}
    if json:
        print_json(both)
        return
    width = max(map(len, both)) + 2
    for name, title in both.items():
        console().print(f"{name:{width}}{title}", soft_wrap=True)


def _parts(datasets: str | None, fractions: str | None, trials: str | None, methods: str | None) -> dict[str, Any]:
    """The parts of a grid that were named; None for all of an axis."""
    return {
        "datasets": _named(datasets, "--datasets", str),
        "fractions": _named(fractions, "--fractions", float),
        "trials": _named(trials, "--trials", int),
        "methods": _named(methods, "--methods", str),
    }


def _named(given: str | None, option: str, read: Callable[[str], Any]) -> list[Any] | None:
    if given is None:
        return None
    try:
        return [read(part.strip()) for part in given.split(",")]
    except ValueError:
        raise OptionError(f"{option} {given}; give numbers with commas between them.") from None


def _table(name: str, folder: Path, quiet: bool, **options: Any) -> dict[str, Any]:
    import joblib

    from flatpc.paper.reproduce import reproduce as run

    options["n_jobs"] = options["n_jobs"] or joblib.cpu_count()
    return asdict(run(name, folder, progress=not quiet, **options))


def _figure(name: str, folder: Path, quick: bool, budget: float | None, quiet: bool) -> dict[str, Any]:
    from flatpc.paper import figures

    limit = math.inf if budget is None else budget
    found = figures.compute(name, folder, quick=quick, budget=limit, progress=shows_progress(quiet))
    wanted = figures.figure(name).pieces(quick)
    return {"pieces": len(found), "left": len(wanted) - len(found)}


def report(
    results: Annotated[
        Path, typer.Argument(metavar="RESULTS", help="A folder that `flatpc reproduce` filled.", show_default=False)
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page.")] = Path("report.html"),
    force: Force = False,
    json: Json = False,
) -> None:
    """Write one page about all results of a folder: tables beside the paper's, figures that can be turned."""
    if not results.is_dir():
        raise DataError(f"There is no folder {results}; give the one that `flatpc reproduce` filled.")
    check_output(output, force, (".html",))
    page = _report(results, output)
    if json:
        print_json({"report": page})
    else:
        say(f"Wrote {page}.")


def _report(folder: Path, page: Path) -> Path:
    from flatpc.paper.report import report as write

    return write(folder, page)


def _shown(value: Any) -> str:
    return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"
