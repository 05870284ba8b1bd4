"""The tables of `flatpc reproduce uses`, and beside those of made-up rows what has been published of others (`published.csv`).

Published are TabPC, a circuit, and TabDiff, the best of its rivals there: means over five models, in the tables that Scassola and
others ("A Sobering Look at Tabular Data Generation via Probabilistic Circuits", 2026, arXiv:2603.23016) released with their code,
https://github.com/april-tools/tabpc, commit dc38408.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources

import numpy as np

from flatpc.paper.cells import Metrics, Result
from flatpc.paper.text_tables import markdown
from flatpc.paper.uses.cells import CLASSES, METHODS, TRIALS


@dataclass(frozen=True)
class Use:
    """One table: what is measured of whom, and which way is better."""

    title: str
    metric: str
    ours: tuple[str, ...]
    rivals: tuple[str, ...]
    sign: int
    """1 where more is better, -1 where less is."""
    limit: float = -np.inf
    """Numbers below it count as it: an area under the curve of less than 0.5 is chance."""
    digits: int = 3

    @property
    def methods(self) -> tuple[str, ...]:
        return *self.ours, *self.rivals


IMPUTERS = ("column-means", "neighbours", "chained", "forests")
USES = (
    Use("Hidden numbers: root mean square error, in standard deviations", "number_error", ("default",), IMPUTERS, -1),
    Use("Hidden categories: share that is wrong", "category_error", ("default",), IMPUTERS, -1),
    Use("A class given all other columns: share that is wrong", "wrong", ("default", "tuned"), ("boosting",), -1),
    Use("The same: mean of −log p(class)", "log_loss", ("default", "tuned"), ("boosting",), -1),
    Use("Made-up rows told from real ones: area under the curve, 0.5 at best", "told_apart", ("samples",), ("copula",), -1,
        limit=0.5),
    Use("Made-up rows: quality by SDMetrics, 1 at best", "quality", ("samples",), ("copula",), 1),
    Use("Rows of other classes found by a model of the largest: area under the curve, 1 at best", "found", ("one-class",),
        ("isolation-forest", "outlier-factor"), 1),
)  # fmt: skip

Found = dict[str, dict[str, dict[int, Metrics]]]
"""Table -> method -> seed -> numbers."""


def found(results: Iterable[Result]) -> Found:
    """What has been run."""
    out: Found = {}
    for result in results:
        if not result.error:
            mine = out.setdefault(result.cell.dataset, {}).setdefault(result.cell.method, {})
            mine[result.cell.trial] = result.metrics
    return {name: out[name] for name in CLASSES if name in out}


def verdict(use: Use, ours: dict[int, Metrics], rival: dict[int, Metrics]) -> str:
    """Over seeds that both have: `won`, `lost` or `tied` at two standard errors, nothing without two seeds.

    >>> a, b = ({seed: {"wrong": x} for seed, x in enumerate(several)} for several in ((0.1, 0.11, 0.1), (0.2, 0.22, 0.21)))
    >>> verdict(USES[2], a, b), verdict(USES[2], b, a), verdict(USES[2], a, a)
    ('won', 'lost', 'tied')
    """
    seeds = [s for s in TRIALS if use.metric in ours.get(s, {}) and use.metric in rival.get(s, {})]
    if len(seeds) < 2:
        return ""
    gaps = use.sign * np.array([_number(use, ours[s]) - _number(use, rival[s]) for s in seeds])
    error = gaps.std(ddof=1) / np.sqrt(len(gaps))
    if abs(gaps.mean()) <= 2 * error:
        return "tied"
    return "won" if gaps.mean() > 0 else "lost"


def as_markdown(measured: Found) -> str:
    """All tables, or that there are none yet."""
    if not measured:
        return "Not run yet; `flatpc reproduce uses` does.\n"
    runs = [sum(seed in measured.get(t, {}).get(m, {}) for t in CLASSES for m in METHODS) for seed in TRIALS]
    whole = len(CLASSES) * len(METHODS)
    seeds = ", ".join(f"{n} of {whole}" for n in runs)
    parts = [f"Runs of the first, second and third seed: {seeds}. A mean over seeds is shown; the best of a row is bold."]
    for use in USES:
        rows = [_row(use, name, methods) for name, methods in measured.items()]
        rows = [row for row in rows if any(cell != "–" for cell in row[1:])]
        parts += [f"### {use.title}", markdown(["table", *use.methods], rows) if rows else "Not run yet."]
        parts += [_standing(use, measured)] if rows else []
    parts += ["### Made-up rows: what others have published", _context(measured.get("keel/magic", {}).get("samples", {}))]
    return "\n\n".join(parts) + "\n"


def _number(use: Use, numbers: Metrics) -> float:
    return max(numbers[use.metric], use.limit)


def _mean(use: Use, measured: dict[int, Metrics]) -> float:
    values = [_number(use, numbers) for numbers in measured.values() if use.metric in numbers]
    return float(np.mean(values)) if values else float("nan")


def _row(use: Use, name: str, methods: dict[str, dict[int, Metrics]]) -> Sequence[str]:
    means = [_mean(use, methods.get(method, {})) for method in use.methods]
    best = max((use.sign * mean for mean in means if not np.isnan(mean)), default=None)
    shown = ["–" if np.isnan(mean) else f"{mean:.{use.digits}f}" for mean in means]
    return [name, *(f"**{text}**" if use.sign * mean == best else text for text, mean in zip(shown, means, strict=True))]


def _standing(use: Use, measured: Found) -> str:
    """Won, tied and lost against each rival, and where it lost."""
    lines = []
    for mine in use.ours:
        for rival in use.rivals:
            verdicts = {name: verdict(use, methods.get(mine, {}), methods.get(rival, {})) for name, methods in measured.items()}
            counts = {word: [name for name, said in verdicts.items() if said == word] for word in ("won", "tied", "lost")}
            if not any(counts.values()):
                continue
            told = ", ".join(f"{word} {len(names)}" for word, names in counts.items())
            lost = f" ({', '.join(counts['lost'])})" if counts["lost"] else ""
            lines.append(f"{mine} against {rival}: {told}{lost}.")
    return "  \n".join(lines) if lines else "No two seeds yet to compare by."


def _context(ours: dict[int, Metrics]) -> str:
    """Published numbers, with our own of the one table that both have."""
    text = resources.files(__package__).joinpath("published.csv").read_text()
    rows = [
        [
            line["table"],
            line["method"],
            f"{(float(line['shape']) + float(line['trend'])) / 2:.3f}",
            f"{float(line['detection']):.3f}",
        ]
        for line in csv.DictReader(text.splitlines())
    ]
    told, good = (next(use for use in USES if use.metric == metric) for metric in ("told_apart", "quality"))
    if ours:
        at = max(i for i, row in enumerate(rows) if row[0] == "magic") + 1
        rows.insert(at, ["magic", "samples", f"{_mean(good, ours):.3f}", f"{2 - 2 * _mean(told, ours):.3f}"])
    said = (
        "For comparison only: other splits, other rows held out, another classifier "
        "(XGBoost; twice 1 − its area under the curve, 1 at best). "
        "TabPC is a circuit, TabDiff the best diffusion model beside it "
        "([Scassola and others, 2026](https://arxiv.org/abs/2603.23016), tables released with their code)."
    )
    magic = "`samples` are ours, of `keel/magic`." if ours else "Our own of `keel/magic` have not been run yet."
    return f"{said} {magic}\n\n" + markdown(["table", "method", "quality by SDMetrics", "not told apart"], rows, texts=2)
