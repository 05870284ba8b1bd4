"""The stages of a search: models that are counted, models that are trained, variants of the best, copies, and their average."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from flatpc.errors import OptionError, TooLargeError
from flatpc.families import Family
from flatpc.learning.regularizers.auto import candidates
from flatpc.learning.regularizers.sharpness import is_auto
from flatpc.learning.steps.em import EM
from flatpc.search.averaging import cross_fitted_nll
from flatpc.search.by_curvature import CurvatureJudge
from flatpc.search.checkpoints import Checkpoints
from flatpc.search.choice import Choice
from flatpc.search.column_maps import fronts
from flatpc.search.findings import Findings
from flatpc.search.floors import further_families, varying
from flatpc.search.judging import BY_CURVATURE, splits
from flatpc.search.plans import (
    FLOORS,
    MANY_STATES,
    NAMES,
    PER_STATE,
    Plan,
    Wishes,
    counted_plans,
    further_plans,
    mixture_plans,
    plain_mixtures,
    trained_plans,
    trees_of_blocks,
)
from flatpc.search.samples import Sample
from flatpc.search.suiting import ordered_families
from flatpc.search.training import FINISHING_EPOCHS, MOST_EPOCHS, SLACK, OutOfTime, Task, Trial
from flatpc.search.work import of_tree

if TYPE_CHECKING:
    from flatpc.learning.run.history import Row

Watch = Callable[[str, float], None]
"""Is told after every epoch: which model, and what share of all work is done."""

SURVIVORS = 2
"""Trained models that go on to the end: the average of two kinds is better than either."""
AVERAGED = 1.5
"""Models like the best one that work is set aside for, to learn them again from all rows."""
COPIES, TURNS = 16, 8
"""Of the best one, then of the best of every other kind, to be averaged with it; and how often all of them have their turn."""
WHOLES = (0, 1, 3)
"""How often the samples from which copies have their trees hold all rows, beside as many drawn with replacement."""
FRONTS_SHARE = 0.1
"""Of the work, the most for the choice of maps."""
COSTLY_SHARES = {"kernels": 0.1, "binned_tree": 0.25}
"""Of the work, by when counted models that take a while are to be done."""
MIXTURES_SHARE = 0.2
"""Of the work, by when mixtures of trees are to be done."""
START_SHARE = 0.2
"""Of the work that is left for trained models, the most that the start of one may take."""
REPEATED_TREES = 200
"""Chow-Liu trees that the effort must allow for if few rows are to be folded twice."""
ALL_ROWS_SHARE = 0.3
"""Of the work, what is for learning from all rows where a sample of them chooses."""
JOINT_EPOCHS = 3
"""Of all rows that there has to be work for if two models are to be trained as one."""
PROBE, PROBE_SHARE = 32, 0.1
"""Latents of the mixtures by which a front and a first floor of variances are chosen, and their share of the work."""
TUNING_SHARE = 0.3
"""Of the work that is left, the most that one more number of latents, or of rows in common, may take."""
POOLED_STEP = 4.0
"""By which the common covariance of correlated columns counts for more or less."""
FOLLOWS = 0.5
"""Of the directions of correlated columns, how many have to follow from the others for a lower floor of variances."""
FURTHER_SHARE = 0.25
"""Of the work that is left once the best model is chosen, the most for those that pay less often, and for mixed families."""
OF_TABLES = ("init", "noise", "prior", "smoothing", "trees", "n_trees")
"""Options of hidden trees that start from the shares of values."""
SIZES_SHARE, REGULARIZERS_SHARE = 0.5, 0.65
"""Of the work that is left for trained models, by when a size and a regulariser are chosen."""


class Search(Findings):
    """The stages, in units in which continuous columns have mean 0 and variance 1."""

    def __init__(
        self, rows: Sample, families: Sequence[Family], several: Sequence[Sequence[Family]], normal: Sequence[Family],
        valid: Sample | None, effort: float, spent: float, judge: str, wishes: Wishes, regularizer: Any, sharpness: Any,
        average: bool, began: float, time_budget: float | None, seed: int, missing: str, n_threads: int | None,
        n_jobs: int | None, names: Sequence[str] | None, watch: Watch | None, say: Callable[[float, str], None] | None,
        checkpoints: Checkpoints | None,
    ) -> None:  # fmt: skip
        self.effort, self.average, self.wishes, self.say = effort, average and judge != "evidence", wishes, say
        self.valid, self.names = valid, names
        self.given = valid is not None
        self.by_rows = judge not in BY_CURVATURE
        self.refits = not self.given and self.by_rows
        cheap = REPEATED_TREES * of_tree(*rows.X.shape) < self.effort
        repeats = 2 if cheap else 1
        found = splits(rows, valid, judge, seed, repeats)
        by_curvature = CurvatureJudge(judge, missing) if judge in BY_CURVATURE else None
        self._made_fronts = partial(fronts, rows, found, families, normal, seed, names)
        self._several = several
        self.fronts, of_fronts = self._made_fronts(FRONTS_SHARE * effort)
        first = self.fronts[0]
        self.rows = first.rows
        self.discrete = all(family.is_free_table for family in families)
        if by_curvature is not None and not self.discrete:
            raise OptionError(f"judge={judge!r} is for tables whose columns all have categories; take 'cv' or 'holdout'.")
        self.fixed, self.tried = candidates(regularizer, sharpness, EM())
        self.free = is_auto(sharpness) and is_auto(regularizer)
        self.pool: list[Trial] = []
        self.too_large: dict[str, None] = {}
        self.spent = spent + of_fronts
        self.set_aside = 0.0
        """Work that is for what is chosen, not for the choice."""
        self.watch = watch
        self.began = began
        self.task = Task(
            first.splits, first.families, seed, missing, n_threads, varying(self.rows.X),
            deadline=math.inf if time_budget is None else began + time_budget,
            watch=None if watch is None else self._watched, checkpoints=checkpoints, fronts=self.fronts,
            by_curvature=by_curvature, n_jobs=n_jobs, others=further_families(families, several, first.scaling),
        )  # fmt: skip

    @property
    def left(self) -> float:
        """Work, without what it will take to learn the choice again from all rows."""
        return self.effort - self.spent - self.set_aside - self._owed

    @property
    def _owed(self) -> float:
        best = min(self.pool, key=lambda c: c.valid_nll, default=None)
        return 0.0 if best is None or not self.refits else AVERAGED * self._again(best)

    def _again(self, candidate: Trial) -> float:
        """Work of learning it once more, from all rows."""
        if self.goes_on(candidate):
            return candidate.passes / candidate.seen * len(self.rows) * FINISHING_EPOCHS
        share = len(self.rows) / sum(len(split.train) for split in self.task.splits)
        return share * (candidate.building + candidate.kept)

    def run(self) -> Choice:
        """All stages; Ctrl-C or the time limit ends them, and the choice is from what was found so far."""
        cut_short = ""
        if not self.task.splits:
            return self.unjudged()
        try:
            self._stages()
        except (KeyboardInterrupt, OutOfTime) as end:
            cut_short = "interrupted" if isinstance(end, KeyboardInterrupt) else "time budget"
            if not self.pool:
                if cut_short == "interrupted":
                    raise
                self.task = replace(self.task, deadline=math.inf)
                self._start(self.first_plan())
                if self.pool[0].plan.trained:
                    self._train(self.pool[0], 1, 0.0)
        return self.choice(cut_short)

    def _stages(self) -> None:
        task, wishes = self.task, self.wishes
        train = self._train_rows(0)
        n_given = len(task.splits[0].valid) if self.given else 0
        for plan in self._behind_all(counted_plans(task.families, wishes, len(train), n_given, self.by_rows)):
            share = COSTLY_SHARES.get(plan.structure, math.inf)
            if self.spent + self._cost(plan) <= share * self.effort or not self.pool:
                self._try(plan)
        self._say("counted models")
        for plan in mixture_plans(task.families, train, wishes):
            if self.spent + self._cost(plan) <= MIXTURES_SHARE * self.effort or wishes.structure == "tree_mixture":
                self._try(plan)
        self._say("mixtures of trees")
        if not self.discrete and task.is_large:
            # What is chosen then learns from all rows.
            self.task, self.set_aside = task.sampled(), ALL_ROWS_SHARE * self.effort
        plans = trained_plans(task.families, train, wishes, self.free, self.fronts[-1].families)
        front, floor = (0, None) if self.discrete else self._probe(plans, int(train.weight))
        together, low = self._start_of_blocks([plan for plan in plans if plan.is_correlated])
        plans = [replace(plan, front=together, floor=low) if plan.is_correlated else replace(plan, front=front) for plan in plans]
        all_open = wishes.structure == "auto" and wishes.n_latents is None
        if all_open and not self.discrete and train.weight >= PER_STATE * MANY_STATES[-1]:
            trees = trees_of_blocks(self.fronts[together].families, self._train_rows(together), MANY_STATES)
            plans += [replace(plan, front=together, floor=low) for plan in trees]
        # What a mixture gains by a front, another structure need not.
        plans += (
            [replace(plan, front=1 - front) for plan in plans if plan.structure == "hclt"][:1] if len(self.fronts) > 1 else []
        )
        affordable = [plan for plan in plans if self._cost(plan) <= START_SHARE * self.left]
        best = self._halve(affordable or (plans[:1] if not self.pool else []), floor)
        if best is None and self.too_large:
            best = self._halve(plain_mixtures(train, wishes), floor)
        if best is not None:
            sampled = self.task.most_rows > 0
            large = sampled and best.plan.whole
            if not self.discrete and wishes.n_latents is None and not large:
                best = self._tune(best)
            best = self._regularize(best)
            best = best if large else self._other_floors(best)
            if all_open and self.by_rows:
                best = self._look_further(best, together, low)
                large = sampled and best.plan.whole
            best = self._twice(best) if large else best
            self.task, self.set_aside = replace(self.task, most_rows=0), 0.0
            best.exhausted &= not sampled  # by fewer rows than now
            if self.average:
                self._train_on(best, 1.0 if large else 0.8 if sampled else 1 / 3)
                self._copies(self._mix_families(best))
            else:
                self._train_on(self._mix_families(best), 1.0)

    def _train_rows(self, front: int) -> Sample:
        """Those of the largest split, in the units of a front."""
        return max((split.train for split in self.fronts[front].splits), key=lambda rows: rows.weight)

    def _behind_all(self, plans: Sequence[Plan]) -> list[Plan]:
        """Each plan behind each front."""
        return [replace(plan, front=front) for plan in plans for front in range(len(self.fronts))]

    def _cost(self, plan: Plan) -> float:
        return len(self.task.splits) * plan.work(self.task.n_rows, self.task.families)

    # ---- trained models -------------------------------------------------------------------------------------------

    def _probe(self, wanted: Sequence[Plan], n_rows: int) -> tuple[int, float | None]:
        """Front and floor of variances with which models are to begin, by a mixture of middling size; None: the highest floor."""
        if not wanted:
            return 0, None
        plan = Plan("mixture", {"n_latents": max(min(PROBE, n_rows // 8), 1)}, trained=True, clustered=True)
        if not self.wishes.allow("mixture") or self.wishes.n_latents is not None:
            plan = wanted[0]
        plans = self._behind_all([plan])
        if len(wanted) == len(plans) == 1 or (len(plans) == 1 and not self._has_floors()):
            return 0, None
        began, whole = self.spent, PROBE_SHARE * max(self.left, 0.0)
        ends = [began + whole * (place + 1) / (len(plans) + len(FLOORS) - 1) for place in range(len(plans) + len(FLOORS) - 1)]
        probes = []
        for plan, end in zip(plans, ends, strict=False):
            probe = self._try(plan)
            if probe is None:
                return 0, None
            probe.regularizer = self.fixed
            self._train(probe, MOST_EPOCHS, end - self.spent)
            probes.append(probe)
        best = min(probes, key=lambda c: c.valid_nll)
        for floor, end in zip(FLOORS[1:] if self._has_floors() else (), ends[len(plans) :], strict=False):
            variant = best.variant(floor=floor, begun=0)
            self._train(variant, MOST_EPOCHS, end - self.spent)
            if variant.exhausted:
                break
            self.pool.append(variant)
            best = variant
        self._say("mapped columns and floors of variances")
        return best.plan.front, best.floor

    def _start_of_blocks(self, plans: Sequence[Plan]) -> tuple[int, float | None]:
        """The front and the floor of variances with which correlated columns are to begin, by the smallest of these plans.

        A lower floor has to bring half of what one direction would that follows from the others.
        """
        if not plans or (len(self.fronts) == 1 and plans[0].floor == plans[0].floors[-1]):
            return 0, plans[0].floor if plans else None
        tried = []
        for plan in self._behind_all(plans[:1]):
            found = self._try(plan)
            if found is None:
                return 0, plan.floor
            floor = plan.floors[-1] if plan.floor is None else plan.floor
            found.regularizer, found.floor = self.fixed, floor
            self._train(found, 1, self.left)
            for lower in plan.floors[plan.floors.index(floor) + 1 :]:
                variant = found.variant(floor=lower, begun=0)
                self._train(variant, 1, self.left)
                if found.valid_nll - variant.valid_nll < FOLLOWS * math.log(floor / lower) / 2:
                    break
                self.pool.append(variant)
                found, floor = variant, lower
            tried.append(found)
        best = min(tried, key=lambda c: c.valid_nll)
        return best.plan.front, best.floor

    def _has_floors(self) -> bool:
        return any(
            f.floor is not None and v for front in self.fronts for f, v in zip(front.families, self.task.varies, strict=True)
        )

    def _halve(self, plans: Sequence[Plan], floor: float | None = None) -> Trial | None:
        """Successive halving over plans; the best of those that are left."""
        if not plans:
            return None
        racing: list[Trial] = []
        rounds = 1 + sum(1 for n in range(len(plans)) if len(plans) >> n >= 2 * SURVIVORS)
        began, whole = self.spent, SIZES_SHARE * max(self.left, 0.0)
        for number in range(rounds):
            survivors = len(plans) if number == 0 else max(SURVIVORS, len(plans) >> number)
            racing = sorted(racing, key=lambda c: c.valid_nll)[:survivors]
            entrants: Sequence[Plan | Trial] = plans if number == 0 else racing
            for place, entrant in enumerate(entrants):
                allowance = (began + whole * (number + 1) / rounds - self.spent) / (len(entrants) - place)
                if allowance <= 0 and (racing or self.pool):
                    continue
                if isinstance(entrant, Plan):
                    started = self._try(entrant)
                    if started is None:
                        continue
                    entrant = started
                    entrant.regularizer = entrant.plan.regularizer or self.fixed
                    entrant.floor = floor if entrant.plan.floor is None else entrant.plan.floor
                    racing.append(entrant)
                self._train(entrant, MOST_EPOCHS, allowance)
            self._say(f"round {number + 1} of {rounds} of trained models")
        return min(racing, key=lambda c: c.valid_nll) if racing else None

    def _look_further(self, best: Trial, together: int, low: float | None) -> Trial:
        """The better of this one and what pays less often: families for categories in order, maps by quantiles, hidden trees
        whose leaves are correlated blocks, and Gaussians of low rank.
        """
        limit = self.spent + FURTHER_SHARE * max(self.left, 0.0)
        found = further_plans(self.fronts[together].families, self._train_rows(together), best.plan)
        others = [replace(plan, front=together, floor=low) for plan in found]
        plans = [*self._in_order(best.plan, limit - self.spent), *self._behind_quantiles(best.plan, limit - self.spent), *others]
        known = [c.plan for c in self.pool]
        plans = [plan for plan in plans if plan not in known and self._cost(plan) <= FURTHER_SHARE * (limit - self.spent)]
        for place, plan in enumerate(plans):
            end = self.spent + (limit - self.spent) / (len(plans) - place)
            other = self._try(plan)
            if other is None:
                continue
            other.regularizer, other.floor = best.regularizer, best.floor if plan.floor is None else plan.floor
            for _ in range(len(best.rounds) + 1):
                if self.spent >= end or other.exhausted:
                    break
                self._train(other, MOST_EPOCHS, end - self.spent)
        self._say("what pays less often")
        won = min([best, *(c for c in self.pool if c.plan in plans)], key=lambda c: c.valid_nll)
        clearly = self.is_clearly_better(self.task.judge(won), self.task.judge(best))
        return self._tune(won) if clearly else best

    def _in_order(self, plan: Plan, allowance: float) -> list[Plan]:
        """The same with families for categories in order, if these are better given the other columns anywhere."""
        front = self.fronts[plan.front]
        found, work = ordered_families(front.rows, front.families, self._several, self.task.seed, FRONTS_SHARE * allowance)
        self.spent += work
        if found == list(front.families):
            return []
        self.task = replace(self.task, ordered={**self.task.ordered, plan.front: found})
        # Starts from trees of the values are for free tables.
        return [replace(plan, ordered=True, options={k: v for k, v in plan.options.items() if k not in OF_TABLES})]

    def _behind_quantiles(self, plan: Plan, allowance: float) -> list[Plan]:
        """The same behind a front with maps by quantiles, if these are better than others for any column."""
        made, work = self._made_fronts(FRONTS_SHARE * allowance, quantiles=True)
        self.spent += work
        if len(made) == 1 or any(made[-1].scaling.transforms == front.scaling.transforms for front in self.fronts):
            return []
        self.fronts = [*self.fronts, made[-1]]
        self.task = replace(self.task, fronts=self.fronts)
        return [replace(plan, front=len(self.fronts) - 1)]

    def _tune(self, best: Trial) -> Trial:
        """The same with more latents or else fewer; of correlated columns, also with less in common or else more, or of other
        rank.
        """
        most = int(max(split.train.weight for split in self.task.splits)) // 4
        joined = sum(kind.joins for kind in self.fronts[best.plan.front].families)
        ways: dict[str, tuple[Callable[[Any], Any], ...]] = {
            "n_latents": (lambda n: max(min(2 * n, most), n), lambda n: max(n // 2, 1)),
            "pooled": (lambda rows: rows / POOLED_STEP, lambda rows: rows * POOLED_STEP),
            "rank": (lambda rank: max(min(2 * rank, joined - 1), rank), lambda rank: max(rank // 2, 1)),
        }
        for option, directions in ways.items():
            for following in directions:
                better = self._while_better(best, option, following)
                if better is not best:
                    best = better
                    break
        return best

    def _while_better(self, best: Trial, option: str, following: Callable[[Any], Any]) -> Trial:
        """One option changed step by step, each model trained as the last one was."""
        while option in best.plan.options:
            other = self._with_option(best, option, following(best.plan.options[option]))
            if other is None or not other.valid_nll < best.valid_nll:
                break
            best = other
        return best

    def _mix_families(self, best: Trial) -> Trial:
        """The same with several families to a unit, of columns as they are, if there is work left for it."""
        if "blocks" in best.plan.options or not self.task.others or not self.by_rows:
            return best
        plan = replace(best.plan, mixed=True, ordered=False, front=0)
        # Copies are worth more than this is, where there are to be any.
        if self._cost(plan) + 2 * best.kept > (FURTHER_SHARE if self.average else 1.0) * self.left:
            return best
        other = self._like(best, plan)
        return best if other is None or not other.valid_nll < best.valid_nll else other

    def _with_option(self, best: Trial, option: str, value: Any) -> Trial | None:
        """The same with another option; None if it was tried already, or too little work is left."""
        plan = replace(best.plan, options={**best.plan.options, option: value})
        dear = self._cost(plan) + 1.5 * plan.n_latents / best.plan.n_latents * best.training > TUNING_SHARE * self.left
        return None if dear or any(c.plan == plan for c in self.pool) else self._like(best, plan)

    def _like(self, best: Trial, plan: Plan) -> Trial | None:
        """A plan trained like the best one, as far as work is left; None if there is no memory for it."""
        end, other = self.spent + self.left, self._try(plan)
        if other is not None:
            other.regularizer, other.floor = best.regularizer, best.floor
            self._train_like(best, other, end=end)
            self._say(plan.name)
        return other

    def _regularize(self, best: Trial) -> Trial:
        """Go on from the best one with each regulariser, and with none."""
        variants = list(dict.fromkeys([best.regularizer, *self.tried])) if self.tried else []
        end = self.spent + self.left * (REGULARIZERS_SHARE - SIZES_SHARE) / (1 - SIZES_SHARE)
        tried = []
        for place, regularizer in enumerate(variants):
            allowance = (end - self.spent) / (len(variants) - place)
            if allowance <= 0:
                break
            variant = best.variant(regularizer=regularizer)
            self._train(variant, MOST_EPOCHS, allowance)
            if not variant.exhausted:
                tried.append(variant)
                self.pool.append(variant)
        self._say("regularisers")
        return min([best, *tried], key=lambda c: c.valid_nll)

    def _other_floors(self, best: Trial) -> Trial:
        """Lower floors of the variance for as long as they help, or else a higher one, at the cost of regularisers at most."""
        if not self._has_floors():
            return best
        end = self.spent + self.left / 3
        floors = best.plan.floors
        at = 0 if best.floor is None else floors.index(best.floor)
        for others in (floors[at + 1 :], floors[:at][::-1]):
            before = best
            for floor in others:
                if self.spent >= end:
                    break
                variant = best.variant(floor=floor, begun=min(best.begun, 1))
                self._train(variant, MOST_EPOCHS, end - self.spent)
                if variant.exhausted:
                    break
                self.pool.append(variant)
                best = variant
            if best is not before:
                break
        self._say("floors of variances")
        return best

    def _train_on(self, last: Trial, share: float) -> None:
        """The best one, with a share of what is left."""
        end = self.spent + self.left * share
        while self.spent < end and not last.exhausted:
            before = last.epochs
            self._train(last, MOST_EPOCHS, end - self.spent)
            if last.epochs == before:
                break
        self._say("the best one trained on")

    def _twice(self, best: Trial) -> Trial:
        """The best one and a copy with another start in one mixture, which all rows can tell apart; itself if work is short."""
        left = self.left + self.set_aside
        copied = self._cost(best.plan) + best.kept
        if not best.seen or left - copied < JOINT_EPOCHS * 2 * best.passes / best.seen * self.task.n_rows:
            return best
        other = self._start(best.plan, 1)
        self._train_like(best, other)
        both = best.joined(other)
        self.pool.append(both)
        self._say("a copy, to be joined with the best one")
        return both

    def _copies(self, best: Trial) -> None:
        """The best one again, and then the best of every other kind, for as long as any effort is left: to be averaged."""
        firsts: dict[tuple[Any, ...], Trial] = {best.plan.kind: best}
        for trial in sorted(self.pool, key=lambda c: c.valid_nll):
            if trial.rounds and not trial.copy and trial.plan.front == best.plan.front:
                firsts.setdefault(trial.plan.kind, trial)
        judged: dict[tuple[Any, ...], dict[int, float]] = {kind: {} for kind in firsts}
        for first in range(1, TURNS * COPIES, COPIES):
            for kind, model in firsts.items():
                if not self._copy(model, best, range(first, first + COPIES), judged[kind]):
                    return

    def _copy(self, model: Trial, best: Trial, copies: range, tried: dict[int, float]) -> bool:
        """A model again with other trees, trained in the same way; whether there was work for all of these copies.

        The more the trees differ, the better is an average, but from samples of few rows they are bad ones. So the first copies
        are one of each kind of sample; the others are of the kind whose average with the best one is best among those `tried`.
        """
        for copy in copies:
            if self.left < model.kept + self._cost(model.plan) + (self._again(model) if self.refits else 0.0):
                return False
            whole = WHOLES[copy - 1] if copy <= len(WHOLES) else min(tried, key=lambda kind: tried[kind])
            other = self._start(model.plan, copy, whole)
            self._train_like(model, other, to_the_end=False)
            if whole not in tried:
                both = np.stack([self.task.judge(best), self.task.judge(other)], axis=1)
                tried[whole] = cross_fitted_nll(both, self.task.judges)
            self._say(f"copy {copy} of {model.name}")
        return True

    def _try(self, plan: Plan) -> Trial | None:
        """A candidate; None if there is no memory for it, unless it is what the user asked for."""
        try:
            return self._start(plan)
        except TooLargeError:
            if self.wishes.structure != "auto":
                raise
            self.too_large[NAMES[plan.structure]] = None
            return None

    def _start(self, plan: Plan, copy: int = 0, whole: int = 0) -> Trial:
        candidate = self.task.start(plan, copy, whole)
        self.spent += candidate.building
        self.pool.append(candidate)
        return candidate

    def _train(self, candidate: Trial, epochs: int, allowance: float) -> None:
        """A further round."""
        before = candidate.training
        try:
            self.task.train_round(candidate, epochs, allowance)
        finally:
            self.spent += candidate.training - before

    def _train_like(self, best: Trial, other: Trial, to_the_end: bool = True, end: float = math.inf) -> None:
        """In rounds like those of the best one, each a little longer, until `end` is spent; those for which work is left, if not
        `to_the_end`.
        """
        for planned in list(best.rounds):
            if not to_the_end and self.left <= 0:
                return
            epochs: float = planned.epochs + SLACK
            if other.epochs:
                # Families differ in what an epoch takes.
                once = other.passes / other.seen * (planned.n_rows or self.task.n_rows)
                epochs = min(epochs, (end - self.spent) // once)
            if epochs < 1:
                return
            before = other.training
            try:
                self.task.follow(other, planned, int(epochs))
            finally:
                self.spent += other.training - before

    # ---- progress ----------------------------------------------------------------------------------------------------

    def _watched(self, candidate: Trial, row: Row) -> None:
        assert self.watch is not None
        self.watch(f"{candidate.name}  epoch {row['epoch']}", min(self.spent / max(self.effort, 1e-9), 1.0))

    def _say(self, what: str) -> None:
        if self.say is not None and self.pool:
            best = min(self.pool, key=lambda c: c.valid_nll)
            self.say(self.spent, f"{what}: best so far {best.valid_nll:.4f}, {best.name}")
