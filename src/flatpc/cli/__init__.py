"""The command line: `flatpc fit people.csv -o people.model`, `flatpc score people.model new.csv`, and so on.

Modules of commands import nothing heavy until a command runs, so that `flatpc --help` answers at once.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from flatpc.cli import asking, explaining, fitting, paper, sharpness
from flatpc.cli import extras as around
from flatpc.cli.application import Commands, examples, paragraphs

EPILOG = examples("flatpc fit people.csv -o people.model", "flatpc score people.model new-people.csv", "flatpc fit --help")

app = typer.Typer(cls=Commands, rich_markup_mode="rich", pretty_exceptions_enable=False, add_completion=True)
PANELS: dict[str, dict[Callable[..., None], str]] = {
    "Models": {
        fitting.fit: fitting.EXAMPLES,
        asking.score: asking.SCORE,
        asking.sample: asking.SAMPLE,
        asking.impute: asking.IMPUTE,
        explaining.explain: explaining.EXAMPLES,
        sharpness.curvature: sharpness.CURVATURE,
        sharpness.landscape: sharpness.LANDSCAPE,
    },
    "The paper": {paper.reproduce: paper.REPRODUCE, paper.report: paper.REPORT},
    "Around it": {around.datasets: around.DATASETS, around.bench: around.BENCH, around.demo: around.DEMO},
}
for panel, commands in PANELS.items():
    for command, below in commands.items():
        app.command(help=paragraphs(command), epilog=below, rich_help_panel=panel)(command)


def _version(asked: bool) -> None:
    if asked:
        import flatpc

        typer.echo(f"flatpc {flatpc.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True, epilog=EPILOG)
def _flatpc(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """Probabilistic circuits with exact curvature: learn a density from a table, ask it, and see how sharp it is.

    Exit codes: 0 all is well, 1 a mistake that you can correct, 2 wrong usage, 70 a bug, 130 Ctrl-C.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    """Run the command that was typed."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Files are read as UTF-8 here, so they are written as that; a terminal that lacks a letter shows a question mark.
            at_terminal = stream.isatty()
            stream.reconfigure(encoding=None if at_terminal else "utf-8", errors="replace" if at_terminal else None)
    app(prog_name="flatpc")
