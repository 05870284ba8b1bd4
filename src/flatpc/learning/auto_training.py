"""How `choose` trains a hidden model: mini-batch EM in rounds, each from a large step size to a small one.

A round goes on from the best circuit so far, by validation NLL. It starts with a smaller step size than the one before and ends
with a smaller one, and its batches are larger. What it did is kept as a list of `Round`s, so that `replay` can do the same to
other rows without looking at validation rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flatpc.engine import clock
from flatpc.errors import ParameterError
from flatpc.families.base import Family
from flatpc.learning.auto_candidates import Plan
from flatpc.learning.auto_simple import SimpleModels
from flatpc.learning.fitting import Fit, fit
from flatpc.learning.laplace import Laplace
from flatpc.learning.schedules import linear

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

Array = NDArray[np.float64]

STEP_SIZES = ((0.5, 0.05), (0.3, 0.03), (0.2, 0.02), (0.1, 0.01))
"""First and last step size of each round; later rounds do as the last."""
INPUT_PSEUDOCOUNT = 0.1
PATIENCE = 6
"""Epochs without a better validation NLL that end a round, or a third of the round if that is more."""
MOST_EPOCHS = 100
"""Of a round."""


@dataclass(frozen=True)
class Round:
    """A stretch of EM that was kept: so many epochs, from one step size to another."""

    epochs: int
    batch_size: int
    first: float
    last: float
    regularizer: tuple[Any, ...]
    seed: int


@dataclass
class Candidate:
    """A model on trial, and how it has done."""

    plan: Plan
    make: Callable[[], Circuit]
    """Its circuit."""
    valid_nll: float
    seconds: float = 0.0
    epochs: int = 0
    """Epochs trained, those that were not kept included."""
    training: float = 0.0
    """Seconds of these."""
    rounds: list[Round] = field(default_factory=list)
    begun: int = 0
    """Rounds of training, those that brought nothing included: each has smaller steps than the one before."""
    regularizer: tuple[Any, ...] = ()
    copy: int = 0
    """Which of several of the same plan it is: copies have other seeds, and trees from other samples of the rows."""
    whole: int = 0
    """How often all rows are in a copy's sample, beside as many drawn with replacement."""
    exhausted: bool = False
    """Whether the last round brought nothing."""
    log_prob: Array | None = None
    """Of the validation rows, if they have been worked out."""

    @property
    def name(self) -> str:
        """For people: structure, options, and regulariser if there is one."""
        return (
            self.plan.name
            + "".join(f" + {short(part)}" for part in self.regularizer)
            + (f", copy {self.copy}" if self.copy else "")
        )


