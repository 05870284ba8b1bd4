"""One plan on trial: build its circuit, learn it from some rows, judge it by others."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc import structures
from flatpc.circuit.circuit import Circuit
from flatpc.estimator.plans import FLOORS, Options, Plan
from flatpc.estimator.starting import start_at_clusters
from flatpc.families.base import Family
from flatpc.families.gaussian import Gaussian
from flatpc.learning.fitting import fit
from flatpc.learning.history import History, Row
from flatpc.learning.notes import LearningWarning
from flatpc.learning.sharpness import Sharpness

Array = NDArray[np.float64]

FULL_BATCH = 2000
"""Rows up to which an EM step takes them all."""


@dataclass(frozen=True)
class Candidate:
    """A plan and how it did."""

    plan: Plan
    valid_nll: float
    """Mean over the validation rows; NaN without such rows."""
    circuit: Circuit | None
    """None of those that a thorough search didn't choose."""
    history: History
    epochs: int
    """After how many it was best."""
    weight: float = 0.0
    """Its share of what was chosen."""
    stopped: str = "counted"
    """Why learning ended, as `fp.fit` says it."""

    @property
    def loss(self) -> float:
        """What it is judged by: the validation NLL, which a model that went astray may lack."""
        return float("inf") if np.isnan(self.valid_nll) else self.valid_nll

    @staticmethod
    def over(splits: Sequence[Candidate]) -> Candidate:
        """One for several splits: their mean NLL, their median number of epochs, and the circuit of the first."""
        epochs = sorted(candidate.epochs for candidate in splits)[(len(splits) - 1) // 2]
        nll = float(np.mean([candidate.valid_nll for candidate in splits]))
        short = next((c.stopped for c in splits if c.stopped in ("interrupted", "time budget")), splits[0].stopped)
        return replace(splits[0], valid_nll=nll, epochs=epochs, stopped=short)


def attempt(
    plan: Plan, rows: Array, valid: Array | None, families: Sequence[Family], options: Options, seconds: float | None,
    watch: Callable[[Row], None] | None = None,
) -> Candidate:  # fmt: skip
    """Learn one plan from the rows, for so many seconds at the most; Ctrl-C ends it with what it has learnt so far."""
    circuit = _build(plan, rows, _with_floors(families, rows, plan.floor), options)
    if not plan.is_learnt:
        return Candidate(plan, nll(circuit, valid), circuit, History(), 0)
    with warnings.catch_warnings():
        # A candidate that goes astray is not chosen, and that is all there is to say of it.
        warnings.simplefilter("ignore", LearningWarning)
        result = fit(
            circuit, rows, valid=valid, method=options.method, epochs=options.epochs, **_steps(plan, options, len(rows)),
            sharpness=None if plan.mu == 0 else Sharpness(mu=plan.mu), seed=options.seed, missing="marginalize",
            early_stopping=options.patience if valid is not None and options.patience else None, time_budget=seconds,
            callbacks=() if watch is None else [lambda row, _: watch(row)], progress=False,
        )  # fmt: skip
    if valid is None or result.best_epoch == 0:
        return Candidate(
            plan, nll(result.circuit, valid), result.circuit, result.history, len(result.history), 0.0, result.stopped
        )
    return Candidate(plan, result.best_nll, result.best_circuit, result.history, result.best_epoch, 0.0, result.stopped)


def _with_floors(families: Sequence[Family], rows: Array, floor: float) -> list[Family]:
    """Gaussians with the plan's floor; a column that never changes would be the likelier the lower it is, and has its own."""
    out = []
    for family, column in zip(families, rows.T, strict=True):
        known = column[~np.isnan(column)]
        varies = len(known) > 0 and bool((known != known[0]).any())
        out.append(Gaussian(floor if varies else FLOORS[0]) if isinstance(family, Gaussian) else family)
    return out


def nll(circuit: Circuit, rows: Array | None) -> float:
    """Mean over the rows; NaN without."""
    found: Any = np.nan if rows is None else -circuit.log_prob(rows, missing="marginalize").mean()
    return float(found)


def _steps(plan: Plan, options: Options, n_rows: int) -> dict[str, Any]:
    """Few rows: all of them at every step of EM, which then climbs with each; else batches and smaller steps."""
    if options.method != "em":
        given = {} if options.pseudocount is None else {"input_pseudocount": options.pseudocount}
        return {"batch_size": options.batch_size or 200, "step_size": options.step_size or 0.1, **given}
    full = n_rows <= FULL_BATCH and options.batch_size is None
    return {
        "batch_size": None if full else options.batch_size or FULL_BATCH // 2,
        "step_size": options.step_size or (1.0 if full else 0.3),
        "input_pseudocount": plan.pseudocount,
    }


def _build(plan: Plan, rows: Array, families: Sequence[Family], options: Options) -> Circuit:
    if plan.structure == "factorized":
        return structures.factorized(rows, family=families, smoothing=1.0)
    if plan.structure == "chow_liu":
        return structures.chow_liu(rows, smoothing=1.0, family=families)
    seed, n, size = options.seed, rows.shape[1], plan.n_latents
    if plan.structure == "rat_spn" and n > 1:
        depth = 1 if options.depth is None else options.depth
        made = structures.rat_spn(n, depth=depth, n_repetitions=5, n_sums=size, n_inputs=size, family=families, seed=seed)
        if all(isinstance(family, Gaussian) for family in families):
            # Cuts pair all units of their halves, so that each variable is clustered on its own.
            return made.randomize(seed, X=rows)
    elif plan.structure == "hclt":
        made = structures.hclt(rows, size, family=families, seed=seed)
    else:
        made = structures.rat_spn(n, depth=0, n_repetitions=1, n_sums=size, n_inputs=size, family=families, seed=seed)
    return start_at_clusters(made, rows, seed, plan.pseudocount)
