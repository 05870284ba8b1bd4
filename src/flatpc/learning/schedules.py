"""Numbers that change while learning: a schedule maps progress, 0 at the first step and 1 after the last, to a number.

>>> linear(0.1, 0.0)(0.5)
0.05
>>> stages({0.0: 0.1, 0.5: 0.01})(0.5)
0.01
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from flatpc.errors import OptionError

Schedule = Callable[[float], float]


@dataclass(frozen=True)
class Constant:
    """Always the same number."""

    value: float

    def __call__(self, progress: float) -> float:
        return self.value


@dataclass(frozen=True)
class Linear:
    """From `start` to `end` in a straight line."""

    start: float
    end: float

    def __call__(self, progress: float) -> float:
        return self.start + (self.end - self.start) * progress


@dataclass(frozen=True)
class Cosine:
    """From `start` to `end` along half a cosine: slow, fast, slow."""

    start: float
    end: float

    def __call__(self, progress: float) -> float:
        return self.end + (self.start - self.end) * (1 + math.cos(math.pi * progress)) / 2


@dataclass(frozen=True)
class Stages:
    """From each progress on the number beside it, until the next."""

    values: tuple[tuple[float, float], ...]

    def __call__(self, progress: float) -> float:
        return [value for start, value in self.values if start <= progress][-1]


def linear(start: float, end: float) -> Schedule:
    """From `start` to `end` in a straight line."""
    return Linear(start, end)


def cosine(start: float, end: float = 0.0) -> Schedule:
    """From `start` to `end` along half a cosine."""
    return Cosine(start, end)


def stages(values: Mapping[float, float]) -> Schedule:
    """`{0.0: 0.1, 0.5: 0.01}`: 0.1 in the first half, then 0.01."""
    ordered = tuple(sorted(values.items()))
    if not ordered or ordered[0][0] != 0 or ordered[-1][0] >= 1:
        raise OptionError(f"stages({dict(values)}): stages start at progress 0 and before 1; the first one at 0.")
    return Stages(ordered)


def as_schedule(value: float | Schedule) -> Schedule:
    """A number as a constant schedule; a schedule as it is."""
    return value if callable(value) else Constant(float(value))


def check_range(name: str, schedule: Schedule, low: float, high: float, *, open_low: bool = False, remedy: str = "") -> None:
    """Raise unless the schedule stays in range at a hundred places."""
    for i in range(101):
        value = schedule(min(i / 100, 1 - 1e-12))
        inside = (low < value if open_low else low <= value) and value <= high and math.isfinite(value)
        if not inside:
            when = "" if isinstance(schedule, Constant) else f" at progress {i / 100:g}"
            bracket = "(" if open_low else "["
            end = "∞)" if math.isinf(high) else f"{high:g}]"
            raise OptionError(f"{name} is {value}{when}; it must lie in {bracket}{low:g}, {end}.{' ' + remedy if remedy else ''}")
