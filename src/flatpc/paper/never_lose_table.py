"""The comparison "never lose" as a table: our default against the best of what anybody could have had.

A cell (a data set at a fraction) is won if the default's mean test NLL is at most the lowest of the factorised model's, the
Chow-Liu tree's and the paper's two models'; within one standard error of it counts.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from flatpc.paper import printed as paper
from flatpc.paper.cells import Result
from flatpc.paper.comparison import Mean
from flatpc.paper.never_lose import CONTENDERS
from flatpc.paper.text_tables import markdown

DEFAULT = "default"
SIMPLE = ("factorized", "chow_liu")
NARROWEST = 5
PAPERS = {"paper's plain": "base", "paper's regularised": "regularised"}
COLUMNS = (DEFAULT, *PAPERS, *(name for name in CONTENDERS if name != DEFAULT))
"""Of the whole table, after the data set and who won: what people look for first."""


@dataclass(frozen=True)
class Standing:
    """One cell: every contender's mean test NLL."""

    dataset: str
    fraction: float
    runs: dict[str, dict[int, float]]
    """Contender -> trial -> test NLL."""
    papers: dict[str, float]

    @cached_property
    def ours(self) -> dict[str, Mean]:
        """Means over trials, in the order of `CONTENDERS`."""
        return {name: mean for name in CONTENDERS if (mean := Mean.of(self.runs.get(name, {}).values())) is not None}

    def gain(self, of: str, over: str) -> float | None:
        """By how many percent the test NLL of one contender is lower than that of another, in the trials that both have."""
        both = self.runs.get(of, {}).keys() & self.runs.get(over, {}).keys()
        if not both:
            return None
        base = sum(self.runs[over][trial] for trial in both)
        return 100 * (base - sum(self.runs[of][trial] for trial in both)) / abs(base)

    @property
    def target(self) -> tuple[str, float] | None:
        """Whom the default must not lose to, and the number; None while a simple model has not been run."""
        if any(name not in self.ours for name in SIMPLE):
            return None
        rivals = {**self.papers, **{name: self.ours[name].value for name in SIMPLE}}
        best = min(rivals, key=lambda name: rivals[name])
        return best, rivals[best]

    @property
    def won(self) -> bool | None:
        """Whether the default is at most the target, or within a standard error of it; None if it has not been run."""
        if DEFAULT not in self.ours or self.target is None:
            return None
        mean = self.ours[DEFAULT]
        return mean.value <= self.target[1] + (0.0 if math.isnan(mean.error) else mean.error)


