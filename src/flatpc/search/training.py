"""How a search trains a model: mini-batch EM in rounds, each from a large step size to a small one.

A round goes on from the best circuit so far, by validation NLL. It starts with a smaller step size than the one before and ends
with a smaller one, and its batches are larger. What it did is kept as a list of `Round`s, so that `replay` can do the same to
other rows without looking at validation rows. Where models are judged by several splits of the rows, a round trains one model for
each split, and is kept if their judges agree on average.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from flatpc._typing import Array
from flatpc.engine import clock
from flatpc.errors import ParameterError
from flatpc.families import Family
from flatpc.learning.fitting import Fit, fit
from flatpc.learning.regularizers.auto import short
from flatpc.learning.regularizers.laplace import Laplace
from flatpc.learning.run.notes import LearningWarning
from flatpc.learning.run.options import Callback, Run
from flatpc.learning.run.schedules import linear
from flatpc.learning.run.stopping import Stopping
from flatpc.learning.steps.em import EM
from flatpc.search import work
from flatpc.search.by_curvature import CurvatureJudge
from flatpc.search.by_curvature import Round as JudgedRound
from flatpc.search.checkpoints import Checkpoints
from flatpc.search.column_maps import Front
from flatpc.search.counted import Counted, fitted
from flatpc.search.floors import with_floor
from flatpc.search.folds import at_once, train_folds
from flatpc.search.judging import Split
from flatpc.search.plans import Plan
from flatpc.search.samples import Sample, judges_of
from flatpc.structures.edit.mixing import mix
from flatpc.structures.edit.mixing_families import mix_families

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit
    from flatpc.learning.run.history import Row

Watch = Callable[["Trial", "Row"], None]

STEP_SIZES = ((0.5, 0.05), (0.3, 0.03), (0.2, 0.02), (0.1, 0.01))
"""First and last step size of each round; later rounds do as the last."""
ALL_ROWS = 1 << 40
"""The size of a batch of all rows, however many there are."""
MOST_ROWS, LARGE = 8_000, 24_000
"""Rows by which a large table with numbers has its model chosen, and those beyond which it is large."""
PART_ROWS = 4_000
"""Of a batch, in place of all rows of a large table."""
INPUT_PSEUDOCOUNT = 0.1
PATIENCE = 6
"""Epochs without a better validation NLL that end a round, or a third of the round if that is more."""
SLACK = 2
"""Epochs by which a copy's rounds are longer than those that were kept of the best one."""
MOST_EPOCHS = 100
"""Of a round."""
FINISHING_EPOCHS = 2
"""Of a model that has learnt from most rows, with all of them."""
SAVED_EVERY = 20
"""Epochs from one checkpoint to the next."""


class OutOfTime(Exception):
    """The time limit was hit."""


@dataclass(frozen=True)
class Round:
    """A stretch of EM that was kept: so many epochs, from one step size to another."""

    epochs: int
    batch_size: int
    first: float
    last: float
    regularizer: tuple[Any, ...]
    seed: int
    floor: float | None = None
    """Of the variance of Gaussian inputs; None leaves it as it is."""
    rounding: tuple[float, ...] = ()
    """Of columns, the least floors below the usual ones."""
    n_rows: int = 0
    """The rows that it learns from, a sample by its seed; 0 for all."""

    def cut(self, epochs: int) -> Round:
        """Its first epochs."""
        last = self.first + (self.last - self.first) * epochs / self.epochs
        return replace(self, epochs=epochs, last=last)


@dataclass
class Part:
    """What a candidate is on one split."""

    make: Callable[[], Circuit]
    """Its circuit."""
    valid_nll: float = np.inf
    log_prob: Array | None = None
    """Of the judges, if they have been worked out."""


