"""Choice without validation rows: each judge picks from the same models of few rows of a binary benchmark.

The models are independent columns, a Chow-Liu tree, and hidden Chow-Liu trees of two sizes with three regularisers, each as it is
after a few epochs, after more and after many. All are learnt from all rows that there are.

| judge | judges a model by |
|---|---|
| `valid` | validation rows, which nobody has here: what the others are to come near to |
| `cv` | rows left out, in five folds; trees are learnt anew for each |
| `curvature` | each row left out by one step of EM, times the information that is missing: `fp.choose(judge="loo")` |
| `loo` | what leaving rows out costs them, from one more run with row weights 1 ± η (`flatpc.search.row_weights`) |
| `loo-pair` | the same from two further runs, with opposite signs |
| `weighted` | its train NLL and its weighted trace (`fp.curvature.weighted_trace`) |
| `weighted-2.5` | its train NLL and 2.5 times that |
| `tic` | its train NLL and Takeuchi's optimism, from a few steps of conjugate gradients (`fp.curvature.takeuchi`) |
| `evidence` | the probability of the rows, weights integrated out: `fp.choose(judge="evidence")` |

Times are of the processor: of learning the models as the judge needs them, once or several times, and of judging them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from flatpc import curvature, structures
from flatpc._typing import Array
from flatpc.datasets import DEBD, load_debd
from flatpc.datasets.splits import Splits
from flatpc.learning import EM, Laplace, Run, Sharpness, fit
from flatpc.paper.cells import Cell, Metrics, Result
from flatpc.paper.text_tables import markdown
from flatpc.search.by_curvature import CurvatureJudge
from flatpc.search.row_weights import leave_one_out_cost, perturbed
from flatpc.search.training import INPUT_PSEUDOCOUNT, batch_size

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

FRACTIONS = (0.01, 0.05, 0.1)
TRIAL = 6
"""The seed of everything; other experiments have 0 to 5."""
JUDGES = ("valid", "cv", "curvature", "loo", "loo-pair", "weighted", "weighted-2.5", "tic", "evidence")
NAMES = {
    "valid": "validation rows", "cv": "five folds", "curvature": "rows left out by curvature", "loo": "row weights",
    "loo-pair": "row weights, a pair", "weighted": "weighted trace", "weighted-2.5": "weighted trace × 2.5", "tic": "Takeuchi",
    "evidence": "evidence",
}  # fmt: skip
CHOOSABLE = {"cv": "cv", "curvature": "loo", "evidence": "evidence"}
"""Judge -> what `fp.choose(judge=…)` calls it."""
COUNTED = 2
"""Models at the front of a pool that are counted: independent columns, and a Chow-Liu tree."""
REGULARIZERS: dict[str, tuple[Any, ...]] = {"none": (), "laplace": (Laplace(1.0, on="sums"),), "sharpness": (Sharpness(mu=0.3),)}


@dataclass(frozen=True)
class Settings:
    """Which models there are to choose from, and how they are judged."""

    latents: tuple[int, ...] = (4, 16)
    epochs: tuple[int, ...] = (5, 15, 40)
    step_size: float = 0.3
    folds: int = 5
    prior: float = 0.5
    """α of the evidence: below it, Laplace's approximation grows beyond all bounds with weights near 0."""
    n_steps: int = 4
    """Of conjugate gradients for Takeuchi's optimism."""


@dataclass(frozen=True)
class Pool:
    """Models of a cell, learnt from all its rows."""

    circuits: list[Circuit]
    log_prob: Array
    """`[models, N]`, of the rows that they were learnt from."""
    seconds: float
    known: dict[Any, tuple[Any, float]] = field(default_factory=dict)
    """What several judges need, and the processor's seconds that it took."""

    def shared(self, name: Any, work_out: Callable[[], Any]) -> tuple[Any, float]:
        """What `work_out` returns, worked out once, and the seconds."""
        if name not in self.known:
            began = time.process_time()
            found = work_out()
            self.known[name] = found, time.process_time() - began
        return self.known[name]

    @property
    def train_nll(self) -> Array:
        """`[models]`."""
        return np.asarray(-self.log_prob.mean(axis=1))


