"""The loop over epochs and batches that every way of learning shares."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from flatpc._writing import check_target
from flatpc.engine import clock
from flatpc.engine.numba.evaluator import Evaluator
from flatpc.engine.numba.evidence import Evidence
from flatpc.errors import OptionError, WriteError
from flatpc.learning.run import checkpoint
from flatpc.learning.run.checkpoint import State
from flatpc.learning.run.distributed import Workers
from flatpc.learning.run.history import JsonLines, Row, degree_of_overfitting
from flatpc.learning.run.interrupt import Interrupt
from flatpc.learning.run.notes import LearningWarning
from flatpc.learning.run.options import Run
from flatpc.learning.run.progress import Bar
from flatpc.learning.run.schedules import Schedule
from flatpc.learning.run.stopping import Stopping
from flatpc.learning.steps import model
from flatpc.learning.steps.rows import TrainingRows

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
FINAL = ("early stopping", "diverged", "callback")
"""Reasons to end that hold when the run is resumed."""


class Learner(Protocol):
    """A way to learn: it changes the evaluator's parameters step by step."""

    evaluator: Evaluator
    step_size: Schedule

    @property
    def mu(self) -> float:
        """The μ of the last step."""

    def step(self, evidence: Evidence, rows: Ints, progress: float, weights: Array | None = None) -> float:
        """One step; the mean log-likelihood of the rows before it. `weights` has one number for each row of the evidence."""

    def end_epoch(self, train_nll: float, valid_nll: float) -> None:
        """Called after each epoch, before it is recorded; the validation NLL may be NaN."""

    def check(self, evidence: Evidence, weights: Array | None = None) -> None:
        """Raise `Diverged` if the present parameters are no good."""

    def state(self) -> model.Parameters:
        """Arrays from which `restore` goes on, bit for bit."""

    def restore(self, state: model.Parameters) -> None:
        """Go on from a state."""


class Diverged(Exception):
    """A learner's step led nowhere; the message says what to lower."""


@dataclass(frozen=True)
class Plan:
    """How long to learn and what to do on the way."""

    epochs: int
    batch_size: int
    seed: int
    stopping: Stopping
    run: Run
    progress: bool

    @property
    def time_budget(self) -> float:
        """In seconds."""
        return math.inf if self.stopping.time_budget is None else self.stopping.time_budget