@dataclass
class Trial:
    """A model on trial, and how it has done."""

    plan: Plan
    parts: list[Part]
    valid_nll: float
    """Mean over all judges."""
    building: float = 0.0
    """Work of building it."""
    epochs: int = 0
    """Epochs trained, those that were not kept included."""
    training: float = 0.0
    """Work of these."""
    passes: float = 0.0
    """The part of it that grows with the number of epochs."""
    seen: float = 0.0
    """Epochs times the rows of each, which that part is in proportion to."""
    rounds: list[Round] = field(default_factory=list)
    begun: int = 0
    """Rounds of training, those that brought nothing included: each has smaller steps than the one before."""
    regularizer: tuple[Any, ...] = ()
    floor: float | None = None
    copy: int = 0
    """Which of several of the same plan it is: copies have other seeds, and trees from other samples of the rows."""
    whole: int = 0
    """How often all rows are in a copy's sample, beside as many drawn with replacement."""
    exhausted: bool = False
    """Whether the last round brought nothing."""

    @property
    def name(self) -> str:
        """For people: structure, options, and regulariser if there is one."""
        return (
            self.plan.name
            + "".join(f" + {short(part)}" for part in self.regularizer)
            + (f", variances from {self.floor:g}" if self.floor is not None else "")
            + (f", copy {self.copy}" if self.copy else "")
        )

    @property
    def kept(self) -> float:
        """Work of the rounds that were kept, each a little longer than it was."""
        kept = sum(planned.epochs + SLACK for planned in self.rounds)
        return self.training * min(kept / self.epochs, 1.0) if self.epochs else 0.0

    def joined(self, other: Trial) -> Trial:
        """Both in one mixture, to be trained as such; nothing is known of how it does."""
        pairs = zip(self.parts, other.parts, strict=True)
        circuits = [mix([mine.make(), theirs.make()], [0.5, 0.5]) for mine, theirs in pairs]
        parts = [Part(lambda circuit=circuit: circuit) for circuit in circuits]  # type: ignore[misc]
        options = {**self.plan.options, "n_latents": self.plan.n_latents + other.plan.n_latents}
        return replace(
            self, plan=replace(self.plan, options=options), parts=parts, valid_nll=np.inf, rounds=list(self.rounds),
            passes=2 * self.passes, exhausted=False,
        )  # fmt: skip

    def variant(self, **changes: Any) -> Trial:
        """The same model, to go on in another way."""
        return replace(self, parts=[replace(part) for part in self.parts], rounds=list(self.rounds), **changes)


