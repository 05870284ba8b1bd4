"""Models that learnt too little to be called models: one Gaussian, or worse than N(0, I), of which no row need be seen."""

from __future__ import annotations

from collections.abc import Iterable

from flatpc.datasets import MANIFOLDS
from flatpc.paper import printed as paper
from flatpc.paper.comparison import Comparison
from flatpc.paper.payoff import percents
from flatpc.paper.rivals import EARLY, NORMAL, PLAIN, REGULARISED, rivals, standard_normal
from flatpc.paper.tables import FRACTIONS

ONE_GAUSSIAN = 2.2
"""An Einsum Network whose mean trace in the weights is below this is one Gaussian.

A path from the root to an input has two sum edges, and an edge that takes all of a row's flow adds 1 to the trace: it is 2 where
one path takes all of every row, and more where flow is shared out.
"""


def collapsed(comparison: Comparison, dataset: str, fraction: float) -> tuple[int, int]:
    """In how many of the trials the regularised model is one Gaussian, and of how many; of table 1 only."""
    trials = comparison.complete(dataset, fraction) if comparison.table.name == "table1" else []
    return sum(trial[comparison.chosen(trial)]["sharpness_weights"] < ONE_GAUSSIAN for trial in trials), len(trials)


def collapse(found: Iterable[Comparison]) -> tuple[list[str], list[list[str]]]:
    """Of table 1: how many regularised models are one Gaussian, and on how many data sets a model is worse than N(0, I)."""
    rows = []
    for comparison in found:
        name = f"`{comparison.protocol}`"
        counts = [[collapsed(comparison, dataset, f) for dataset in comparison.ran(f)] for f in FRACTIONS]
        shown = [f"{sum(n for n, _ in each)} of {sum(n for _, n in each)}" if each else "not run" for each in counts]
        rows.append([f"{name}: regularised models that are one Gaussian, trials", *shown])
        for model in (PLAIN, PLAIN + EARLY, REGULARISED, REGULARISED + EARLY):
            rows.append([f"{name}: {model}, worse than {NORMAL}, data sets", *(_worse(comparison, f, model) for f in FRACTIONS)])
    for column, model in (("base", PLAIN), ("regularised", REGULARISED)):
        rows.append([f"the paper's {model}, worse than {NORMAL}, data sets", *(_papers(f, column) for f in FRACTIONS)])
    return ["", *percents(FRACTIONS)], rows


def _worse(comparison: Comparison, fraction: float, model: str) -> str:
    cells = [rivals(comparison, dataset, fraction) for dataset in comparison.ran(fraction)]
    pairs = [(cell[model].value, cell[NORMAL].value) for cell in cells if model in cell]
    return f"{sum(ours > normal for ours, normal in pairs)} of {len(pairs)}" if pairs else "–"


def _papers(fraction: float, column: str) -> str:
    values = {name: paper.value("einsum_nll", name, fraction, column) for name in MANIFOLDS}
    known = {name: value for name, value in values.items() if value is not None}
    return f"{sum(value > standard_normal(name) for name, value in known.items())} of {len(known)}"
