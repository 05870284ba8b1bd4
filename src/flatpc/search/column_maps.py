"""Fronts: units in which models are learnt. One leaves columns as they are; another takes them for Gaussians, and maps skewed
ones by a logarithm or a power, unless they follow from others and maps would bend that. A third one, which is tried once a model
is chosen, may also map by quantiles.

A model learnt behind a front is a model of the table: its inputs become `Transformed` families. So models of several fronts are
judged together, in the same units. Which columns a front maps is told by how well a normal distribution fits
rows that it has not seen, over several splits; one is mapped only where that is better by a margin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flatpc._row_groups import parted
from flatpc._row_weights import deviation, mean
from flatpc._typing import Array, Ints
from flatpc.families import Family, Log, Transform
from flatpc.families.transforms import fit_power, fit_quantiles
from flatpc.search import work
from flatpc.search.floors import rounding_variances, with_first_floor
from flatpc.search.judging import Split
from flatpc.search.plans import MOST_CORRELATED
from flatpc.search.samples import Sample
from flatpc.search.scaling import Scaling
from flatpc.tables.following import FEWEST_ROWS, UNEXPLAINED, unexplained

SPLITS = 5
"""Of the rows into halves, by which a map is judged."""
MARGIN = 0.02
"""Nats per row by which a map has to be better than none, in all splits."""
WORTH_OF_BOUNDS = 0.05
"""Nats per row by which a power has to be better than a logarithm."""
MOST_ROWS = 5000
"""By which maps are chosen."""
PER_QUANTILE, FEWEST_QUANTILES, MOST_QUANTILES = 20, 5, 24
"""Rows for each point of a map of quantiles, and how many points it has."""
FEWEST_VALUES, FEWEST_IN_PART = 20, 5
"""Different values of a column that may be mapped, and of parts of its rows by which that is told."""
BENT = 4.0
"""Times as much of the variance of a column that follows from others is left open once they are mapped: then it isn't."""


@dataclass(frozen=True)
class Front:
    """The rows in the units of a scaling, and the splits that judge by them."""

    scaling: Scaling
    rows: Sample
    splits: Sequence[Split]
    families: Sequence[Family]
    volumes: Sequence[Array]
    """For each split, `[judges]`: what log-densities are lower by in the user's units."""
    rounding: tuple[float, ...]
    """The variance of each column's rounding."""

    @staticmethod
    def of(scaling: Scaling, rows: Sample, splits: Sequence[Split], families: Sequence[Family]) -> Front:
        """From rows and splits in the user's units."""
        return Front(
            scaling,
            scaling.apply_to(rows),
            [Split(scaling.apply_to(split.train), scaling.apply_to(split.valid)) for split in splits],
            with_first_floor(families, scaling),
            [scaling.log_volume(split.valid.X) for split in splits],
            rounding_variances(rows.X, families, scaling),
        )


def fronts(
    rows: Sample,
    splits: Sequence[Split],
    families: Sequence[Family],
    normal: Sequence[Family],
    seed: int,
    names: Sequence[str] | None = None,
    allowance: float = np.inf,
    quantiles: bool = False,
) -> tuple[list[Front], float]:
    """Columns as they are; and, where that is something else, as Gaussians, with a map where one gains by it; and their work.

    `quantiles` says whether maps of quantiles are tried beside logarithms and powers.

    Maps are judged by fewer splits, or there are none, if to choose them takes more than the allowance.
    """
    out = [Front.of(Scaling.learn(rows.X, families, names, weights=rows.weights), rows, splits, families)]
    everything = np.concatenate([rows.X, *(split.valid.X for split in splits)]) if splits else rows.X
    mappable = [j for j, family in enumerate(normal) if family.joins and not family.chosen_floor]
    once = len(mappable) * work.of_map(min(len(rows), MOST_ROWS))
    n_splits = SPLITS if SPLITS * once <= allowance else int(allowance / once)
    transforms = {
        j: transform
        for j in (mappable if n_splits else [])
        for transform in [choose_transform(rows.X[:, j], everything[:, j], seed, rows.weights, n_splits, quantiles, rows.groups)]
        if transform is not None
    }
    bent = _bent([j for j, family in enumerate(normal) if family.joins], rows, transforms)
    transforms = {j: transform for j, transform in transforms.items() if j not in bent}
    if transforms or list(normal) != list(families):
        out.append(Front.of(Scaling.learn(rows.X, normal, names, transforms, rows.weights), rows, splits, normal))
    return out, n_splits * once


