"""What kind of variable a column is: binary, categorical, count or continuous.

| kind | a column is recognised as such if it holds | family, unless data suit another |
|---|---|---|
| `binary` | true and false; 0 and 1; two texts or levels; two whole numbers, each twice or more on average | Bernoulli |
| `categorical` | other text or levels; 3 to 10 whole numbers, each twice or more on average | Categorical, one value per name |
| `count` | other whole numbers that start at 0 or 1 and stay below 1000 | negative binomial or Poisson |
| `continuous` | other numbers; dates, times and durations | Gaussian |

A float column counts as whole numbers if all of its values are whole. The first row of the table that applies is taken, unless
whole numbers are clearly likelier as another of the last three kinds (`flatpc.tables.whole_numbers`);
`kinds={"age": "continuous"}` says otherwise. Counts that go along with other numbers of the table are continuous too
(`flatpc.tables.going_along`). Levels are those of a pandas category or a polars Enum, all of them, in their order.
Of more than 256 texts the frequent ones are categories, and all others together are one more, `other`. Texts that are dates,
texts of which hardly any is repeated, and numbers with a few words among them are refused unless `kinds` names them categorical:
they are hardly what they would be taken for.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from flatpc._messages import DROP, Message, Option, as_categorical, some_of
from flatpc._options import wrong
from flatpc._typing import Ints
from flatpc.errors import DataError, OptionError
from flatpc.tables.forms import TEMPORAL
from flatpc.tables.reading import RawColumn, is_number, only_missing
from flatpc.tables.whole_numbers import MAX_CATEGORIES, WholeKind, likelier_kind

Kind = Literal["binary", "categorical", "count", "continuous"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Overrides = str | Sequence[str] | Mapping[str | int, str] | None

MAX_COUNT = 1000
"""Numbers beyond this are hardly counts of something."""
MAX_TEXTS = 256
"""Of a column with more different texts, rare ones are taken together."""
MOST_FREQUENT, OFTEN = 100, 5
"""The most texts that then have a category of their own, and how often the least frequent of them occurs."""
FREQUENT_SHARE = 0.2
"""Of the rows that these have to be; below, texts are identifiers."""
MANY = 20
"""So is one of so many texts, or more, that has none of them twice."""
_KINDS = Option("kinds")
_AS = {"categorical": "as categories", "count": "as counts", "continuous": "as rounded numbers"}
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?$")
_SIGNS = re.compile(r"\s*[+-]?\s*[$€£¥]?\s*[+-]?(\d{1,3}(,\d{3})+|\d+)(\.\d*)?\s*[%$€£¥]?\s*")
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}\b")


def recognize(column: RawColumn, groups: Ints | None = None) -> tuple[Kind, str]:
    """The kind of a column and, in a few words, why; `groups` say which of its values belong together.

    >>> recognize(RawColumn("age", "integer", np.array([31.0, 47, 22])))
    ('continuous', 'numbers')
    >>> recognize(RawColumn("rain", "text", np.array(["no", "yes", "no"], dtype=object)))
    ('binary', 'two texts')
    """
    known = column.values[~column.missing]
    if len(known) == 0:
        raise only_missing(column.label)
    if column.dtype == "boolean":
        return "binary", "true and false"
    if column.levels:
        return ("binary" if len(column.levels) == 2 else "categorical"), f"{len(column.levels)} levels"
    if column.dtype in TEMPORAL:
        return "continuous", f"{column.dtype}s"
    if column.dtype == "text":
        return _recognize_text(column, known)
    if (known != np.floor(known)).any():
        return "continuous", "numbers"
    distinct = np.unique(known)
    default: WholeKind
    if set(distinct) <= {0.0, 1.0}:
        return "binary", "0 and 1"
    if len(distinct) <= MAX_CATEGORIES and len(known) >= 2 * len(distinct):
        if len(distinct) == 2:
            return "binary", "two whole numbers"
        if len(distinct) == 1:
            return "continuous", "one number"
        default, why = "categorical", f"{len(distinct)} whole numbers"
    elif distinct[0] in (0, 1) and distinct[-1] < MAX_COUNT:
        default, why = "count", f"whole numbers from {distinct[0]:g} to {distinct[-1]:g}"
    else:
        default, why = "continuous", "numbers"
    kind = likelier_kind(known, default, None if groups is None else groups[~column.missing])
    if kind == default:
        return default, why
    return kind, f"whole numbers from {distinct[0]:g} to {distinct[-1]:g}, likelier {_AS[kind]}"


def recognize_numbers(columns: Iterable[RawColumn], groups: Ints | None = None) -> dict[str, tuple[Kind, str]]:
    """By name, what those columns are recognised as that hold finite numbers.

    >>> recognize_numbers([RawColumn("age", "integer", np.array([31.0, 47, 22]))])
    {'age': ('continuous', 'numbers')}
    """
    numbers = [column for column in columns if column.dtype in ("integer", "float") and not column.problem and not column.levels]
    finite = [column for column in numbers if (known := column.values[~column.missing]).size and np.isfinite(known).all()]
    return {column.name: recognize(column, groups) for column in finite}


def _recognize_text(column: RawColumn, known: NDArray[Any]) -> tuple[Kind, str]:
    texts = sorted(set(known))
    n, option = len(texts), as_categorical(column.name)
    said = f"say {option} if it is a variable"
    if n > MAX_CATEGORIES:
        words = [text for text in texts if not is_number(text)]
        if 0 < len(words) < n / 2:
            text = f"{column.label} holds numbers, but also text such as {words[0]!r}"
            raise DataError(Message(f"{text}; replace that by a number, or by nothing if unknown. Or {said}.", option))
        if all(_DATE.match(text) for text in texts):
            text = f"{column.label} holds dates as text, such as {texts[0]!r}; write all of them like '2020-01-31'"
            raise DataError(Message(f"{text} (pandas.to_datetime reads many forms), or {DROP}, or {said}.", DROP, option))
    if n > MAX_CATEGORIES and all(_THOUSANDS.match(text) or is_number(text) for text in texts):
        first = next((text for text in texts if "," in text), "")
        text = f"{column.label} holds numbers with commas between thousands, such as {first!r}; write them without."
        if not first:
            text = f"{column.label} holds numbers as text, such as {texts[0]!r}; turn them into numbers (pandas.to_numeric, "
            text += "or cast(polars.Float64) in polars)."
        raise DataError(Message(f"{text} Or {said}.", option))
    frequent = frequent_texts(known) if n > MAX_TEXTS else ()
    if (n > MAX_TEXTS and not frequent) or n == len(known) >= MANY:
        signed = [text for text in texts if _with_signs(text)]
        if len(signed) > n / 2:
            first = next((text for text in signed if not is_number(text)), signed[0])
            text = f"{column.label} holds {n:,} different texts that look like numbers with other signs, such as {first!r}"
            raise DataError(Message(f"{text}; write digits alone, and nothing where a number is unknown. Or {said}.", option))
        text = f"{column.label} holds {n:,} different texts, as names or identifiers do; {DROP}, or {said}."
        raise DataError(Message(text, DROP, option))
    if frequent:
        return "categorical", f"{len(frequent)} frequent texts of {n:,}"
    return ("binary", "two texts") if n == 2 else ("categorical", "one text" if n == 1 else f"{n} texts")


def _with_signs(text: str) -> bool:
    """Whether it is a number, perhaps with blanks, commas between thousands, a currency or a per cent sign."""
    return is_number(text) or _SIGNS.fullmatch(text) is not None


def frequent_texts(known: NDArray[Any]) -> tuple[str, ...]:
    """Texts that occur often, in alphabetical order; none if they are too small a share of all.

    >>> frequent_texts(np.array(["Ulm"] * 9 + ["Bonn"] * 5 + ["Rom", "Oslo"], dtype=object))
    ('Bonn', 'Ulm')
    """
    counted = [(text, n) for text, n in Counter(known).most_common(MOST_FREQUENT) if n >= OFTEN]
    return tuple(sorted(text for text, _ in counted)) if sum(n for _, n in counted) >= FREQUENT_SHARE * len(known) else ()


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
            raise wrong("kinds", overrides, f"give one of {', '.join(KINDS)}, a list with one for each column, or a dict.")
        if len(overrides) != len(names):
            raise OptionError(f"There are {len(names)} columns but {len(overrides)} kinds; give one for each, or some by name.")
        given = dict(zip(names, overrides, strict=True))
    out: dict[str, Kind] = {}
    known = set(names)
    for key, kind in given.items():
        name: Any = key
        if not isinstance(key, str) and str(key) in known:  # frames may have numbers for names
            name = str(key)
        elif isinstance(key, int) and 0 <= key < len(names):
            name = names[key]
        if name not in known:
            text = f"{_KINDS} names the column {key!r}, which the table doesn't have; it has {some_of(names)}."
            raise OptionError(Message(text, _KINDS), option="kinds")
        if kind not in KINDS:
            text = f"{_KINDS} says {kind!r} of column {name!r}; choose one of {', '.join(KINDS)}."
            raise OptionError(Message(text, _KINDS), option="kinds")
        out[str(name)] = kind
    return out
