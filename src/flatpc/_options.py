"""Options of public functions, all checked here: an error says which option it is, what was given and what is allowed.

>>> whole_number("epochs", 2.5, least=1)
Traceback (most recent call last):
flatpc.errors.OptionError: epochs=2.5; give a whole number of at least 1.

A check returns the value in its plain Python type, so that nothing behind it meets an array of one number or a NumPy scalar. The
field of a class is named `"Laplace: pseudocount"`; the error speaks of `Laplace(pseudocount=...)` then.
"""

from __future__ import annotations

import itertools
import math
import numbers
import operator
import os
import reprlib
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np

from flatpc._messages import Message, Option
from flatpc.errors import OptionError

MOST = 2**31 - 1
"""The largest count: of epochs, rows, units. It fits into every integer that native code uses."""
MOST_SEED = 2**63 - 1
MOST_THREADS = 1024

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 60


def shown(value: Any) -> str:
    """`repr`, but on one line and short, whatever the value is."""
    try:
        return " ".join(_short.repr(value).split())
    except Exception:  # Python refuses to print integers of thousands of digits, and a class may have a broken repr.
        return f"<{type(value).__name__}>"


def wrong(name: str, value: Any, allowed: str) -> OptionError:
    """The error for an option whose value is not among those allowed."""
    where, _, option = name.rpartition(": ")
    given = shown(value)
    said = f"{where}({option}={given})" if where else f"{option}={given}"
    named = Option(option, given[1:-1] if isinstance(value, str) else given, said)
    return OptionError(Message(f"{said}; {allowed}", named), option=option)


def whole_number(name: str, value: Any, least: int = 0, most: int = MOST, *, why: str = "") -> int:
    """`value` as an int from `least` to `most`; True and False are no numbers."""
    allowed = f"give a whole number of at least {least}" if most == MOST else f"give a whole number from {least} to {most:,}"
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or number < least:
        raise wrong(name, value, f"{allowed}{why and ', ' + why}.")
    if number > most:
        raise wrong(name, value, f"give a whole number from {least} to {most:,}{why and ', ' + why}.")
    return number


def seed_number(value: Any, name: str = "seed") -> int:
    """A seed for random numbers."""
    return whole_number(name, value, 0, MOST_SEED)


def thread_count(value: Any, name: str = "n_threads") -> int | None:
    """How many threads to use, or None for as many as there are cores."""
    return None if value is None else whole_number(name, value, 1, MOST_THREADS)


def number(
    name: str,
    value: Any,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    above: bool = False,
    below: bool = False,
    infinite: bool = False,
    what: str = "",
) -> float:
    """`value` as a float from `low` to `high`; `above` and `below` leave the ends out, `infinite` lets infinity in.

    `what` says what the number is, for the message: "it is a probability, from 0 to less than 1".
    """
    found = as_float(value)
    inside = not math.isnan(found) and (found > low if above else found >= low) and (found < high if below else found <= high)
    if not inside or (math.isinf(found) and not infinite):
        raise wrong(name, value, f"{what or _range(low, high, above, below)}.")
    return found


def as_float(value: Any) -> float:
    """A real number as a float, NaN if it is none; a number beyond float64 is infinite."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if operator.gt(value, 0) else -math.inf


def _range(low: float, high: float, above: bool, below: bool) -> str:
    if math.isinf(low) and math.isinf(high):
        return "give a finite number"
    if math.isinf(high):
        return (
            "it is a positive number"
            if above and low == 0
            else f"it is a number {'greater than' if above else 'of at least'} {low:g}"
        )
    return f"it is a number {'greater than' if above else 'from'} {low:g} {'to less than' if below else 'to'} {high:g}"


def count(name: str, value: Any) -> float:
    """A finite number of rows, 0 or more, not necessarily whole."""
    return number(name, value, 0.0, what="it counts rows, so it is 0 or a positive number")


def seconds(name: str, value: Any) -> float:
    """A positive number of seconds, which may be infinite."""
    return number(name, value, 0.0, above=True, infinite=True, what="it is a positive number of seconds")


def choice(name: str, value: Any, choices: Collection[str], also: str = "") -> str:
    """One of several names; `also` says what else the option takes."""
    if not isinstance(value, str) or value not in choices:
        listed = [*map(repr, choices), *([also] if also else [])]
        raise wrong(name, value, f"choose {'one of ' + ', '.join(listed) if len(listed) > 2 else ' or '.join(listed)}.")
    return str(value)


def flag(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise wrong(name, value, "it is True or False.")
    return bool(value)


def function(name: str, value: Callable[..., Any]) -> Callable[..., Any]:
    """Something that can be called; a class is taken for a mistake."""
    if not callable(value) or isinstance(value, type):
        raise wrong(name, value, "give a function.")
    return value


def instance(name: str, value: Any, kind: type[Any], give: str) -> Any:
    """An object of one class; `give` says how to get one."""
    if not isinstance(value, kind):
        raise wrong(name, value, f"give {give}.")
    return value


def several(name: str, value: Any, give: str) -> tuple[Any, ...]:
    """A list of things, or anything else that holds them in order; text, sets and dicts are not lists."""
    if isinstance(value, np.ndarray) and value.ndim != 1:
        raise wrong(name, value, f"give {give}.")
    if isinstance(value, str | bytes | dict | set | frozenset | type) or not isinstance(value, Iterable):
        raise wrong(name, value, f"give {give}.")
    try:
        return tuple(value)
    except (TypeError, RuntimeError):  # a tensor without rows
        raise wrong(name, value, f"give {give}.") from None


def ascending(name: str, value: Any, least: int) -> tuple[float, ...]:
    """`least` or more finite numbers, each above the one before.

    >>> ascending("edges", [0, 1.5], 2)
    (0.0, 1.5)
    """
    give = f"give {least} or more finite numbers in ascending order"
    found = tuple(as_float(each) for each in several(name, value, give.removeprefix("give ")))
    right = len(found) >= least and all(map(math.isfinite, found)) and all(a < b for a, b in itertools.pairwise(found))
    if not right:
        raise wrong(name, value, f"{give}.")
    return found


def file_path(name: str, value: Any) -> Path:
    """Where a file or a folder is."""
    try:
        text = os.fspath(value)
    except TypeError:
        text = None
    if not isinstance(text, str) or not text or "\0" in text:
        raise wrong(name, value, "give a path, as text or as a pathlib.Path.")
    return Path(text)


def put(frozen: object, **values: Any) -> None:
    """Give a frozen dataclass its checked values in place of those that were passed."""
    for name, value in values.items():
        object.__setattr__(frozen, name, value)


Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")


def moved(places: Mapping[str, str]) -> Callable[[Callable[Parameters, Answer]], Callable[Parameters, Answer]]:
    """Decorates a function so that an option of an earlier version gives an error that says where it is now."""

    def decorate(asked: Callable[Parameters, Answer]) -> Callable[Parameters, Answer]:
        @wraps(asked)
        def checked(*arguments: Parameters.args, **options: Parameters.kwargs) -> Answer:
            for name in options:
                if name in places:
                    raise OptionError(f"{asked.__name__} has no option {name!r} any more; it is now {places[name]}.", option=name)
            return asked(*arguments, **options)

        return checked

    return decorate
