"""Our default without validation rows, beside the simple models it must not lose to: each binary benchmark once, with few rows.

| contender | what |
|---|---|
| `factorized` | independent columns, their smoothing chosen by ten-fold cross-validation, then fitted to all rows |
| `chow_liu` | a Chow-Liu tree, its smoothing and the prior it draws to chosen in the same way |
| `default` | `fp.choose(rows)` |

`PLACES` are the cells: the data sets in alphabetical order, with 1%, 5% and 10% of their training rows in turn. The rows are
drawn by a seed that no other experiment uses, so that none of them had a part in the making of the search.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from flatpc._typing import Array
from flatpc.datasets import DEBD, load_debd
from flatpc.families.bernoulli import Bernoulli
from flatpc.paper.cells import Cell, Metrics, Result
from flatpc.paper.text_tables import markdown
from flatpc.search.choosing import choose
from flatpc.search.counted import Counted, fitted
from flatpc.search.plans import Plan
from flatpc.search.samples import Sample

FRACTIONS = (0.01, 0.05, 0.1)
PLACES = tuple((name, FRACTIONS[i % len(FRACTIONS)]) for i, name in enumerate(sorted(DEBD)))
"""(data set, fraction) of each cell."""
TRIAL = 5
"""The seed of everything; other experiments have 0 to 4."""
CONTENDERS = ("factorized", "chow_liu", "default")
HEAD = ("data set", "rows", "factorised", "Chow-Liu", "default", "better by")


@dataclass(frozen=True)
class Settings:
    """How much is done for a cell."""

    effort: str = "normal"
    """Of `choose`."""
    folds: int = 10
    """That the simple models are cross-validated in."""
    factorized: tuple[float, ...] = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 2.0, 5.0, 10.0, 30.0, 100.0)
    """Smoothings of independent columns."""
    even: tuple[float, ...] = (0.01, 0.1, 0.3, 1.0, 3.0, 10.0)
    """Smoothings of a tree that is drawn to even tables."""
    marginals: tuple[float, ...] = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
    """Smoothings of a tree that is drawn to independent columns."""

    def plans(self, structure: str) -> list[Plan]:
        """What a simple contender is chosen from."""
        if structure == "factorized":
            return [Plan(structure, {"smoothing": smoothing}) for smoothing in self.factorized]
        priors = {"even": self.even, "marginals": self.marginals}
        return [Plan(structure, {"smoothing": s, "prior": prior}) for prior, several in priors.items() for s in several]


def run_cell(cell: Cell, settings: Settings) -> Metrics:
    """Test NLL of one contender, and the NLL that it was chosen by."""
    data = load_debd(cell.dataset).fraction(cell.fraction, how="random", seed=cell.trial)
    if cell.method == "default":
        choice = choose(data.train, effort=settings.effort, seed=cell.trial, n_threads=1, progress=False)
        circuit, judged = choice.circuit, choice.valid_nll
    else:
        plan, judged = cross_validated(data.train, settings.plans(cell.method), settings.folds, cell.trial)
        circuit = fitted(plan, Sample(data.train), [Bernoulli()] * data.train.shape[1], cell.trial)
    return {"rows": float(len(data.train)), "cv_nll": judged, "test_nll": -float(np.mean(circuit.log_prob(data.test)))}


def cross_validated(rows: Array, plans: list[Plan], n_folds: int, seed: int) -> tuple[Plan, float]:
    """The plan with the best mean NLL of rows that are left out fold by fold, and that NLL."""
    order = np.random.default_rng(seed).permutation(len(rows))
    folds = [np.isin(np.arange(len(rows)), order[fold::n_folds]) for fold in range(min(n_folds, len(rows)))]
    total = np.zeros(len(plans))
    for judges in folds:
        counted = Counted(Sample(rows[~judges]), rows[judges], [Bernoulli()] * rows.shape[1], seed)
        total += [-counted.fit(plan)[0].sum() for plan in plans]
    best = int(np.argmin(total))
    return plans[best], float(total[best] / len(rows))


@dataclass(frozen=True)
class Entry:
    """The three test NLLs of one cell."""

    dataset: str
    fraction: float
    rows: int
    nll: dict[str, float]
    """By contender."""

    @property
    def margin(self) -> float:
        """By how much the default's test NLL is lower than the best of the others."""
        return min(self.nll["factorized"], self.nll["chow_liu"]) - self.nll["default"]


def entries(results: Iterable[Result]) -> list[Entry]:
    """One for each cell that all contenders have been run on."""
    found = {(r.cell.dataset, r.cell.fraction, r.cell.method): r.metrics for r in results if not r.error}
    return [
        Entry(name, fraction, int(found[name, fraction, "default"]["rows"]),
              {method: found[name, fraction, method]["test_nll"] for method in CONTENDERS})
        for name, fraction in PLACES
        if all((name, fraction, method) in found for method in CONTENDERS)
    ]  # fmt: skip


def as_markdown(found: list[Entry]) -> str:
    """The table, or that there is none yet."""
    if not found:
        return "Not run yet; `flatpc reproduce without-validation` does.\n"
    rows = [
        [f"{e.dataset} {e.fraction:.0%}", f"{e.rows:,}", *(f"{e.nll[method]:.3f}" for method in CONTENDERS),
         f"{e.margin:.3f}".replace("-", "−")]
        for e in found
    ]  # fmt: skip
    won = sum(entry.margin > 0 for entry in found)
    return f"{markdown(HEAD, rows)}\n\nThe default has the lowest test NLL in {won} of {len(found)} cells.\n"
