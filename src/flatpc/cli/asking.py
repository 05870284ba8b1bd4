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
from flatpc.cli.output import TABLES, check_output, print_json, safe_for_spreadsheets, write_table
from flatpc.errors import OptionError

Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="A .csv, .tsv, .parquet or .npz file; standard output unless given.")
]

SCORE = examples(
    "flatpc score people.model new-people.csv",
    "flatpc score people.model new-people.csv --per-row -o scores.csv",
    "flatpc score nltcs.model nltcs --split test --json",
    "flatpc score people.model new-people.csv --per-row --uncertainty people.csv",
)
SAMPLE = examples(
    "flatpc sample people.model -n 5",
    "flatpc sample people.model -n 1000 -o people-like.parquet --seed 1",
    "flatpc sample people.model -n 5 --given smoker=yes --given age=40",
    "flatpc sample people.model -n 5 --given age=30..40",
)
IMPUTE = examples(
    "flatpc impute people.model holes.csv -o filled.csv",
    "flatpc impute people.model holes.csv --how draw --seed 1 > filled.csv",
)


class How(StrEnum):
    """What stands for a missing value."""

    MEAN = "mean"
    MODE = "mode"
    DRAW = "draw"


def score(
    model: ModelFile,
    data: Data,
    per_row: Annotated[bool, typer.Option("--per-row", help="The log-likelihood of every row, as a table.")] = False,
    uncertainty: Annotated[
        str | None,
        typer.Option(
            metavar="TRAIN",
            help="The table that the model was learnt from: adds standard errors, from the curvature around the fit.",
        ),
    ] = None,
    output: Output = None,
    split: OfSplit = None,
    missing: OnMissing = Missing.RAISE,
    unseen: OnUnseen = Unseen.RARE,
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

    from flatpc.cli.models import Reader, posterior
    from flatpc.cli.scanned import score_scanned, show_score, standard_error
    from flatpc.cli.sources import read_source, scanned

    reader = Reader(model, missing.value, unseen.value, ignore_extra)
    blocks = scanned(data) if uncertainty is None else None
    if blocks is not None:
        _refuse_split(data, split)
        score_scanned(reader, data, blocks, per_row, output, json)
        return
    option = "" if uncertainty is None else "--uncertainty"
    asked = reader.read(read_source(data, whole=option), split)
    sure = None if uncertainty is None else posterior(reader, uncertainty, option).log_prob(asked.rows, missing="marginalize")
    log_prob = np.asarray(asked.model.circuit.log_prob(asked.rows, missing="marginalize") + asked.rare)
    if per_row:
        import polars as pl

        errors = {} if sure is None else {"standard_error": sure.error}
        _put(pl.DataFrame({"log_likelihood": log_prob, **errors}), output, json)
        return
    impossible = int(np.isneginf(log_prob).sum())
    known = int((~np.isnan(asked.rows)).sum())
    mean = float(log_prob.mean())
    found: dict[str, Any] = {
        "data": data,
        "split": asked.split,
        "rows": len(log_prob),
        "mean_log_likelihood": mean,
        "standard_error": standard_error(float(log_prob.std()), len(log_prob)) if not impossible else math.nan,
        "bits_per_value": -float(log_prob.sum()) / (max(known, 1) * math.log(2)),
        "impossible_rows": impossible,
    }
    if sure is not None:
        found["error_of_the_fit"] = float(sure.mean().error) if not impossible else math.nan
    show_score(found, json)


def sample(
    model: ModelFile,
    n: Annotated[int, typer.Option("-n", min=1, help="How many rows.")] = 10,
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--given", metavar="COLUMN=VALUE", help="A value that is known, or a range: age=30..40.", show_default=False
        ),
    ] = None,
    output: Output = None,
    seed: Seed = 0,
    force: Force = False,
    json: Json = False,
) -> None:
    """Draw new rows, like those that the model was learnt from."""
    if output is not None:
        check_output(output, force, TABLES)
    from flatpc.cli.models import read_given
    from flatpc.estimator.drawing import draw
    from flatpc.estimator.model_files import load_model

    found = load_model(model)
    events = read_given(given, found.columns) if given else None
    rows = draw(found.circuit, found.columns, n, seed, events=events)
    _put(found.columns.decode(rows, container="polars"), output, json)


def impute(
    model: ModelFile,
    data: Data,
    how: Annotated[
        How, typer.Option(help="The mean (the most probable category), the most probable row, or a draw.", show_choices=True)
    ] = How.MEAN,
    output: Output = None,
    split: OfSplit = None,
    unseen: OnUnseen = Unseen.RARE,
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
    from flatpc.cli.scanned import impute_scanned
    from flatpc.cli.sources import read_source, scanned
    from flatpc.estimator.imputing import fill

    reader, blocks = Reader(model, "marginalize", unseen.value, ignore_extra), scanned(data)
    if blocks is not None:
        _refuse_split(data, split)
        impute_scanned(reader, data, blocks, how.value, output, seed, json)
        return
    asked = reader.read(read_source(data), split)
    full = fill(asked.model.circuit, asked.model.columns, asked.rows, how.value, seed)
    holes = int(np.isnan(asked.rows).sum())
    say(f"Filled {holes:,} values in {int(np.isnan(asked.rows).any(axis=1).sum()):,} of {len(full):,} rows.")
    _put(filled(asked, full), output, json)


def _refuse_split(data: str, split: Any) -> None:
    if split is not None:
        raise OptionError(f"{data} has no splits; leave --split out.")


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
            say(f"Wrote {frame.height:,} row{'' if frame.height == 1 else 's'} to {output}.")
