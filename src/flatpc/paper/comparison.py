"""Our results beside the paper's: what the regulariser gains, trial by trial, and means with their standard errors.

In every trial the regularised model is the one, among those of the table, with the lowest validation NLL in the end;
and

    ΔNLL   = 100 (plain - regularised) / |plain|                 of the test NLL
    ΔSharp = 100 (plain - regularised) / |plain|                 of the sharpness
    Δln Sharp = 100 ln(plain / regularised)
    ΔDoF   = DoF plain - DoF regularised,   DoF = 100 min(1, (test - train) / |test|)

The paper's text divides by the train NLL, which in table 1 is often about 0 or negative. Its numbers never exceed 100 and fit a
gap taken relative to the held-out NLL and counted up to 1, which is what the authors' code does in its adaptive μ; so that is
what stands beside them here. `dof_train` is the text's. A mean of ΔSharp, in which a fall counts 100 at most and a rise any
number, may be the rise on one data set; in a mean of Δln Sharp a factor up and the same factor down cancel.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from flatpc.paper import printed as paper
from flatpc.paper.cells import Metrics, Result
from flatpc.paper.tables import FRACTIONS, TRIALS, Table

SHARPNESS = {"table1": "sharpness_logit-gradient", "table2": "sharpness_weights"}
"""What stands beside the paper's sharpness: for Einsum Networks its numbers are squared gradients in the logits."""
GAINS = {"nll": "ΔNLL", "dof": "ΔDoF", "sharpness": "ΔSharp"}
"""What the paper's tables have."""
MEANS = {**GAINS, "log_sharpness": "Δln Sharp"}
"""Of what we show means over data sets."""

Trial = dict[str, Metrics]
"""Method -> what was measured."""


@dataclass(frozen=True)
class Mean:
    """A mean over trials and its standard error, NaN with one trial."""

    value: float
    error: float
    n: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Mean | None:
        """None of no values.

        >>> Mean.of([1.0, 3.0])
        Mean(value=2.0, error=1.0, n=2)
        """
        found = np.array(list(values), float)
        if not len(found):
            return None
        error = float(found.std(ddof=1) / math.sqrt(len(found))) if len(found) > 1 else math.nan
        return cls(float(found.mean()), error, len(found))

    def text(self, digits: int = 2) -> str:
        """With its error, if it has one.

        >>> Mean(2.0, 1.0, 2).text(1)
        '2.0 ± 1.0'
        """
        value = f"{self.value:.{digits}f}".replace("-", "−")
        return value if math.isnan(self.error) else f"{value} ± {self.error:.{digits}f}"


def degree_of_overfitting(metrics: Metrics, relative_to: str = "test_nll") -> float:
    """In percent, up to 100; relative to the train NLL, as the paper's text has it, without bound."""
    gap = 100 * (metrics["test_nll"] - metrics["train_nll"]) / abs(metrics[relative_to])
    return gap if relative_to == "train_nll" else min(100.0, gap)


