"""A rival for each score: options that validation rows like best, then learnt from training and validation rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from flatpc._typing import Array
from flatpc.datasets.table_splits import TableSplits
from flatpc.paper.table_rivals.independent import fit_independent, search_independent
from flatpc.paper.table_rivals.kernels import fit_kernels, search_kernels
from flatpc.paper.table_rivals.learnspn import Structures, search_learnspn
from flatpc.paper.table_rivals.mixture import fit_mixture, search_mixture
from flatpc.paper.table_rivals.rows import SCORES, Density, Rows, Units

CLASSIC = ("independent", "mixture", "kde", "learnspn")
"""All rivals but the flow, which is stopped by validation rows instead of being chosen by them."""
FLOORED = {"independent-floored": "independent", "mixture-floored": "mixture"}
"""The same with no standard deviation below `Units.floors`: rivals whose plain scores can be owed to spikes, without them."""
MOST_JUDGES, MOST_LEARNING = 300, 2_000
"""Validation rows that choose, and kernels of kernel densities meanwhile: each costs their product."""


@dataclass
class Judge:
    """Learns from training rows with given options, and scores validation rows."""

    fit: Callable[..., Density]
    """`fit(rows, **options)`."""
    train: Rows
    valid: Rows
    units: Units
    tried: dict[tuple[tuple[str, Any], ...], tuple[float, float]] = field(default_factory=dict)

    def __call__(self, **options: Any) -> tuple[float, float]:
        """Mean plain and bounded score."""
        place = tuple(sorted(options.items()))
        if place not in self.tried:
            model = self.fit(self.train, **options)
            plain, bounded = (float(self.units.score(name, model, self.valid).mean()) for name in SCORES)
            self.tried[place] = plain, bounded
        return self.tried[place]

    def best(self, score: int) -> tuple[dict[str, Any], float]:
        """Options, and their score."""
        place = max(self.tried, key=lambda each: self.tried[each][score])
        return dict(place), self.tried[place][score]


@dataclass(frozen=True)
class Scored:
    """One score of a rival."""

    valid: float
    """Mean over validation rows, before they were learnt from."""
    test: Array
    """`[N]`."""
    options: dict[str, Any]


def at_best(name: str, data: TableSplits, seed: int) -> dict[str, Scored]:
    """Both scores of one of `CLASSIC` or `FLOORED`."""
    units = Units.of(data)
    floors = units.floors if name in FLOORED else np.zeros(len(units.r))
    name = FLOORED.get(name, name)
    train, valid, test = (units.rows(rows) for rows in (data.train, data.valid, data.test))
    everything, judges = train.joined(valid), _some(valid, MOST_JUDGES, seed)
    n_values = units.n_values
    if name == "mixture":
        judge = Judge(lambda rows, **o: fit_mixture(rows, n_values, floors=floors, seed=seed, **o), train, judges, units)
        search_mixture(judge)
    elif name == "kde":
        few = _some(train, MOST_LEARNING, seed)
        judge = Judge(lambda rows, **o: fit_kernels(rows, n_values, seed=seed, **o), few, judges, units)
        search_kernels(judge, len(units.continuous), len(units.discrete))
    elif name == "independent":
        few = _some(train, MOST_LEARNING, seed)
        judge = Judge(lambda rows, **o: fit_independent(rows, n_values, seed=seed, **o), few, judges, units)
        search_independent(judge, few, judges, units.r, floors, seed)
    else:
        structures = Structures(n_values, seed)
        judge = Judge(structures.fit, train, judges, units)
        search_learnspn(judge, len(train))
    out = {}
    for i, score in enumerate(SCORES):
        options, valid_score = judge.best(i)
        model = judge.fit(everything, **options)
        out[score] = Scored(valid_score, units.score(score, model, test), options)
    return out


def _some(rows: Rows, n: int, seed: int) -> Rows:
    return rows[np.random.default_rng(seed).permutation(len(rows))[:n]]