class Loop:
    """Runs a learner through a plan; everything that must survive a crash is in `state`."""

    def __init__(
        self, learner: Learner, plan: Plan, rows: TrainingRows, valid: Evidence | None, workers: Workers, identity: dict[str, str]
    ) -> None:
        self.learner, self.plan, self.rows = learner, plan, rows
        self.evidence, self.valid = Evidence(learner.evaluator.program, rows.X), valid
        self.workers, self.identity = workers, identity
        self.state = State()
        self._good = self._last = learner.state()
        """The learner's state after the last epoch, and after the last one whose parameters have proved good."""
        self._before = 0.0
        self._start = clock.now()

    @property
    def seconds(self) -> float:
        """Spent on this run, earlier parts included."""
        return self._before + clock.now() - self._start

    def run(self, notes: list[str]) -> None:
        """Learn until the plan, the user, the clock or the validation rows say stop."""
        self.state.notes = notes
        if self.plan.run.checkpoint is not None and self._leads:
            check_target(self.plan.run.checkpoint)
        self._resume()
        log = self._log()
        with Interrupt() as interrupt, Bar(self.plan.epochs, self.state.epoch, self.plan.progress and self._leads) as bar:
            for note in self.state.notes:
                bar.say(note)
            while not self.state.stopped and self.state.epoch < self.plan.epochs:
                row = self._epoch(interrupt)
                if row is None:
                    break
                bar(row)
                if log is not None:
                    self._aside(log, row)
                answers = [callback(row, self.circuit) for callback in self.plan.run.callbacks]
                if any(answers):
                    self.state.stopped = "callback"
                self._save()
            if interrupt.asked and not self.state.stopped:
                # After the last step; whoever called is to stop all the same.
                self.state.stopped = "interrupted"
            self._check()
        if not self.state.stopped and self.state.epoch >= self.plan.epochs:
            self.state.stopped = "epochs"

    @property
    def _leads(self) -> bool:
        return self.workers.rank == 0

    def _resume(self) -> None:
        if self.plan.run.checkpoint is None:
            return
        found = checkpoint.read(self.plan.run.checkpoint, self.identity)
        if found is None:
            return
        if found.epoch > self.plan.epochs:
            raise OptionError(
                f"epochs={self.plan.epochs}, but the run in {os.fspath(self.plan.run.checkpoint)} has done {found.epoch}; "
                f"give at least as many, or another file name to start anew."
            )
        checkpoint.check_arrays(self.plan.run.checkpoint, found.learner, self.learner.state())
        if found.best:
            checkpoint.check_arrays(self.plan.run.checkpoint, found.best, model.packed(self.learner.evaluator))
        self.state = found
        self.learner.restore(found.learner)
        self.learner.evaluator.work = found.work
        self._good = self._last = found.learner
        self._before = found.history[-1]["seconds"] if found.history else 0.0
        if not found.stopped and self._before > self.plan.time_budget:
            found.stopped = "time budget"

    def _log(self) -> JsonLines | None:
        return JsonLines(self.plan.run.log, self.state.history) if self.plan.run.log is not None and self._leads else None

    def _save(self) -> None:
        if self.plan.run.checkpoint is None or not self._leads:
            return
        last = self.state.epoch >= self.plan.epochs or bool(self.state.stopped)
        if last or self.state.epoch % self.plan.run.checkpoint_every == 0:
            # Whom the clock or the user stopped may go on another time.
            final = self.state.stopped if self.state.stopped in FINAL else ""
            state = replace(self.state, learner=self._last, stopped=final, work=self.learner.evaluator.work)
            self._aside(checkpoint.write, self.plan.run.checkpoint, state, self.identity)

    def _aside(self, write: Callable[..., None], *arguments: Any) -> None:
        """Write what is not the result; if that fails, the result is still worth having."""
        try:
            write(*arguments)
        except WriteError as problem:
            note = f"{problem} Learning goes on without."
            if note not in self.state.notes:
                self.state.notes.append(note)
                warnings.warn(note, LearningWarning, stacklevel=5)

    # ---- one epoch ------------------------------------------------------------------------------------------------

    def _batches(self, epoch: int) -> Iterator[Ints]:
        n, size = len(self.evidence), self.plan.batch_size
        if size >= n:
            yield np.arange(n)
            return
        order = np.random.default_rng([self.plan.seed, epoch]).permutation(n)
        for start in range(0, n, size):
            yield order[start : start + size]

    def _epoch(self, interrupt: Interrupt) -> Row | None:
        """One epoch, recorded; None if it was cut short."""
        epoch, n = self.state.epoch, len(self.evidence)
        total, done, weights = 0.0, 0, self.rows.weights
        for rows in self._batches(epoch):
            progress = (epoch + done / n) / self.plan.epochs
            try:
                total += self.rows.weight_of(rows) * self.learner.step(self.evidence, rows, progress, weights)
            except Diverged as problem:
                self._give_up(str(problem))
                return None
            if done == 0:
                self._good = self._last
            done += len(rows)
            why = "interrupted" if interrupt.asked else "time budget" if self.seconds > self.plan.time_budget else ""
            # Processes must agree, or one would wait for the others for ever.
            if (why or self.workers.n > 1) and self.workers.any(bool(why)):
                self.state.stopped = why or "another process"
                if done < n:
                    return None
                break
        return self._record(-total / self.rows.weight, progress)

    def _record(self, train_nll: float, progress: float) -> Row:
        state = self.state
        state.epoch += 1
        valid_nll = self._valid_nll()
        overfitting = degree_of_overfitting(train_nll, valid_nll)
        mu = self.learner.mu
        self.learner.end_epoch(train_nll, valid_nll)
        self._last = self.learner.state()
        row: Row = {
            "epoch": state.epoch,
            "train_nll": train_nll,
            "valid_nll": valid_nll,
            "overfitting": overfitting,
            "sharpness": self._sharpness(),
            "mu": mu,
            "step_size": self.learner.step_size(progress),
            "seconds": self.seconds,
        }
        state.history.append(row)
        if valid_nll < state.best_nll:
            state.best_nll, state.best_epoch = valid_nll, state.epoch
            state.best = model.packed(self.learner.evaluator)
        patience = self.plan.stopping.patience
        if patience is not None and state.epoch - state.best_epoch >= patience and not state.stopped:
            state.stopped = "early stopping"
        return row

    def _valid_nll(self) -> float:
        if self.valid is None:
            return math.nan
        log_prob = self.learner.evaluator.log_prob(self.valid)
        impossible = int(np.isneginf(log_prob).sum())
        if impossible and self.state.epoch == 1:
            first = int(np.flatnonzero(np.isneginf(log_prob))[0])
            note = (
                f"{impossible} of {len(log_prob)} validation rows have probability 0 (row {first} is the first), so "
                f"the validation NLL is infinite; they hold values that training never had. "
                f"Smooth, for example with regularizer=fp.learning.Laplace(pseudocount=1.0)."
            )
            self.state.notes.append(note)
            warnings.warn(note, LearningWarning, stacklevel=6)
        return -float(log_prob.mean())

    def _sharpness(self) -> float:
        every = self.plan.run.sharpness_every
        if not every or (self.state.epoch % every and self.state.epoch != self.plan.epochs):
            return math.nan
        from flatpc import curvature

        return self.rows.mean(curvature.trace(model.to_circuit(self.learner.evaluator), self.evidence.X))

    def _check(self) -> None:
        try:
            self.learner.check(self.evidence, self.rows.weights)
        except Diverged as problem:
            self._give_up(str(problem))

    def _give_up(self, problem: str) -> None:
        self.state.stopped = "diverged"
        self.state.notes.append(problem)
        self.learner.restore(self._good)
        warnings.warn(problem, LearningWarning, stacklevel=5)

    # ---- what came out --------------------------------------------------------------------------------------------

    def circuit(self) -> Circuit:
        """The circuit as it is now."""
        return model.to_circuit(self.learner.evaluator)

    def best(self) -> Circuit:
        """The circuit after the epoch with the lowest validation NLL, or else as it is now."""
        return model.to_circuit(self.learner.evaluator, self.state.best) if self.state.best else self.circuit()

    def result(self) -> Circuit:
        """The best circuit if that was asked for, or if the user cut the run short; else the last one."""
        wanted = self.plan.stopping.patience is not None or self.state.stopped == "interrupted"
        return self.best() if wanted else self.circuit()
