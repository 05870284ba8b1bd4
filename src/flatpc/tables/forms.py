"""What a column's values are in the table where a number or a text doesn't say it all: dates, levels, Decimals, narrow types.

A model sees dates as days and times as seconds, since 1970 or midnight; a `Form` gives them, and the column's own type, back.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any, Literal, get_args
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from flatpc._typing import Array

Temporal = Literal["date", "datetime", "time", "duration"]
TEMPORAL: tuple[Temporal, ...] = get_args(Temporal)
SECONDS_PER_DAY = 86_400.0
WRITTEN = {"date": "2020-01-31", "datetime": "2020-01-31T18:30:00", "time": "18:30:00"}
"""Examples of dates and times as text."""
_DAY, _HOUR = r"\d{4}-\d\d-\d\d", r"\d\d:\d\d(:\d\d(\.\d{1,6})?)?"
_PATTERNS: dict[Literal["date", "datetime", "time"], re.Pattern[str]] = {
    "date": re.compile(_DAY), "datetime": re.compile(f"{_DAY}[T ]{_HOUR}"), "time": re.compile(_HOUR),
}  # fmt: skip
_EPOCH = datetime(1970, 1, 1)
_ENDS = ((datetime.min - _EPOCH).total_seconds(), (datetime.max.replace(microsecond=0) - _EPOCH).total_seconds())
_LONGEST = 86_399_999_999_999.0
"""Seconds of the longest duration that Python has."""
_TYPES = {"date": date, "datetime": datetime, "time": time, "duration": timedelta}


@dataclass(frozen=True)
class Form:
    """How values that a model speaks of in numbers and texts are written in the table.

    >>> Form(digits=2).restored("float", [1.5])
    [Decimal('1.50')]
    >>> Form().restored("date", [18262.0])
    [datetime.date(2020, 1, 1)]
    """

    native: str = ""
    """The name of the column's type in pandas or polars, such as `Int64` or `category`; empty for the usual one."""
    ordered: bool = False
    """Whether the levels of a category have an order."""
    digits: int | None = None
    """Of Decimals, after the point."""
    zone: str = ""
    """Of times with a time zone: its name, or an offset such as `+02:00`."""

    def restored(self, dtype: str, values: Sequence[Any]) -> list[Any]:
        """Values of a column, of one of the types in `flatpc.tables.reading.DType`, from its numbers or texts."""
        if dtype in TEMPORAL:
            return [_moment(dtype, float(value), self.zone) for value in values]
        if self.digits is not None:
            return [Decimal(f"{value:.{self.digits}f}") for value in values]
        return list(values)


def number_of(dtype: str, value: Any) -> float:
    """A date, time or duration as a number, as columns of its type are read; NaN if it is none of the type.

    >>> number_of("date", date(2020, 1, 1)), number_of("time", time(1, 30))
    (18262.0, 5400.0)
    """
    if isinstance(value, np.datetime64 | np.timedelta64):
        return float(numbers_of_numpy(np.array([value]))[0]) / (SECONDS_PER_DAY if dtype == "date" else 1.0)
    if dtype in ("date", "datetime") and isinstance(value, date):
        seconds = _seconds(value)
        return seconds / SECONDS_PER_DAY if dtype == "date" else seconds
    if dtype == "time" and isinstance(value, time):
        return value.hour * 3600.0 + value.minute * 60.0 + value.second + value.microsecond / 1e6
    if dtype == "duration" and isinstance(value, timedelta):
        return value.total_seconds()
    return math.nan


def number_of_text(dtype: str, text: str, zone: str = "") -> float:
    """A date or time that is written as in ISO 8601, as csv files have it, as a number; NaN if it is none of the type.

    >>> number_of_text("date", "2020-01-01"), number_of_text("time", "01:30"), number_of_text("date", "1.1.2020")
    (18262.0, 5400.0, nan)
    """
    try:
        if dtype == "time":
            return number_of(dtype, time.fromisoformat(text))
        moment = datetime.fromisoformat(text)
        return number_of(dtype, moment.replace(tzinfo=_zone(zone)) if zone and moment.tzinfo is None else moment)
    except (ValueError, OverflowError):
        return math.nan


def kind_of_moments(texts: Iterable[str]) -> Literal["date", "datetime", "time", ""]:
    """What texts are that are all dates, datetimes or times, written as in ISO 8601 without a time zone; "" for any others.

    >>> kind_of_moments(["2020-01-31", "2020-02-01"]), kind_of_moments(["2020-01-31 18:30"]), kind_of_moments(["2020-02-31"])
    ('date', 'datetime', '')
    """
    found: set[Literal["date", "datetime", "time"]] = set()
    for text in texts:
        kind = next((kind for kind, pattern in _PATTERNS.items() if pattern.fullmatch(text)), None)
        if kind is None or math.isnan(number_of_text(kind, text)):
            return ""
        found.add(kind)
    return found.pop() if len(found) == 1 else ""


