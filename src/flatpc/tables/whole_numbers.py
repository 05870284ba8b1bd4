"""Whole numbers: names of categories, counts, or rounded numbers, by the likelihood of one unit of each.

What a column's range says of it stands unless likelihood clearly says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from flatpc._row_groups import effective_number, standard_error
from flatpc._typing import Array, Ints
from flatpc.families.base import Family
from flatpc.families.binomial import Binomial
from flatpc.families.discretized import Discretized
from flatpc.families.gamma import Gamma
from flatpc.families.gaussian import Gaussian
from flatpc.families.hurdle import Hurdle
from flatpc.families.log_normal import LogNormal
from flatpc.families.logistic import Logistic
from flatpc.families.negative_binomial import NegativeBinomial
from flatpc.families.poisson import Poisson
from flatpc.tables.suiting import FINITE, PER_VALUE, WORTH, log_densities, logs_of_shares
from flatpc.tables.traits import REPEATED, Traits

MAX_CATEGORIES = 10
"""The most whole numbers that are taken for names of categories."""
FEWEST_CATEGORIES = 6
"""Different whole numbers from which few ones may be rounded numbers; fewer are labels, such as 10, 20, 50 and 100."""
FEWEST_NUMBERS = 20
"""Different counts from which they may be rounded numbers."""
LARGEST = 10_000
"""Numbers up to which families of counts are tried: of large ones they say what continuous families say."""
ROWS, VALUES = 5_000, 500
"""The most rows that judge; fewer where they have more different values than this."""
ERRORS = 2.0
"""Standard errors by which what overrules a range has to be better."""
PER_LABEL, APART = 5, 4
"""Rows for each of more labels than that, and steps from most of them to the next: of numbers, those between occur, too."""
ROUND = tuple(digit * 10.0**power for power in range(8) for digit in (5, 10, 20))
"""Of what amounts are multiples."""
BY_FAR = 1.0
"""Nats per value by which so many labels have to be likelier than numbers."""
WIDTHS = (0.5, 0.7, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Of kernels, in steps."""

WholeKind = Literal["categorical", "count", "continuous"]


def likelier_kind(x: Array, default: WholeKind, groups: Ints | None = None) -> WholeKind:
    """What whole numbers, without NaN, are by their likelihood: the `default` unless another kind is clearly better.

    >>> rng = np.random.default_rng(0)
    >>> near_60, near_500 = rng.normal(60, 10, 400).round(), rng.normal(500, 5, 400).round()
    >>> likelier_kind(near_60, "count"), likelier_kind(near_60, "continuous"), likelier_kind(near_500, "count")
    ('count', 'continuous', 'continuous')
    >>> likelier_kind(rng.choice(rng.integers(10_000, 99_999, 40), 400).astype(float), "continuous")
    'categorical'
    >>> likelier_kind(np.repeat(np.arange(6.0), [22, 21, 10, 4, 2, 1]), "categorical")
    'count'
    """
    n_distinct = len(np.unique(x))
    if n_distinct < 3 or n_distinct > (1 - REPEATED) * len(x):
        return default
    tried = _Tried(x, default, groups)
    if default == "categorical":
        return tried.instead_of_categories(n_distinct)
    if tried.are_labels():
        return "categorical"
    if default == "count":
        return "continuous" if n_distinct >= FEWEST_NUMBERS and tried.are_rounded() else default
    if x.min() < 0 or x.max() >= LARGEST:
        return default
    if tried.beats(tried.counts, tried.rounded):
        return "count"
    # Many units describe any smooth curve; a probability each is for what is not smooth.
    finite = x.max() < FINITE and len(x) >= PER_VALUE * (x.max() + 1) and tried.beats(tried.shares, tried.rounded)
    return "count" if finite and tried.beats(tried.shares, tried.smoothed) else default


