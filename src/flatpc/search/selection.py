"""Choosing μ by validation NLL, each candidate in a process of its own."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flatpc._options import flag, several
from flatpc._processes import end_with_parent, returned_as
from flatpc.circuit.rows import check_circuit
from flatpc.errors import OptionError
from flatpc.learning.fitting import Fit, fit
from flatpc.learning.regularizers.sharpness import Sharpness, check_sharpness
from flatpc.learning.run.options import read_run
from flatpc.learning.run.schedules import Schedule
from flatpc.learning.steps.rows import TrainingRows
from flatpc.search.folds import check_jobs

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

GRID = (0.0, 0.01, 0.05, 0.1, 0.5, 1.0)
"""The paper's grid, and no penalty at all."""


@dataclass(frozen=True)
class Candidate:
    """One μ of `select`, and what came of it."""

    mu: float | str | Schedule
    """The weight of the penalty."""
    valid_nll: float
    """Mean negative log-likelihood of the validation rows, of the circuit that `fit` returned."""
    result: Fit
    """What `fit` returned."""


@dataclass(frozen=True)
class Selection:
    """What `select` returns: the best of several fits; of equals, the first."""

    best: Candidate
    """The one with the least validation NLL."""
    candidates: tuple[Candidate, ...]
    """In the order of the grid; after Ctrl-C only those that were begun."""
    interrupted: bool = False
    """Whether Ctrl-C ended it: the best is then the best of those that were trained to the end, if there are any."""

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
    """Fit once for each μ of a grid and choose by validation NLL; Ctrl-C ends all of it with the best so far.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> X = np.random.default_rng(0).integers(0, 2, size=(60, 3))
    >>> circuit = fp.structures.hclt(X[:40], n_latents=2)
    >>> found = fp.search.select(circuit, X[:40], valid=X[40:], grid=(0.0, 1.0), n_jobs=1, epochs=2)
    >>> found.mu in (0.0, 1.0), len(found.candidates)
    (True, 2)

    Parameters
    ----------
    circuit
        Where learning starts.
    X
        Rows to learn from.
    valid
        Rows to choose by.
    grid
        Values of μ: numbers, schedules, `"mean-flow"` (EM) or `"adaptive"` (gradient).
    sharpness
        Its other fields are used for all candidates.
    warm
        Whether every candidate starts from the circuit learnt with the one before, in order of the grid, one after the other;
        otherwise all start from `circuit`, in parallel.
    n_jobs
        Number of processes; None takes joblib's own setting, so a Dask or Ray backend serves as well.
    options
        Further options of `fit`; a candidate's checkpoint and log are the files given with the candidate's number appended.

    Returns
    -------
    Selection
        `circuit`, `mu`, and all candidates.

    Raises
    ------
    OptionError
        For an empty grid, or an option out of its range.
    DataError
        For rows that are not the circuit's.
    """
    check_circuit(circuit)
    flag("warm", warm)
    check_jobs(n_jobs)
    grid = several("grid", grid, "a list of values of mu")
    if not grid:
        raise OptionError("grid is empty; give at least one value of mu.", option="grid")
    base = Sharpness() if sharpness is None else check_sharpness(sharpness)
    run = read_run(options.pop("run", None))
    runs = [(mu, dataclasses.replace(base, mu=mu), {**options, "run": run.part(number)}) for number, mu in enumerate(grid)]
    fits: list[Fit] = []
    interrupted = False
    results = _one_by_one(circuit, X, valid, runs) if warm else _in_parallel(circuit, X, valid, runs, n_jobs)
    try:
        for result in results:
            fits.append(result)
            if result.stopped == "interrupted":
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        if not fits:
            raise
        interrupted = True
        with warnings.catch_warnings():
            # joblib warns of the candidates that are given up.
            warnings.simplefilter("ignore")
            results.close()
    candidates = tuple(
        Candidate(mu, _nll(result.circuit, valid, options), result) for (mu, _, _), result in zip(runs, fits, strict=False)
    )
    complete = [candidate for candidate in candidates if candidate.result.stopped != "interrupted"]
    return Selection(min(complete or candidates, key=lambda candidate: candidate.valid_nll), candidates, interrupted)


def _nll(circuit: Circuit, valid: Any, options: dict[str, Any]) -> float:
    log_prob = circuit.log_prob(valid, missing=options.get("missing", "raise"))
    counted = TrainingRows.read(log_prob, options.get("valid_weight"), "valid_weight")
    return -counted.mean(counted.X)


Run = tuple[Any, Sharpness, dict[str, Any]]
"""A μ, the penalty with it, and the options of its fit."""


def _one_by_one(circuit: Circuit, X: Any, valid: Any, runs: Sequence[Run]) -> Generator[Fit, None, None]:
    """Each from where the one before has ended."""
    for _, made, mine in runs:
        result = fit(circuit, X, valid=valid, sharpness=made, **mine)
        circuit = result.circuit
        yield result


def _in_parallel(circuit: Circuit, X: Any, valid: Any, runs: Sequence[Run], n_jobs: int | None) -> Generator[Fit, None, None]:
    import joblib

    one, parent = joblib.delayed(_fit_alone), os.getpid()
    workers = joblib.Parallel(n_jobs=n_jobs, return_as=returned_as("generator"))
    yield from workers(one(circuit, X, valid, made, mine, parent) for _, made, mine in runs)


def _fit_alone(circuit: Circuit, X: Any, valid: Any, sharpness: Sharpness, options: dict[str, Any], parent: int) -> Fit:
    """One thread per process unless told otherwise, so that processes don't fight for the cores."""
    end_with_parent(parent)
    return fit(circuit, X, valid=valid, sharpness=sharpness, **{"progress": False, "n_threads": 1, **options})
