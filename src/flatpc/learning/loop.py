"""The loop over epochs and batches that every way of learning shares."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from flatpc._typing import Array, Ints
from flatpc._writing import check_target
from flatpc.engine import clock
from flatpc.engine.contract import Evaluator, Evidence
from flatpc.errors import FlatpcError, OptionError, WriteError
from flatpc.learning.run import checkpoint
from flatpc.learning.run.checkpoint import State
from flatpc.learning.run.distributed import Workers
from flatpc.learning.run.feeding import Batch, Feed, Judges
from flatpc.learning.run.history import JsonLines, Row, degree_of_overfitting
from flatpc.learning.run.interrupt import Interrupt
from flatpc.learning.run.notes import LearningWarning
from flatpc.learning.run.options import Run
from flatpc.learning.run.progress import Bar
from flatpc.learning.run.schedules import Schedule
from flatpc.learning.run.stopping import Stopping
from flatpc.learning.steps import model
from flatpc.learning.steps.pieces import Pieces

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

FINAL = ("early stopping", "diverged", "callback")
WRITING = 20
"""How many times longer than writing a checkpoint it takes at least until the next: a twentieth of the time is for that."""
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

    def step_over(self, pieces: Pieces, progress: float) -> float:
        """The same for a batch that comes in pieces."""

    def end_epoch(self, train_nll: float, valid_nll: float) -> None:
        """Called after each epoch, before it is recorded; the validation NLL may be NaN."""

    def check(self, mean_log_prob: Callable[[Evaluator], float]) -> None:
        """Raise `Diverged` if the present parameters, of which the function has the mean log-likelihood, are no good."""

    @property
    def resumes_anywhere(self) -> bool:
        """Whether a state in the middle of an epoch is enough to go on; after an epoch it always is."""

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
        self, learner: Learner, plan: Plan, feed: Feed, valid: Judges | None, workers: Workers, identity: dict[str, str]
    ) -> None:
        self.learner, self.plan, self.feed, self.valid = learner, plan, feed, valid
        self.workers, self.identity = workers, identity
        self.state = State()
        self._good = self._last = learner.state()
        """The learner's state after the last epoch, and after the last one whose parameters have proved good."""
        self._before = 0.0
        self._start = self._saved = clock.now()
        self._wrote = 0.0

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
                row = self._epoch(interrupt, bar)
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
        self._last = found.learner
        self._good = found.good or found.learner
        self._before = found.seconds
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
            self._write(replace(self.state, learner=self._last, stopped=final))

    def _save_midway(self, *, now: bool) -> None:
        """Write where the epoch is, if it is time; not if the learner couldn't go on from there."""
        if self.plan.run.checkpoint is None or not self._leads or not self.state.batches or not self.learner.resumes_anywhere:
            return
        wait = self.plan.run.checkpoint_seconds
        if now or clock.now() - self._saved >= (max(wait, WRITING * self._wrote) if wait else 0.0):
            self._write(replace(self.state, learner=self.learner.state(), good=self._good, stopped=""))

    def _write(self, state: State) -> None:
        state = replace(state, work=self.learner.evaluator.work, seconds=self.seconds)
        began = clock.now()
        self._aside(checkpoint.write, self.plan.run.checkpoint, state, self.identity)
        self._saved = clock.now()
        self._wrote = self._saved - began

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

    def _epoch(self, interrupt: Interrupt, bar: Bar) -> Row | None:
        """One epoch, or what is left of it, recorded; None if it was cut short."""
        state, n = self.state, self.feed.n_rows
        progress = state.epoch / self.plan.epochs
        try:
            for batch in self.feed.batches(state.epoch, state.batches):
                progress = (state.epoch + state.rows / n) / self.plan.epochs
                try:
                    state.total += batch.weight * self._step(batch, progress)
                except Diverged as problem:
                    self._give_up(str(problem))
                    return None
                if state.batches == 0:
                    self._good = self._last
                state.batches += 1
                state.rows += batch.n_rows
                why = "interrupted" if interrupt.asked else "time budget" if self.seconds > self.plan.time_budget else ""
                # Processes must agree, or one would wait for the others for ever.
                if (why or self.workers.n > 1) and self.workers.any(bool(why)):
                    state.stopped = why or "another process"
                    if state.rows < n:
                        self._save_midway(now=True)
                        return None
                    break
                if state.rows < n:
                    self._save_midway(now=False)
                    bar.within(state.epoch, state.rows, n)
        except FlatpcError:
            # Rows that can't be read any more: what was learnt so far isn't lost.
            self._save_midway(now=True)
            raise
        return self._record(-state.total / self.feed.rows.weight, progress)

    def _step(self, batch: Batch, progress: float) -> float:
        if batch.pieces is not None:
            return self.learner.step_over(batch.pieces, progress)
        assert batch.evidence is not None
        assert batch.rows is not None
        return self.learner.step(batch.evidence, batch.rows, progress, batch.weights)

    def _record(self, train_nll: float, progress: float) -> Row:
        state = self.state
        state.epoch += 1
        state.batches, state.rows, state.total = 0, 0, 0.0
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
        total, n, impossible, first = 0.0, 0, 0, 0
        weights = self.valid.weights
        for log_prob in self.valid.log_probs(self.learner.evaluator):
            none = np.isneginf(log_prob)
            if none.any() and not impossible:
                first = n + int(np.flatnonzero(none)[0])
            impossible += int(none.sum())
            total += float(log_prob.sum() if weights is None else weights @ log_prob)
            n += len(log_prob)
        if impossible and self.state.epoch == 1:
            note = (
                f"{impossible} of {n} validation rows have probability 0 (row {first} is the first), so "
                f"the validation NLL is infinite; they hold values that training never had. "
                f"Smooth, for example with regularizer=fp.learning.Laplace(pseudocount=1.0)."
            )
            self.state.notes.append(note)
            warnings.warn(note, LearningWarning, stacklevel=6)
        return -total / (n if weights is None else float(weights.sum()))

    def _sharpness(self) -> float:
        every = self.plan.run.sharpness_every
        if not every or (self.state.epoch % every and self.state.epoch != self.plan.epochs):
            return math.nan
        from flatpc import curvature

        circuit = model.to_circuit(self.learner.evaluator)
        return self.feed.mean(lambda X: curvature.trace(circuit, X, missing="marginalize"))

    def _check(self) -> None:
        try:
            self.learner.check(self.feed.mean_log_prob)
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