@dataclass(frozen=True)
class Task:
    """The rows, and what else all candidates share."""

    splits: Sequence[Split]
    families: Sequence[Family]
    seed: int
    missing: str
    n_threads: int | None
    varies: Sequence[bool]
    """Which columns have more than one value."""
    deadline: float = np.inf
    """Of `clock.now`, for the sake of users who can't wait."""
    watch: Watch | None = None
    checkpoints: Checkpoints | None = None
    fronts: Sequence[Front] = ()
    """Units of learning; the splits and families above are the first one's."""
    most_rows: int = 0
    """That a round learns from; 0 for all."""
    by_curvature: CurvatureJudge | None = None
    """Judges by the rows learnt from; None where other rows judge."""
    n_jobs: int | None = 1
    """Processes that train the folds of a candidate, as joblib has it."""
    others: Mapping[int, Sequence[Family]] = field(default_factory=dict)
    """Further families of columns, in the units of the first front, for plans that mix them."""
    ordered: Mapping[int, Sequence[Family]] = field(default_factory=dict)
    """By the number of a front, its families for plans that have such for categories in order."""

    @cached_property
    def counted(self) -> dict[int, list[Counted]]:
        """For the plans that are not trained, front by front as they are asked for."""
        return {}

    def splits_of(self, plan: Plan) -> Sequence[Split]:
        """In the units in which the plan is learnt."""
        return self.fronts[plan.front].splits if plan.front else self.splits

    def families_of(self, plan: Plan) -> Sequence[Family]:
        """In the units in which the plan is learnt."""
        if plan.ordered:
            return self.ordered[plan.front]
        return self.fronts[plan.front].families if plan.front else self.families

    def volumes_of(self, plan: Plan) -> Sequence[Array | float]:
        """What log-densities of judges are lower by in the units of the first front."""
        if not plan.front:
            return [0.0] * len(self.splits)
        return [own - first for own, first in zip(self.fronts[plan.front].volumes, self.fronts[0].volumes, strict=True)]

    @cached_property
    def n_rows(self) -> int:
        """Rows learnt from, of the largest split."""
        return max(len(split.train) for split in self.splits)

    @property
    def is_large(self) -> bool:
        """Whether there are many more rows than a choice needs."""
        return self.n_rows > LARGE

    def sampled(self) -> Task:
        """The same, with rounds that learn from as many rows as a choice needs."""
        return replace(self, most_rows=MOST_ROWS)

    @cached_property
    def judges(self) -> Sample:
        """All of them, as they count."""
        return judges_of([split.valid for split in self.splits])

    def start(self, plan: Plan, copy: int = 0, whole: int = 0) -> Trial:
        """Build a candidate, and judge it if it is counted."""
        self._check_time()
        spent = len(self.splits) * plan.work(self.n_rows, self.families)
        if plan.trained:
            circuits = [build(plan, split.train, self, copy, whole) for split in self.splits_of(plan)]
            parts = [Part(lambda circuit=circuit: circuit) for circuit in circuits]  # type: ignore[misc]
            return Trial(plan, parts, np.inf, spent, copy=copy, whole=whole)
        parts = []
        if plan.front not in self.counted:
            families = self.families_of(plan)
            self.counted[plan.front] = [
                Counted(split.train, split.valid.X, families, self.seed, split.valid) for split in self.splits_of(plan)
            ]
        for counted, volume, split in zip(self.counted[plan.front], self.volumes_of(plan), self.splits, strict=True):
            self._check_time()
            log_prob, make = counted.fit(plan)
            if self.by_curvature is not None:
                circuit = make()
                log_prob = self.by_curvature.log_prob(circuit, split.train.X, counted=True)
                spent += self.by_curvature.work(circuit, len(split.train))
            log_prob = log_prob - volume
            parts.append(Part(make, -split.valid.mean(log_prob), log_prob))
        return Trial(plan, parts, self._mean(parts), spent)

    def judge(self, candidate: Trial) -> Array:
        """Log-likelihoods of all judges, one split's after the other's."""
        plan = candidate.plan
        for part, split, volume in zip(candidate.parts, self.splits_of(plan), self.volumes_of(plan), strict=True):
            if part.log_prob is None and self.by_curvature is not None:
                part.log_prob = self.by_curvature.log_prob(part.make(), split.valid.X, counted=not plan.trained) - volume
            elif part.log_prob is None:
                part.log_prob = np.asarray(part.make().log_prob(split.valid.X, missing=self.missing)) - volume
        return np.concatenate([part.log_prob for part in candidate.parts])

    def train_round(self, candidate: Trial, most: int, allowance: float) -> None:
        """Train for as many epochs as the allowance of work is enough for, and keep what is better than before."""
        number = candidate.begun
        candidate.begun += 1
        first, last = STEP_SIZES[min(number, len(STEP_SIZES) - 1)]
        n_rows = min(self.n_rows, self.most_rows or self.n_rows)
        size = batch_size(n_rows, number)
        if candidate.plan.whole and self.is_large:
            size = max(size, PART_ROWS)
        elif candidate.plan.whole:
            first, last, size = 1.0, 1.0, ALL_ROWS
        seed = self.seed + candidate.copy
        rounding = self.fronts[candidate.plan.front].rounding if self.fronts else ()
        planned = Round(1, size, first, first, candidate.regularizer, seed, candidate.floor, rounding, self.most_rows)
        before = candidate.training
        if candidate.epochs == 0 and most > 1:
            # One epoch tells how many there is an allowance for, which the schedule needs to know.
            self._train(candidate, planned)
            most -= 1
        if candidate.epochs:
            left = allowance - (candidate.training - before)
            most = int(min(most, left / (candidate.passes / candidate.seen * n_rows)))
        if most >= 1:
            most = min(most, MOST_EPOCHS)
            self._train(candidate, replace(planned, epochs=most, last=last, seed=seed + candidate.epochs))

    def follow(self, candidate: Trial, planned: Round, epochs: int) -> None:
        """Train as another one was in a round, for so many epochs, and keep what is better than before."""
        candidate.regularizer, candidate.floor = planned.regularizer, planned.floor
        self._train(candidate, replace(planned, epochs=epochs, seed=planned.seed + candidate.copy))

    def _train(self, candidate: Trial, planned: Round) -> None:
        patience = max(PATIENCE, planned.epochs // 3)
        results, done, stopped = [], 0, ""
        for split, result in self._folds(candidate, planned, patience):
            results.append(result)
            done = max(done, len(result.history))
            passes = work.of_passes(result.work)
            n_learnt = min(planned.n_rows or len(split.train), len(split.train))
            candidate.seen += len(result.history) * n_learnt / len(self.splits)
            candidate.passes += passes
            candidate.training += (
                work.of_setup(len(result.circuit.nodes), (n_learnt + len(split.valid)) * len(self.families)) + passes
            )
            stopped = result.stopped if result.stopped in ("interrupted", "time budget") else stopped
            if stopped:
                break
        candidate.epochs += done
        if len(results) == len(self.splits):
            self._keep(candidate, planned, results)
        if stopped:
            # What it learnt is kept; the search is to end, too.
            raise KeyboardInterrupt if stopped == "interrupted" else OutOfTime

    def _folds(self, candidate: Trial, planned: Round, patience: int) -> Iterator[tuple[Split, Fit]]:
        """A round on each split, one after the other or at once."""
        splits = self.splits_of(candidate.plan)
        if self.by_curvature is None and at_once(self.n_jobs, len(splits)):
            self._check_time()
            circuits = [part.make() for part in candidate.parts]
            yield from zip(splits, train_folds(circuits, splits, self, planned, self._stopping(patience)), strict=True)
            return
        for part, split in zip(candidate.parts, splits, strict=True):
            self._check_time()
            yield split, self._run(candidate, part.make(), split, planned, patience)

    def _stopping(self, patience: int | None) -> Stopping:
        return Stopping(patience, None if self.deadline == np.inf else max(self.deadline - clock.now(), 1e-3))

    def _run(self, candidate: Trial, circuit: Circuit, split: Split, planned: Round, patience: int) -> Fit:
        watch = self.watch
        callbacks: tuple[Callback, ...] = () if watch is None else (lambda row, _: watch(candidate, row),)
        if self.by_curvature is not None:
            judging = JudgedRound(self.by_curvature, split.train.X, planned.epochs)
            # What was judged is not in a checkpoint.
            task = replace(self, checkpoints=None)
            found = run(circuit, split.train, task, planned, stopping=self._stopping(None), callbacks=(*callbacks, judging))
            candidate.training += judging.work
            candidate.passes += judging.work
            return judging.of(found)
        stopping = self._stopping(patience)
        return run(circuit, split.train, self, planned, valid=split.valid, stopping=stopping, callbacks=callbacks)

    def _keep(self, candidate: Trial, planned: Round, results: Sequence[Fit]) -> None:
        """Take over the parts that got better, if the candidate has on average."""
        found = [
            result.best_nll + split.valid.mean(np.broadcast_to(volume, len(split.valid)))
            for result, volume, split in zip(results, self.volumes_of(candidate.plan), self.splits, strict=True)
        ]
        parts = [
            Part(lambda result=result: result.best_circuit, nll)  # type: ignore[misc]
            if nll < part.valid_nll else part
            for part, result, nll in zip(candidate.parts, results, found, strict=True)
        ]  # fmt: skip
        nll = self._mean(parts)
        candidate.exhausted = not nll < candidate.valid_nll
        if candidate.exhausted:
            return
        epochs = [
            result.best_epoch if new is not old else 0 for new, old, result in zip(parts, candidate.parts, results, strict=True)
        ]
        candidate.parts, candidate.valid_nll = parts, nll
        candidate.rounds.append(planned.cut(max(1, round(median(epochs)))))

    def _mean(self, parts: Sequence[Part]) -> float:
        weights = [split.valid.weight for split in self.splits]
        return float(np.average([part.valid_nll for part in parts], weights=weights))

    def _check_time(self) -> None:
        if clock.now() > self.deadline:
            raise OutOfTime


def run(
    circuit: Circuit, rows: Sample, task: Task, planned: Round, valid: Sample | None = None, stopping: Stopping | None = None,
    callbacks: Sequence[Callback] = (),
) -> Fit:  # fmt: skip
    """One round of EM from `circuit`, in float32; where flows underflow there and leave no weights, in float64."""
    if planned.floor is not None:
        circuit = with_floor(circuit, planned.floor, task.varies, planned.rounding)
    if 0 < planned.n_rows < len(rows):
        rows = rows.some(np.sort(np.random.default_rng(planned.seed).permutation(len(rows))[: planned.n_rows]))
    judged: dict[str, Any] = {} if valid is None else {"valid": valid.X, "valid_weight": valid.weights}
    for dtype in ("float32", "float64"):
        files = Run(callbacks=callbacks)
        if task.checkpoints is not None:
            patience = None if stopping is None else stopping.patience
            how = {"planned": planned, "patience": patience, "missing": task.missing, "dtype": dtype}
            files = replace(files, **task.checkpoints.options(circuit, rows, valid, SAVED_EVERY, **how))
        try:
            with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings():
                # A candidate that goes astray is not chosen, and that is all there is to say of it.
                warnings.simplefilter("ignore", LearningWarning)
                return fit(
                    circuit, rows.X, sample_weight=rows.weights, **judged,
                    method=EM(linear(planned.first, planned.last)), epochs=planned.epochs,
                    batch_size=min(planned.batch_size, len(rows)),
                    regularizer=[*planned.regularizer, *_inputs(planned.regularizer)], stopping=stopping, run=files,
                    seed=planned.seed, missing=task.missing, n_threads=task.n_threads, dtype=dtype, progress=False,
                )  # fmt: skip
        except ParameterError:
            if dtype == "float64":
                raise
    raise AssertionError


def replay(candidate: Trial, rows: Sample, task: Task) -> Circuit:
    """The candidate built from these rows, in its own units, and trained as it was, without validation."""
    circuit = build(candidate.plan, rows, task, candidate.copy, candidate.whole)
    for planned in candidate.rounds:
        circuit = run(circuit, rows, task, planned).circuit
    return circuit


def finish(candidate: Trial, rows: Sample, task: Task) -> Circuit:
    """The candidate trained on with these rows, in small steps that grow smaller, without validation."""
    last = candidate.rounds[-1]
    ends = (1.0, 1.0) if last.batch_size == ALL_ROWS else (last.last, last.last / 3)
    return run(
        candidate.parts[0].make(), rows, task, replace(last, epochs=FINISHING_EPOCHS, first=ends[0], last=ends[1], n_rows=0)
    ).circuit


def build(plan: Plan, rows: Sample, task: Task, copy: int = 0, whole: int = 0) -> Circuit:
    """A counted plan's circuit, or a trained one's start; a copy's is from a sample of the rows, which makes its trees others."""
    if not plan.trained:
        return fitted(plan, rows, task.families_of(plan), task.seed)
    seed, n = task.seed + copy, len(rows)
    sample = rows
    if copy:
        drawn = np.random.default_rng([seed, copy]).integers(0, n, n)
        sample = rows.some(np.concatenate([*[np.arange(n)] * whole, drawn]))
        if np.isnan(sample.X).all(axis=0).any():
            sample = rows
    circuit = plan.build(sample, task.families_of(plan), seed)
    return mix_families(circuit, families=task.others, seed=seed) if plan.mixed else circuit


def batch_size(n_rows: int, number: int) -> int:
    """A twentieth of the rows, from 100 to 500; twice as many in every later round. Smaller ones are too noisy to learn from."""
    return int(min(np.clip(n_rows / 20, 100, 500) * 2 ** min(number, 3), n_rows))


def _inputs(regularizer: Sequence[Any]) -> tuple[Laplace, ...]:
    """A little smoothing of inputs, unless the regulariser brings its own: no value may end with probability 0."""
    smoothed = any(part.defines("counts") and part.counts()[1] > 0 for part in regularizer)
    return () if smoothed else (Laplace(INPUT_PSEUDOCOUNT, on="inputs"),)