@dataclass(frozen=True)
class Task:
    """The rows, and what else all candidates share."""

    train: Array
    valid: Array
    families: Sequence[Family]
    seed: int
    missing: str
    n_threads: int | None

    @cached_property
    def simple(self) -> SimpleModels:
        """For the plans that are not trained."""
        return SimpleModels(self.train, self.valid, self.families, self.seed)

    def start(self, plan: Plan, copy: int = 0, whole: int = 0) -> Candidate:
        """Build a candidate and judge it."""
        began = clock.now()
        if plan.trained:
            circuit = _build(plan, copy, whole, self)
            return Candidate(plan, lambda: circuit, np.inf, clock.now() - began, copy=copy, whole=whole)
        log_prob, make = self.simple.fit(plan)
        return Candidate(plan, make, -float(log_prob.mean()), clock.now() - began, log_prob=log_prob)

    def judge(self, candidate: Candidate) -> Array:
        """`[N]`: log-likelihoods of the validation rows."""
        if candidate.log_prob is None:
            candidate.log_prob = np.asarray(candidate.make().log_prob(self.valid, self.missing))
        return candidate.log_prob

    def train_round(self, candidate: Candidate, epochs: int, seconds: float) -> None:
        """Train for so many epochs, or as many of them as there is time for, and keep what is better than before."""
        end = clock.now() + seconds
        number = candidate.begun
        candidate.begun += 1
        first, last = STEP_SIZES[min(number, len(STEP_SIZES) - 1)]
        size = batch_size(len(self.train), number)
        if candidate.epochs == 0 and epochs > 1:
            # One epoch tells how many there is time for, which the schedule needs to know.
            self._train(candidate, Round(1, size, first, first, candidate.regularizer, self.seed + candidate.copy), seconds)
            epochs -= 1
        left = end - clock.now()
        if candidate.epochs and left < np.inf:
            epochs = min(epochs, int(left / max(candidate.training / candidate.epochs, 1e-9)))
        if epochs >= 1 and left > 0:
            seed = self.seed + candidate.copy + candidate.epochs
            self._train(candidate, Round(min(epochs, MOST_EPOCHS), size, first, last, candidate.regularizer, seed), left)

    def follow(self, candidate: Candidate, planned: Round, epochs: int, seconds: float) -> None:
        """Train as another one was in a round, for so many epochs or while there is time, and keep what is better than before."""
        candidate.regularizer = planned.regularizer
        self._train(candidate, replace(planned, epochs=epochs, seed=planned.seed + candidate.copy), seconds)

    def _train(self, candidate: Candidate, planned: Round, seconds: float) -> None:
        began = clock.now()
        patience = max(PATIENCE, planned.epochs // 3)
        result = run(candidate.make(), self, planned, time_budget=seconds, valid=self.valid, early_stopping=patience)
        candidate.epochs += len(result.history)
        taken = clock.now() - began
        candidate.seconds += taken
        candidate.training += taken
        candidate.exhausted = not result.best_nll < candidate.valid_nll
        if not candidate.exhausted:
            done = result.best_epoch / planned.epochs
            last = planned.first + (planned.last - planned.first) * done
            kept = Round(result.best_epoch, planned.batch_size, planned.first, last, planned.regularizer, planned.seed)
            candidate.make, candidate.log_prob = (lambda: result.best_circuit), None
            candidate.valid_nll = result.best_nll
            candidate.rounds.append(kept)
        if result.stopped == "interrupted":
            # What it learnt is kept; the search is to end, too.
            raise KeyboardInterrupt


def run(circuit: Circuit, task: Task, planned: Round, **options: Any) -> Fit:
    """One round of EM from `circuit`, in float32; where flows underflow there and leave no weights, in float64."""
    for dtype in ("float32", "float64"):
        try:
            with np.errstate(divide="ignore", invalid="ignore"):
                return fit(
                    circuit, task.train, epochs=planned.epochs, batch_size=planned.batch_size,
                    step_size=linear(planned.first, planned.last),
                    regularizer=[*planned.regularizer, *_inputs(planned.regularizer)], seed=planned.seed, missing=task.missing,
                    n_threads=task.n_threads, dtype=dtype, progress=False, **options,
                )  # fmt: skip
        except ParameterError:
            if dtype == "float64":
                raise
    raise AssertionError


def replay(candidate: Candidate, task: Task) -> Circuit:
    """The candidate built from the task's rows, and trained as it was, without validation."""
    circuit = _build(candidate.plan, candidate.copy, candidate.whole, task)
    for planned in candidate.rounds:
        circuit = run(circuit, task, planned).circuit
    return circuit


def _build(plan: Plan, copy: int, whole: int, task: Task) -> Circuit:
    """The start of a trained plan; that of a copy from a sample of the rows, which makes its trees other ones."""
    rows, seed = task.train, task.seed + copy
    if copy:
        n = len(rows)
        drawn = np.random.default_rng([seed, copy]).integers(0, n, n)
        rows = rows[np.concatenate([*[np.arange(n)] * whole, drawn])]
        if np.isnan(rows).all(axis=0).any():
            rows = task.train
    return plan.build(rows, task.families, seed)


def short(options: Any) -> str:
    """A dataclass with only those fields that are not as usual.

    >>> short(Laplace(0.5, on="all"))
    'Laplace(pseudocount=0.5)'
    """
    unusual = [(f.name, getattr(options, f.name)) for f in fields(options) if getattr(options, f.name) != f.default]
    return f"{type(options).__name__}({', '.join(f'{name}={value!r}' for name, value in unusual)})"


def batch_size(n_rows: int, number: int) -> int:
    """A twentieth of the rows, from 100 to 500; twice as many in every later round. Smaller ones are too noisy to learn from."""
    return int(min(np.clip(n_rows / 20, 100, 500) * 2 ** min(number, 3), n_rows))


def _inputs(regularizer: Sequence[Any]) -> tuple[Laplace, ...]:
    """A little smoothing of inputs, unless the regulariser brings its own: no value may end with probability 0."""
    smoothed = any(isinstance(part, Laplace) and part.of_inputs > 0 for part in regularizer)
    return () if smoothed else (Laplace(INPUT_PSEUDOCOUNT, on="inputs"),)
