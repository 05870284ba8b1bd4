"""Our default on the manifolds beside what any density should beat: N(0, I), a Gaussian, a mixture of them, a kernel density."""

from __future__ import annotations

import numpy as np

from flatpc.paper.comparison import Comparison
from flatpc.paper.payoff import percents
from flatpc.paper.simple_densities import NAMES
from flatpc.paper.tables import FRACTIONS

TITLES = {"normal": "N(0, I)", "gaussian": "one Gaussian", "mixture": "a mixture of Gaussians", "kde": "a kernel density"}


def margins(comparison: Comparison, dataset: str, fraction: float, rival: str) -> list[float]:
    """By how many nats the default's test NLL is lower, in each trial that has both."""
    trials = comparison.trials.get((dataset, fraction), {})
    both = [trials[i] for i in sorted(trials) if "default" in trials[i] and rival in trials[i]]
    return [trial[rival]["test_nll"] - trial["default"]["test_nll"] for trial in both]


def loses(found: list[float]) -> bool:
    """Whether the mean margin is below zero by more than two standard errors; a single trial has none, and decides."""
    if not found:
        return False
    error = float(np.std(found, ddof=1) / np.sqrt(len(found))) if len(found) > 1 else 0.0
    return float(np.mean(found)) < -2 * error


def default_margins(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    """Mean margins over data sets by fraction, and cells that are lost; no rows if the default was run nowhere."""
    rows, cells = [], 0
    for rival in NAMES:
        shown, lost = [], []
        for fraction in FRACTIONS:
            found = {name: margins(comparison, name, fraction, rival) for name in comparison.table.datasets}
            ran = {name: each for name, each in found.items() if each}
            shown.append(f"{np.mean([np.mean(each) for each in ran.values()]):+.2f}".replace("-", "−") if ran else "not run")
            lost += [f"{name} {100 * fraction:g}%" for name, each in ran.items() if loses(each)]
            cells += len(ran)
        rows.append([TITLES[rival], *shown, ", ".join(lost) or "none"])
    return ["lower test NLL than", *percents(FRACTIONS), "lost beyond two standard errors"], rows if cells else []


def trials_in_words(comparison: Comparison) -> str:
    """How many trials of how many cells the default has."""
    counts = [sum("default" in trial for trial in trials.values()) for trials in comparison.trials.values()]
    some = [count for count in counts if count]
    if not some:
        return ""
    of_each = f"{min(some)}" if min(some) == max(some) else f"{min(some)} to {max(some)}"
    n_cells, n_trials = len(comparison.table.datasets) * len(FRACTIONS), len(comparison.table.trials)
    return f"{len(some)} of {n_cells} cells, {of_each} of {n_trials} trials each"