def learn(rows: Array, settings: Settings, weights: Array | None = None) -> list[Circuit]:
    """All models; with `weights`, of rows that count so often."""
    smoothed = {"prior": "marginals", "smoothing": 10.0}
    out = [
        structures.factorized(rows, sample_weight=weights),
        structures.chow_liu(rows, family="bernoulli", sample_weight=weights, **smoothed),  # type: ignore[arg-type]
    ]
    for n_latents in settings.latents:
        start = structures.hclt(
            rows, n_latents, init="chow-liu", noise=0.3, seed=TRIAL, sample_weight=weights, **smoothed,  # type: ignore[arg-type]
        )  # fmt: skip
        for regularizer in REGULARIZERS.values():
            kept: list[Circuit] = []

            def keep(row: Any, circuit: Callable[[], Circuit], kept: list[Circuit] = kept) -> None:
                if row["epoch"] in settings.epochs:
                    kept.append(circuit())

            fit(
                start, rows, sample_weight=weights, method=EM(settings.step_size), epochs=max(settings.epochs),
                batch_size=batch_size(len(rows), 0), regularizer=[*regularizer, Laplace(INPUT_PSEUDOCOUNT, on="inputs")],
                run=Run(callbacks=(keep,)), seed=TRIAL, n_threads=1, progress=False,
            )  # fmt: skip
            out += kept
    return out


def run_cell(cell: Cell, settings: Settings) -> Metrics:
    """The test NLL of what a judge picks, what it says of it, and what judging took."""
    data, pool = _cell(cell.dataset, cell.fraction, settings)
    said, judging = JUDGING[cell.method](data, pool, settings)
    best = int(np.argmin(said))
    test, _ = pool.shared(("test", best), lambda: -float(np.mean(pool.circuits[best].log_prob(data.test))))
    # Folds take the place of learning from all rows, but what they pick is learnt again.
    runs = len(settings.latents) * len(REGULARIZERS)
    learning = pool.seconds / runs if cell.method == "cv" else pool.seconds
    return {"rows": float(len(data.train)), "test_nll": test, "estimate": float(said[best]), "picked": float(best),
            "train_nll": float(pool.train_nll[best]), "work": learning + judging}  # fmt: skip


@lru_cache(maxsize=1)
def _cell(dataset: str, fraction: float, settings: Settings) -> tuple[Splits, Pool]:
    data = load_debd(dataset).fraction(fraction, how="random", seed=TRIAL)
    began = time.process_time()
    circuits = learn(data.train, settings)
    seconds = time.process_time() - began
    return data, Pool(circuits, _log_prob(circuits, data.train), seconds)


def _log_prob(circuits: list[Circuit], rows: Array) -> Array:
    return np.stack([np.asarray(circuit.log_prob(rows)) for circuit in circuits])


# ---- judges: what each says of the test NLL of every model -------------------------------------------------------------

Judged = tuple[Any, float]
"""`[models]`, and the processor's seconds that judging took."""


def _by_valid(data: Splits, pool: Pool, settings: Settings) -> Judged:
    return pool.shared("valid", lambda: -_log_prob(pool.circuits, data.valid).mean(axis=1))


def _by_folds(data: Splits, pool: Pool, settings: Settings) -> Judged:
    return pool.shared("folds", lambda: _left_out(data.train, len(pool.circuits), settings))


def _left_out(rows: Array, n_models: int, settings: Settings) -> Array:
    order = np.random.default_rng(TRIAL).permutation(len(rows))
    total = np.zeros(n_models)
    for fold in range(settings.folds):
        judges = np.isin(np.arange(len(order)), order[fold :: settings.folds])
        total -= _log_prob(learn(rows[~judges], settings), rows[judges]).sum(axis=1)
    return np.asarray(total / len(order))


