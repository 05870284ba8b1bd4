"""Verdicts on the paper's research questions Q1, Q2 and Q4 and on its figures, from what `flatpc reproduce figure-...` computed.

Q3, what sharpness-aware learning gains, is that of the tables: `flatpc.paper.claims`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flatpc.datasets import DEBD
from flatpc.paper import figures
from flatpc.paper.comparison import Mean
from flatpc.paper.figures.panels import numbers
from flatpc.paper.figures.store import Found
from flatpc.paper.rivals import standard_normal
from flatpc.paper.verdicts import Verdict, all_of, decide, of_fact

SCARCE = 0.05
"""The fraction of the rows at which the paper shows overfitting."""
SMALL_MU, MIDDLE = 0.1, (0.01, 1.0)
"""What the paper calls small, and our reading of its broad mid-range: its own grid."""
SAME = 1e-10
"""Relative difference below which two numbers in double precision are the same."""


@dataclass(frozen=True)
class Answer:
    """One thing that the paper says beside its tables."""

    question: str
    claim: str
    measured: str
    verdict: Verdict


def answers(folder: str | Path) -> list[Answer]:
    """All of them; what has not been computed says so."""
    found = {name: figures.load(name, folder) for name in figures.FIGURES}
    given = [answer for name, ask in _ASKED.items() for answer in ask(found[name])]
    return sorted(given, key=lambda answer: answer.question[:2] if answer.question.startswith("Q") else "Q5")


def _answer(question: str, claim: str, what: str, means: Iterable[Mean | None], above: float = 0.0, digits: int = 2) -> Answer:
    means = list(means)
    shown = [mean.text(digits) for mean in means if mean is not None]
    return Answer(
        question, claim, f"{what}: {', '.join(shown)}" if shown else what, all_of(decide(mean, above) for mean in means)
    )


# ---- Q1: learning curves -----------------------------------------------------------------------------------------------


def _q1(found: Found) -> Iterator[Answer]:
    plain = [data for data in found.values() if data["method"] == "plain" and data["fraction"] == SCARCE]
    for name, binary in (("Einsum Networks", False), ("hidden Chow-Liu trees", True)):
        runs = [data for data in plain if (data["dataset"] in DEBD) == binary]
        question = f"Q1, {name}, {SCARCE:.0%} of the rows"
        yield _answer(
            question, "overfit: the validation NLL rises again while the train NLL falls",
            "rise above its lowest, nats", [Mean.of(_rise(run) for run in runs)],
        )  # fmt: skip
        yield _answer(
            question, "sharpness grows in tandem with the gap between validation and train NLL",
            "rank correlation over the epochs", [Mean.of(_tandem(run) for run in runs)],
        )  # fmt: skip
        yield _answer(
            question, "sharpness is highest when overfitting is",
            "ln of sharpness after the last epoch over that at the best one", [Mean.of(_growth(run) for run in runs)],
        )  # fmt: skip
    for fraction in (0.01, SCARCE):
        yield _answer(
            f"Learning curves, {fraction:.0%} of the rows", "the regularised model is less sharp throughout training",
            "smallest ln of plain over regularised sharpness on the way", [Mean.of(_throughout(found, fraction))],
        )  # fmt: skip


def _rise(run: Mapping[str, Any]) -> float:
    valid = np.array(numbers(run["valid"]))
    return float(valid[-1] - np.nanmin(valid))


def _gap(run: Mapping[str, Any]) -> Any:
    """Validation less train NLL at the epochs at which sharpness was measured."""
    at = np.array(run["sharpness"]["epoch"]) - 1
    return np.array(numbers(run["valid"]))[at] - np.array(numbers(run["train"]))[at]


def _tandem(run: Mapping[str, Any]) -> float:
    return rank_correlation(numbers(run["sharpness"]["weights"]), _gap(run))


def rank_correlation(x: Any, y: Any) -> float:
    """Spearman's.

    >>> rank_correlation([1, 2, 3, 4], [10, 20, 30, 25])
    0.8
    """
    from scipy.stats import spearmanr

    return round(float(spearmanr(x, y).statistic), 12)


def _growth(run: Mapping[str, Any]) -> float:
    """Up to the epoch nearest to the best one at which sharpness was measured."""
    sharp, epochs = np.array(numbers(run["sharpness"]["weights"])), np.array(run["sharpness"]["epoch"])
    best = int(np.nanargmin(numbers(run["valid"]))) + 1
    return float(np.log(sharp[-1] / sharp[np.abs(epochs - best).argmin()]))


def _throughout(found: Found, fraction: float) -> Iterator[float]:
    runs = {(d["dataset"], d["method"]): d for d in found.values() if d["fraction"] == fraction}
    for (dataset, method), run in runs.items():
        if method in ("adaptive", "mu=0.1") and (dataset, "plain") in runs:
            plain, flat = (np.array(numbers(r["sharpness"]["weights"])) for r in (runs[dataset, "plain"], run))
            yield float(np.log(plain[1:] / flat[1:]).min())


# ---- Q2: the formula ---------------------------------------------------------------------------------------------------


def _q2(found: Found) -> Iterator[Answer]:
    question = "Q2, the trace formula"
    apart = [data["largest_difference" if name == "spiral" else "difference"] for name, data in found.items()]
    if not apart:
        yield Answer(question, "equals autograd's", "not run", Verdict.NOT_RUN)
        return
    measured = f"largest relative difference: {max(apart):.0e}"
    yield Answer(question, "equals the trace of autograd's Hessian", measured, of_fact(max(apart) < SAME))
    if "spiral" in found:
        yield _spiral(found["spiral"])
    depths = [data for name, data in found.items() if name != "spiral"]
    depth, weights, ours, theirs = (
        np.array([data[key] for data in depths], float) for key in ("depth", "weights", "ours_seconds", "autograd_seconds")
    )
    yield _answer(
        question, "autograd's time grows faster with depth", "ln of times as long, for each level of depth",
        [slope(depth, np.log(theirs / ours))],
    )  # fmt: skip
    exponent = slope(np.log(weights), np.log(ours))
    spare = None if exponent is None else Mean(1 - exponent.value, exponent.error, exponent.n)
    yield _answer(question, "the formula's time grows no faster than the number of weights", "1 less its exponent", [spare])


def _spiral(run: Mapping[str, Any]) -> Answer:
    """The one run of the paper's figure: a fact, without an error."""
    sharp, valid = np.array(run["ours"]), np.array(numbers(run["valid"]))
    peak = int(sharp.argmax())
    return Answer(
        "Q1, the figure's one run on spiral",
        "sharpness peaks when overfitting does",
        f"sharpness {sharp[peak]:.0f} at epoch {run['epoch'][peak]} and {sharp[-1]:.0f} after the last, "
        f"validation NLL {np.nanmin(valid):.1f} at its lowest and {valid[-1]:.1f} after the last; it holds if sharpness is "
        "then within a tenth of its peak",
        of_fact(bool(sharp[-1] > 0.9 * sharp[peak])),
    )


