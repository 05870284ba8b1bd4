"""The page about people's tables: scores, verdicts, what was lost and by how much, and published numbers beside ours.

Contenders are compared in pairs, block by block of test rows, averaged over the seeds that both have: `won`, `lost` or `tied`
at two standard errors. Published numbers (`published_tables.csv`) are mean test log-likelihoods of table 2 of Yu, Trapp and
Kersting, "Characteristic Circuits", NeurIPS 2023; they are densities, and several owe nats to spikes at values that repeat.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np

from flatpc.datasets import PACKAGED
from flatpc.paper.cells import Metrics, Result
from flatpc.paper.people import BLOCKS, CONTENDERS, TABLES
from flatpc.paper.table_rivals.judging import FLOORED
from flatpc.paper.table_rivals.rows import SCORES
from flatpc.paper.text_tables import markdown
from flatpc.paper.verdicts import STANDARD_ERRORS

RIVALS = CONTENDERS[:-1]
LABELS = {
    "independent": "independent", "mixture": "mixture", "kde": "kernel density", "learnspn": "LearnSPN", "flow": "flow",
    "default": "default",
}  # fmt: skip
DISCRETE = ("chess", "dermatology", "student")
"""Published tables of which all columns are discrete, so that densities play no part."""
NOT_RUN = "Not run yet; `flatpc reproduce tables` does.\n"

_OWED = """What a plain score is above the bounded one is owed to densities at values that repeat. Of published models nobody can
tell, as their densities are not bounded, and no claim is made from such a comparison. The least standard deviation of Gaussian
inputs, in units of a column's own, is what held-out rows chose; rounded columns that are correlated keep that of their
rounding."""

_WITHOUT_SPIKES = """*Without spikes* is the plain score against the same rival, learnt and chosen with no standard deviation
below a hundredth of a column's or below that of its rounding, r / √12."""
_FLOORED = {rival: floored for floored, rival in FLOORED.items()}

Found = dict[str, dict[str, dict[int, Metrics]]]
"""Table -> contender -> seed -> what was measured."""


@dataclass(frozen=True)
class Pair:
    """By how much the default's mean score is higher than a rival's, and the standard error of that."""

    difference: float
    error: float
    seeds: int

    @property
    def verdict(self) -> str:
        """`won`, `lost` or `tied`."""
        if abs(self.difference) <= STANDARD_ERRORS * self.error:
            return "tied"
        return "won" if self.difference > 0 else "lost"

    def text(self) -> str:
        """For a table."""
        return f"{self.difference:+.2f} ± {self.error:.2f}".replace("-", "−")


def found(results: Iterable[Result]) -> Found:
    """All that was measured without an error, tables in the order of `TABLES`."""
    out: Found = {name: {} for name in TABLES}
    for result in results:
        if not result.error and result.cell.dataset in out:
            out[result.cell.dataset].setdefault(result.cell.method, {})[result.cell.trial] = result.metrics
    return {name: measured for name, measured in out.items() if measured}


def mean_score(measured: dict[int, Metrics], score: str) -> float:
    """Over seeds."""
    return -float(np.mean([m["test_nll" if score == "plain" else "bounded_nll"] for m in measured.values()]))


def pair(default: dict[int, Metrics], rival: dict[int, Metrics], score: str) -> Pair | None:
    """Over the seeds that both have; None without one.

    >>> block = {"rows": 40.0, **{f"plain_{b}": 1.0 + b % 2 for b in range(20)}}
    >>> found = pair({0: block}, {0: {**block, "plain_0": 0.0, "plain_1": 1.0}}, "plain")
    >>> (found.difference, round(found.error, 3), found.verdict)
    (0.1, 0.069, 'tied')
    """
    seeds = sorted(set(default) & set(rival))
    if not seeds:
        return None
    n_rows = int(default[seeds[0]]["rows"])
    blocks = range(min(BLOCKS, n_rows))
    gaps = np.mean([[default[s][f"{score}_{b}"] - rival[s][f"{score}_{b}"] for b in blocks] for s in seeds], axis=0)
    share = np.array([len(range(b, n_rows, BLOCKS)) for b in blocks]) / n_rows
    if not np.isfinite(gaps).all():
        return Pair(float(np.sum(gaps)), 0.0, len(seeds))
    mean = float(share @ gaps)
    error = np.sqrt(len(gaps) / max(1, len(gaps) - 1) * (share**2 @ (gaps - mean) ** 2))
    return Pair(mean, float(error), len(seeds))


@cache
def published() -> dict[str, dict[str, float]]:
    """Table -> method -> mean test log-likelihood.

    >>> max(published()["chess"].values())
    -11.54
    """
    text = resources.files(__package__).joinpath("published_tables.csv").read_text()
    rows = list(csv.DictReader(text.splitlines()))
    return {row.pop("dataset"): {method: float(value) for method, value in row.items()} for row in rows}


# ---- tables of the page --------------------------------------------------------------------------------------------------


