"""Which circuit: a few structures and penalties are fitted to most of the rows and judged by the rest.

1. Structures, with μ = 0.1: independent columns; a Chow-Liu tree if all columns have categories; random tensorised circuits if
   all are continuous, else hidden Chow-Liu trees; plain mixtures. Those with latents come with few and with more of them.
2. For the best one that has a penalty: μ = 0 and 1, then smaller floors of the variance of Gaussian inputs.

A fifth of few rows is no judge, so up to 300 rows are split three times, with other validation rows each time. The best is then
fitted again to all rows, for as many epochs as served it best.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc import structures
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.families import Bernoulli, Categorical, Family, Gaussian
from flatpc.errors import OptionError
from flatpc.estimator.starting import start_at_clusters
from flatpc.learning.fitting import fit
from flatpc.learning.history import History
from flatpc.learning.sharpness import Sharpness

Array = NDArray[np.float64]

LATENTS = {"hclt": (4, 16), "mixture": (8, 32), "rat_spn": (8, 16)}
"""Sizes tried unless one is given: few and more, never more than a quarter of the rows."""
STRUCTURES = ("factorized", "chow_liu", *LATENTS)
NAMES = {
    "factorized": "independent columns",
    "chow_liu": "Chow-Liu tree",
    "hclt": "hidden Chow-Liu tree",
    "mixture": "mixture of independent columns",
    "rat_spn": "random tensorised circuit",
}
MUS = (0.1, 0.0, 1.0)
"""In the order in which they are tried."""
FLOORS = (1e-2, 1e-3, 1e-4)
"""Of the variance of a Gaussian input, where columns have variance 1; tried as long as each is better than the one before."""
FULL_BATCH = 2000
"""Rows up to which an EM step takes them all."""
FEWEST = 10
"""Rows without which there is nothing to judge by."""
FEW, N_SPLITS = 300, 3
"""Rows up to which models are judged by several splits, and how many those are."""


@dataclass(frozen=True)
class Plan:
    """One way to make a circuit."""

    structure: str
    n_latents: int = 1
    mu: float = 0.0
    floor: float = FLOORS[0]

    @property
    def is_learnt(self) -> bool:
        """Whether EM learns it; the others are counted."""
        return self.structure in LATENTS

    def __str__(self) -> str:
        size = f", {self.n_latents} latents, μ = {self.mu:g}" if self.is_learnt else ""
        return NAMES[self.structure] + size


@dataclass(frozen=True)
class Candidate:
    """A plan and how it did."""

    plan: Plan
    valid_nll: float
    """Mean over the validation rows; NaN without such rows."""
    circuit: Circuit
    history: History
    epochs: int
    """After how many it was best."""

    @staticmethod
    def over(splits: Sequence[Candidate]) -> Candidate:
        """One for several splits: their mean NLL, their median number of epochs, and the circuit of the first."""
        epochs = sorted(candidate.epochs for candidate in splits)[(len(splits) - 1) // 2]
        return replace(splits[0], valid_nll=float(np.mean([candidate.valid_nll for candidate in splits])), epochs=epochs)


@dataclass(frozen=True)
class Choice:
    """The best candidate, fitted to all rows, and all candidates in the order in which they were tried."""

    best: Candidate
    circuit: Circuit
    candidates: tuple[Candidate, ...]
    judges: NDArray[np.int64]
    """The validation rows of all splits."""


@dataclass(frozen=True)
class Options:
    """What the user has decided; None or `"auto"` leaves it open."""

    structure: str = "auto"
    n_latents: int | None = None
    mu: float | None = None
    pseudocount: float = 0.3
    validation_fraction: float = 0.2
    epochs: int = 200
    patience: int = 10
    time_budget: float | None = 30.0
    seed: int = 0


def choose(rows: Array, families: Sequence[Family], options: Options) -> Choice:
    """Try, judge, choose, fit again. Rows are in the circuit's units, NaN where missing."""
    splits = _splits(rows, options)
    if not splits:
        return _without_judges(rows, families, options)
    started = time.monotonic()
    candidates: list[Candidate] = []
    for plan in _plans(families, len(rows) - len(splits[0]), options, candidates):
        if candidates and options.time_budget is not None and time.monotonic() - started > options.time_budget / 2:
            break
        tries = [_try(plan, np.delete(rows, judges, axis=0), rows[judges], families, options) for judges in splits]
        candidates.append(Candidate.over(tries))
    best = min(candidates, key=lambda candidate: candidate.valid_nll)
    again = _try(best.plan, rows, None, families, replace(options, epochs=best.epochs))
    return Choice(best, again.circuit, tuple(candidates), np.concatenate(splits))


