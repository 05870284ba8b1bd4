"""`choose`: the structure, its size and its regulariser by validation likelihood, within a budget."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flatpc._options import choice, flag, seconds, seed_number, thread_count, whole_number
from flatpc.circuit.rows import MISSING
from flatpc.engine import clock
from flatpc.errors import DataError, TooLargeError
from flatpc.learning.auto_average import average_nll, cross_fitted_nll, members
from flatpc.learning.auto_candidates import Plan, hidden_plans, mixture_plans, simple_plans
from flatpc.learning.auto_regularizer import candidates
from flatpc.learning.auto_training import Candidate, Round, Task, replay
from flatpc.learning.sharpness import is_auto
from flatpc.structures.mixing import mix
from flatpc.structures.options import FamilyLike, read_columns

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

Array = NDArray[np.float64]

SURVIVORS = 2
"""Hidden models that are trained to the end: the average of two kinds is better than either."""
COPIES = 8
"""Of the best one, to be averaged with it."""
SLACK = 2
"""Epochs by which a copy's rounds are longer than those that were kept of the best one."""
WHOLES = (0, 1, 3)
"""How often the samples from which copies have their trees hold all rows, beside as many drawn with replacement."""
UNLIMITED = 1_000_000
FITS = 5
"""About how long it takes to learn a mixture by EM, for each of its trees, in units of fitting a tree."""
MIXTURES_SHARE = 0.15
"""Of the time, by when mixtures of trees are to be done."""
START_SHARE = 0.2
"""Of the time that is left for hidden models, the most that the start of one may take."""
SIZES_SHARE, REGULARIZERS_SHARE = 0.5, 0.65
"""Of the time and the epochs that are left for hidden models, by when a size and a regulariser are chosen."""


@dataclass(frozen=True)
class Outcome:
    """One candidate, and how it did."""

    name: str
    options: dict[str, Any]
    regularizer: tuple[Any, ...]
    valid_nll: float
    seconds: float
    epochs: int
    weight: float
    """Its share of the average; 0 if it isn't part of what was chosen."""


@dataclass(frozen=True)
class Choice:
    """What `choose` returns."""

    circuit: Circuit
    chosen: tuple[Outcome, ...]
    """The model, or those whose average it is, largest weight first."""
    candidates: tuple[Outcome, ...]
    """All of them, best first."""
    valid_nll: float
    """Of the choice, on the rows by which it was chosen."""
    why: str
    """One line."""
    seconds: float
    interrupted: bool = False
    """Whether Ctrl-C ended the search; it is then the choice from what had been found."""

    @property
    def name(self) -> str:
        """What was chosen."""
        return " & ".join(outcome.name for outcome in self.chosen)

    def table(self) -> str:
        """All candidates as text, best first."""
        lines = [f"{'valid NLL':>10}  {'weight':>6}  {'epochs':>6}  {'seconds':>7}  candidate"]
        for c in self.candidates:
            lines.append(f"{c.valid_nll:10.4f}  {c.weight:6.2f}  {c.epochs:6d}  {c.seconds:7.2f}  {c.name}")
        return "\n".join(lines)


