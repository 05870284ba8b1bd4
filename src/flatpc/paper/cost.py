"""What a whole table takes, by the times of those of its runs that have been made."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flatpc.paper.comparison import Comparison
from flatpc.paper.tables import FRACTIONS, TRIALS


@dataclass(frozen=True)
class Cost:
    """Core-hours."""

    hours: float
    """Of all runs: plain, and every regularised model."""
    spent: float
    """By those that have been made."""
    ran: int
    whole: int


def table_cost(comparison: Comparison) -> Cost | None:
    """None before the first run.

    A run whose numbers were taken from another protocol took no time, and counts as not made. What has not been made is taken
    to last as long as the runs of its data set and fraction, or where there are none as those of its data set at the nearest
    smaller fraction, times as long as there are more rows.
    """
    models = ("plain", *comparison.regularised)
    seconds: dict[tuple[str, float], list[float]] = {}
    for (dataset, fraction), trials in comparison.times.items():
        timed = (pair for trial in trials.values() for pair in trial.items())
        seconds[dataset, fraction] = [took for method, took in timed if method in models and took > 0]
    means = {place: float(np.mean(times)) for place, times in seconds.items() if times}
    if not means:
        return None
    per_cell = len(TRIALS) * len(set(models))
    hours, ran, spent = 0.0, 0, 0.0
    for dataset in comparison.table.datasets:
        for fraction in FRACTIONS:
            times = seconds.get((dataset, fraction), [])
            ran, spent = ran + len(times), spent + sum(times)
            known = [f for f in FRACTIONS if (dataset, f) in means and f <= fraction]
            if not known:
                return None
            usual = means[dataset, known[-1]] * fraction / known[-1]
            hours += sum(times) + max(0, per_cell - len(times)) * usual
    return Cost(hours / 3600, spent / 3600, ran, per_cell * len(FRACTIONS) * len(comparison.table.datasets))
