"""Families that suit a column of numbers, the default first: judged by the likelihood of one unit, fitted to the column's values.

A circuit mixes many units, so that what is best alone need not be best together; `fp.choose` tries the alternatives on rows held
out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from flatpc._row_weights import deviation, mean, quantiles, rows_by_weight
from flatpc._typing import Array, Ints
from flatpc.families.base import Family, Parameters
from flatpc.families.beta import Beta
from flatpc.families.binomial import Binomial
from flatpc.families.categorical import Categorical
from flatpc.families.discretized import Discretized
from flatpc.families.gamma import Gamma
from flatpc.families.gaussian import Gaussian
from flatpc.families.histogram import Histogram
from flatpc.families.hurdle import Hurdle
from flatpc.families.log_normal import LogNormal
from flatpc.families.logistic import Logistic
from flatpc.families.negative_binomial import NegativeBinomial
from flatpc.families.ordinal import Ordinal
from flatpc.families.poisson import Poisson
from flatpc.families.student_t import StudentT
from flatpc.tables.traits import Traits

ROWS = 500
"""Values that a family is tried on, at the most."""
STEPS = 30
"""Of EM, at the most."""
WORTH = 0.02
"""Nats per value by which an alternative has to be better than the Gaussian to be offered."""
FINITE = 256
"""Values up to which counts may have a probability each."""
PER_VALUE = 5
"""Rows for each of them that it takes."""
BINS = 20
WIDE = 5
"""The largest count from which counts may also be rounded numbers."""
ZEROS = 0.3
"""Share of zeros from which counts may have more of them than their families say."""
MOST = 3
"""Alternatives to the Gaussian, at the most."""
FURTHER = 0.01
"""Of all values, as many more are spread evenly over those that have an order, before they tell where one ends."""


def suitable_counts(x: Array, traits: Traits, weights: Array | None = None, groups: Ints | None = None) -> tuple[Family, ...]:
    """Families for whole numbers from 0, best first; `x` may have NaN.

    `weights`, here as below, say how often each value counts, and `groups` which ones belong together.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> suitable_counts(rng.negative_binomial(1, 0.02, 300).astype(float), Traits())[0]
    NegativeBinomial(min_rate=1e-06)
    """
    known = _some(x, weights)
    if len(known.x) == 0:
        return (NegativeBinomial(), Poisson())
    largest = int(np.nanmax(x))
    unbounded: list[Family] = [NegativeBinomial(), Poisson()]
    atoms = traits.atoms or ((0.0,) if largest > 1 and (known.x == 0).mean() > ZEROS else ())
    if atoms:
        unbounded.append(Hurdle(atoms, NegativeBinomial()))
    trials = _ranked(unbounded, known)
    ranked = [trial.family for trial in trials]
    if deviation(*known) ** 2 <= mean(*known):  # a negative binomial can't do better
        ranked = [Poisson(), *(family for family in ranked if family != Poisson())]
    if 1 < largest < FINITE and (~np.isnan(x)).sum() >= PER_VALUE * (largest + 1):
        if _Trial.of(Binomial(largest), known).log_likelihood > trials[0].log_likelihood:
            ranked.insert(1, Binomial(largest))
        ranked.insert(1 if finite_is_likelier(x, 0, largest, weights, groups) else len(ranked), Categorical(largest + 1))
        ranked.append(_ordinal(x, largest + 1, weights))
    if largest >= WIDE:
        rounded = Discretized(Gaussian(), 1.0, low=0.0)
        ranked += [rounded, *([Hurdle(traits.atoms, rounded)] if traits.atoms else [])]
    return tuple(ranked)


def suitable_levels(x: Array, n: int, weights: Array | None = None) -> tuple[Family, ...]:
    """Families for categories 0 to n - 1 that have an order, of which there are more than two; `x` may have NaN.

    >>> import numpy as np
    >>> [type(family).__name__ for family in suitable_levels(np.array([0.0, 1.0, 2.0, 1.0]), 3)]
    ['Categorical', 'Ordinal']
    """
    return Categorical(n), _ordinal(x, n, weights)


def _ordinal(x: Array, n: int, weights: Array | None) -> Ordinal:
    """The family one unit of which is as the values are."""
    present = ~np.isnan(x)
    counts = np.bincount(x[present].astype(np.int64), None if weights is None else weights[present], minlength=n)
    return Ordinal.of_shares(counts / counts.sum() + FURTHER / n)


def suitable_numbers(x: Array, traits: Traits, weights: Array | None = None) -> tuple[Family, ...]:
    """Families for a continuous column, the Gaussian first; `x` may have NaN.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> [type(family).__name__ for family in suitable_numbers(np.exp(rng.normal(size=500)), Traits(bounds=(0.0, np.inf)))]
    ['Gaussian', 'LogNormal', 'Gamma', 'StudentT']
    """
    inner = ~np.isin(x, traits.atoms) & ~np.isnan(x)
    values = _some(x[inner], None if weights is None else weights[inner])
    if len(np.unique(values.x)) < 3:
        return (Gaussian(),)
    least, largest = x[inner].min(), x[inner].max()  # of all values: a family must allow those, too, that it is not tried on
    low, high = traits.bounds
    tried: list[Family] = [StudentT(), Logistic()]
    pieces: list[Family] = []
    if least > 0:
        tried += [LogNormal(), Gamma()]
    if np.isfinite([low, high]).all() and low < least and largest < high:
        pieces = [Histogram(_edges(values, low, high))]
        tried += [Beta(low, high), *pieces]
    plain = _Trial.of(Gaussian(), values)
    better = [trial.family for trial in _ranked(tried, values) if trial.log_likelihood > plain.log_likelihood + WORTH]
    alone: list[Family] = [Gaussian(), *better[:MOST]]
    if traits.on_grid(x):
        alone += [Discretized(family, traits.resolution, traits.origin) for family in alone[:2] if family not in pieces]
    if not traits.atoms:
        return tuple(alone)
    return (Gaussian(), *(Hurdle(traits.atoms, family) for family in alone))


def finite_is_likelier(x: Array, low: int, high: int, weights: Array | None = None, groups: Ints | None = None) -> bool:
    """Whether whole numbers from `low` to `high` are better described by a probability each than by the families of counts.

    Each value is judged by the others, those of other `groups` if there are any: its smoothed share among them. The other
    families have so few parameters that this makes no difference to them.

    >>> import numpy as np
    >>> finite_is_likelier(np.array([0.0, 16.0] * 50), 0, 16)
    True
    """
    present = ~np.isnan(x)
    known, own = x[present] - low, None if weights is None else weights[present]
    n = high - low + 1
    logs = logs_of_shares(known.astype(np.int64), n, own, None if groups is None else groups[present])
    others: list[Family] = [NegativeBinomial(), Poisson(), Binomial(max(n - 1, 1))]
    return mean(logs, own) > max(trial.log_likelihood for trial in _ranked(others, _some(known, own)))


def logs_of_shares(codes: Ints, n: int, weights: Array | None = None, groups: Ints | None = None) -> Array:
    """The logarithm of each code's smoothed share, of n, among the rows of other groups; without groups among all other rows.

    >>> np.exp(logs_of_shares(np.array([0, 0, 1]), 2)).round(3).tolist()
    [0.5, 0.5, 0.167]
    """
    own: Array = np.ones(len(codes)) if weights is None else weights
    of_code, total = np.bincount(codes, own, minlength=n), own.sum()
    alike, together = own, own
    if groups is not None:
        pair = np.unique(groups * n + codes, return_inverse=True)[1]
        alike, together = np.asarray(np.bincount(pair, own)[pair]), np.asarray(np.bincount(groups, own)[groups])
    # With one more that is spread evenly.
    left = np.maximum(of_code[codes] - alike, 0.0) + 1 / n
    return np.asarray(np.log(left / np.maximum(total - together + 1, 1.0)))


def log_densities(family: Family, x: Array, weights: Array) -> Array:
    """Of values that count as often as `weights` say, by one unit of the family that was fitted to them.

    >>> np.exp(log_densities(Poisson(), np.array([0.0, 1.0]), np.array([1.0, 3.0]))).round(3).tolist()
    [0.472, 0.354]
    """
    with np.errstate(all="ignore"):
        return np.asarray(family.log_density(_Trial.of(family, _Values(x, weights)).parameters, x)[:, 0])


def loss_as_rounded(x: Array) -> float:
    """By how many nats per value a family of counts describes whole numbers from 0 better than a rounded Gaussian does.

    >>> import numpy as np
    >>> loss_as_rounded(np.random.default_rng(0).poisson(3.0, 400).astype(float)) > 0.01
    True
    """
    known = _some(x)
    counts: list[Family] = [NegativeBinomial(), Poisson()]
    return _ranked(counts, known)[0].log_likelihood - _Trial.of(Discretized(Gaussian(), 1.0, low=0.0), known).log_likelihood


# ---- trials -----------------------------------------------------------------------------------------------------------


class _Values(NamedTuple):
    """Values of a column, and how often each counts; None if once."""

    x: Array
    weights: Array | None = None


@dataclass(frozen=True)
class _Trial:
    """A family, and the mean log-likelihood of one unit of it that was fitted to values."""

    family: Family
    log_likelihood: float
    parameters: Parameters

    @staticmethod
    def of(family: Family, values: _Values) -> _Trial:
        x, weights = values
        flow = np.ones((len(x), 1)) if weights is None else weights[:, None]
        start = x if weights is None else x[rows_by_weight(weights, len(x))]
        best = -np.inf
        with np.errstate(all="ignore"):
            parameters = family.initialize_from(start, 1, np.random.default_rng(0), "uniform")
            for _ in range(STEPS):
                parameters = family.update(parameters, family.statistics(parameters, x, flow))
                value = mean(family.log_density(parameters, x)[:, 0], weights)
                if not value > best + 1e-3:
                    break
                best = value
        return _Trial(family, best, parameters)


def _ranked(families: list[Family], values: _Values) -> list[_Trial]:
    return sorted((_Trial.of(family, values) for family in families), key=lambda trial: -trial.log_likelihood)


def _some(x: Array, weights: Array | None = None) -> _Values:
    """Known values, every so many if there are very many."""
    present = np.flatnonzero(~np.isnan(x))
    chosen = present[:: max(1, len(present) // ROWS)]
    return _Values(x[chosen], None if weights is None else weights[chosen])


def _edges(values: _Values, low: float, high: float) -> tuple[float, ...]:
    """Bounds, and quantiles between them."""
    x, shares = values.x, np.linspace(0, 1, BINS + 1)[1:-1]
    inner = np.unique(np.quantile(x, shares) if values.weights is None else quantiles(x, shares, values.weights))
    return (low, *(float(edge) for edge in inner if low < edge < high), high)