def _splits(rows: Array, options: Options) -> list[NDArray[np.int64]]:
    """Validation rows, several times over if there are few rows; none if there are too few."""
    n_valid = round(options.validation_fraction * len(rows))
    if n_valid == 0 or len(rows) < FEWEST:
        return []
    order = np.random.default_rng(options.seed).permutation(len(rows))
    # No row judges twice.
    n_splits = min(N_SPLITS, len(rows) // n_valid) if len(rows) <= FEW else 1
    out = []
    for split in range(n_splits):
        judges = np.sort(order[split * n_valid : (split + 1) * n_valid])
        # A column known in validation rows only can't be learnt from the others.
        if not np.isnan(np.delete(rows, judges, axis=0)).all(axis=0).any():
            out.append(judges)
    return out


def _without_judges(rows: Array, families: Sequence[Family], options: Options) -> Choice:
    """The first plan, or what was asked for, for as many epochs as patience allows."""
    plan = next(_plans(families, len(rows), options, []))
    only = _try(plan, rows, None, families, replace(options, epochs=min(options.epochs, options.patience)))
    return Choice(only, only.circuit, (only,), np.empty(0, np.int64))


def _plans(families: Sequence[Family], n_rows: int, options: Options, done: list[Candidate]) -> Iterator[Plan]:
    """What to try next; `done` grows meanwhile."""
    has_gaussian = any(isinstance(family, Gaussian) for family in families)
    mu = MUS[0] if options.mu is None else options.mu
    for structure in _structures(families, options.structure):
        for size in _sizes(structure, n_rows, options.n_latents):
            yield Plan(structure, size, mu if structure in LATENTS else 0.0)
    learnt = [candidate for candidate in done if candidate.plan.is_learnt]
    if not learnt:
        return
    if options.mu is None:
        base = min(learnt, key=lambda candidate: candidate.valid_nll).plan
        for other in MUS[1:]:
            yield replace(base, mu=other)
    if has_gaussian:
        for floor in FLOORS[1:]:
            best = min((candidate for candidate in done if candidate.plan.is_learnt), key=lambda candidate: candidate.valid_nll)
            if best.plan.floor != FLOORS[FLOORS.index(floor) - 1]:
                return
            yield replace(best.plan, floor=floor)


def _structures(families: Sequence[Family], asked: str) -> tuple[str, ...]:
    all_tables = all(isinstance(family, Bernoulli | Categorical) for family in families)
    if asked == "auto":
        if len(families) == 1:
            return ("factorized",) if all_tables else ("factorized", "mixture")
        if all_tables:
            return "factorized", "chow_liu", "hclt", "mixture"
        all_continuous = all(isinstance(family, Gaussian) for family in families)
        return "factorized", "rat_spn" if all_continuous else "hclt", "mixture"
    if asked not in STRUCTURES:
        raise OptionError(f"structure={asked!r}; choose one of 'auto', {', '.join(repr(name) for name in STRUCTURES)}.")
    if asked == "chow_liu" and not all_tables:
        raise OptionError(
            "structure='chow_liu' is for binary and categorical columns only; choose 'hclt' for tables with others."
        )
    return (asked,)


def _sizes(structure: str, n_rows: int, asked: int | None) -> list[int]:
    if structure not in LATENTS:
        return [1]
    if asked is not None:
        return [asked]
    few, more = LATENTS[structure]
    most = max(n_rows // 4, 2)
    # A second size that is hardly another one is not worth a fit.
    return [min(few, most), min(more, most)] if most >= 2 * few else [min(few, most)]


def _try(plan: Plan, rows: Array, valid: Array | None, families: Sequence[Family], options: Options) -> Candidate:
    mine = [Gaussian(plan.floor) if isinstance(family, Gaussian) else family for family in families]
    circuit = _build(plan, rows, mine, options)
    if not plan.is_learnt:
        return Candidate(plan, _nll(circuit, valid), circuit, History(), 0)
    full = len(rows) <= FULL_BATCH
    result = fit(
        circuit, rows, valid=valid, epochs=options.epochs, batch_size=None if full else FULL_BATCH // 2,
        step_size=1.0 if full else 0.3, input_pseudocount=options.pseudocount, sharpness=Sharpness(mu=plan.mu),
        early_stopping=None if valid is None else options.patience, seed=options.seed, missing="marginalize", progress=False,
        time_budget=None if options.time_budget is None else max(options.time_budget / 4, 1.0),
    )  # fmt: skip
    epochs = result.best_epoch if valid is not None else len(result.history)
    return Candidate(plan, np.nan if valid is None else result.best_nll, result.circuit, result.history, max(epochs, 1))


def _build(plan: Plan, rows: Array, families: Sequence[Family], options: Options) -> Circuit:
    if plan.structure == "factorized":
        return structures.factorized(rows, family=families, smoothing=1.0)
    if plan.structure == "chow_liu":
        return structures.chow_liu(rows, smoothing=1.0, family=families)
    seed, n, size = options.seed, rows.shape[1], plan.n_latents
    if plan.structure == "rat_spn" and n > 1:
        made = structures.rat_spn(n, depth=1, n_repetitions=5, n_sums=size, n_inputs=size, family=families, seed=seed)
        if all(isinstance(family, Gaussian) for family in families):
            # Cuts pair all units of their halves, so that each variable is clustered on its own.
            return made.randomize(seed, X=rows)
    elif plan.structure == "hclt":
        made = structures.hclt(rows, size, family=families, seed=seed)
    else:
        made = structures.rat_spn(n, depth=0, n_repetitions=1, n_sums=size, n_inputs=size, family=families, seed=seed)
    return start_at_clusters(made, rows, seed, options.pseudocount)


def _nll(circuit: Circuit, rows: Array | None) -> float:
    found: Any = np.nan if rows is None else -circuit.log_prob(rows, missing="marginalize").mean()
    return float(found)