def slope(x: Any, y: Any) -> Mean | None:
    """Of the line of least squares, with its standard error; None of fewer than three points."""
    from scipy.stats import linregress

    if len(x) < 3:
        return None
    line = linregress(x, y)
    return Mean(float(line.slope), float(line.stderr), len(x))


# ---- Q4: the strength of the penalty -----------------------------------------------------------------------------------


def _q4(found: Found) -> Iterator[Answer]:
    question = "Q4, dna, 5% of the rows"
    trials: dict[int, dict[float, Mapping[str, Any]]] = {}
    for name, data in found.items():
        trials.setdefault(int(name.rpartition(" ")[2]), {})[data["mu"]] = data
    whole = [runs for runs in trials.values() if 0.0 in runs and SMALL_MU in runs]
    for key, what in (("overfitting", "overfitting"), ("sharpness", "sharpness")):
        shares = ((runs[0.0][key] - runs[SMALL_MU][key]) / (runs[0.0][key] - runs[max(runs)][key]) for runs in whole)
        yield _answer(
            question, f"μ = {SMALL_MU:g} is enough for most of what any μ takes off {what}", "share", [Mean.of(shares)], 0.5
        )  # fmt: skip
    middle = sorted({mu for runs in whole for mu in runs if MIDDLE[0] <= mu <= MIDDLE[1]})
    yield _answer(
        question, f"robust: every μ from {MIDDLE[0]:g} to {MIDDLE[1]:g} has the better validation NLL",
        f"gain over plain in % at μ = {', '.join(f'{mu:g}' for mu in middle)}",
        [Mean.of(_percent(runs[0.0]["valid"], runs[mu]["valid"]) for runs in whole if mu in runs) for mu in middle] or [None],
    )  # fmt: skip
    yield _answer(
        question, "the μ that validation likes best has the better test NLL", "gain over plain, %",
        [Mean.of(_percent(runs[0.0]["test"], _best(runs)["test"]) for runs in whole)],
    )  # fmt: skip


