"""Choosing μ by validation NLL, each candidate in a process of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from flatpc._options import MOST_THREADS, file_path, flag, several, whole_number, wrong
from flatpc.circuit.rows import check_circuit
from flatpc.errors import OptionError
from flatpc.learning.fitting import Fit, fit
from flatpc.learning.schedules import Schedule
from flatpc.learning.sharpness import Sharpness, check_sharpness

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

GRID = (0.0, 0.01, 0.05, 0.1, 0.5, 1.0)
"""The paper's grid, and no penalty at all."""


@dataclass(frozen=True)
class Candidate:
    """One μ and what came of it."""

    mu: float | str | Schedule
    valid_nll: float
    """Of the circuit that `fit` returned."""
    result: Fit


@dataclass(frozen=True)
class Selection:
    """The best of several fits; the first of equals."""

    best: Candidate
    candidates: tuple[Candidate, ...]
    """In the order of the grid."""

    @property
    def circuit(self) -> Circuit:
        """The chosen circuit."""
        return self.best.result.circuit

    @property
    def mu(self) -> float | str | Schedule:
        """The chosen μ."""
        return self.best.mu


def select(
    circuit: Circuit,
    X: Any,
    *,
    valid: Any,
    grid: Sequence[float | str | Schedule] = GRID,
    sharpness: Sharpness | None = None,
    warm: bool = False,
    n_jobs: int | None = None,
    **options: Any,
) -> Selection:
    """Fit once for each μ of the grid and choose by validation NLL.

    Parameters
    ----------
    circuit, X, valid, options
        As for `fit`; a candidate's checkpoint is the file given with the candidate's number appended.
    grid
        Values of μ: numbers, schedules, `"mean-flow"` (EM) or `"adaptive"` (gradient).
    sharpness
        Its other fields are used for all candidates.
    warm
        Start every candidate from the circuit learnt with the one before, in order of the grid, which takes turns;
        otherwise all start from `circuit`, in parallel.
    n_jobs
        Processes; None takes joblib's own setting, so a Dask or Ray backend serves as well.
    """
    check_circuit(circuit)
    flag("warm", warm)
    if n_jobs is not None and whole_number("n_jobs", n_jobs, -MOST_THREADS, MOST_THREADS) == 0:
        raise wrong("n_jobs", n_jobs, "give a number of processes, -1 for one per core, or None.")
    grid = several("grid", grid, "a list of values of mu")
    if not grid:
        raise OptionError("grid is empty; give at least one value of mu.", option="grid")
    base = Sharpness() if sharpness is None else check_sharpness(sharpness)
    runs = [(mu, dataclasses.replace(base, mu=mu), _options(options, number)) for number, mu in enumerate(grid)]
    if warm:
        fits: list[Fit] = []
        for _, made, mine in runs:
            fits.append(fit(fits[-1].circuit if fits else circuit, X, valid=valid, sharpness=made, **mine))
    else:
        import joblib

        one = joblib.delayed(_fit_alone)
        fits = joblib.Parallel(n_jobs=n_jobs)(one(circuit, X, valid, made, mine) for _, made, mine in runs)
    candidates = tuple(
        Candidate(mu, -float(np.mean(result.circuit.log_prob(valid, options.get("missing", "raise")))), result)
        for (mu, _, _), result in zip(runs, fits, strict=True)
    )
    return Selection(min(candidates, key=lambda candidate: candidate.valid_nll), candidates)


def _options(options: dict[str, Any], number: int) -> dict[str, Any]:
    own = {name: f"{file_path(name, options[name])}.{number}" for name in ("checkpoint", "log") if options.get(name) is not None}
    return {**options, **own}


def _fit_alone(circuit: Circuit, X: Any, valid: Any, sharpness: Sharpness, options: dict[str, Any]) -> Fit:
    """One thread per process unless told otherwise, so that processes don't fight for the cores."""
    return fit(circuit, X, valid=valid, sharpness=sharpness, **{"progress": False, "n_threads": 1, **options})
