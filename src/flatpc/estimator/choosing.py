"""Which circuit: the plans that suit a table (`flatpc.estimator.plans`) are learnt from most of the rows and judged by the rest.

A fifth of few rows is no judge, so up to 300 rows are split three times, with other validation rows each time. The best is then
fitted again to all rows, for as many epochs as served it best. Where validation rows are given, all others are learnt from in the
first place. `CircuitDensity` and `flatpc fit` both choose here: the same table gives the same model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from flatpc.circuit.circuit import Circuit
from flatpc.engine import clock
from flatpc.errors import OptionError, TooLargeError
from flatpc.estimator.plans import NAMES, Options, Plan, Plans
from flatpc.estimator.scaling import Scaling, in_users_units
from flatpc.estimator.trying import Candidate, attempt
from flatpc.families.base import Family
from flatpc.families.gaussian import Gaussian
from flatpc.learning.history import Row

Array = NDArray[np.float64]
Watch = Callable[[Plan, float, Row], None]
"""Is told of every epoch: the plan, the share of all work that is done, and the row of the history."""

FEWEST = 10
"""Rows without which there is nothing to judge by."""
FEW, N_SPLITS = 300, 3
"""Rows up to which models are judged by several splits, and how many those are."""


@dataclass(frozen=True)
class Choice:
    """The best candidate, and all candidates in the order in which they were tried."""

    best: Candidate
    circuit: Circuit
    candidates: tuple[Candidate, ...]
    n_judges: int
    """Validation rows, of all splits."""
    why: str
    """In one line: what was chosen, and by which measure."""
    cut_short: str = ""
    """`"interrupted"` by Ctrl-C, `"time budget"`, or nothing."""


def choose(
    rows: Array, families: Sequence[Family], options: Options, *, valid: Array | None = None, watch: Watch | None = None,
    names: Sequence[str] | None = None,
) -> Choice:  # fmt: skip
    """Try, judge, choose, fit again. Ctrl-C, or the end of the time, ends it with the best so far.

    Parameters
    ----------
    rows, valid
        As circuits read them, NaN where missing. Without `valid`, some of the rows are held back to judge by.
    watch
        Called after every epoch.
    names
        Of the columns, for messages.
    """
    continuous = np.array([isinstance(family, Gaussian) for family in families])
    scaling = Scaling.learn(rows, continuous, names)
    search = _Search(scaling.apply(rows), None if valid is None else scaling.apply(valid), families, options, scaling, watch)
    return search.run()


class _Search:
    """What has been tried so far, in units in which continuous columns have mean 0 and variance 1."""

    def __init__(
        self, rows: Array, valid: Array | None, families: Sequence[Family], options: Options, scaling: Scaling,
        watch: Watch | None,
    ) -> None:  # fmt: skip
        self.rows, self.families, self.options, self.scaling, self.watch = rows, families, options, scaling, watch
        self.given = valid is not None
        judges = held_back(rows, options) if valid is None else []
        self.splits = [(rows, valid)] if valid is not None else [(np.delete(rows, j, axis=0), rows[j]) for j in judges]
        if not self.splits and options.validation_fraction == 0 and options.structure == "auto":
            raise OptionError(
                "validation_fraction=0 leaves no rows to choose a structure by; name one, such as structure='hclt', or hold some "
                "rows back."
            )
        self.plans = Plans(families, len(self.splits[0][0]) if self.splits else len(rows), options)
        self.candidates: list[Candidate] = []
        self.too_large: dict[str, None] = {}
        """Structures that there was no memory for, in order."""
        self.began = clock.now()

    def run(self) -> Choice:
        if not self.splits:
            return self._unjudged()
        if self.plans.most > 1 or self.plans.first[0].is_learnt:
            from flatpc.compile_kernels import compile_kernels

            compile_kernels()  # before the clock starts
        self.began = clock.now()
        cut_short = ""
        try:
            for plan in self.plans(self._best_learnt):
                if self.candidates and self._seconds(1 / 2) == 0:
                    cut_short = "time budget"
                    break
                try:
                    candidate, complete = self._judge(plan)
                except TooLargeError:
                    if self.options.structure != "auto":
                        raise
                    self.too_large[NAMES[plan.structure]] = None
                    continue
                if complete or not self.candidates:
                    self.candidates.append(candidate)
                if candidate.stopped == "interrupted":
                    raise KeyboardInterrupt
        except KeyboardInterrupt:
            if not self.candidates:
                raise
            cut_short = "interrupted"
        if not cut_short and any(candidate.stopped == "time budget" for candidate in self.candidates):
            cut_short = "time budget"
        return self._choice(cut_short)

    def _best_learnt(self) -> Plan:
        return min((c for c in self.candidates if c.plan.is_learnt), key=lambda c: c.loss).plan

    def _judge(self, plan: Plan) -> tuple[Candidate, bool]:
        """How a plan does on all splits, and whether it got to the last of them."""
        tries: list[Candidate] = []
        for split, (train, valid) in enumerate(self.splits):
            watch = self._watched(plan, split)
            tries.append(attempt(plan, train, valid, self.families, self.options, self._cap(), watch))
            if tries[-1].stopped == "interrupted":
                break
        return Candidate.over(tries), len(tries) == len(self.splits)

    def _choice(self, cut_short: str) -> Choice:
        best = min(self.candidates, key=lambda candidate: candidate.loss)
        circuit, refitted = best.circuit, False
        # The adaptive penalty looks at validation rows as it goes; without them there is none.
        if not self.given and cut_short != "interrupted" and best.plan.mu != "adaptive":
            try:
                options = replace(self.options, epochs=max(best.epochs, 1))
                again = attempt(best.plan, self.rows, None, self.families, options, self._cap())
                if again.stopped == "interrupted":
                    raise KeyboardInterrupt
                circuit, refitted = again.circuit, True
            except KeyboardInterrupt:
                cut_short = "interrupted"
        return self._in_users_units(best, circuit, cut_short, refitted)

    def _unjudged(self) -> Choice:
        """The first plan, or what was asked for; if rows are few, for as many epochs as patience allows."""
        options, asked = self.options, self.options.validation_fraction == 0
        if not asked and options.patience:
            options = replace(options, epochs=min(options.epochs, options.patience))
        watch = self._watched(self.plans.first[0], 0)
        only = attempt(self.plans.first[0], self.rows, None, self.families, options, options.time_budget, watch)
        self.candidates = [only]
        return self._in_users_units(only, only.circuit, "" if only.stopped in ("epochs", "counted") else only.stopped, False)

    # ---- time -----------------------------------------------------------------------------------------------------

    def _seconds(self, share: float) -> float:
        """What is left of a share of the time."""
        if self.options.time_budget is None:
            return float("inf")
        return max(self.began + share * self.options.time_budget - clock.now(), 0.0)

    def _cap(self) -> float | None:
        """Seconds for one fit: a quarter of all, so that no model keeps the others from being tried."""
        if self.options.time_budget is None:
            return None
        return max(self.options.time_budget / (4 if self.plans.most > 1 else 2), 1.0)

    def _watched(self, plan: Plan, split: int) -> Callable[[Row], None] | None:
        watch, n = self.watch, max(len(self.splits), 1)
        if watch is None:
            return None
        before = len(self.candidates)

        def told(row: Row) -> None:
            share = (before + (split + min(row["epoch"] / self.options.epochs, 1.0)) / n) / self.plans.most
            if self.options.time_budget is not None:
                # Time may end first.
                share = min(max(share, (clock.now() - self.began) / self.options.time_budget), 1.0)
            watch(plan, share, row)

        return told

    # ---- what came of it ------------------------------------------------------------------------------------------

    def _in_users_units(self, best: Candidate, circuit: Circuit | None, cut_short: str, refitted: bool) -> Choice:
        """The choice as if it had been made in the units of the table."""
        judged = [valid for _, valid in self.splits]
        volume = float(self.scaling.log_volume(np.concatenate(judged)).mean()) if judged else 0.0
        all_ = {id(c): self._translated(c, volume, float(c is best)) for c in self.candidates}
        assert circuit is not None
        found = Choice(
            all_[id(best)], in_users_units(circuit, self.scaling), tuple(all_.values()), sum(map(len, judged)), "", cut_short
        )
        left_out = f"; left out, for want of memory: {', '.join(self.too_large)}" if self.too_large else ""
        return replace(found, why=_why(found, len(self.rows), refitted, self.options) + left_out)

    def _translated(self, candidate: Candidate, volume: float, weight: float) -> Candidate:
        circuit = None if candidate.circuit is None else in_users_units(candidate.circuit, self.scaling)
        return replace(candidate, circuit=circuit, valid_nll=candidate.valid_nll + volume, weight=weight)


def held_back(rows: Array, options: Options) -> list[NDArray[np.int64]]:
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


def _why(choice: Choice, n_rows: int, refitted: bool, options: Options) -> str:
    """What was chosen and why."""
    again = f"; fitted again to all {n_rows:,} rows" if refitted else ""
    if choice.n_judges == 0:
        asked = options.validation_fraction == 0
        reason = "no rows were held back to judge by" if asked else f"too few rows ({n_rows}) to hold some back and compare"
        return f"{choice.best.plan}: {reason}"
    score = f"{-choice.best.valid_nll:.3f} nats per row"
    others = [candidate for candidate in choice.candidates if candidate is not choice.best]
    if not others:
        return f"{choice.best.plan}: {score} on {choice.n_judges:,} validation rows{again}"
    reason = f"best of {len(choice.candidates)} on {choice.n_judges:,} validation rows with {score}"
    plain = next((candidate for candidate in others if candidate.plan.structure == "factorized"), None)
    if plain is not None:
        reason += f" ({NAMES['factorized']}: {-plain.valid_nll:.3f})"
    return f"{choice.best.plan}: {reason}{again}"
