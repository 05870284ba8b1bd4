"""What a column is, learnt from its values: kind, categories, traits, families that suit it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc._typing import Array, Ints
from flatpc.errors import DataError
from flatpc.families.poisson import Poisson
from flatpc.tables.calendar import on_calendar
from flatpc.tables.column import Column, digest, plain
from flatpc.tables.forms import SECONDS_PER_DAY, TEMPORAL, bounds_of_type, kind_of_moments, number_of_text, step_of_moments
from flatpc.tables.reading import RawColumn, refuse_infinite
from flatpc.tables.recognition import MAX_TEXTS, Kind, frequent_texts, recognize
from flatpc.tables.suiting import FINITE, suitable_counts, suitable_levels, suitable_numbers
from flatpc.tables.traits import Traits
from flatpc.tables.whole_numbers import MAX_CATEGORIES

OTHER = "other"
"""What a category of rare texts is called, with a sign more if that is a frequent text."""

MOST_SHARED = 1 << 20
"""Rare texts that a column knows again; of more, it is as if all had been seen."""


def learn_column(
    raw: RawColumn, said: Kind | None, alike: range | None = None, along: str | None = None, follows: bool = False,
    weights: Array | None = None, groups: Ints | None = None, recognised: tuple[Kind, str] | None = None,
) -> Column:  # fmt: skip
    """The column; of the kind that is `said` if any, with values of columns that are `alike`, or as numbers `along` others.

    Numbers that follow from others have no atoms. What it was `recognised` as needn't be found again.
    """
    raw.check()
    raw = _dated(raw, said)
    known = raw.values[~raw.missing]
    if raw.dtype != "text":
        refuse_infinite(raw.values[:, None], [raw.label])
    n_known = float(len(known) if weights is None else weights[~raw.missing].sum())
    how: dict[str, Any] = {"rare": 1 / (2 * (n_known + 1)), "form": raw.form}
    if alike is not None:
        why = f"like other columns from {alike[0]} to {alike[-1]}"
        return Column(raw.name, "categorical", raw.dtype, why, tuple(alike), **how)
    kind, why = (said, "said so") if said is not None and len(known) else recognised or recognize(raw, groups)
    if along is not None:
        kind, why = "continuous", f"whole numbers that go along with {along}"
    if kind in ("count", "continuous"):
        if raw.dtype == "text":
            raise DataError(f"{raw.label} holds text such as {known[0]!r}, so it can't be {kind}; choose binary or categorical.")
        if kind == "count":
            Poisson().check(raw.values, raw.label)
        traits = _traits(raw)
        if follows and kind == "continuous":
            traits, why = replace(traits, atoms=()), "numbers that follow from others"
        if kind == "count":
            families = suitable_counts(raw.values, traits, weights, groups)
        else:
            families = suitable_numbers(raw.values, traits, weights)
        families = on_calendar(raw.dtype, raw.values, traits, families, raw.form.zone)
        return Column(raw.name, kind, raw.dtype, why, traits=traits, suitable=families, **how)
    categories = _categories(raw, known)
    if said is None and raw.dtype == "text" and not raw.levels and len(categories) > MAX_TEXTS:
        frequent = frequent_texts(known)
        rest = OTHER
        while rest in frequent:
            rest += "_"
        shared = set(categories) - set(frequent)
        digests = b"".join(sorted(map(digest, shared))) if len(shared) <= MOST_SHARED else b""
        return Column(raw.name, kind, raw.dtype, why, (*frequent, rest), other=True, rest=digests, **how)
    if kind == "binary" and len(categories) > 2:
        raise DataError(f"{raw.label} has {len(categories)} different values, so it can't be binary; choose categorical.")
    found = Column(raw.name, kind, raw.dtype, why, categories, **how)
    if not 2 < len(categories) <= FINITE or not (raw.form.ordered if raw.levels else raw.dtype in ("integer", "float")):
        return found
    return replace(found, suitable=suitable_levels(found.encode(raw, "missing"), len(categories), weights))


def _dated(raw: RawColumn, said: Kind | None) -> RawColumn:
    """Dates and times that are text, as in csv files, as numbers; few different ones only if `said` is continuous."""
    if raw.dtype != "text" or raw.levels or said not in (None, "continuous"):
        return raw
    texts = set(raw.values[~raw.missing])
    kind = kind_of_moments(texts) if said is not None or len(texts) > MAX_CATEGORIES else ""
    if not kind:
        return raw
    numbers = {text: number_of_text(kind, text) for text in texts}
    return replace(raw, dtype=kind, values=np.array([numbers.get(text, np.nan) for text in raw.values]))


def _traits(raw: RawColumn) -> Traits:
    """Those that the values show; their type knows more of dates, and of whole numbers that take few bytes."""
    traits = Traits.of(raw.values)
    if raw.dtype in TEMPORAL:
        step = traits.resolution or step_of_moments(raw.dtype, raw.values)
        if raw.dtype != "duration":
            # 1970 is no bound of dates.
            last = SECONDS_PER_DAY - (step or 1e-6)
            traits = replace(traits, bounds=(0.0, last) if raw.dtype == "time" else (-np.inf, np.inf))
        return replace(traits, resolution=step)
    low, high = bounds_of_type(raw.form.native)
    return replace(traits, bounds=(max(low, traits.bounds[0]), min(high, traits.bounds[1])))


def _categories(raw: RawColumn, known: NDArray[Any]) -> tuple[Any, ...]:
    if raw.levels:
        return raw.levels
    if raw.dtype == "text":
        return tuple(sorted(set(known)))
    if raw.dtype == "boolean":
        return (False, True)
    distinct = np.unique(known)
    if set(distinct) <= {0.0, 1.0}:
        distinct = np.array([0.0, 1.0])
    elif (distinct == np.floor(distinct)).all() and distinct[-1] - distinct[0] < MAX_CATEGORIES and len(distinct) > 2:
        # A gap is a value that was not seen yet: of marks from 1 to 6, nobody may have got a 5.
        distinct = np.arange(distinct[0], distinct[-1] + 1)
    return tuple(plain(value) for value in distinct.tolist())