def standings(results: Iterable[Result], protocol: str = "text") -> list[Standing]:
    """All cells that have results, data set by data set."""
    found: dict[tuple[str, float], dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for result in results:
        cell = result.cell
        if not result.error and cell.protocol == protocol:
            found[cell.dataset, cell.fraction][cell.method][cell.trial] = result.metrics["test_nll"]
    out = []
    for (dataset, fraction), runs in sorted(found.items()):
        theirs = {name: paper.value("hclt_nll", dataset, fraction, column) for name, column in PAPERS.items()}
        out.append(Standing(dataset, fraction, dict(runs), {name: value for name, value in theirs.items() if value is not None}))
    return out


def count(cells: Iterable[Standing]) -> tuple[int, int]:
    """Cells won, and cells decided.

    >>> count([])
    (0, 0)
    """
    decided = [cell.won for cell in cells if cell.won is not None]
    return sum(decided), len(decided)


def contribution(cells: Iterable[Standing], of: str, over: str = "plain") -> dict[float, Mean]:
    """By fraction: by how many percent the test NLL of one contender is lower than that of another, over data sets."""
    gains: dict[float, list[float]] = defaultdict(list)
    for cell in cells:
        gain = cell.gain(of, over)
        if gain is not None:
            gains[cell.fraction].append(gain)
    return {fraction: mean for fraction in sorted(gains) if (mean := Mean.of(gains[fraction])) is not None}


def best_alone(cells: Iterable[Standing]) -> dict[str, int]:
    """In how many cells each contender but the default has the lowest test NLL of these, in the trials that all of them have."""
    out = dict.fromkeys((name for name in CONTENDERS if name != DEFAULT), 0)
    for cell in cells:
        alone = {name: cell.runs[name] for name in cell.ours if name != DEFAULT}
        common = set.intersection(*(set(runs) for runs in alone.values())) if alone else set()
        if common:
            out[min(alone, key=lambda name: sum(alone[name][trial] for trial in common))] += 1
    return out


def beaten(cells: Iterable[Standing]) -> list[tuple[Standing, str, float]]:
    """Cells in which a contender alone has a lower test NLL than the default in the trials that both have.

    With the best of these contenders, and by how many percent it is better; the worst first.
    """
    found = []
    for cell in cells:
        ahead = [(gain, name) for name in cell.ours if name != DEFAULT and (gain := cell.gain(name, DEFAULT)) and gain > 0]
        if ahead:
            gain, name = max(ahead)
            found.append((cell, name, gain))
    return sorted(found, key=lambda each: -each[2])


def as_rows(cells: Iterable[Standing]) -> tuple[list[str], list[list[str]]]:
    """Head and rows of a table as text; what has not been run is `–`."""
    rows = []
    for cell in cells:
        texts = {name: mean.text(3) for name, mean in cell.ours.items()} | {name: f"{x:.3f}" for name, x in cell.papers.items()}
        verdict = {True: "yes", False: f"no: {cell.target[0]}" if cell.target else "no", None: "–"}[cell.won]
        rows.append([cell.dataset, f"{100 * cell.fraction:g}", verdict, *(texts.get(name, "–") for name in COLUMNS)])
    return ["data set", "rows, %", "won", *COLUMNS], rows


def margins(cells: Iterable[Standing]) -> list[tuple[Standing, float]]:
    """Cells that are decided, and by how many percent of the target's NLL the default is better; the smallest first."""
    found = [
        (cell, 100 * (cell.target[1] - cell.ours[DEFAULT].value) / abs(cell.target[1]))
        for cell in cells
        if cell.won is not None and cell.target is not None
    ]
    return sorted(found, key=lambda pair: pair[1])


def mean_log_likelihood(cells: Iterable[Standing], contender: str = DEFAULT, fraction: float = 1.0) -> Mean | None:
    """Over the data sets, at one fraction; the error is between data sets."""
    return Mean.of(-cell.ours[contender].value for cell in cells if cell.fraction == fraction and contender in cell.ours)


def as_markdown(cells: Sequence[Standing]) -> str:
    """The count, the lost cells, what each regulariser contributes, and the whole table."""
    won, decided = count(cells)
    parts = [f"The default wins {won} of {decided} cells that have been run, of 100."]
    mean = mean_log_likelihood(cells)
    if mean is not None:
        value = f"{mean.value:.2f}".replace("-", "−")
        parts.append(f"With all rows its mean test log-likelihood over {mean.n} data sets is {value}.")
    if decided:
        simple = sum(cell.target is not None and cell.target[0] in SIMPLE for cell in cells if cell.won is not None)
        parts.append(
            f"On {simple} of the {decided} cells a factorised model or a Chow-Liu tree has a better test NLL than both of the "
            "paper's models."
        )
        parts.append(_losses(cells))
        parts.append(_beaten(cells))
    parts.append(_contributions(cells))
    if cells:
        parts.append("Test NLL of all contenders, mean ± standard error over trials:\n\n" + markdown(*as_rows(cells)))
    return "\n\n".join(part for part in parts if part) + "\n"


def _losses(cells: Sequence[Standing]) -> str:
    """The lost cells; if there are none, the narrowest ones."""
    ranked = margins(cells)
    lost = [(cell, percent) for cell, percent in ranked if not cell.won]
    title = "Lost cells" if lost else f"None of these is lost. The {NARROWEST} narrowest"
    rows = [
        [cell.dataset, f"{100 * cell.fraction:g}", cell.target[0] if cell.target else "", f"{percent:.2f}".replace("-", "−")]
        for cell, percent in lost or ranked[:NARROWEST]
    ]
    head = ["data set", "rows, %", "best of the others", "default is better by, %"]
    return f"{title}, by percent of the test NLL of the best of the others:\n\n" + markdown(head, rows)


def _beaten(cells: Sequence[Standing]) -> str:
    rows = [[cell.dataset, f"{100 * cell.fraction:g}", name, f"{percent:.2f}"] for cell, name, percent in beaten(cells)]
    if not rows:
        return ""
    head = ["data set", "rows, %", "contender", "better than the default by, %"]
    return f"Cells in which one of the contenders alone does better than the default, {len(rows)}:\n\n" + markdown(head, rows)


def _contributions(cells: Sequence[Standing]) -> str:
    gains = {name: contribution(cells, name) for name in CONTENDERS if name != "plain"}
    fractions = sorted({fraction for each in gains.values() for fraction in each})
    if not fractions:
        return ""
    alone = best_alone(cells)
    most = max(mean.n for each in gains.values() for mean in each.values())
    rows = [[name, *(_gain(each.get(f), most) for f in fractions), str(alone.get(name, "–"))] for name, each in gains.items()]
    head = ["contender", *(f"{100 * f:g}% of the rows" for f in fractions), "best alone, cells"]
    return (
        "By how many percent a contender's test NLL is lower than that of `plain`, the same training without a regulariser; "
        "mean ± standard error over data sets, from the trials that both have. `sam`, `asam` and `hyper` learn by Adam, and are "
        "to be compared with `adam`. The last column counts the cells in which it is "
        f"the best of all but the default, `plain` in {alone['plain']}:\n\n" + markdown(head, rows)
    )


def _gain(mean: Mean | None, most: int) -> str:
    """With the number of data sets, if others have more."""
    if mean is None:
        return "–"
    return mean.text() if mean.n == most else f"{mean.text()} ({mean.n} data sets)"
