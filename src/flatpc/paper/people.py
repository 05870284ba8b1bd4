"""Our default on people's tables, beside what else models a table: 13 mixed tables, 20 inside packages, eight manifolds.

Every contender has the same training and validation rows. Two scores of test rows, in nats (`flatpc.paper.table_rivals.rows`):
`plain` is the log-density; `bounded` is that of x ± r/2, over r, with r the smallest gap between a column's values, in which no
spike can win. A cell keeps both scores as means over `BLOCKS` blocks of test rows, so that contenders can be compared in pairs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from flatpc._extras import lacking
from flatpc._typing import Array
from flatpc.datasets import MANIFOLDS, MIXED, PACKAGED, Column, TableSplits, load, load_mixed, load_packaged
from flatpc.estimator.density import CircuitDensity
from flatpc.paper.cells import Cell, Metrics
from flatpc.paper.outside import values_outside
from flatpc.paper.table_rivals.judging import FLOORED, at_best
from flatpc.search.choice import Outcome

BLOCKS = 20
TABLES = (*(f"mixed/{name}" for name in MIXED), *PACKAGED, *sorted(MANIFOLDS))
CONTENDERS = ("independent", "mixture", "kde", "learnspn", "flow", "default")
METHODS = (*CONTENDERS, *FLOORED)
"""Rivals without spikes are for what the default loses in the plain score."""
TRIALS = (0, 1, 2)
DRAWN = 1_000
"""Rows drawn from the default, to see whether all their values are such as the table could have."""
PACKAGES = {"learnspn": "deeprob", "flow": "zuko"}
"""What contenders need."""


@dataclass(frozen=True)
class Settings:
    """How much is done for a cell."""

    effort: str = "normal"
    """Of `CircuitDensity`."""
    flow_seconds: float = 60.0
    """Of the processor, after which a flow is not trained further."""


def load_table(name: str, seed: int) -> TableSplits:
    """A table of the comparison; the seed is that of splits, or of rows that are drawn."""
    if name in PACKAGED:
        return load_packaged(name, seed=seed)
    if name in MANIFOLDS:
        data = load(name, seed=seed)
        columns = tuple(Column(f"x{i}") for i in range(data.train.shape[1]))
        return TableSplits(name, data.train, data.valid, data.test, columns=columns)
    return load_mixed(name.removeprefix("mixed/"))


def run_cell(cell: Cell, settings: Settings) -> Metrics:
    """Both scores of one contender."""
    data = load_table(cell.dataset, cell.trial)
    if cell.method == "default":
        from flatpc.paper.table_rivals.circuits import default_scores

        found, density = default_scores(data, cell.trial, effort=settings.effort)
        more = {"parameters": float(density.n_parameters_), "outside": _outside(density, data, cell.trial)}
        return metrics(data, found, {**more, **_chosen_floor(density.candidates_)})
    if cell.method == "flow":
        from flatpc.paper.table_rivals.flow import flow_scores

        return metrics(data, *flow_scores(data, cell.trial, settings.flow_seconds))
    scored = at_best(cell.method, data, cell.trial)
    more = {"valid_nll": -scored["plain"].valid, "valid_bounded_nll": -scored["bounded"].valid}
    return metrics(data, {name: each.test for name, each in scored.items()}, {**more, **_floor(scored["plain"].options)})


def missing(cell: Cell) -> str:
    """Why a cell can't be run here; nothing if it can."""
    needed = [(PACKAGES.get(cell.method, "numpy"), "rivals", cell.method)]
    if cell.dataset in PACKAGED:
        needed.append((PACKAGED[cell.dataset].package, "tables", cell.dataset))
    return lacking(*needed)


def metrics(data: TableSplits, scores: dict[str, Array], more: Metrics) -> Metrics:
    """What is kept of the scores of test rows."""
    out = {"rows": float(len(data.test)), "test_nll": -float(scores["plain"].mean())}
    out |= {"bounded_nll": -float(scores["bounded"].mean()), **more}
    for name, values in scores.items():
        out |= {f"{name}_{b}": float(values[b::BLOCKS].mean()) for b in range(min(BLOCKS, len(values)))}
    return out


def _outside(density: CircuitDensity, data: TableSplits, seed: int) -> float:
    """How many of the values of `DRAWN` rows are none that their columns could have."""
    return float(sum(values_outside(density, data.frame("train"), density.sample(DRAWN, random_state=seed)).values()))


def _chosen_floor(candidates: Iterable[Outcome]) -> Metrics:
    """The same of what a search chose: the lowest in the average."""
    floors = [each.floor for each in candidates if each.weight > 0 and each.floor is not None]
    return {"floor": float(np.sqrt(min(floors)))} if floors else {}


def _floor(options: dict[str, Any]) -> Metrics:
    """The least standard deviation that a plain score was had with, in units of a column's own."""
    if "ridge" in options:
        return {"floor": float(np.sqrt(options["ridge"]))}
    widths = options.get("bandwidths") or (options.get("bandwidth") or options.get("floor"),)
    return {"floor": float(min(width for width in widths if width is not None))} if any(widths) else {}
