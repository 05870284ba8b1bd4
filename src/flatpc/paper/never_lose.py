"""One cell of the comparison "never lose": one data set, one fraction of its rows, one trial; every contender's test NLL.

| contender | what |
|---|---|
| `factorized`, `chow_liu` | the smoothing that validation likes best, as for `table2` |
| `plain` | a hidden Chow-Liu tree, trained in rounds with early stopping, without a regulariser |
| `sharpness`, `laplace`, `softening`, `dropout`, `entropy` | the same with that regulariser, as strong as validation likes best |
| `prune_grow` | the same circuit, half the epochs before and half after pruning and growing |
| `adam` | the same start, by Adam instead of EM, without a regulariser |
| `sam`, `asam`, `hyper` | the same by Adam: SAM, adaptive SAM, weights from a low-dimensional generator |
| `default` | `fp.choose` |

All hidden trees start alike and are given the same epochs, so that `plain`, `sharpness` and `laplace` differ in nothing else: the
column `sharpness` less the column `plain` is what sharpness-aware learning contributes. `sam`, `asam` and `hyper` differ
from `adam` in the same way.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from flatpc.datasets import load_debd
from flatpc.datasets.splits import Splits
from flatpc.errors import OptionError
from flatpc.families.bernoulli import Bernoulli
from flatpc.learning import (
    ASAM,
    EM,
    SAM,
    Adam,
    Dropout,
    Entropy,
    Fit,
    HyperWeights,
    Laplace,
    PruneGrow,
    Sharpness,
    Softening,
    fit,
)
from flatpc.learning.run.schedules import linear
from flatpc.paper.cells import Cell, Metrics
from flatpc.search.choosing import choose
from flatpc.search.judging import Split
from flatpc.search.plans import Plan
from flatpc.search.samples import Sample
from flatpc.search.training import INPUT_PSEUDOCOUNT, STEP_SIZES, Task, Trial, batch_size

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

GRIDS: dict[str, tuple[tuple[Any, ...], ...]] = {
    "plain": ((),),
    "sharpness": tuple((Sharpness(mu=mu),) for mu in (0.01, 0.1, 1.0)),
    "laplace": tuple((Laplace(count, on="sums"),) for count in (0.1, 1.0, 10.0)),
    "softening": tuple((Softening(beta),) for beta in (0.999, 0.998, 0.99)),
    "dropout": tuple((Dropout(inputs),) for inputs in (0.02, 0.1)),
    "entropy": tuple((Entropy(tau),) for tau in (0.001, 0.01)),
}
"""Contenders that train the same hidden tree, and the strengths of each."""
GRADIENT: dict[str, tuple[Any, ...]] = {
    "adam": (None,),
    "sam": tuple(SAM(rho) for rho in (0.05, 0.5)),
    "asam": tuple(ASAM(rho) for rho in (0.5, 2.0)),
    "hyper": (HyperWeights(),),
}
"""Contenders that are defined for gradients: the same start, trained by Adam."""
PRUNING = tuple(PruneGrow(fraction) for fraction in (0.5, 0.75))
SMOOTHINGS = (0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
CONTENDERS = ("factorized", "chow_liu", *GRIDS, "prune_grow", *GRADIENT, "default")


@dataclass(frozen=True)
class Options:
    """How much to do for a cell."""

    subset: str = "random"
    """Of the training rows: a random one by trial, or the first ones."""
    n_latents: int = 16
    """Of the hidden trees that are compared; fewer if there are fewer than six rows for each."""
    rounds: int = 2
    epochs: int = 30
    """Of every round."""
    most_steps: int = 2000
    """Of Adam, which are dearer than those of EM."""
    time_budget: float = 60.0
    """Seconds of work of `choose`."""
    n_threads: int = 1
    """Of `choose`."""
    folder: str | None = None
    """Of the data; None reads `FLATPC_DATA`."""


def run_cell(
    dataset: str, fraction: float, trial: int, options: Options | None = None, contenders: Sequence[str] = CONTENDERS
) -> dict[str, float]:
    """`test_<contender>`, `valid_<contender>` (mean NLLs) and `seconds_<contender>`, and `rows`: plain numbers.

    The trial is the seed of everything.
    """
    options = options or Options()
    data = _load(dataset, options.folder).fraction(fraction, how=options.subset, seed=trial)
    return compare(data, trial, options, contenders)


def never_lose_cell(cell: Cell, settings: Options) -> Metrics:
    """One contender of a cell, for the runner."""
    found = run_cell(cell.dataset, cell.fraction, cell.trial, settings, (cell.method,))
    return {"test_nll": found[f"test_{cell.method}"], "valid_nll": found[f"valid_{cell.method}"], "rows": found["rows"]}


def compare(data: Splits, seed: int, options: Options, contenders: Sequence[str] = CONTENDERS) -> dict[str, float]:
    """The numbers of a cell from its rows."""
    unknown = [name for name in contenders if name not in CONTENDERS]
    if unknown:
        raise OptionError(f"Unknown contender {unknown[0]!r}; choose from {', '.join(CONTENDERS)}.")
    n_variables = data.train.shape[1]
    task = Task(
        [Split(Sample(data.train), Sample(data.valid))], [Bernoulli()] * n_variables, seed, "raise", 1, [True] * n_variables
    )
    out = {"rows": float(len(data.train))}
    start: Trial | None = None
    for name in contenders:
        began = time.perf_counter()
        if name == "default":
            chosen = choose(
                data.train, valid=data.valid, effort=options.time_budget, seed=seed, n_threads=options.n_threads, progress=False
            )
            circuit, valid_nll = chosen.circuit, chosen.valid_nll
        elif name in GRIDS:
            start = start or task.start(_hidden(len(data.train), options))
            best = min((_trained(task, start, part, options) for part in GRIDS[name]), key=lambda c: c.valid_nll)
            circuit, valid_nll = best.parts[0].make(), best.valid_nll
        elif name in GRADIENT or name == "prune_grow":
            start = start or task.start(_hidden(len(data.train), options))
            train, grid = (_adam, GRADIENT[name]) if name in GRADIENT else (_pruned, PRUNING)
            fitted = min((train(task, start, part, options) for part in grid), key=lambda result: result.best_nll)
            circuit, valid_nll = fitted.best_circuit, fitted.best_nll
        else:
            plans = [Plan(name, {"smoothing": s, **({} if name == "factorized" else {"prior": "even"})}) for s in SMOOTHINGS]
            simple = min((task.start(plan) for plan in plans), key=lambda c: c.valid_nll)
            circuit, valid_nll = simple.parts[0].make(), simple.valid_nll
        out[f"test_{name}"] = _nll(circuit, data.test)
        out[f"valid_{name}"] = valid_nll
        out[f"seconds_{name}"] = time.perf_counter() - began
    return out


def _hidden(n_rows: int, options: Options) -> Plan:
    width = max(2, min(options.n_latents, n_rows // 6))
    start = {"init": "chow-liu", "noise": 0.3, "prior": "marginals", "smoothing": 10.0}
    return Plan("hclt", {"n_latents": width, **start}, trained=True)


def _trained(task: Task, start: Trial, regularizer: tuple[Any, ...], options: Options) -> Trial:
    candidate = start.variant(regularizer=regularizer)
    for _ in range(options.rounds):
        task.train_round(candidate, options.epochs, np.inf)
    return candidate


def _adam(task: Task, start: Trial, regularizer: Any, options: Options) -> Fit:
    size = batch_size(len(task.splits[0].train), 0)
    steps = -(-len(task.splits[0].train) // size)
    epochs = max(1, min(options.rounds * options.epochs, options.most_steps // steps))
    return fit(
        start.parts[0].make(), task.splits[0].train.X, valid=task.splits[0].valid.X, method=Adam(0.05), epochs=epochs,
        batch_size=size, regularizer=regularizer, seed=task.seed, n_threads=1, dtype="float64", progress=False,
    )  # fmt: skip


def _pruned(task: Task, start: Trial, regularizer: Any, options: Options) -> Fit:
    return fit(
        start.parts[0].make(), task.splits[0].train.X, valid=task.splits[0].valid.X, epochs=options.rounds * options.epochs,
        batch_size=batch_size(len(task.splits[0].train), 0), method=EM(linear(*STEP_SIZES[0])),
        regularizer=[regularizer, Laplace(INPUT_PSEUDOCOUNT, on="inputs")], seed=task.seed, n_threads=1, dtype="float64",
        progress=False,
    )  # fmt: skip


def _nll(circuit: Circuit, rows: Any) -> float:
    return -float(np.mean(circuit.log_prob(rows)))


@lru_cache(maxsize=1)
def _load(name: str, folder: str | None) -> Splits:
    return load_debd(name, folder)
