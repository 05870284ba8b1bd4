"""Plain models, which all gains are taken from, beside the paper's: a gain over a weaker baseline is worth less."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from flatpc.paper import printed as paper
from flatpc.paper.comparison import Comparison
from flatpc.paper.payoff import percents
from flatpc.paper.tables import FRACTIONS


def off_the_papers(comparison: Comparison, fraction: float) -> float | None:
    """By how many percent our mean test NLL of plain models is above the paper's, over the data sets that were run."""
    table = f"{paper.APPENDIX[comparison.table.name]}_nll"
    ours, theirs = [], []
    for dataset in comparison.ran(fraction):
        mine, printed = comparison.value(dataset, fraction, "plain", "test_nll"), paper.value(table, dataset, fraction, "base")
        if mine is not None and printed is not None:
            ours.append(mine.value)
            theirs.append(printed)
    return 100 * float(np.mean(ours) / np.mean(theirs) - 1) if ours else None


def baselines(found: Sequence[Comparison]) -> tuple[list[str], list[list[str]]]:
    """The same of every protocol of a table."""
    rows = []
    for comparison in found:
        offs = [off_the_papers(comparison, fraction) for fraction in FRACTIONS]
        rows.append(
            [f"`{comparison.protocol}`", *("not run" if off is None else f"{off:+.1f}".replace("-", "−") for off in offs)]
        )
    return ["plain test NLL above the paper's, %", *percents(FRACTIONS)], rows