def _by_curvature(data: Splits, pool: Pool, settings: Settings) -> Judged:
    judge = CurvatureJudge("loo", "raise")

    def judged() -> Array:
        models = enumerate(pool.circuits)
        return np.array([-judge.log_prob(circuit, data.train, counted=i < COUNTED).mean() for i, circuit in models])

    return pool.shared("curvature", judged)


def _by_weights(data: Splits, pool: Pool, settings: Settings, signs: tuple[int, ...] = (1,)) -> Judged:
    weights = perturbed(len(data.train), TRIAL)

    def cost(moved: Array) -> Array:
        return leave_one_out_cost(pool.log_prob, _log_prob(learn(data.train, settings, moved), data.train), moved)

    found = [pool.shared(("weights", sign), partial(cost, weights if sign > 0 else 2 - weights)) for sign in signs]
    return pool.train_nll + np.mean([each for each, _ in found], axis=0), sum(seconds for _, seconds in found)


def _by_trace(data: Splits, pool: Pool, settings: Settings, factor: float = 1.0) -> Judged:
    def traces() -> Array:
        return np.array([curvature.weighted_trace(circuit, data.train, reduction="mean") for circuit in pool.circuits])

    found, seconds = pool.shared("trace", traces)
    return pool.train_nll + factor * found, seconds


def _by_takeuchi(data: Splits, pool: Pool, settings: Settings) -> Judged:
    def optimism(circuit: Circuit) -> float:
        return curvature.takeuchi(circuit, data.train, prior=0.0, n_draws=2, n_steps=settings.n_steps).value

    found, seconds = pool.shared("takeuchi", lambda: np.array([optimism(circuit) for circuit in pool.circuits]))
    return pool.train_nll + found, seconds


def _by_evidence(data: Splits, pool: Pool, settings: Settings) -> Judged:
    def log_evidence(circuit: Circuit) -> float:
        return curvature.evidence(circuit, data.train, prior=settings.prior, structure="complete")

    found, seconds = pool.shared("evidence", lambda: np.array([log_evidence(circuit) for circuit in pool.circuits]))
    return -found / len(data.train), seconds


JUDGING: dict[str, Callable[[Splits, Pool, Settings], Judged]] = {
    "valid": _by_valid,
    "cv": _by_folds,
    "curvature": _by_curvature,
    "loo": _by_weights,
    "loo-pair": lambda data, pool, settings: _by_weights(data, pool, settings, (1, -1)),
    "weighted": _by_trace,
    "weighted-2.5": lambda data, pool, settings: _by_trace(data, pool, settings, 2.5),
    "tic": _by_takeuchi,
    "evidence": _by_evidence,
}


# ---- the table ----------------------------------------------------------------------------------------------------------


Cells = dict[tuple[str, float], dict[str, Metrics]]
"""(data set, fraction) -> judge -> numbers."""


@dataclass(frozen=True)
class Standing:
    """How one judge did over the cells that it has been run on."""

    judge: str
    n_cells: int
    worse: float
    """Mean test NLL of what it picks above that of what five folds pick, in percent."""
    at_least_as_good: int
    """Cells in which its pick has no higher test NLL than theirs."""
    worse_than_valid: float
    """Mean test NLL of what it picks above that of what validation rows pick, in percent."""
    as_good_as_valid: int
    """Cells in which its pick has no higher test NLL than theirs."""
    off: float
    """Mean distance between what it says of its pick and the truth, in percent."""
    bias: float
    """The same with its sign: below 0 where it is too hopeful."""
    work: float
    """Median of its work over that of five folds."""


def cells(results: Iterable[Result]) -> Cells:
    """What has been run, of the cells in which validation rows and five folds have judged: the others are compared with them."""
    found: Cells = {}
    for result in results:
        if not result.error:
            found.setdefault((result.cell.dataset, result.cell.fraction), {})[result.cell.method] = result.metrics
    places = [(name, fraction) for fraction in FRACTIONS for name in sorted(DEBD)]
    return {place: found[place] for place in places if {"valid", "cv"} <= set(found.get(place, {}))}