def choose(
    X: Any,
    valid: Any = None,
    *,
    family: FamilyLike = "bernoulli",
    budget: int | None = None,
    time_budget: float = 60.0,
    regularizer: Any = "auto",
    sharpness: Any = "auto",
    average: bool = True,
    seed: int = 0,
    missing: str = "raise",
    n_threads: int | None = None,
    progress: bool = True,
) -> Choice:
    """Choose a model of the rows X: from independent variables to averages of hidden trees, by validation NLL.

    >>> X = np.random.default_rng(0).integers(0, 2, size=(300, 4))
    >>> choice = choose(X, budget=20, time_budget=20.0, progress=False)
    >>> choice.circuit.n_variables, choice.valid_nll <= min(c.valid_nll for c in choice.candidates)
    (4, True)

    1. Independent variables and Chow-Liu trees with several smoothings; all of them, always.
    2. Mixtures of Chow-Liu trees.
    3. Hidden Chow-Liu trees of several sizes, starts and numbers of trees, by successive halving: all are trained a little, the
       better half goes on for twice as long, until two are left.
    4. The better one with several regularisers.
    5. That one again with trees from other samples of the rows, if there is time.
    6. The average of the best, if a mixture of them does better on validation rows that had no part in its weights.

    Without validation rows, a fifth of the rows (at most 5,000, by seed) is held out; what is chosen is then built anew from all
    rows and trained as before, with the same number of epochs. Ctrl-C ends the search with the best so far.

    Parameters
    ----------
    X, valid
        Rows to learn from, and to choose by.
    family
        As for `fp.structures.factorized`. Trees and their mixtures are tried where all variables are Bernoulli or Categorical.
    budget
        Epochs of training, over all candidates; None trains for as long as there is time. With a number the choice is the same on
        every machine that gets through them in time.
    time_budget
        Seconds after which no further training is begun; what was found so far is chosen from.
    regularizer, sharpness
        `"auto"` tries several; None none; anything else is as for `fit`, and used for all hidden models.
    average
        False chooses a single model.
    seed
        Of everything that is left to chance.
    missing, n_threads
        As for `fit`.
    progress
        Say on stderr what has been found.
    """
    from flatpc.compile_kernels import compile_kernels

    compile_kernels(single=True)  # before the clock starts
    search = _Search(
        X, valid, family, UNLIMITED if budget is None else whole_number("budget", budget, 0), seconds("time_budget", time_budget),
        regularizer, sharpness, flag("average", average), seed_number(seed), choice("missing", missing, MISSING),
        thread_count(n_threads), flag("progress", progress),
    )  # fmt: skip
    return search.run()