@dataclass(frozen=True)
class _Tried:
    """Log-probabilities of a column's values by the best family of each kind, each value judged by others; None where none is."""

    x: Array
    default: WholeKind
    groups: Ints | None

    @cached_property
    def judges(self) -> Ints:
        """Every so many rows."""
        rows = np.arange(len(self.x))
        for most in (ROWS, VALUES):
            if most == ROWS or len(np.unique(self.x[rows])) > VALUES:
                rows = rows[:: max(1, -(-len(rows) // most))]
        return rows

    @cached_property
    def traits(self) -> Traits:
        """Those of the values; the step is 1 unless all are on a wider grid."""
        found = Traits.of(self.x)
        return found if found.resolution > 1 and found.on_grid(self.x) else Traits(1.0, 0.0, found.atoms, found.bounds)

    @cached_property
    def shares(self) -> Array:
        """A probability for each value: of the whole range, or of those that occur where it is wide."""
        low, most = self.x.min(), MAX_CATEGORIES if self.default == "categorical" else FINITE
        size = self.x.max() - low + 1
        codes = (self.x - low).astype(np.int64) if size <= most else np.unique(self.x, return_inverse=True)[1]
        return logs_of_shares(codes, int(codes.max()) + 1, groups=self.groups)[self.judges]

    @property
    def uniform(self) -> Array:
        """The same probability for all values of the range, as identifiers have it."""
        return np.full(len(self.judges), -np.log((self.x.max() - self.x.min()) / self.traits.resolution + 1))

    @cached_property
    def counts(self) -> Array | None:
        """Families of counts."""
        largest = int(self.x.max())
        if self.x.min() < 0 or largest >= LARGEST:
            return None
        families: list[Family] = [NegativeBinomial(), Poisson()]
        if largest < FINITE:
            families.append(Binomial(largest))
        if 0 in self.traits.atoms:
            families.append(Hurdle((0.0,), NegativeBinomial()))
        return self._best(families)

    @cached_property
    def rounded(self) -> Array | None:
        """Rounded numbers, with atoms where there are any."""
        traits, inner = self.traits, np.setdiff1d(self.x, self.traits.atoms)
        if len(inner) < 3:
            return None
        of_any: list[Family] = [Gaussian(), Logistic()]
        of_positive: list[Family] = [LogNormal(), Gamma()]
        alone = of_any + (of_positive if self.x.min() > 0 else [])
        beside = [] if not traits.atoms else of_any + (of_positive if inner[0] > 0 else [])
        seen = {family: Discretized(family, traits.resolution, traits.origin) for family in {*alone, *beside}}
        return self._best([*(seen[family] for family in alone), *(Hurdle(traits.atoms, seen[family]) for family in beside)])

    @cached_property
    def smoothed(self) -> Array:
        """A kernel around each value: what many units of rounded numbers come to."""
        low, step = self.x.min(), self.traits.resolution
        codes = np.round((self.x - low) / step).astype(np.int64)
        places = np.arange(codes.max() + 1)
        tried = [self._by_kernel(codes, np.exp(-0.5 * ((places[:, None] - places) / width) ** 2)) for width in WIDTHS]
        return max(tried, key=lambda logs: float(logs.mean()))

    def _by_kernel(self, codes: Ints, kernel: Array) -> Array:
        kernel = kernel / kernel.sum(axis=0)
        size, rows = len(kernel), self.judges
        near = (kernel @ np.bincount(codes, minlength=size))[codes[rows]]
        if self.groups is None:
            own, n_own = kernel[codes[rows], codes[rows]], np.ones(len(rows))
        else:
            among = np.isin(self.groups, self.groups[rows])
            groups, label = np.unique(self.groups[among], return_inverse=True)
            of_group = np.bincount(label * size + codes[among], minlength=len(groups) * size).reshape(-1, size)[
                np.searchsorted(groups, self.groups[rows])
            ]
            own, n_own = np.sum(kernel[codes[rows]] * of_group, axis=1), of_group.sum(axis=1)
        return np.asarray(np.log((np.maximum(near - own, 0.0) + 1 / size) / (len(codes) - n_own + 1)))

    def _best(self, families: list[Family]) -> Array:
        """Of the likeliest family; a nat less for each of its numbers, which these values have fitted."""
        values, place, counts = np.unique(self.x[self.judges], return_inverse=True, return_counts=True)
        n = len(place) if self.groups is None else len(np.unique(self.groups[self.judges]))
        found = []
        for family in families:
            n_numbers = sum(int(np.prod(shape)) for shape in family.parameter_shapes(1).values())
            found.append(log_densities(family, values, counts.astype(np.float64)) - n_numbers / n)
        return max(found, key=lambda logs: float(np.nan_to_num(logs, nan=-np.inf, neginf=-np.inf) @ counts))[place]

    def beats(self, one: Array | None, other: Array | None, by: float = WORTH) -> bool:
        """Whether the one is clearly better, `by` so much; what isn't there never is."""
        if one is None or other is None:
            return one is not None
        gain, counted = one - other, np.ones(len(self.judges))
        belong = None if self.groups is None else self.groups[self.judges]
        error = standard_error(gain, counted, effective_number(counted, belong), belong)
        return float(gain.mean()) > max(by, ERRORS * error)

    def are_labels(self) -> bool:
        """Whether values are as far apart as codes of towns, and these are far likelier than numbers."""
        values, counts = np.unique(self.x, return_counts=True)
        if len(values) > FINITE or len(self.x) < PER_LABEL * len(values):
            return False
        # Amounts are apart, too, but most are multiples of 100 or the like.
        steps = [self.traits.resolution, *(step for step in ROUND if (self.x % step == 0).mean() >= 0.5)]
        gaps = np.concatenate([[np.inf], np.diff(values), [np.inf]])
        apart = np.minimum(gaps[:-1], gaps[1:]) >= APART * max(steps)
        if not counts[apart].sum() > len(self.x) / 2:
            return False
        return self.beats(self.shares, self.rounded, BY_FAR) and self.beats(self.shares, self.counts, BY_FAR)

    def are_rounded(self) -> bool:
        """Whether rounded numbers are better than all else."""
        if not self.beats(self.rounded, self.uniform):
            return False
        return self.beats(self.rounded, self.counts) and self.beats(self.rounded, self.shares)

    def instead_of_categories(self, n_distinct: int) -> WholeKind:
        """Counts or rounded numbers, if these are better."""
        numbers = n_distinct >= FEWEST_CATEGORIES and self.beats(self.rounded, self.shares)
        if numbers and self.beats(self.rounded, self.counts):
            return "continuous"
        return "count" if self.counts is not None and self.beats(self.counts, self.shares) else "categorical"
