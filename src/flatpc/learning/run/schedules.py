"""Numbers that change while learning: a schedule maps progress, 0 at the first step and 1 after the last, to a number."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from flatpc._options import as_float, instance, number, wrong

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
    """From one number to another in a straight line.

    Parameters
    ----------
    start
        At the first step.
    end
        After the last one.

    Returns
    -------
    Schedule
        A function from progress, 0 to 1, to a number.

    Raises
    ------
    OptionError
        If one of them is no finite number.

    Examples
    --------
    >>> import flatpc as fp
    >>> fp.learning.linear(0.1, 0.0)(0.5)
    0.05
    """
    return Linear(number("start", start), number("end", end))


def cosine(start: float, end: float = 0.0) -> Schedule:
    """From one number to another along half a cosine: slow, fast, slow.

    Parameters
    ----------
    start
        At the first step.
    end
        After the last one.

    Returns
    -------
    Schedule
        A function from progress, 0 to 1, to a number.

    Raises
    ------
    OptionError
        If one of them is no finite number.

    Examples
    --------
    >>> import flatpc as fp
    >>> fp.learning.cosine(1.0)(0.5)
    0.5
    """
    return Cosine(number("start", start), number("end", end))


def stages(values: Mapping[float, float]) -> Schedule:
    """Numbers that hold from a progress on, until the next.

    Parameters
    ----------
    values
        From progress, 0 to less than 1, to numbers; the first one at 0.

    Returns
    -------
    Schedule
        A function from progress, 0 to 1, to a number.

    Raises
    ------
    OptionError
        If it is no such dict.

    Examples
    --------
    >>> import flatpc as fp
    >>> fp.learning.stages({0.0: 0.1, 0.5: 0.01})(0.5)          # 0.1 in the first half, then 0.01
    0.01
    """
    instance("values", values, Mapping, "a dict from progress, 0 to less than 1, to numbers")
    ordered = tuple(sorted((number("values", start), number("values", value)) for start, value in values.items()))
    if not ordered or ordered[0][0] != 0 or ordered[-1][0] >= 1:
        raise wrong("values", values, "stages start at progress 0 and before 1; the first one at 0.")
    return Stages(ordered)


def as_schedule(name: str, value: float | Schedule, allowed: str = "give a number or a schedule") -> Schedule:
    """A number as a constant schedule; a schedule as it is."""
    if callable(value) and not isinstance(value, type):
        return value
    return Constant(number(name, value, what=allowed))


def check_range(name: str, schedule: Schedule, low: float, high: float, *, open_low: bool = False, remedy: str = "") -> None:
    """Raise unless the schedule stays in range at a hundred places."""
    for i in range(101):
        try:
            value = as_float(schedule(min(i / 100, 1 - 1e-12)))
        except TypeError as error:
            raise wrong(name, schedule, f"a schedule is a function of the progress, from 0 to 1, but {error}.") from None
        inside = (low < value if open_low else low <= value) and value <= high and math.isfinite(value)
        if not inside:
            when = "" if isinstance(schedule, Constant) else f" at progress {i / 100:g}"
            bracket = "(" if open_low else "["
            end = "∞)" if math.isinf(high) else f"{high:g}]"
            raise wrong(name, value, f"it must lie in {bracket}{low:g}, {end}{when}.{' ' + remedy if remedy else ''}")
