"""Over all runs of the paper's tables: does sharpness rank models as the gap between test and train NLL does?

Spearman's ρ, from the numbers of the models that a protocol ends with. *Within* a cell: over the runs of one data set, fraction
and trial, which differ in the regulariser. *Between* data sets: over the plain models of all data sets with one fraction, each
the mean of its trials. The logarithm of a trace has the trace's ranks.

Tables hold the trace in the weights, and for Einsum Networks in logits too. Other measures need the models, which are not kept:
`flatpc.paper.figures.measures` learns some anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from flatpc._typing import Array
from flatpc.paper.cells import Result
from flatpc.paper.text_tables import markdown

MEASURES = {"sharpness_weights": "trace in the weights", "sharpness_logits": "trace in logits"}
FEWEST = 4
"""Models that are ranked, or data sets: with fewer, ranks tell next to nothing."""


@dataclass(frozen=True)
class Ranks:
    """How a measure ranks the runs of one table and protocol."""

    within: Array
    """Spearman's ρ in each cell."""
    n_models: tuple[int, int]
    """That are ranked in a cell, fewest and most."""
    between: dict[float, float]
    """Fraction -> Spearman's ρ over data sets."""


def ranks(results: Iterable[Result], protocol: str, measure: str) -> Ranks:
    """Of the runs that have the measure."""
    cells: dict[tuple[str, float, int], list[tuple[float, float]]] = {}
    plain: dict[tuple[float, str], list[tuple[float, float]]] = {}
    for result in results:
        cell, found = result.cell, result.metrics
        if result.error or cell.protocol != protocol or measure not in found:
            continue
        pair = found[measure], found["test_nll"] - found["train_nll"]
        cells.setdefault((cell.dataset, cell.fraction, cell.trial), []).append(pair)
        if cell.method == "plain":
            plain.setdefault((cell.fraction, cell.dataset), []).append(pair)
    within = [(len(pairs), _spearman(pairs)) for pairs in cells.values()]
    within = [(n, rho) for n, rho in within if not np.isnan(rho)]
    numbers = [n for n, _ in within] or [0]
    means: dict[float, list[tuple[float, float]]] = {}
    for (fraction, _), pairs in plain.items():
        sharpness, gap = np.mean(pairs, axis=0)
        means.setdefault(fraction, []).append((float(sharpness), float(gap)))
    between = {fraction: _spearman(pairs) for fraction, pairs in sorted(means.items())}
    return Ranks(
        np.array([rho for _, rho in within]),
        (min(numbers), max(numbers)),
        {fraction: rho for fraction, rho in between.items() if not np.isnan(rho)},
    )


def _spearman(pairs: list[tuple[float, float]]) -> float:
    """NaN for too few, or if all are the same."""
    from scipy.stats import spearmanr

    x, y = np.array(pairs).T
    if len(pairs) < FEWEST or np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan")
    return float(spearmanr(x, y).statistic)


def as_markdown(tables: dict[str, list[Result]]) -> str:
    """Table -> its results: a row for each table, protocol and measure."""
    rows = []
    for name, results in tables.items():
        for protocol in sorted({result.cell.protocol for result in results}):
            for measure, title in MEASURES.items():
                found = ranks(results, protocol, measure)
                if not len(found.within):
                    continue
                by_fraction = [f"{rho:.2f} ({fraction:.0%})" for fraction, rho in found.between.items()]
                low, high = found.n_models
                models = f"{low}" if low == high else f"{low} to {high}"
                some = models, f"{np.mean(found.within):.2f}", f"{np.mean(found.within > 0):.0%} of {len(found.within):,}"
                rows.append([name, protocol, title, *some, ", ".join(by_fraction) or "–"])
    head = (
        "table",
        "protocol",
        "measure",
        "models",
        "ρ in a cell, mean",
        "above 0 in",
        "between data sets, plain models (fraction)",
    )
    return markdown(head, [[each.replace("-", "−") for each in row] for row in rows], texts=3) + "\n"