def numbers_of_numpy(values: NDArray[Any]) -> Array:
    """Seconds of an array of dates or durations, NaN where there is none.

    >>> numbers_of_numpy(np.array(["1970-01-02", "NaT"], "datetime64[D]")).tolist()
    [86400.0, nan]
    """
    kind = values.dtype.kind
    micros = values.astype(f"{kind}8[us]")
    return np.where(np.isnat(micros), np.nan, micros.astype(np.int64) / 1e6)


def step_of_moments(dtype: str, values: Array) -> float:
    """The largest of a day, an hour, a minute, a second and a millisecond that all values are multiples of; 0 if none is.

    >>> step_of_moments("datetime", np.arange(5) * 120.0)
    60.0
    """
    if dtype == "date":
        return 1.0
    known = values[~np.isnan(values)]
    for step in (SECONDS_PER_DAY, 3600.0, 60.0, 1.0, 1e-3):
        steps = known / step
        if len(known) > 1 and (abs(steps - np.round(steps)) < 1e-6).all():
            return step
    return 0.0


def bounds_of_type(native: str) -> tuple[float, float]:
    """The least and the largest number of a type of whole numbers with few bytes.

    >>> bounds_of_type("UInt8"), bounds_of_type("int64")
    ((0.0, 255.0), (-inf, inf))
    """
    if native.lower() not in ("int8", "int16", "int32", "uint8", "uint16", "uint32"):
        return -math.inf, math.inf
    ends = np.iinfo(native.lower())
    return float(ends.min), float(ends.max)


def type_of_moments(values: Sequence[Any]) -> Temporal | None:
    """The type that all of these Python objects are of, if they are dates, times or durations."""
    for name in ("datetime", "date", "time", "duration"):
        if values and all(_is(name, value) for value in values):
            return name
    return None


def zone_of(values: Sequence[Any]) -> str | None:
    """The time zone of datetimes, empty if they have none; None if they differ in having one."""
    zones = {_zone_name(value.tzinfo, value) for value in values}
    return "" if zones == {""} else None if "" in zones else next(iter(zones)) if len(zones) == 1 else "UTC"


def _is(name: str, value: Any) -> bool:
    if name == "date":
        return isinstance(value, date) and not isinstance(value, datetime)
    return isinstance(value, _TYPES[name])


def _seconds(value: date) -> float:
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    naive = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    return (naive - _EPOCH) / timedelta(seconds=1)


def _zone_name(zone: tzinfo | None, value: datetime) -> str:
    if zone is None:
        return ""
    key = getattr(zone, "key", None) or getattr(zone, "zone", None)
    if key is not None:
        return str(key)
    offset = value.utcoffset() or timedelta(0)
    minutes = round(offset.total_seconds() / 60)
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}" if minutes else "UTC"


def _zone(name: str) -> tzinfo:
    if name[0] in "+-":
        hours, minutes = name[1:].split(":")
        return timezone((-1 if name[0] == "-" else 1) * timedelta(hours=int(hours), minutes=int(minutes)))
    return UTC if name == "UTC" else ZoneInfo(name)


def is_zone(name: str) -> bool:
    """Whether it names a time zone, or none.

    >>> is_zone("Europe/Berlin"), is_zone("-03:30"), is_zone(""), is_zone("Atlantis")
    (True, True, True, False)
    """
    try:
        return not name or _zone(name) is not None
    except (ValueError, KeyError, OSError):
        return False


def offset_of(zone: str, seconds: float) -> float:
    """By how many seconds clocks of a time zone are ahead at a moment, in seconds since 1970; 0 without a zone.

    >>> offset_of("+02:00", 0.0), offset_of("", 0.0)
    (7200.0, 0.0)
    """
    if not zone:
        return 0.0
    offset = _moment("datetime", seconds, zone).utcoffset()
    return float(offset.total_seconds())


def _moment(dtype: str, x: float, zone: str) -> Any:
    if dtype == "date":
        return (_EPOCH + timedelta(days=round(min(max(x, _ENDS[0] / SECONDS_PER_DAY), _ENDS[1] / SECONDS_PER_DAY - 1)))).date()
    if dtype == "duration":
        return timedelta(seconds=min(max(x, -_LONGEST), _LONGEST))
    if dtype == "time":
        return (_EPOCH + timedelta(microseconds=min(max(round(x * 1e6), 0), 86_399_999_999))).time()
    # A day less at either end, which time zones may need.
    moment = _EPOCH + timedelta(seconds=min(max(x, _ENDS[0] + SECONDS_PER_DAY), _ENDS[1] - SECONDS_PER_DAY))
    return moment.replace(tzinfo=UTC).astimezone(_zone(zone)) if zone else moment
