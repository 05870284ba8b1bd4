"""Which of several families a column has, by values that had no part in fitting them.

Each is tried alone and as a mixture of a few units, which is nearer to what a circuit makes of it; the better of the two counts.
Alternatives are compared in one measure: probabilities with probabilities, densities with densities. Where some values of a
column stand out as atoms, families that have them are preferred: to others such values are spikes, as likely as one likes.
So are families with the cycles of a calendar: what goes with weekdays is seen in other columns, if at all.

Alone, categories in order are as likely with two numbers for a unit as with one for each category. So a family such as `Ordinal`
is left out there, and compared with the one chosen given the other columns: in each cluster of rows, by these, both have a unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp
from scipy.stats import rankdata

from flatpc._row_groups import effective_number, parted, standard_error
from flatpc._row_weights import mean, rows_by_weight
from flatpc._typing import Array, Ints
from flatpc.families import Family
from flatpc.search import work
from flatpc.search.samples import Sample
from flatpc.structures.clusters import cluster_weights

UNITS = (1, 4)
"""Of the mixtures."""
ROWS, STEPS, SPLITS = 600, 25, 3
"""Values that a family is tried on, steps of EM, and halvings of the values."""
MARGIN = 0.01
"""Nats per value, and one standard error, by which one has to be better than those before it."""
FEW = 20_000
"""Rows up to which families that take long are tried."""
FEWEST = 20
"""Values, below which there is no choosing."""
PRIOR = 0.5
"""Further observations of each unit."""
CLUSTERS, PER_CLUSTER = 8, 20
"""Of rows by the other columns, and rows to learn from for each, or there are fewer."""
CLUSTERINGS = 8
"""At the most: of more columns than these, several have one in common, by all columns but them."""
STEPS_IN_CLUSTERS = 5
"""Of a family's updates where it is known which unit a row belongs to."""


def choose_families(
    rows: Sample, families: Sequence[Family | Sequence[Family]], seed: int, allowance: float
) -> tuple[list[Family], float]:
    """The family of each column, among those that it is given, and the work of choosing.

    If there is no allowance for more, there are fewer splits, or none: then each column has the first of its own.
    """
    several = {j: _comparable(rows.X[:, j], given) for j, given in enumerate(families) if not isinstance(given, Family)}
    n = min(len(rows), ROWS) // 2
    tried = [family for each in several.values() if len(each) > 1 for family in each]
    once = STEPS * sum(work.of_trial(family, n, units) for family in tried for units in UNITS)
    n_splits = SPLITS if SPLITS * once <= allowance else int(allowance / once)
    kinds = [
        given if isinstance(given, Family) else choose_family(rows.X[:, j], several[j], seed, rows.weights, n_splits, rows.groups)
        for j, given in enumerate(families)
    ]
    return kinds, n_splits * once


def choose_family(
    column: Array,
    alternatives: Sequence[Family],
    seed: int,
    weights: Array | None = None,
    n_splits: int = SPLITS,
    groups: Ints | None = None,
) -> Family:
    """The family that is best for values not learnt from; an earlier one, unless a later one is better by a margin.

    Where values are in groups, those of one group are learnt from together or not at all, and a group tells as much as one value.

    >>> from flatpc import NegativeBinomial, Poisson
    >>> x = np.random.default_rng(0).negative_binomial(1, 0.02, 400).astype(float)
    >>> choose_family(x, (Poisson(), NegativeBinomial()), 0)
    NegativeBinomial(min_rate=1e-06)
    """
    several = _comparable(column, alternatives)
    first = several[0]
    present = ~np.isnan(column)
    known = column[present]
    counted = np.ones(len(known)) if weights is None else weights[present]
    if len(several) == 1 or len(known) < FEWEST or not n_splits:
        return first
    rng = np.random.default_rng(seed)
    values = Sample(known[:, None], counted, None if groups is None else groups[present])
    order = rng.permutation(len(known))
    some, others = values.some(order[:ROWS]), values.some(order[ROWS:])
    if some.n_groups < 2:
        return first
    trial = _Halves.of(some, n_splits, rng)
    best, best_logs = first, _judged(first, some, others, trial, seed)
    for family in several[1:]:
        logs = _judged(family, some, others, trial, seed)
        if trial.better(logs - best_logs):
            best, best_logs = family, logs
    return best


