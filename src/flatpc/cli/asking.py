"""`flatpc score`, `sample` and `impute`: questions to a model, in terms of its columns."""

from __future__ import annotations

import math
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from flatpc._printable import printable
from flatpc.cli.application import examples, say
from flatpc.cli.options import Data, Force, IgnoreExtra, Json, Missing, ModelFile, OfSplit, OnMissing, OnUnseen, Seed, Unseen
from flatpc.cli.output import TABLES, check_output, number, print_json, safe_for_spreadsheets, show_table, write_table
from flatpc.errors import OptionError

Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="A .csv, .tsv, .parquet or .npz file; standard output unless given.")
]

SCORE = examples(
    "flatpc score people.model new-people.csv",
    "flatpc score people.model new-people.csv --per-row -o scores.csv",
    "flatpc score nltcs.model nltcs --split test --json",
)
SAMPLE = examples(
    "flatpc sample people.model -n 5",
    "flatpc sample people.model -n 1000 -o people-like.parquet --seed 1",
    "flatpc sample people.model -n 5 --given smoker=yes --given age=40",
)
IMPUTE = examples(
    "flatpc impute people.model holes.csv -o filled.csv",
    "flatpc impute people.model holes.csv --how sample --seed 1 > filled.csv",
)


class How(StrEnum):
    """What stands for a missing value."""

    MEAN = "mean"
    MPE = "mpe"
    SAMPLE = "sample"


def score(
    model: ModelFile,
    data: Data,
    per_row: Annotated[bool, typer.Option("--per-row", help="The log-likelihood of every row, as a table.")] = False,
    output: Output = None,
    split: OfSplit = None,
    missing: OnMissing = Missing.RAISE,
    unseen: OnUnseen = Unseen.RAISE,
    ignore_extra: IgnoreExtra = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """How likely rows are: their mean log-likelihood, and bits per value.

    Logarithms are natural; with continuous columns these are logarithms of densities, which depend on the units of the columns.
    """
    if output is not None:
        if not per_row:
            raise OptionError("--output is for the table of --per-row; add --per-row, or redirect what is printed.")
        check_output(output, force, TABLES)
    import numpy as np

    from flatpc.cli.models import Reader
    from flatpc.cli.sources import read_source

    asked = Reader(model, missing.value, unseen.value, ignore_extra).read(read_source(data), split)
    log_prob = np.asarray(asked.model.circuit.log_prob(asked.rows, missing="marginalize"))
    if per_row:
        import polars as pl

        _put(pl.DataFrame({"log_likelihood": log_prob}), output, json)
        return
    impossible = int(np.isneginf(log_prob).sum())
    known = int((~np.isnan(asked.rows)).sum())
    mean = float(log_prob.mean())
    found: dict[str, Any] = {
        "data": data,
        "split": asked.split,
        "rows": len(log_prob),
        "mean_log_likelihood": mean,
        "standard_error": float(log_prob.std() / math.sqrt(len(log_prob))) if not impossible else math.nan,
        "bits_per_value": -float(log_prob.sum()) / (max(known, 1) * math.log(2)),
        "impossible_rows": impossible,
    }
    if json:
        print_json(found)
        return
    rows = [
        ("rows", f"{len(log_prob):,} ({asked.split})"),
        ("mean log-likelihood", f"{number(mean)} ± {number(found['standard_error'])}"),
        ("bits per value", number(found["bits_per_value"])),
    ]
    if impossible:
        rows.append(("rows of probability 0", f"{impossible:,}"))
    show_table("Score", rows)


def sample(
    model: ModelFile,
    n: Annotated[int, typer.Option("-n", min=1, help="How many rows.")] = 10,
    given: Annotated[
        list[str] | None, typer.Option("--given", metavar="COLUMN=VALUE", help="A value that is known.", show_default=False)
    ] = None,
    output: Output = None,
    seed: Seed = 0,
    force: Force = False,
    json: Json = False,
) -> None:
    """Draw new rows, like those that the model was learnt from."""
    if output is not None:
        check_output(output, force, TABLES)
    import numpy as np

    from flatpc.cli.models import read_given
    from flatpc.estimator.model_files import load_model

    found = load_model(model)
    known = read_given(given, found.columns) if given else None
    rows = found.circuit.sample(n, given=known, seed=seed)
    _put(found.columns.decode(np.asarray(rows), container="polars"), output, json)


def impute(
    model: ModelFile,
    data: Data,
    how: Annotated[
        How, typer.Option(help="The mean (the most probable category), the most probable row, or a draw.", show_choices=True)
    ] = How.MEAN,
    output: Output = None,
    split: OfSplit = None,
    unseen: OnUnseen = Unseen.RAISE,
    ignore_extra: IgnoreExtra = False,
    seed: Seed = 0,
    force: Force = False,
    json: Json = False,
) -> None:
    """Fill in missing values, given the rest of their rows; known values stay as they are."""
    if output is not None:
        check_output(output, force, TABLES)
    import numpy as np

    from flatpc.cli.models import Reader, filled
    from flatpc.cli.sources import read_source
    from flatpc.estimator.imputing import fill

    asked = Reader(model, "marginalize", unseen.value, ignore_extra).read(read_source(data), split)
    full = fill(asked.model.circuit, asked.model.columns, asked.rows, how.value, seed)
    holes = int(np.isnan(asked.rows).sum())
    say(f"Filled {holes:,} values in {int(np.isnan(asked.rows).any(axis=1).sum()):,} of {len(full):,} rows.")
    _put(filled(asked, full), output, json)


def _put(table: Any, output: Path | None, json: bool) -> None:
    """A table as a file, as JSON (a list of rows), or as csv on standard output; the columns of an array are x0, x1, ..."""
    import polars as pl

    frame = table if isinstance(table, pl.DataFrame) else pl.DataFrame(table, schema=[f"x{j}" for j in range(table.shape[1])])
    if output is None and json:
        print_json(frame.rows(named=True))
    elif output is None:
        text = safe_for_spreadsheets(frame).write_csv()
        sys.stdout.write(printable(text) if sys.stdout.isatty() else text)
    else:
        write_table(frame, output)
        if json:
            print_json({"output": output, "rows": frame.height, "columns": frame.columns})
        else:
            say(f"Wrote {frame.height:,} rows to {output}.")