class _Search:
    """The stages, and what they have found so far."""

    def __init__(
        self, X: Any, valid: Any, family: FamilyLike, budget: int, time_budget: float, regularizer: Any, sharpness: Any,
        average: bool, seed: int, missing: str, n_threads: int | None, progress: bool,
    ) -> None:  # fmt: skip
        self.began = clock.now()
        self.time_budget, self.average, self.progress = time_budget, average, progress
        self.budget = budget
        rows, families = read_columns(X, family)
        self.rows = rows
        self.held_out = valid is None
        if valid is None:
            train, judges = hold_out(rows, seed)
        else:
            train, (judges, _) = rows, read_columns(valid, families)
        self.task = Task(train, judges, families, seed, missing, n_threads)
        self.fixed, self.tried = candidates(regularizer, sharpness)
        self.free = is_auto(sharpness) and is_auto(regularizer)
        self.pool: list[Candidate] = []
        self.too_large: dict[str, None] = {}
        """Structures that there was no memory for, in order."""
        self.epochs_left = self.budget

    @property
    def seconds(self) -> float:
        return clock.now() - self.began

    @property
    def left(self) -> float:
        """Seconds."""
        return self.time_budget - self.seconds

    def run(self) -> Choice:
        """All stages; Ctrl-C ends them, and the choice is from what was found so far."""
        try:
            self._stages()
        except KeyboardInterrupt:
            if not self.pool:
                raise
            return self._choice(interrupted=True)
        return self._choice()

    def _stages(self) -> None:
        task = self.task
        for plan in simple_plans(task.families):
            self._start(plan)
        self._say("simple models")
        tree = max(candidate.seconds for candidate in self.pool)
        for plan in mixture_plans(task.families, task.train):
            if self.seconds + plan.n_mixed * FITS * tree <= MIXTURES_SHARE * self.time_budget:
                self._start(plan)
        self._say("mixtures of trees")
        plans = hidden_plans(task.families, task.train, self.free)
        best = self._halve([plan for plan in plans if plan.n_mixed * FITS * tree <= START_SHARE * self.left])
        if best is not None:
            best = self._regularize(best)
            if self.average:
                self._copy(best)

    def _start(self, plan: Plan) -> Candidate | None:
        """A candidate, which joins the pool; None if there is no memory for it."""
        try:
            candidate = self.task.start(plan)
        except TooLargeError:
            self.too_large[plan.structure] = None
            return None
        self.pool.append(candidate)
        return candidate

    # ---- hidden models --------------------------------------------------------------------------------------------

    def _halve(self, plans: Sequence[Plan]) -> Candidate | None:
        """Successive halving over plans; the best of those that are left."""
        if self.budget == 0:
            return None
        racing: list[Candidate] = []
        rounds = 1 + sum(1 for n in range(len(plans)) if len(plans) >> n >= 2 * SURVIVORS)
        per_round = max(1, int(SIZES_SHARE * self.budget / rounds))
        began, whole = self.seconds, SIZES_SHARE * max(self.left, 0.0)
        for number in range(rounds):
            survivors = len(plans) if number == 0 else max(SURVIVORS, len(plans) >> number)
            racing = sorted(racing, key=lambda c: c.valid_nll)[:survivors]
            entrants: Sequence[Plan | Candidate] = plans if number == 0 else racing
            for place, entrant in enumerate(entrants):
                seconds = (began + whole * (number + 1) / rounds - self.seconds) / (len(entrants) - place)
                if seconds <= 0 or self.epochs_left <= 0:
                    continue
                if isinstance(entrant, Plan):
                    started = self._start(entrant)
                    if started is None:
                        continue
                    entrant = started
                    entrant.regularizer = entrant.plan.regularizer or self.fixed
                    racing.append(entrant)
                self._train(entrant, max(1, per_round // survivors), seconds)
            self._say(f"round {number + 1} of {rounds} of hidden models")
        return min(racing, key=lambda c: c.valid_nll) if racing else None

    def _regularize(self, best: Candidate) -> Candidate:
        """Go on from the best one with each regulariser, and with none; then train the best of those on."""
        variants = list(dict.fromkeys([best.regularizer, *self.tried])) if self.tried else []
        share = (REGULARIZERS_SHARE - SIZES_SHARE) / (1 - SIZES_SHARE)
        epochs = max(1, int(share * self.epochs_left / max(len(variants), 1)))
        end = self.seconds + share * self.left
        tried = []
        for place, regularizer in enumerate(variants):
            seconds = (end - self.seconds) / (len(variants) - place)
            if seconds <= 0 or self.epochs_left <= 0:
                break
            variant = replace(best, rounds=list(best.rounds), regularizer=regularizer)
            self._train(variant, epochs, seconds)
            if variant.epochs > best.epochs and not variant.exhausted:
                tried.append(variant)
                self.pool.append(variant)
        self._say("regularisers")
        last = min([best, *tried], key=lambda c: c.valid_nll)
        # A third of what is left; the rest is for copies, if there are to be any.
        share = 1 / 3 if self.average else 1.0
        spare, end = int((1 - share) * self.epochs_left), self.seconds + share * self.left
        while self.epochs_left > spare and self.seconds < end and not last.exhausted:
            before = last.epochs
            self._train(last, self.epochs_left - spare, end - self.seconds)
            if last.epochs == before:
                break
        self._say("the best one trained on")
        return last

    def _copy(self, best: Candidate) -> None:
        """The best one again with other trees, trained in the same way, for as long as there is time: to be averaged.

        The more the trees differ, the better is an average, but from samples of few rows they are bad ones. So the first copies
        are one of each kind of sample; the others are of the kind whose average with the best one is best.
        """
        tried: dict[int, float] = {}
        for copy in range(1, COPIES + 1):
            if self.left < best.training or self.epochs_left <= 0:
                break
            whole = WHOLES[copy - 1] if copy <= len(WHOLES) else min(tried, key=lambda kind: tried[kind])
            other = self.task.start(best.plan, copy, whole)
            self.pool.append(other)
            for planned in best.rounds:
                if self.left > 0 and self.epochs_left > 0:
                    self._train(other, planned.epochs + SLACK, self.left, planned)
            if whole not in tried:
                tried[whole] = cross_fitted_nll(np.stack([self.task.judge(best), self.task.judge(other)], axis=1))
            self._say(f"copy {copy} of the best one")

    def _train(self, candidate: Candidate, epochs: int, seconds: float, planned: Round | None = None) -> None:
        """A further round, or one like another candidate's."""
        before, epochs = candidate.epochs, min(epochs, self.epochs_left)
        if planned is None:
            self.task.train_round(candidate, epochs, seconds)
        else:
            self.task.follow(candidate, planned, epochs, seconds)
        self.epochs_left -= max(candidate.epochs - before, 1)

    # ---- what came of it ------------------------------------------------------------------------------------------

    def _choice(self, interrupted: bool = False) -> Choice:
        for candidate in self.pool:
            # Training judges in float32.
            if candidate.rounds:
                candidate.valid_nll = -float(self.task.judge(candidate).mean())
        ranked = sorted((c for c in self.pool if c.valid_nll < math.inf), key=lambda c: c.valid_nll)
        top = ranked if self.average else ranked[:1]
        log_prob = np.stack([self.task.judge(c) for c in top], axis=1)
        index, weights = members(log_prob) if self.average else (np.array([0]), np.ones(1))
        nll = average_nll(log_prob[:, index], weights)
        weight = dict(zip((id(top[i]) for i in index), weights.tolist(), strict=True))
        outcomes = tuple(
            Outcome(c.name, c.plan.options, c.regularizer, c.valid_nll, c.seconds, c.epochs, weight.get(id(c), 0.0))
            for c in ranked
        )
        chosen = [top[i] for i in index]
        circuits = self._refit(chosen) if self.held_out and not interrupted else [c.make() for c in chosen]
        circuit = mix(circuits, weights)
        picked = tuple(sorted((o for o in outcomes if o.weight > 0), key=lambda o: -o.weight))
        return Choice(circuit, picked, outcomes, nll, self._why(ranked, len(chosen), nll), self.seconds, interrupted)

    def _refit(self, chosen: Sequence[Candidate]) -> list[Circuit]:
        task = Task(self.rows, self.task.valid, self.task.families, self.task.seed, self.task.missing, self.task.n_threads)
        return [replay(candidate, task) for candidate in chosen]

    def _why(self, ranked: Sequence[Candidate], n_averaged: int, nll: float) -> str:
        left_out = f" Left out, for want of memory: {', '.join(self.too_large)}." if self.too_large else ""
        return self._what_won(ranked, n_averaged, nll) + left_out

    def _what_won(self, ranked: Sequence[Candidate], n_averaged: int, nll: float) -> str:
        best = ranked[0]
        rows = f"{len(self.task.valid)} {'held-out' if self.held_out else 'validation'} rows"
        simple = [c for c in ranked if not c.plan.trained]
        against = f"the best simple model, {simple[0].name}, has {simple[0].valid_nll:.3f}"
        if n_averaged > 1:
            alone = f"the best alone {best.valid_nll:.3f}"
            return f"The average of {n_averaged} of {len(ranked)} models has NLL {nll:.3f} on {rows}, {alone}; {against}."
        if simple[0] is best:
            return f"{best.name} has NLL {nll:.3f} on {rows}, and none of {len(ranked)} models did better."
        return f"{best.name} has NLL {nll:.3f} on {rows}; {against}."

    def _say(self, what: str) -> None:
        if self.progress:
            best = min(self.pool, key=lambda c: c.valid_nll)
            print(f"{self.seconds:6.1f} s  {what}: best so far {best.valid_nll:.4f}, {best.name}", file=sys.stderr)


def hold_out(rows: Array, seed: int) -> tuple[Array, Array]:
    """A random fifth of the rows, at most 5,000 of them, put aside: the rest, and these."""
    if len(rows) < 2:
        raise DataError("There is one row only, and choosing takes some to learn from and some to judge by; give more rows.")
    n = max(1, min(len(rows) // 5, 5000))
    order = np.random.default_rng(seed).permutation(len(rows))
    return rows[np.sort(order[n:])], rows[np.sort(order[:n])]