def as_markdown(measured: Found) -> str:
    """All of it, or that nothing was run."""
    if not measured:
        return NOT_RUN
    parts = [_coverage(measured), "## Verdicts", _verdicts(measured)]
    for score in ("bounded", "plain"):
        parts += [f"## The {score} score", _scores(measured, score)]
    parts += ["## Lost", _lost(measured), "## Published numbers", _published(measured)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _coverage(measured: Found) -> str:
    ran = {name: [sum(seed in by.get(name, {}) for by in measured.values()) for seed in range(3)] for name in CONTENDERS}
    said = "; ".join(f"{LABELS[name]} {' + '.join(map(str, n))}" for name, n in ran.items() if any(n))
    return f"Tables run of {len(TABLES)}, for the first, second and third seed: {said}."


def _verdicts(measured: Found) -> str:
    rows = []
    for rival in RIVALS:
        row = [LABELS[rival]]
        for score in ("bounded", "plain"):
            pairs = [pair(by.get("default", {}), by.get(rival, {}), score) for by in measured.values()]
            counts = Counter(each.verdict for each in pairs if each is not None)
            row += [str(counts[verdict]) for verdict in ("won", "tied", "lost")]
        rows.append(row)
    head = ["default against", *(f"{score}: {verdict}" for score in ("bounded", "plain") for verdict in ("won", "tied", "lost"))]
    return markdown(head, rows)


def _scores(measured: Found, score: str) -> str:
    rows = []
    for name, by in measured.items():
        values = {each: mean_score(by[each], score) for each in CONTENDERS if each in by}
        best = max(values.values())
        cells = [_number(values.get(each), best) for each in CONTENDERS]
        rows.append([name, f"{next(iter(next(iter(by.values())).values()))['rows']:.0f}", *cells])
    return markdown(["table", "test rows", *(LABELS[each] for each in CONTENDERS)], rows)


def _number(value: float | None, best: float) -> str:
    if value is None:
        return "–"
    text = f"{value:.2f}".replace("-", "−")
    return f"**{text}**" if value >= best - 0.005 else text


def _lost(measured: Found) -> str:
    rows = []
    for name, by in measured.items():
        for rival in RIVALS:
            found = {score: pair(by.get("default", {}), by.get(rival, {}), score) for score in SCORES}
            lost = [score for score, each in found.items() if each is not None and each.verdict == "lost"]
            if lost:
                texts = [_difference(each) for each in (found["bounded"], found["plain"], without_spikes(by, rival))]
                rows.append([name, LABELS[rival], *texts, _why(name, lost, by[rival])])
    if not rows:
        return "Nothing, of what was run."
    return f"{_WITHOUT_SPIKES}\n\n" + markdown(["table", "against", "bounded", "plain", "without spikes", "why"], rows, texts=2)


def without_spikes(by: dict[str, dict[int, Metrics]], rival: str) -> Pair | None:
    """The default's plain score against a rival's at the floors of `FLOORED`; None where that was not run."""
    return pair(by.get("default", {}), by.get(_FLOORED.get(rival, ""), {}), "plain")


def _difference(found: Pair | None) -> str:
    return "–" if found is None else found.text()


def _why(name: str, lost: list[str], rival: dict[int, Metrics]) -> str:
    """What the numbers themselves say about a lost cell."""
    floors = [m["floor"] for m in rival.values() if "floor" in m]
    if lost == ["plain"]:
        floor = f", with standard deviations down to {min(floors):.2g} of a column's" if floors else ""
        return f"spikes at values that repeat{floor}; not lost in the bounded score"
    few = name in PACKAGED and PACKAGED[name].n_rows < 600
    return "lost in both scores" + (", with few rows" if few else "") if len(lost) == 2 else "lost in the bounded score"


def _published(measured: Found) -> str:
    rows = []
    for name, theirs in published().items():
        by = measured.get(f"mixed/{name}", {})
        mine = by.get("default", {})
        ours = [_number(mean_score(mine, score), np.inf) if mine else "–" for score in ("plain", "bounded")]
        owed = f"{mean_score(mine, 'plain') - mean_score(mine, 'bounded'):.2f}".replace("-", "−") if mine else "–"
        running = [mean_score(by[rival], "bounded") for rival in RIVALS if rival in by]
        discrete = f"{name} (all discrete)" if name in DISCRETE else name
        best = max(theirs, key=theirs.__getitem__)
        rows.append(
            [
                discrete, *ours, owed, _floors(mine), _number(max(running), np.inf) if running else "–",
                f"{_number(theirs[best], np.inf)} ({best})",
            ]
        )  # fmt: skip
    head = [
        "table", "default, plain", "default, bounded", "owed to repeated values", "least deviation",
        "best rival run here, bounded", "best published (plain)",
    ]  # fmt: skip
    return f"{_OWED}\n\n{markdown(head, rows)}"


def _floors(measured: dict[int, Metrics]) -> str:
    """Floors that validation chose, by seed."""
    found = sorted({m["floor"] for m in measured.values() if "floor" in m}, reverse=True)
    return ", ".join(f"{floor:.2g}" for floor in found) or "–"