def _bent(joined: Sequence[int], rows: Sample, transforms: dict[int, Transform]) -> set[int]:
    """Columns that follow from others, but less so once columns are mapped one by one."""
    whole = rows.some(~np.isnan(rows.X[:, joined]).any(axis=1))
    if not transforms or not 2 <= len(joined) <= MOST_CORRELATED or len(whole) < FEWEST_ROWS or whole.n_groups < 2:
        return set()
    order = np.random.default_rng(0).permutation(len(whole))[:MOST_ROWS]
    first, second = parted(order, (len(order) + 1) // 2, whole.groups)
    if not len(first):
        return set()
    some, n = whole.X[np.concatenate([first, second])], len(first)
    mapped = np.stack([transforms[j].forward(some[:, j]) if j in transforms else some[:, j] for j in joined], axis=1)
    plain, after = (unexplained(x[:n], x[n:]).mean(axis=0) for x in (some[:, joined], mapped))
    return {j for j, before, now in zip(joined, plain, after, strict=True) if before < UNEXPLAINED and now > BENT * before}


def choose_transform(
    column: Array,
    everything: Array,
    seed: int,
    weights: Array | None = None,
    n_splits: int = SPLITS,
    quantiles: bool = False,
    groups: Ints | None = None,
) -> Transform | None:
    """The map of a column after which it looks most like a normal distribution; None if none is better by the margin.

    Where values are in groups, those of one group are learnt from together or not at all.

    >>> choose_transform(np.exp(np.random.default_rng(0).normal(size=500)), np.ones(1), 0)
    Log(shift=0.0, scale=1.0)
    >>> choose_transform(np.random.default_rng(0).normal(size=500), np.ones(1), 0) is None
    True
    """
    known = ~np.isnan(column)
    x, w = column[known], None if weights is None else weights[known]
    belong = None if groups is None else groups[known]
    rng = np.random.default_rng(seed)
    if len(x) > MOST_ROWS:
        some = rng.permutation(len(x))[:MOST_ROWS]
        x, w = x[some], None if w is None else w[some]
        belong = None if belong is None else belong[some]
    if len(np.unique(x)) < FEWEST_VALUES or (belong is not None and (belong == belong[0]).all()):
        return None
    positive = bool((everything[~np.isnan(everything)] > 0).all() and (x > 0).all())
    quantiles = quantiles and (len(x) if w is None else w.sum()) >= 2 * PER_QUANTILE * FEWEST_QUANTILES
    judged: dict[str, list[float]] = {
        "power": [], **({"log": []} if positive else {}), **({"quantiles": []} if quantiles else {}),
    }  # fmt: skip
    for _ in range(n_splits):
        first, second = parted(rng.permutation(len(x)), len(x) // 2, belong)
        train, judges = x[first], x[second]
        if min(len(np.unique(train)), len(np.unique(judges))) < FEWEST_IN_PART:
            continue
        counted, by = (None, None) if w is None else (w[first], w[second])
        plain = _normal(None, train, judges, counted)
        judged["power"].append(mean(_normal(fit_power(train, counted), train, judges, counted) - plain, by))
        if positive:
            judged["log"].append(mean(_normal(Log(), train, judges, counted) - plain, by))
        if quantiles:
            judged["quantiles"].append(mean(_normal(_quantiles(train, counted), train, judges, counted) - plain, by))
    # Positive numbers stay so by a logarithm: that is worth a little. A map with many numbers has to be worth them.
    worth = {"log": WORTH_OF_BOUNDS, "power": 0.0, "quantiles": -WORTH_OF_BOUNDS}
    if not judged["power"]:
        return None
    best = max(judged, key=lambda kind: float(np.mean(judged[kind])) + worth[kind])
    if not min(judged[best]) > MARGIN:
        return None
    return Log() if best == "log" else _quantiles(x, w) if best == "quantiles" else fit_power(x, w)


def _quantiles(x: Array, weights: Array | None) -> Transform:
    size = len(x) if weights is None else weights.sum()
    return fit_quantiles(x, int(np.clip(size // PER_QUANTILE, 1, MOST_QUANTILES)), weights)


def _normal(transform: Transform | None, train: Array, judges: Array, weights: Array | None) -> Array:
    """Log-densities of judges under the normal distribution of the others."""
    slope = np.zeros(len(judges)) if transform is None else transform.log_slope(judges)
    if transform is not None:
        train, judges = transform.forward(train), transform.forward(judges)
    spread = max(deviation(train, weights), 1e-300)
    with np.errstate(over="ignore"):
        return np.asarray(slope - 0.5 * ((judges - mean(train, weights)) / spread) ** 2 - np.log(spread))
