"""Choice without validation rows: each judge picks from the same models of few rows of a binary benchmark.

The models are independent columns, a Chow-Liu tree, and hidden Chow-Liu trees of two sizes with three regularisers, each as it is
after a few epochs, after more and after many. All are learnt from all rows that there are.

| judge | judges a model by |
|---|---|
| `valid` | validation rows, which nobody has here: what the others are to come near to |
| `cv` | rows left out, in five folds; trees are learnt anew for each |
| `loo` | what leaving rows out costs them, from one more run with row weights 1 ± η (`flatpc.search.row_weights`) |
| `loo-pair` | the same from two further runs, with opposite signs |
| `weighted` | its train NLL and its weighted trace (`fp.curvature.weighted_trace`) |
| `weighted-2.5` | its train NLL and 2.5 times that |
| `tic` | its train NLL and Takeuchi's optimism, from a few steps of conjugate gradients (`fp.curvature.takeuchi`) |
| `evidence` | the probability of the rows, weights integrated out (`fp.curvature.evidence`) |

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
from flatpc.search.row_weights import leave_one_out_cost, perturbed
from flatpc.search.training import INPUT_PSEUDOCOUNT, batch_size

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

FRACTIONS = (0.01, 0.05, 0.1)
TRIAL = 6
"""The seed of everything; other experiments have 0 to 5."""
JUDGES = ("valid", "cv", "loo", "loo-pair", "weighted", "weighted-2.5", "tic", "evidence")
NAMES = {
    "valid": "validation rows", "cv": "five folds", "loo": "row weights", "loo-pair": "row weights, a pair",
    "weighted": "weighted trace", "weighted-2.5": "weighted trace × 2.5", "tic": "Takeuchi", "evidence": "evidence",
}  # fmt: skip
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
    "loo": _by_weights,
    "loo-pair": lambda data, pool, settings: _by_weights(data, pool, settings, (1, -1)),
    "weighted": _by_trace,
    "weighted-2.5": lambda data, pool, settings: _by_trace(data, pool, settings, 2.5),
    "tic": _by_takeuchi,
    "evidence": _by_evidence,
}


# ---- the table ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Standing:
    """How one judge did over the cells that all have been run on."""

    judge: str
    worse: float
    """Mean test NLL of what it picks above that of what five folds pick, in percent."""
    at_least_as_good: int
    """Cells in which its pick has no higher test NLL than theirs."""
    off: float
    """Mean distance between what it says of its pick and the truth, in percent."""
    bias: float
    """The same with its sign: below 0 where it is too hopeful."""
    work: float
    """Median of its work over that of five folds."""


def cells(results: Iterable[Result]) -> dict[tuple[str, float], dict[str, Metrics]]:
    """(data set, fraction) -> judge -> numbers, of the cells that all judges have been run on."""
    found: dict[tuple[str, float], dict[str, Metrics]] = {}
    for result in results:
        if not result.error:
            found.setdefault((result.cell.dataset, result.cell.fraction), {})[result.cell.method] = result.metrics
    places = [(name, fraction) for fraction in FRACTIONS for name in sorted(DEBD)]
    return {place: found[place] for place in places if len(found.get(place, {})) == len(JUDGES)}


def standings(found: dict[tuple[str, float], dict[str, Metrics]]) -> list[Standing]:
    """Of all judges over these cells."""
    out = []
    for judge in JUDGES:
        mine, folds = [each[judge] for each in found.values()], [each["cv"] for each in found.values()]
        excess = [m["test_nll"] / f["test_nll"] - 1 for m, f in zip(mine, folds, strict=True)]
        off = [m["estimate"] / m["test_nll"] - 1 for m in mine]
        ratio = [m["work"] / f["work"] for m, f in zip(mine, folds, strict=True)]
        good = sum(e <= 1e-9 for e in excess)
        out.append(
            Standing(
                judge,
                100 * float(np.mean(excess)),
                good,
                100 * float(np.mean(np.abs(off))),
                100 * float(np.mean(off)),
                float(np.median(ratio)),
            )
        )
    return out


def as_markdown(found: dict[tuple[str, float], dict[str, Metrics]]) -> str:
    """The table, or that there is none yet."""
    if not found:
        return "Not run yet; `flatpc reproduce judges` does.\n"
    head = ("judge", "test NLL above five folds'", "no worse in", "estimate off by", "bias", "work over five folds'")
    rows = [
        [NAMES[s.judge], f"{s.worse:+.2f}%".replace("-", "−"), f"{s.at_least_as_good} of {len(found)}", f"{s.off:.1f}%",
         f"{s.bias:+.1f}%".replace("-", "−"), f"{s.work:.2f}"]
        for s in standings(found)
    ]  # fmt: skip
    by_fraction = [f"{sum(1 for _, f in found if f == fraction)} with {fraction:.0%}" for fraction in FRACTIONS]
    return f"{markdown(head, rows)}\n\n{len(found)} cells: {', '.join(by_fraction)} of the training rows.\n"
