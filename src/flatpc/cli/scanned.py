"""`flatpc score` for folders and patterns: scores are written while rows are read."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from flatpc._typing import Array
from flatpc.cli.application import say
from flatpc.cli.output import number, print_json, show_table, write_table
from flatpc.errors import OptionError

TEXTS = {".csv": ",", ".tsv": "\t"}


def score_scanned(
    model: Path, data: str, per_row: bool, output: Path | None, encoding: tuple[str, str], ignore_extra: bool, json: bool
) -> None:
    """The score of all rows, or of each."""
    from flatpc.estimator.model_files import load_model
    from flatpc.queries.streaming import Asked, totals_of
    from flatpc.tables.columns import Encoding
    from flatpc.tables.scanning import scan

    found = load_model(model)
    wanted = list(found.columns.names)
    source = scan(data)
    if set(wanted) <= set(source.names) and (ignore_extra or len(wanted) == len(source.names)):
        source = scan(data, columns=wanted)
    coded = source.changed(Encoding(found.columns, *encoding))
    asked = Asked(found.circuit, "marginalize")
    if per_row:
        if json and output is None:
            raise OptionError("--json would print a list of all rows; write a file with --output.")
        _write((asked.log_prob(block)[1] for block in coded.blocks()), output, json)
        return
    totals = totals_of(asked, coded)
    impossible = totals.impossible
    show_score(
        {
            "data": data,
            "split": "all",
            "rows": totals.n_rows,
            "mean_log_likelihood": totals.mean,
            "standard_error": totals.deviation / math.sqrt(totals.n_rows) if not impossible else math.nan,
            "bits_per_value": -totals.log_prob / (max(totals.n_known, 1) * math.log(2)),
            "impossible_rows": impossible,
        },
        json,
    )


def show_score(found: dict[str, Any], json: bool) -> None:
    """What `flatpc score` says of rows together."""
    if json:
        print_json(found)
        return
    rows = [
        ("rows", f"{found['rows']:,} ({found['split']})"),
        ("mean log-likelihood", f"{number(found['mean_log_likelihood'])} ± {number(found['standard_error'])}"),
        ("bits per value", number(found["bits_per_value"])),
    ]
    if "error_of_the_fit" in found:
        rows.append(("standard error of the fit", number(found["error_of_the_fit"])))
    if found["impossible_rows"]:
        rows.append(("rows of probability 0", f"{found['impossible_rows']:,}"))
    show_table("Score", rows)


def _write(blocks: Iterator[Array], output: Path | None, json: bool) -> None:
    """One score a line, as they come; a parquet or npz file when all are there, 8 bytes each."""
    import polars as pl

    from flatpc._writing import replacing

    n = 0
    if output is None:
        for i, block in enumerate(blocks):
            sys.stdout.write(pl.DataFrame({"log_likelihood": block}).write_csv(include_header=i == 0))
        return
    if output.suffix.lower() in TEXTS:
        with replacing(output) as file:
            for i, block in enumerate(blocks):
                file.write(pl.DataFrame({"log_likelihood": block}).write_csv(include_header=i == 0).encode())
                n += len(block)
    else:
        found = np.concatenate(list(blocks))
        n = len(found)
        write_table(pl.DataFrame({"log_likelihood": found}), output)
    if json:
        print_json({"output": output, "rows": n, "columns": ["log_likelihood"]})
    else:
        say(f"Wrote {n:,} rows to {output}.")
