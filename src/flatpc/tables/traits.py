"""What the numbers of a column show of how they came about: the step they were rounded to, values that stand out, bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from flatpc._typing import Array

MOST_DIGITS = 9
"""After the decimal point; numbers with more were not rounded."""
REPEATED = 0.05
"""Share of values that others repeat, from which numbers are taken for rounded ones."""
ON_GRID = 0.95
"""Share of values that have to be multiples of a resolution; others were filled in, or stand for something."""
MANY_STEPS = 1e9
"""Of a resolution within the range of a column, beyond which it has none."""
ATOM_SHARE, ATOM_COUNT, ATOM_PEAK = 0.03, 10, 8.0
"""A value stands out that so many values have, and so many times more than the values around it."""
CAP_SHARE, CAP_COUNT = 0.01, 6
"""So few may be a cap at an end that would be no bound without one, or whose other end has one."""
AROUND = 10
"""Distinct values on either side that a value is compared with."""
END_PEAK, END_DEVIATIONS, BESIDE = 2.0, 4.0, 3
"""The least and the largest value are caps if they are so many times, and so many deviations, above what the counts beside them
lead to: where these fall, twice so many of them, otherwise so many."""
HEAPED = 1.5
"""So much more than any other value is above those beside it: where round numbers are frequent, so are those at the ends."""
CLEARLY = 4.0
"""Nats by which a decay by a factor has to describe counts better than one by a power, which leads to more at the end."""
MOST_ATOMS = 5
ALMOST_ONE = 0.9
"""Numbers from 0 to 1 that get beyond this are shares of something."""


@dataclass(frozen=True)
class Traits:
    """What the values of a column of numbers show.

    >>> import numpy as np
    >>> traits = Traits.of(np.array([0.0] * 40 + [0.5, 1.25, 2.0, 2.5, 3.75, 2.0, 1.25] * 3))
    >>> traits.resolution, traits.atoms, traits.bounds
    (0.25, (0.0,), (0.0, inf))
    """

    resolution: float = 0.0
    """The step from one possible value to the next; 0 if there is none to be seen."""
    origin: float = 0.0
    """One of the possible values, below the resolution."""
    atoms: tuple[float, ...] = ()
    """Values that stand out: zeros, caps, codes."""
    bounds: tuple[float, float] = (-math.inf, math.inf)
    """No value lies outside; both are the same if all values are."""

    def on_grid(self, x: Array) -> bool:
        """Whether all values, but those that are missing, are multiples of the resolution, seen from the origin."""
        steps = (x[~np.isnan(x)] - self.origin) / self.resolution if self.resolution > 0 else np.array([0.5])
        return bool((abs(steps - np.round(steps)) <= 1e-6).all())

    @staticmethod
    def of(x: Array) -> Traits:
        """The traits of values, NaN where missing."""
        known = x[~np.isnan(x)]
        if len(known) == 0:
            return Traits()
        values, numbers = np.unique(known, return_counts=True)
        counts = numbers.astype(np.float64)
        if len(values) == 1 < len(known):
            return Traits(bounds=(float(values[0]), float(values[0])))
        atoms = _atoms(values, counts)
        resolution, origin = _resolution(values, counts)
        return Traits(resolution, origin, atoms, _bounds(values, atoms))


def _resolution(values: Array, counts: Array) -> tuple[float, float]:
    """The largest step of which almost all distances are multiples, and a value; 0 and 0 if hardly any value is repeated."""
    if len(values) < 2 or len(values) > (1 - REPEATED) * counts.sum():
        return 0.0, 0.0
    for step, first in (_decimal_step(values, counts), (_least_gap(values), float(values[0]))):
        if step > 0 and (values[-1] - values[0]) / step < MANY_STEPS:
            origin = first - step * math.floor(first / step)
            return step, 0.0 if min(origin, step - origin) < 1e-9 * step else origin
    return 0.0, 0.0


def _decimal_step(values: Array, counts: Array) -> tuple[float, float]:
    """The greatest common divisor of the distances, of numbers with a few decimal digits, and one of them; otherwise 0."""
    for digits in range(MOST_DIGITS + 1):
        scaled = values * 10.0**digits
        whole = np.round(scaled)
        if abs(whole).max() > 2**53:
            break
        on_grid = abs(scaled - whole) <= 1e-11 * np.maximum(abs(scaled), 1.0)
        if counts[on_grid].sum() >= ON_GRID * counts.sum() and on_grid.sum() > 1:
            kept = whole[on_grid]
            # Divided rather than multiplied: 3 / 10 is the number that people write as 0.3.
            return int(np.gcd.reduce((kept[1:] - kept[0]).astype(np.int64))) / 10**digits, float(kept[0]) / 10**digits
    return 0.0, 0.0


def _least_gap(values: Array) -> float:
    """The least distance of two values, if all others are multiples of it."""
    gaps = np.diff(values)
    step = float(gaps.min())
    if step <= 1e-9 * float(abs(values).max()):
        return 0.0
    steps = gaps / step
    return step if (abs(steps - np.round(steps)) < 1e-4).all() else 0.0


def _atoms(values: Array, counts: Array) -> tuple[float, ...]:
    """Values much more frequent than those around them, caps, and repeated codes far from the rest; the most frequent ones."""
    if len(values) < 4:
        return ()
    n, last = int(counts.sum()), len(values) - 1
    often, few = max(ATOM_COUNT, ATOM_SHARE * n), max(CAP_COUNT, CAP_SHARE * n)
    order = [int(i) for i in np.argsort(-counts, kind="stable")[: 2 * MOST_ATOMS] if counts[i] >= few]
    # Whole numbers may fall so fast from their end; densities can't follow others there.
    falling = (0, last) if (values == np.floor(values)).all() else ()
    found = [i for i in order if i not in falling and counts[i] >= max(often, ATOM_PEAK * _nearby(counts, i, AROUND))]
    peaks = {i: counts[i] / _nearby(counts, i, BESIDE) for i in order if 0 < i < last and i not in found}
    caps: list[int] = []
    ends = list(zip((0, last), (counts, counts[::-1]), _bounds(values, ()), strict=True))
    for end, inwards, bound in ends + ends:
        enough = few if caps or values[end] != bound else often
        heaped = max((peak for i, peak in peaks.items() if counts[i] >= (often if counts[end] >= often else few)), default=0.0)
        if end not in caps and counts[end] >= enough and _is_cap(inwards, heaped):
            caps.append(end)
    found = sorted({*found, *caps}, key=lambda i: (-counts[i], i))
    for end, inner in ((0, 1), (last, last - 1)):
        inside = abs(values[-2] - values[0]) if end else abs(values[-1] - values[1])
        if end not in found and counts[end] >= max(3, 0.002 * n) and abs(values[end] - values[inner]) > 3 * inside > 0:
            found.append(end)
    return tuple(sorted(float(values[i]) for i in found[:MOST_ATOMS]))


def _is_cap(counts: Array, heaped: float) -> bool:
    """Whether the first of the counts is clearly above what the next ones lead to, and more so than the peaks among them.

    >>> _is_cap(np.array([80.0, 22, 20, 25, 24, 28, 30, 9]), 1.5), _is_cap(160 * 0.5 ** np.arange(8), 1.5)
    (True, False)
    """
    k = min(BESIDE, (len(counts) - 1) // 2)
    beside = counts[1 : 2 * k + 1]
    expected, variance = _level(beside[:k], np.zeros(k + 1))[1:]
    if beside[:k].sum() > beside[k:].sum():
        ranks = np.arange(1.0, 2 * k + 2)
        by_factor, by_power = _level(beside, ranks), _level(beside, np.log(ranks))
        _, expected, variance = by_factor if by_factor[0] > by_power[0] + CLEARLY else by_power
    excess = float(counts[0]) - expected
    enough = counts[0] >= max(END_PEAK, HEAPED * heaped) * expected
    return bool(enough and excess > END_DEVIATIONS * math.sqrt(expected + variance))


def _level(counts: Array, at: Array) -> tuple[float, float, float]:
    """The log-likelihood of counts c = exp(level - slope · at), the count expected at the first of `at`, and its variance."""
    n, slope, first, rest = float(counts.sum()), 0.0, float(at[0]), at[1:]
    spread = mean = 0.0
    for _ in range(20):  # Newton's method
        shares = np.exp(-slope * (rest - first))
        shares /= shares.sum()
        mean = float(shares @ rest)
        spread = float(shares @ (rest - mean) ** 2)
        if spread <= 0:
            break
        slope = min(max(slope + (mean - float(counts @ rest) / n) / spread, 0.0), 50.0)
    logs = -slope * (rest - first)
    total = float(np.logaddexp.reduce(logs))
    expected = n * math.exp(-total)
    of_slope = (mean - first) ** 2 / spread if spread > 0 else 0.0
    return float(counts @ (logs - total)), expected, expected**2 * (1 + of_slope) / n


def _nearby(counts: Array, i: int, reach: int) -> float:
    """How often one of `reach` values on either side of the i-th occurs, on average."""
    around = np.concatenate([counts[max(0, i - reach) : i], counts[i + 1 : i + 1 + reach]])
    return float(around.mean())


def _bounds(values: Array, atoms: tuple[float, ...]) -> tuple[float, float]:
    """0 below what is never negative, 1 above shares, and ends that stand out."""
    first, last = float(values[0]), float(values[-1])
    low = 0.0 if first >= 0 else -math.inf
    high = 1.0 if first >= 0 and ALMOST_ONE < last <= 1 else math.inf
    inner = [atom for atom in atoms if values[0] < atom < values[-1]]
    reach = values[-1] - values[0]
    if first in atoms and low < first and values[1] - first < reach / 4:
        low = first
    if last in atoms and len(inner) < len(atoms) and last - values[-2] < reach / 4:
        high = last
    return low, high