def above(found: Cells, judge: str, other: str) -> dict[tuple[str, float], float]:
    """Cell -> test NLL of what the judge picks above that of what the other one picks, in percent."""
    return {
        place: 100 * (each[judge]["test_nll"] / each[other]["test_nll"] - 1) for place, each in found.items() if judge in each
    }


def standings(found: Cells) -> list[Standing]:
    """Of all judges that have been run."""
    out = []
    for judge in JUDGES:
        mine = [(each[judge], each["cv"]) for each in found.values() if judge in each]
        if not mine:
            continue
        folds, valid = (np.array(list(above(found, judge, other).values())) for other in ("cv", "valid"))
        off = 100 * np.array([m["estimate"] / m["test_nll"] - 1 for m, _ in mine])
        work = float(np.median([m["work"] / f["work"] for m, f in mine]))
        picks = float(folds.mean()), _n_as_good(folds), float(valid.mean()), _n_as_good(valid)
        out.append(Standing(judge, len(mine), *picks, float(np.abs(off).mean()), float(off.mean()), work))
    return out


def _n_as_good(excess: Array) -> int:
    return int(np.sum(excess <= 1e-3))  # percent; tables keep five digits


def as_markdown(found: Cells) -> str:
    """The tables, or that there are none yet."""
    if not found:
        return "Not run yet; `flatpc reproduce judges` does.\n"
    head = ("judge", "test NLL above five folds'", "no worse in", "above validation rows'", "no worse in", "estimate off by",
            "bias", "work over five folds'")  # fmt: skip
    rows = [
        [NAMES[s.judge], _signed(s.worse, 2), f"{s.at_least_as_good} of {s.n_cells}", _signed(s.worse_than_valid, 2),
         f"{s.as_good_as_valid} of {s.n_cells}", f"{s.off:.1f}%", _signed(s.bias, 1), f"{s.work:.2f}"]
        for s in standings(found)
    ]  # fmt: skip
    by_fraction = [f"{sum(1 for _, f in found if f == fraction)} with {fraction:.0%}" for fraction in FRACTIONS]
    parts = [
        markdown(head, rows),
        f"{len(found)} cells: {', '.join(by_fraction)} of the training rows. {_not_everywhere(found)}".strip(),
        "Test NLL above that of what validation rows pick, by share of the training rows, and cells in which it is no higher:",
        _by_fraction(found),
        "Cells in which the pick of a judge that `fp.choose` has is more than 1% above theirs:",
        _where_not(found),
    ]
    return "\n\n".join(parts) + "\n"


def _not_everywhere(found: Cells) -> str:
    """Judges that have been run on some cells only, so that their means are not of the same cells as the others'."""
    n_run = {judge: sum(judge in each for each in found.values()) for judge in JUDGES}
    lacking = [f"{NAMES[judge]} in {n or 'none'}" for judge, n in n_run.items() if n < len(found)]
    return f"Not all judges have been run in all of them: {', '.join(lacking)}." if lacking else ""


def _by_fraction(found: Cells) -> str:
    rows = []
    for s in standings(found):
        row = [NAMES[s.judge]]
        for fraction in FRACTIONS:
            excess = np.array(list(above({p: e for p, e in found.items() if p[1] == fraction}, s.judge, "valid").values()))
            row.append(f"{_signed(float(excess.mean()), 2)}, {_n_as_good(excess)} of {len(excess)}" if len(excess) else "–")
        rows.append(row)
    return markdown(("judge", *(f"{fraction:.0%}" for fraction in FRACTIONS)), rows)


def _where_not(found: Cells) -> str:
    rows = []
    for judge, name in CHOOSABLE.items():
        excess = above(found, judge, "valid")
        worse = [f"{dataset} {fraction:.0%}" for (dataset, fraction), value in excess.items() if value > 1]
        rows.append([f'`judge="{name}"`', ", ".join(worse) or "none" if excess else "not run yet"])
    return markdown(("judge", "worse by more than 1% in"), rows, texts=None)


def _signed(value: float, digits: int) -> str:
    return f"{value:+.{digits}f}%".replace("-", "−")
