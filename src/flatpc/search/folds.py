"""Folds of one candidate trained at the same time, by joblib: in processes, or on a Dask or Ray cluster.

Each fold is the same call of `fit` wherever it is made, and results are taken in the order of the folds, so that the choice has
the same bits as without.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from flatpc._options import MOST_THREADS, whole_number, wrong
from flatpc._processes import end_with_parent

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit
    from flatpc.learning.fitting import Fit
    from flatpc.learning.run.stopping import Stopping
    from flatpc.search.judging import Split
    from flatpc.search.training import Round, Task


def check_jobs(n_jobs: int | None) -> int | None:
    """A number of processes as joblib has it, or None for its own setting."""
    if n_jobs is not None and whole_number("n_jobs", n_jobs, -MOST_THREADS, MOST_THREADS) == 0:
        raise wrong("n_jobs", n_jobs, "give a number of processes, -1 for one per core, or None.")
    return n_jobs


def at_once(n_jobs: int | None, n_folds: int) -> bool:
    """Whether joblib has several workers for several folds; threads of one process would only wait for each other."""
    if n_folds < 2 or n_jobs == 1:
        return False
    from joblib import effective_n_jobs
    from joblib.parallel import get_active_backend

    backend, _ = get_active_backend()
    return not getattr(backend, "uses_threads", False) and effective_n_jobs(n_jobs) > 1


def train_folds(
    circuits: Sequence[Circuit], splits: Sequence[Split], task: Task, planned: Round, stopping: Stopping
) -> list[Fit]:  # fmt: skip
    """A round of EM on each split, from its own circuit."""
    import joblib

    # What is sent along is what a round needs, and no more.
    bare = replace(task, splits=(), fronts=(), watch=None)
    one, parent = joblib.delayed(_train), os.getpid()
    workers = joblib.Parallel(n_jobs=task.n_jobs)
    return list(
        workers(one(circuit, split, bare, planned, stopping, parent) for circuit, split in zip(circuits, splits, strict=True))
    )


def _train(circuit: Circuit, split: Split, task: Task, planned: Round, stopping: Stopping, parent: int) -> Fit:
    """One thread per process unless told otherwise, so that processes don't fight for the cores."""
    from flatpc.search.training import run

    end_with_parent(parent)
    alone = replace(task, n_threads=task.n_threads or 1)
    return run(circuit, split.train, alone, planned, valid=split.valid, stopping=stopping)
