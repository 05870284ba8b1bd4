"""`flatpc score` and `impute` for more rows than a table in memory has: answers are written while rows are read."""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from flatpc._printable import printable, without_formulas
from flatpc._typing import Array
from flatpc.cli.application import say
from flatpc.cli.models import Asked, Reader, filled
from flatpc.cli.output import number, print_json, say_of_formulas, show_table, write_table
from flatpc.errors import OptionError, ShapeError
from flatpc.queries import streaming
from flatpc.tables.sources import Source as Scanned

TEXTS = {".csv": ",", ".tsv": "\t"}


class _Likelihood(streaming.Asked):
    """Log-likelihoods of blocks that have been read for a model."""

    def log_prob(self, block: Asked) -> tuple[Array, Array]:
        """Rows, and their log-likelihoods with those of values that the model doesn't know."""
        rows, found = super().log_prob(block.rows)
        return rows, found + block.rare


def score_scanned(reader: Reader, data: str, source: Scanned, per_row: bool, output: Path | None, json: bool) -> None:
    """The score of all rows, or of each."""
    import polars as pl

    stream, likelihood = reader.stream(data, source), _Likelihood(reader.model.circuit, "marginalize")
    if per_row:
        _write((pl.DataFrame({"log_likelihood": likelihood.log_prob(asked)[1]}) for asked in stream.blocks()), output, json)
        return
    totals = streaming.totals_of(likelihood, stream)
    impossible = totals.impossible
    show_score(
        {
            "data": data,
            "split": "all",
            "rows": totals.n_rows,
            "mean_log_likelihood": totals.mean,
            "standard_error": standard_error(totals.deviation, totals.n_rows) if not impossible else math.nan,
            "bits_per_value": -totals.log_prob / (max(totals.n_known, 1) * math.log(2)),
            "impossible_rows": impossible,
        },
        json,
    )


def impute_scanned(reader: Reader, data: str, source: Scanned, how: str, output: Path | None, seed: int, json: bool) -> None:
    """All rows with their gaps filled."""
    from flatpc.estimator.imputing import fill_blocks

    counts = np.zeros(3, dtype=np.int64)

    def blocks() -> Iterator[Any]:
        stream, model = reader.stream(data, source), reader.model
        for asked, full in fill_blocks(model.circuit, model.columns, stream.blocks(), how, seed):
            gaps = np.isnan(asked.rows)
            counts[:] += (gaps.sum(), gaps.any(axis=1).sum(), len(gaps))
            yield filled(asked, full)

    _write(blocks(), output, json)
    say(f"Filled {counts[0]:,} values in {counts[1]:,} of {counts[2]:,} rows.")


def standard_error(deviation: float, n_rows: int) -> float:
    """Of a mean; NaN for one row, which tells nothing of how rows vary."""
    return deviation / math.sqrt(n_rows) if n_rows > 1 else math.nan


def show_score(found: dict[str, Any], json: bool) -> None:
    """What `flatpc score` says of rows together."""
    if json:
        print_json(found)
        return
    error = found["standard_error"]
    mean = number(found["mean_log_likelihood"])
    rows = [
        ("rows", f"{found['rows']:,} ({found['split']})"),
        ("mean log-likelihood", mean if math.isnan(error) and found["rows"] == 1 else f"{mean} ± {number(error)}"),
        ("bits per value", number(found["bits_per_value"])),
    ]
    if "error_of_the_fit" in found:
        rows.append(("standard error of the fit", number(found["error_of_the_fit"])))
    if found["impossible_rows"]:
        rows.append(("rows of probability 0", f"{found['impossible_rows']:,}"))
    show_table("Score", rows)


def _write(blocks: Iterator[Any], output: Path | None, json: bool) -> None:
    """Frames one below the other, as they come; an npz file when all are there."""
    seen = _Seen(blocks)
    if output is None:
        if json:
            raise OptionError("--json would print a list of all rows; write a file with --output.")
        for text in _texts(seen, ","):
            sys.stdout.write(printable(text) if sys.stdout.isatty() else text)
        return
    ending = output.suffix.lower()
    if ending in TEXTS:
        from flatpc._writing import replacing

        with replacing(output) as file:
            for text in _texts(seen, TEXTS[ending]):
                file.write(text.encode())
    elif ending == ".parquet":
        _write_parquet(seen, output)
    else:
        from flatpc.tables.sources import joined

        write_table(joined(list(seen)), output)
    if json:
        print_json({"output": output, "rows": seen.n_rows, "columns": seen.columns})
    else:
        say(f"Wrote {seen.n_rows:,} row{'' if seen.n_rows == 1 else 's'} to {output}.")


class _Seen:
    """Frames on their way, counted."""

    def __init__(self, blocks: Iterator[Any]) -> None:
        self._blocks = blocks
        self.n_rows = 0
        self.columns: list[str] = []

    def __iter__(self) -> Iterator[Any]:
        for frame in self._blocks:
            self.n_rows += frame.height
            self.columns = frame.columns
            yield frame
        if not self.n_rows:
            raise ShapeError("There are no rows: all files are empty.")


def _texts(blocks: Any, separator: str) -> Iterator[str]:
    """Lines of a csv or tsv file, its header first; a line says if something was changed for spreadsheets."""
    changed: dict[str, None] = {}
    for i, frame in enumerate(blocks):
        safe, mine = without_formulas(frame)
        changed |= dict.fromkeys(mine)
        yield safe.write_csv(include_header=i == 0, separator=separator)
    say_of_formulas(list(changed))


def _write_parquet(blocks: Any, output: Path) -> None:
    """By way of one file for each block, which polars then joins without holding them all."""
    import polars as pl

    from flatpc._writing import replacing

    with tempfile.TemporaryDirectory(prefix=f".{output.name}.", dir=output.parent) as folder:
        pieces = []
        for i, frame in enumerate(blocks):
            pieces.append(Path(folder) / f"{i}.parquet")
            frame.write_parquet(pieces[-1])
        whole = pl.concat([pl.scan_parquet(piece, glob=False) for piece in pieces], how="vertical_relaxed")
        with replacing(output) as file:
            whole.sink_parquet(file)
