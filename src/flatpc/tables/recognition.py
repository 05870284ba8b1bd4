"""What kind of variable a column is: binary, categorical, count or continuous.

| kind | a column is recognised as such if it holds | family |
|---|---|---|
| `binary` | true and false; 0 and 1; two texts; two whole numbers, each twice or more on average | Bernoulli |
| `categorical` | other text; 3 to 10 whole numbers, each twice or more on average | Categorical, one value per name |
| `count` | other whole numbers that start at 0 or 1 and stay below 1000 | Poisson |
| `continuous` | other numbers | Gaussian |

A float column counts as whole numbers if all of its values are whole. The first row of the table that applies is taken;
`kinds={"age": "continuous"}` says otherwise. Dates, texts of which each row has another, and numbers with a few words among them
are refused unless `kinds` names them categorical: they are hardly what they would be taken for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from flatpc.errors import DataError, MissingValueError, OptionError
from flatpc.tables.reading import RawColumn, is_number

Kind = Literal["binary", "categorical", "count", "continuous"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Overrides = str | Sequence[str] | Mapping[str | int, str] | None

MAX_CATEGORIES = 10
"""The most whole numbers that are taken for names of categories."""
MAX_COUNT = 1000
"""Numbers beyond this are hardly counts of something."""
MAX_TEXTS = 256
"""A column with more different texts is more likely an identifier than a variable."""
MANY = 20
"""So is one of so many texts, or more, that has none of them twice."""
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?$")
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}\b")


def recognize(column: RawColumn) -> tuple[Kind, str]:
    """The kind of a column and, in a few words, why.

    >>> recognize(RawColumn("age", "integer", np.array([31.0, 47, 22])))
    ('continuous', 'numbers')
    >>> recognize(RawColumn("rain", "text", np.array(["no", "yes", "no"], dtype=object)))
    ('binary', 'two texts')
    """
    known = column.values[~column.missing]
    if len(known) == 0:
        raise MissingValueError(f"{column.label} has only missing values, so nothing can be learnt about it; drop the column.")
    if column.dtype == "boolean":
        return "binary", "true and false"
    if column.dtype == "text":
        return _recognize_text(column, known)
    if (known != np.floor(known)).any():
        return "continuous", "numbers"
    distinct = np.unique(known)
    if set(distinct) <= {0.0, 1.0}:
        return "binary", "0 and 1"
    if len(distinct) <= MAX_CATEGORIES and len(known) >= 2 * len(distinct):
        if len(distinct) == 2:
            return "binary", "two whole numbers"
        return ("categorical", f"{len(distinct)} whole numbers") if len(distinct) > 1 else ("continuous", "one number")
    if distinct[0] in (0, 1) and distinct[-1] < MAX_COUNT:
        return "count", f"whole numbers from {distinct[0]:g} to {distinct[-1]:g}"
    return "continuous", "numbers"


def _recognize_text(column: RawColumn, known: NDArray[Any]) -> tuple[Kind, str]:
    texts = sorted(set(known))
    n, said = len(texts), f"say kinds={{{column.name!r}: 'categorical'}} if it is a variable"
    if n > MAX_CATEGORIES:
        words = [text for text in texts if not is_number(text)]
        if 0 < len(words) < n / 2:
            raise DataError(
                f"{column.label} holds numbers, but also text such as {words[0]!r}; replace that by a number, or by nothing if "
                f"unknown. Or {said}."
            )
        if all(_DATE.match(text) for text in texts):
            raise DataError(
                f"{column.label} holds dates such as {texts[0]!r}; turn them into numbers, such as days, or drop it. Or {said}."
            )
    if n > MAX_CATEGORIES and all(_THOUSANDS.match(text) or is_number(text) for text in texts):
        raise DataError(
            f"{column.label} holds numbers with commas between thousands, such as "
            f"{next(text for text in texts if ',' in text)!r}; write them without. Or {said}."
        )
    if n > MAX_TEXTS or n == len(known) >= MANY:
        raise DataError(f"{column.label} holds {n:,} different texts, as names or identifiers do; drop it, or {said}.")
    return ("binary", "two texts") if n == 2 else ("categorical", "one text" if n == 1 else f"{n} texts")


def numbers_rows(column: RawColumn) -> bool:
    """Whether it is 0, 1, 2, ... or the like, as an index is that was written to a file.

    >>> numbers_rows(RawColumn("", "integer", np.arange(100.0))), numbers_rows(RawColumn("", "integer", np.arange(3.0)))
    (True, False)
    """
    return column.dtype == "integer" and len(column.values) >= MANY and bool((np.diff(column.values) == 1).all())


def read_overrides(overrides: Overrides, names: Sequence[str]) -> dict[str, Kind]:
    """What the user says of kinds: one for all columns, one for each, or some by name or position."""
    if overrides is None:
        return {}
    if isinstance(overrides, str):
        given: dict[str | int, str] = dict.fromkeys(names, overrides)
    elif isinstance(overrides, Mapping):
        given = dict(overrides)
    else:
        if not isinstance(overrides, Sequence):
            raise OptionError(f"kinds={overrides!r}; give one of {', '.join(KINDS)}, a list with one for each column, or a dict.")
        if len(overrides) != len(names):
            raise OptionError(f"There are {len(names)} columns but {len(overrides)} kinds; give one for each, or some by name.")
        given = dict(zip(names, overrides, strict=True))
    out: dict[str, Kind] = {}
    known = set(names)
    for key, kind in given.items():
        name = names[key] if isinstance(key, int) and 0 <= key < len(names) else key
        if name not in known:
            shown = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
            raise OptionError(f"kinds names the column {key!r}, which the table doesn't have; it has {shown}.")
        if kind not in KINDS:
            raise OptionError(f"kinds says {kind!r} of column {name!r}; choose one of {', '.join(KINDS)}.")
        out[str(name)] = kind
    return out
