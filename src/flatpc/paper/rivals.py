"""What else could be done with the same rows: test NLLs of all there is in a trial, and what each is worth.

After the last epoch and stopped early; μ, the count of Laplace's rule and whatever else is a number of a method's name (as in
`laplace=0.1`) by validation NLL.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from flatpc.datasets import manifold
from flatpc.paper.comparison import Comparison, Mean, Trial

PLAIN, REGULARISED, EARLY = "plain", "regularised", ", stopped early"
NORMAL = "N(0, I)"
_LABELS = {
    "laplace": "Laplace EM", "chow-liu": "Chow-Liu", "factorized": "factorised", "normal": NORMAL, "gaussian": "Gaussian",
    "mixture": "Gaussian mixture", "kde": "kernel density", "default": "our default",
}  # fmt: skip
"""How methods are called, by the part of their name before `=`."""


def standard_normal(dataset: str) -> float:
    """Mean NLL of N(0, I) on a manifold, whose rows are standardised: d/2 (ln 2π + 1) in d dimensions.

    >>> round(standard_normal("spiral"), 3), round(standard_normal("helix"), 3)
    (2.838, 4.257)
    """
    return int(manifold(dataset, 2).shape[1]) / 2 * (math.log(2 * math.pi) + 1)


def of_trial(comparison: Comparison, trial: Trial) -> dict[str, float]:
    """Test NLLs by what people call a model; NaN where one of the methods to choose from was not stopped early."""
    out = {PLAIN: trial["plain"]["test_nll"], PLAIN + EARLY: _early(trial, ("plain",))}
    out[REGULARISED] = trial[comparison.chosen(trial)]["test_nll"]
    out[REGULARISED + EARLY] = _early(trial, comparison.regularised)
    families: dict[str, list[str]] = {}
    for method in trial:
        if method != "plain" and method not in comparison.regularised:
            families.setdefault(method.partition("=")[0], []).append(method)
    for family, methods in families.items():
        name = _LABELS.get(family, family)
        out[name] = min((trial[method] for method in methods), key=lambda metrics: metrics["valid_nll"])["test_nll"]
        out[name + EARLY] = _early(trial, methods)
    return out


def rivals(comparison: Comparison, dataset: str, fraction: float) -> dict[str, Mean]:
    """Mean test NLLs of a cell. N(0, I) in closed form, where the data set is standardised and nobody ran it."""
    trials = [of_trial(comparison, trial) for trial in comparison.complete(dataset, fraction)]
    names = dict.fromkeys(name for trial in trials for name in trial)
    values = {name: [trial[name] for trial in trials if not math.isnan(trial.get(name, math.nan))] for name in names}
    out = {name: mean for name, found in values.items() if (mean := Mean.of(found)) is not None}
    if comparison.table.name == "table1" and trials and NORMAL not in out:
        out[NORMAL] = Mean(standard_normal(dataset), math.nan, 1)
    return out


def gain(comparison: Comparison, fraction: float, of: str, over: str) -> Mean | None:
    """By how many percent the test NLL of one is lower than that of another, paired by trial; mean and error over data sets."""
    by_data_set = []
    for dataset in comparison.ran(fraction):
        trials = [of_trial(comparison, trial) for trial in comparison.complete(dataset, fraction)]
        pairs = [(trial.get(of, math.nan), trial.get(over, math.nan)) for trial in trials]
        mean = Mean.of(100 * (base - new) / abs(base) for new, base in pairs if not math.isnan(base - new))
        if mean is not None:
            by_data_set.append(mean.value)
    return Mean.of(by_data_set)


def _early(trial: Trial, methods: Iterable[str]) -> float:
    found = [trial[method] for method in methods]
    if any("best_valid_nll" not in metrics for metrics in found):
        return math.nan  # a choice among the others would be another model: with μ = 0 among them, the plain one
    return min(found, key=lambda metrics: metrics["best_valid_nll"])["best_test_nll"]
