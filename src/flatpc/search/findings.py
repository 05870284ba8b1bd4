"""What came of a search: the average of the best models, learnt again from all rows, in the units of the table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from flatpc._row_groups import effective_number, standard_error
from flatpc._typing import Array
from flatpc.engine import clock
from flatpc.errors import DataError
from flatpc.search.averaging import MARGIN, average_nll, cross_fitted, members
from flatpc.search.by_curvature import NAMES as NAMES_OF_JUDGES
from flatpc.search.choice import Choice, Outcome
from flatpc.search.column_maps import Front
from flatpc.search.plans import Plan, Wishes, counted_plans, trained_plans
from flatpc.search.samples import Sample
from flatpc.search.scaling import in_users_units
from flatpc.search.training import Task, Trial, build, finish, replay
from flatpc.structures.edit.mixing import mix

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

KERNELS_MARGIN = 5e-3
"""By how much kernel densities have to lower the NLL to be averaged, being large."""


class Findings:
    """What a search has found so far; `Search` looks for more."""

    rows: Sample
    """In the units of the first front."""
    valid: Sample | None
    names: Sequence[str] | None
    wishes: Wishes
    fronts: list[Front]
    task: Task
    pool: list[Trial]
    too_large: dict[str, None]
    """Structures that there was no memory for, in order."""
    average: bool
    given: bool
    """Whether there are validation rows."""
    refits: bool
    """Whether what is chosen is learnt again from all rows."""
    discrete: bool
    """Whether all columns have categories."""
    spent: float
    began: float
    """By the clock, when the search was asked for."""

    def goes_on(self, candidate: Trial) -> bool:
        """Whether it learns on from all rows, which hardly differ from those that it has learnt from, and not from the start."""
        return bool(candidate.rounds) and len(self.task.splits) == 1 and not self.discrete and self.task.is_large

    def first_plan(self) -> Plan:
        """What is learnt where there is no choosing."""
        task = self.task
        counted = counted_plans(task.families, self.wishes, len(self.rows))
        return [*counted, *trained_plans(task.families, self.rows, self.wishes, False)][0]

    def choice(self, cut_short: str) -> Choice:
        """The models that are averaged, and all that was tried; `cut_short` says what ended the search, if anything did."""
        judges = self.task.judges
        for candidate in self.pool:
            # Training judges in float32.
            if candidate.rounds:
                candidate.valid_nll = -judges.mean(self.task.judge(candidate))
        ranked = sorted((c for c in self.pool if c.valid_nll < math.inf), key=lambda c: c.valid_nll)
        if not ranked:
            if self.valid is not None:
                raise self._impossible(self.valid)
            # No model allows all rows that were put aside; the first one is smoothed, and learns from them as well.
            return replace(
                self.unjudged(), valid_nll=math.inf, judge=self._judge(), n_judges=self._n_judges, cut_short=cut_short,
                work=self.spent,
            )  # fmt: skip
        chosen, weights, log_prob = self._averaged(ranked)
        refitted = self.refits and cut_short != "interrupted"
        try:
            circuits = self._refit(chosen) if refitted else self._learnt(chosen)
        except KeyboardInterrupt:
            circuits, refitted, cut_short = self._learnt(chosen), False, "interrupted"
        volume = judges.mean(np.concatenate(self.fronts[0].volumes))
        weight = dict(zip((id(c) for c in chosen), weights.tolist(), strict=True))
        outcomes = tuple(_outcome(c, weight.get(id(c), 0.0), volume) for c in ranked)
        return Choice(
            circuit=mix(circuits, weights),
            chosen=tuple(sorted((o for o in outcomes if o.weight > 0), key=lambda o: -o.weight)),
            candidates=outcomes,
            valid_nll=average_nll(log_prob, weights, judges) + volume,
            judge=self._judge(),
            n_judges=self._n_judges,
            n_rows=len(self.rows),
            refitted=refitted,
            left_out=tuple(self.too_large),
            cut_short=cut_short,
            work=self.spent,
            seconds=clock.now() - self.began,
        )

    def is_clearly_better(self, logs: Array, others: Array) -> bool:
        """Whether log-probabilities of the judges are higher by more than two standard errors; no, where a row is impossible."""
        if not np.isfinite(logs).all():
            return False
        if not np.isfinite(others).all():
            return True
        judges, gain = self.task.judges, logs - others
        counted = np.ones(len(gain)) if judges.weights is None else judges.weights
        # Rows that judge twice tell as much as once.
        n = effective_number(counted, judges.groups) * self._n_judges / len(judges)
        return bool(judges.mean(gain) > 2 * standard_error(gain, counted, n, judges.groups))

    def _averaged(self, ranked: Sequence[Trial]) -> tuple[list[Trial], Array, Array]:
        """The models to average, their weights, and their log-probabilities of the judges.

        All are learnt behind one front, so that they have the bounds of its maps: that of the best model, unless the average
        behind another is clearly better.
        """
        judges, best, found = self.task.judges, np.empty(0), None
        for front in dict.fromkeys(c.plan.front for c in ranked) if self.average else ():
            own = [c for c in ranked if c.plan.front == front]
            log_prob = np.stack([self.task.judge(c) for c in own], axis=1)
            margins = np.array([KERNELS_MARGIN if c.plan.structure == "kernels" else MARGIN for c in own])
            index, weights = members(log_prob, judges, margins)
            logs = cross_fitted(log_prob[:, index], judges) if len(index) > 1 else log_prob[:, index[0]]
            if found is None or self.is_clearly_better(logs, best):
                best, found = logs, ([own[i] for i in index], weights, log_prob[:, index])
        return found or ([ranked[0]], np.ones(1), self.task.judge(ranked[0])[:, None])

    @property
    def _n_judges(self) -> int:
        n = len(self.task.judges)
        return n if len(self.task.splits) == 1 else min(n, len(self.rows))

    def _judge(self) -> str:
        """In words."""
        if self.task.by_curvature is not None:
            return NAMES_OF_JUDGES[self.task.by_curvature.name]
        return "validation rows" if self.given else "held-out rows" if len(self.task.splits) == 1 else "rows in turn"

    def _refit(self, chosen: Sequence[Trial]) -> list[Circuit]:
        task = replace(self.task, deadline=math.inf)
        fronts = [self.fronts[candidate.plan.front] for candidate in chosen]
        circuits = [
            finish(c, front.rows, task) if self.goes_on(c) else replay(c, front.rows, task)
            for c, front in zip(chosen, fronts, strict=True)
        ]
        return [in_users_units(circuit, front.scaling) for circuit, front in zip(circuits, fronts, strict=True)]

    def _learnt(self, chosen: Sequence[Trial]) -> list[Circuit]:
        return [in_users_units(c.parts[0].make(), self.fronts[c.plan.front].scaling) for c in chosen]

    def _impossible(self, valid: Sample) -> DataError:
        """Of validation rows that no model allows: the worst row, and the column that makes it so, if it is one alone."""
        logs = np.nan_to_num(np.stack([self.task.judge(c) for c in self.pool], axis=1), nan=-np.inf)
        row = int(logs.max(axis=1).argmin())
        first = self.pool[0]
        known = self.task.splits_of(first.plan)[0].valid.X[row]
        alone = np.where(np.eye(len(known), dtype=bool), known, np.nan)
        by_column = first.parts[0].make().log_prob(alone, missing="marginalize")
        j = int(by_column.argmin())
        if np.isfinite(by_column[j]):
            return DataError(
                f"Validation rows such as row {row} are impossible under every model; correct them or leave them out."
            )
        name = f"x{j}" if self.names is None else self.names[j]
        return DataError(
            f"Column {name!r} has {valid.X[row, j]:g} in validation row {row}, so far from the training rows that it "
            f"is impossible under every model; correct the value, or leave the row out of valid."
        )

    def unjudged(self) -> Choice:
        """The first plan, because there are too few rows to compare it with others."""
        plan = self.first_plan()
        circuit = build(plan, self.rows, self.task)
        only = Outcome(plan.name, plan.structure, plan.options, (), math.nan, 0.0, 0, 1.0)
        circuit = in_users_units(circuit, self.fronts[0].scaling)
        return Choice(
            circuit, (only,), (only,), math.nan, "", 0, len(self.rows), False, (), "", 0.0, clock.now() - self.began
        )  # fmt: skip


def _outcome(c: Trial, weight: float, volume: float) -> Outcome:
    return Outcome(
        c.name, c.plan.structure, c.plan.options, c.regularizer, c.valid_nll + volume, c.building + c.training, c.epochs, weight,
        c.floor,
    )  # fmt: skip