@dataclass(frozen=True)
class _Halves:
    """Several halvings of some values: what families learn from, and are judged by."""

    pairs: Sequence[tuple[Ints, Ints]]
    by: Array
    """How often all judges count, one halving's after the other's."""
    n: float
    """How many values, or groups of them, of equal weight would tell as much."""
    groups: Ints | None
    """Of all judges; those of one halving are not those of another."""

    @staticmethod
    def of(values: Sample, n_splits: int, rng: np.random.Generator) -> _Halves:
        size, counted, groups = len(values), _counted(values), values.groups
        pairs = [parted(rng.permutation(size), size // 2, groups) for _ in range(n_splits)]
        judges = [second for _, second in pairs]
        belong = None
        if groups is not None:
            belong = np.concatenate([groups[second] + split * (groups.max() + 1) for split, second in enumerate(judges)])
        by = np.concatenate([counted[second] for second in judges])
        return _Halves(pairs, by, effective_number(counted, groups), belong)

    def better(self, gain: Array) -> bool:
        """Whether judges gain by more than a margin."""
        return mean(gain, self.by) > max(MARGIN, standard_error(gain, self.by, self.n, self.groups))


def _comparable(column: Array, alternatives: Sequence[Family]) -> list[Family]:
    """Those that are measured as the first one is, which comes first; atoms are preferred to none, and cycles.

    Such as are to be judged given other columns are left out, unless there are no others.
    """
    alternatives = [family for family in alternatives if not is_ordinal(family)] or alternatives
    atomic = [family for family in alternatives if _measure(family)[0] == "both"]
    cyclic = [family for family in atomic or alternatives if family.runs_in_cycles]
    first = (cyclic or atomic or list(alternatives))[0]
    slow = [family for family in alternatives if len(column) > FEW and family.grid is not None]
    return [family for family in alternatives if _measure(family) == _measure(first) and (family == first or family not in slow)]


def normal_instead(chosen: Family, given: Family | Sequence[Family]) -> Family:
    """A Gaussian in place of a family with a density that was chosen among several, and a rounded one in place of a count's.

    Columns can then be mapped and correlated, and counts vary less than they would by chance.

    >>> from flatpc import Gamma, Gaussian
    >>> normal_instead(Gamma(), (Gaussian(), Gamma())) == Gaussian(), normal_instead(Gamma(), Gamma()) == Gamma()
    (True, True)
    """
    if isinstance(given, Family) or chosen.set_apart or chosen.n_categories is not None:
        return chosen
    if chosen.discrete:
        rounded = (family for family in given if family.grid is not None and not family.set_apart)
        return next((family for family in rounded if (family.inner or family).joins), chosen)
    return next((family for family in given if family.joins), chosen)


def is_ordinal(family: Family) -> bool:
    """Whether units are tables, but not any: with fewer numbers than values, they tell how values go together.

    >>> from flatpc import Categorical, Ordinal
    >>> is_ordinal(Ordinal((-1.0, 0.0, 1.0))), is_ordinal(Categorical(4))
    (True, False)
    """
    return family.is_table and not family.is_free_table and family.learnable


def ordered_families(
    rows: Sample, kinds: Sequence[Family], families: Sequence[Sequence[Family]], seed: int, allowance: float = np.inf
) -> tuple[list[Family], float]:
    """Families for ordered categories in place of those chosen, over the same values, where they are better given the other
    columns; and the work.
    """
    rivals = {
        j: [family for family in given if is_ordinal(family) and family != kind and family.n_categories == kind.n_categories]
        for j, (kind, given) in enumerate(zip(kinds, families, strict=True))
    }
    asked = [j for j, several in rivals.items() if several]
    some = rows.some(np.random.default_rng(seed).permutation(len(rows))[:ROWS])
    width = min(CLUSTERS, len(some) // 2 // PER_CLUSTER)
    out = list(kinds)
    if not asked or len(kinds) < 2 or width < 2:
        return out, 0.0
    parts = [asked[place::CLUSTERINGS] for place in range(min(CLUSTERINGS, len(asked)))]
    clustering = len(parts) * work.of_clusters(len(some), len(kinds), width)
    tried = [family for j in asked for family in (kinds[j], *rivals[j])]
    once = STEPS_IN_CLUSTERS * sum(work.of_trial(family, len(some) // 2, width) for family in tried)
    n_splits = SPLITS if clustering + SPLITS * once <= allowance else int((allowance - clustering) / once)
    if n_splits < 1:
        return out, 0.0
    for part in parts:
        rest = np.delete(some.X, part, axis=1)
        rest = rest[:, ~np.isnan(rest).all(axis=0)]
        if not rest.shape[1]:
            continue
        # By ranks, so that a few large numbers are no clusters of their own.
        flow = cluster_weights(rankdata(rest, axis=0, nan_policy="omit"), width, seed, some.weights)
        for j in part:
            out[j] = _best_in_clusters(some, j, flow, [kinds[j], *rivals[j]], seed, n_splits)
    return out, clustering + n_splits * once


def _best_in_clusters(rows: Sample, j: int, flow: Array, alternatives: Sequence[Family], seed: int, n_splits: int) -> Family:
    """The family that is best for values not learnt from, each in the unit of its row's cluster; a later one, by a margin."""
    present = ~np.isnan(rows.X[:, j])
    known = rows.some(present)
    best = alternatives[0]
    if len(known) < FEWEST or known.n_groups < 2:
        return best
    x, flow = known.X[:, j], flow[present]
    halves = _Halves.of(known, n_splits, np.random.default_rng(seed))
    best_logs = None
    for family in alternatives:
        logs = np.concatenate([_in_clusters(family, x[a], flow[a], x[b], flow[b].argmax(axis=1), seed) for a, b in halves.pairs])
        if best_logs is None or halves.better(logs - best_logs):
            best, best_logs = family, logs
    return best


def _in_clusters(family: Family, train: Array, flow: Array, judges: Array, cluster: Ints, seed: int) -> Array:
    """Log-likelihoods of values in clusters, whose units learn from others."""
    parameters: Any = family.initialize_from(train, flow.shape[1], np.random.default_rng(seed), "uniform")
    with np.errstate(all="ignore"):
        for _ in range(STEPS_IN_CLUSTERS):
            parameters = family.update(parameters, family.statistics(parameters, train, flow), PRIOR)
        found = family.log_density(parameters, judges)[np.arange(len(judges)), cluster]
    return _explained(found)


def _measure(family: Family) -> tuple[Any, ...]:
    if family.discrete:
        return ("mass",)
    kind = ("both", family.set_apart) if family.set_apart else ("density",)
    return (*kind, family.runs_in_cycles)


def _counted(values: Sample) -> Array:
    """How often each counts."""
    return np.ones(len(values)) if values.weights is None else values.weights


def _judged(family: Family, some: Sample, others: Sample, halves: _Halves, seed: int) -> Array:
    """Log-likelihoods of the values that each half leaves out, by the better number of units.

    A probability for each value takes many values to learn, and no time: it has all `others` besides, and needs one unit.
    """
    tried = []
    for width in UNITS[:1] if family.is_free_table else UNITS:
        logs = []
        for first, second in halves.pairs:
            train, judges = some.some(first), some.some(second)
            if family.is_free_table:
                train = _together(train, _apart(others, judges))
            logs.append(_held_out(family, train, judges.X[:, 0], width, seed))
        tried.append(np.concatenate(logs))
    return max(tried, key=lambda logs: mean(logs, halves.by))


def _apart(others: Sample, judges: Sample) -> Sample:
    """Those of no group that judges."""
    if others.groups is None or judges.groups is None:
        return others
    return others.some(~np.isin(others.groups, judges.groups))


def _together(one: Sample, other: Sample) -> Sample:
    """The values of both, and how often they count."""
    return Sample(np.concatenate([one.X, other.X]), np.concatenate([_counted(one), _counted(other)]))


def _held_out(family: Family, values: Sample, judges: Array, width: int, seed: int) -> Array:
    train, counted = values.X[:, 0], _counted(values)
    start = train[rows_by_weight(counted, len(train))]
    parameters: Any = family.initialize_from(start, width, np.random.default_rng(seed), "uniform")
    weights = np.full(width, 1 / width)
    with np.errstate(all="ignore"):
        for _ in range(1 if family.is_free_table else STEPS):
            logs = family.log_density(parameters, train) + np.log(weights)
            top = logsumexp(logs, axis=1, keepdims=True)
            flow = np.where(np.isfinite(top), np.exp(logs - np.where(np.isfinite(top), top, 0.0)), 1 / width)
            flow *= counted[:, None]
            parameters = family.update(parameters, family.statistics(parameters, train, flow), PRIOR)
            weights = (flow.sum(axis=0) + PRIOR) / (counted.sum() + PRIOR * width)
        found = logsumexp(family.log_density(parameters, judges) + np.log(weights), axis=1)
    return _explained(found)


def _explained(logs: Array) -> Array:
    """A value that a family can't explain at all counts as one that it hardly can."""
    return np.asarray(np.maximum(np.nan_to_num(logs, nan=-1e3), -1e3))