class Comparison:
    """The results of one table under one protocol."""

    def __init__(self, table: Table, results: Iterable[Result], protocol: str = "text") -> None:
        self.table, self.protocol = table, protocol
        self.trials: dict[tuple[str, float], dict[int, Trial]] = {}
        self.times: dict[tuple[str, float], dict[int, dict[str, float]]] = {}
        """Data set and fraction -> trial -> method -> seconds."""
        self.seconds, self.n_runs, self.n_failed = 0.0, 0, 0
        for result in results:
            cell = result.cell
            if cell.experiment != table.name or cell.protocol != protocol:
                continue
            if result.error:
                self.n_failed += 1
                continue
            self.trials.setdefault((cell.dataset, cell.fraction), {}).setdefault(cell.trial, {})[cell.method] = result.metrics
            self.times.setdefault((cell.dataset, cell.fraction), {}).setdefault(cell.trial, {})[cell.method] = result.seconds
            self.seconds += result.seconds
            self.n_runs += 1
        ran = {method for trials in self.trials.values() for trial in trials.values() for method in trial}
        self.regularised = tuple(method for method in table.choices[protocol] if method in ran)

    def __bool__(self) -> bool:
        return bool(self.n_runs)

    @property
    def among(self) -> str:
        """Among which methods the regularised model was chosen, if some of the protocol's were run nowhere."""
        every = len(self.regularised) == len(self.table.choices[self.protocol])
        return "" if every or not self.regularised else f" (chosen among {', '.join(self.regularised)} only)"

    def complete(self, dataset: str, fraction: float) -> list[Trial]:
        """The trials that have the plain model and every regularised one that was run anywhere."""
        trials = self.trials.get((dataset, fraction), {})
        wanted = ("plain", *self.regularised)
        return [trials[i] for i in sorted(trials) if self.regularised and all(method in trials[i] for method in wanted)]

    def chosen(self, trial: Trial) -> str:
        """The regularised method that validation likes best."""
        return min(self.regularised, key=lambda method: trial[method]["valid_nll"])

    def gains(self, dataset: str, fraction: float, quantity: str) -> list[float]:
        """One of `MEANS`, `dof_train` or a metric's name, in percent; one for each complete trial."""
        return [self._gain(trial["plain"], trial[self.chosen(trial)], quantity) for trial in self.complete(dataset, fraction)]

    def _gain(self, plain: Metrics, flat: Metrics, quantity: str) -> float:
        if quantity == "dof":
            return degree_of_overfitting(plain) - degree_of_overfitting(flat)
        if quantity == "dof_train":
            return degree_of_overfitting(plain, "train_nll") - degree_of_overfitting(flat, "train_nll")
        if quantity == "log_sharpness":
            return 100 * math.log(plain[SHARPNESS[self.table.name]] / flat[SHARPNESS[self.table.name]])
        name = {"nll": "test_nll", "sharpness": SHARPNESS[self.table.name]}.get(quantity, quantity)
        return 100 * (plain[name] - flat[name]) / abs(plain[name])

    def gain(self, dataset: str, fraction: float, quantity: str) -> Mean | None:
        """Mean over trials."""
        return Mean.of(self.gains(dataset, fraction, quantity))

    def value(self, dataset: str, fraction: float, model: str, metric: str) -> Mean | None:
        """A metric of the `plain` or the `regularised` model."""
        return Mean.of(
            trial["plain" if model == "plain" else self.chosen(trial)][metric] for trial in self.complete(dataset, fraction)
        )

    def mean_gain(self, fraction: float, quantity: str) -> Mean | None:
        """Over the data sets that were run, with the standard error between them."""
        found = [self.gain(dataset, fraction, quantity) for dataset in self.table.datasets]
        return Mean.of(each.value for each in found if each is not None)

    def ran(self, fraction: float) -> list[str]:
        """The data sets that have a complete trial."""
        return [dataset for dataset in self.table.datasets if self.complete(dataset, fraction)]

    def papers_mean_gain(self, fraction: float, quantity: str) -> float | None:
        """The paper's, over the same data sets."""
        return papers_mean(self.table, fraction, quantity, self.ran(fraction))

    def wins(self, fraction: float, quantity: str) -> tuple[int, int, int]:
        """On how many data sets the regularised model is better on average: ours, the paper's, of how many that were run."""
        ran = self.ran(fraction)
        ours = [self.gain(dataset, fraction, quantity) for dataset in ran]
        theirs = [paper.value(self.table.name, dataset, fraction, quantity) for dataset in ran]
        return sum(o is not None and o.value > 0 for o in ours), sum(t is not None and t > 0 for t in theirs), len(ran)

    def missing(self) -> list[tuple[str, float]]:
        """Data sets and fractions without a complete trial."""
        return [(d, f) for f in FRACTIONS for d in self.table.datasets if not self.complete(d, f)]

    def partial(self) -> list[tuple[str, float]]:
        """Data sets and fractions with some of the trials."""
        return [(d, f) for f in FRACTIONS for d in self.table.datasets if 0 < len(self.complete(d, f)) < len(TRIALS)]

    def command(self, datasets: Iterable[str] | None = None) -> str:
        """What runs all that is missing, or all that is missing of these data sets."""
        words = ["flatpc reproduce", self.table.name]
        if datasets is not None and set(datasets) != set(self.table.datasets):
            words.append(f"--datasets {','.join(datasets)}")
        return " ".join(words + ([] if self.protocol == "text" else [f"--protocol {self.protocol}"]))


def papers_mean(table: Table, fraction: float, quantity: str, datasets: Sequence[str] | None = None) -> float | None:
    """The paper's mean over these data sets, or over all of them; None of none.

    Over all, it is the mean that the paper prints; of `log_sharpness` it has none, and that of the logarithms is computed.
    """
    if datasets is None and quantity != "log_sharpness":
        return paper.value(table.name, "mean", fraction, quantity)
    column = "sharpness" if quantity == "log_sharpness" else quantity
    cells = [paper.value(table.name, name, fraction, column) for name in (table.datasets if datasets is None else datasets)]
    found = [cell for cell in cells if cell is not None]
    if quantity == "log_sharpness":
        found = [-100 * math.log1p(-cell / 100) for cell in found]
    return float(np.mean(found)) if found else None