def _best(runs: Mapping[float, Mapping[str, Any]]) -> Mapping[str, Any]:
    return min((data for mu, data in runs.items() if mu > 0), key=lambda data: data["valid"])


def _percent(base: float, new: float) -> float:
    return 100 * (base - new) / abs(base)


# ---- the appendix's figures --------------------------------------------------------------------------------------------


def _capacity(found: Found) -> Iterator[Answer]:
    question = "Capacity figure"
    trials: dict[str, dict[tuple[float, int], Mapping[str, Any]]] = {}
    for name, data in found.items():
        trials.setdefault(name.rpartition(" ")[2], {})[data["fraction"], data["latents"]] = data
    fractions = sorted({data["fraction"] for data in found.values()})
    sizes = {key for runs in trials.values() for key in runs}
    whole = [runs for runs in trials.values() if set(runs) == sizes]

    def by_latents(runs: Mapping[tuple[float, int], Mapping[str, Any]], fraction: float, of: Callable[[Any], float]) -> Any:
        return np.array([of(data) for (f, _), data in sorted(runs.items(), key=lambda item: item[0][1]) if f == fraction])

    def gap(data: Mapping[str, Any]) -> float:
        return float(data["test"] - data["train"])

    doublings = [math.log2(n) for n in sorted({n for _, n in sizes})]
    grown = [Mean.of(_slope(doublings, by_latents(runs, f, gap)) for runs in whole) for f in fractions]
    at = ", ".join(f"{f:.0%}" for f in fractions)
    what = f"test less train NLL for each doubling, at {at}"
    yield _answer(question, "overfitting grows with the number of latents", what, grown or [None])
    more = (float(np.mean(by_latents(runs, fractions[0], gap) - by_latents(runs, fractions[-1], gap))) for runs in whole)
    yield _answer(question, "overfitting is worst with the fewest rows", "by how many nats", [Mean.of(more)])
    tandem = (
        rank_correlation(by_latents(runs, fractions[-1], gap), by_latents(runs, fractions[-1], lambda data: data["sharpness"]))
        for runs in whole
    )
    yield _answer(question, "sharper models overfit more", "rank correlation over latent sizes", [Mean.of(tandem)])


def _slope(x: Any, y: Any) -> float:
    line = slope(x, y)
    return math.nan if line is None else line.value


def _landscapes(found: Found) -> Iterator[Answer]:
    tops = (
        math.log(data["plain"]["eigenvalues"]["weights"][0] / data["regularised"]["eigenvalues"]["weights"][0])
        for data in found.values()
    )
    question = "Loss landscapes"
    yield _answer(question, "the regularised model's optimum is flatter", "ln of the largest eigenvalues' ratio", [Mean.of(tops)])
    better = (_percent(data["plain"]["nll"]["test"], data["regularised"]["nll"]["test"]) for data in found.values())
    yield _answer(question, "it generalises better", f"gain in test NLL, % ({_of_use(found)})", [Mean.of(better)])


def _of_use(found: Found) -> str:
    """Which regularised models have learnt less than nothing."""
    worse = [name for name, data in found.items() if data["regularised"]["nll"]["test"] > standard_normal(name)]
    return f"still worse than N(0, I): {', '.join(worse) if worse else 'none'}"


def _datasets(found: Found) -> Iterator[Answer]:
    dimensions = sorted(len(data["points"]) for data in found.values())
    sizes = {data[rows] for data in found.values() for rows in ("train", "valid", "test")}
    yield Answer(
        "Picture of the data sets", "five curves in three dimensions and three sets in two, 1000 rows in each split",
        f"{dimensions.count(3)} and {dimensions.count(2)}, {', '.join(map(str, sorted(sizes)))} rows" if found else "not run",
        of_fact(dimensions == [2] * 3 + [3] * 5 and sizes == {1000}) if found else Verdict.NOT_RUN,
    )  # fmt: skip


_ASKED: dict[str, Callable[[Found], Iterator[Answer]]] = {
    "figure-curves": _q1,
    "figure-trace": _q2,
    "figure-ablation": _q4,
    "figure-latents": _capacity,
    "figure-landscape": _landscapes,
    "figure-datasets": _datasets,
}
