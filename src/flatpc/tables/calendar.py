"""What dates and times follow besides their course: days of the week, hours of the day, months of the year.

Dates are numbers to a model. A family with the cycles of the calendar (`fp.Cyclic`) knows them as such, and each of its units has
likely weekdays and hours of its own, so that other columns may go with these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from flatpc._typing import Array
from flatpc.families.cyclic import with_cycles
from flatpc.tables.forms import SECONDS_PER_DAY, offset_of
from flatpc.tables.traits import Traits

if TYPE_CHECKING:
    from flatpc.families.base import Family

FEWEST_WEEKS, FEWEST_YEARS = 8, 3
"""That values have to span."""
FIRST_MONDAY = 4
"""Days after the first of January 1970."""
DAYS_OF_YEAR = 365.2425
HOUR = 3600.0


def on_calendar(dtype: str, x: Array, traits: Traits, suitable: tuple[Family, ...], zone: str = "") -> tuple[Family, ...]:
    """The families that suit a column of dates or datetimes, those with cycles first if it spans enough of them.

    >>> from flatpc.families import Gaussian
    >>> on_calendar("date", np.arange(100.0), Traits(resolution=1.0), (Gaussian(),))[0]
    Cyclic(family=Gaussian(min_variance=0.0001, max_variance=None), parts=(7,), step=1.0, origin=3.5)
    """
    known = x[~np.isnan(x) & ~np.isin(x, traits.atoms)]
    if dtype not in ("date", "datetime") or len(known) == 0:
        return suitable
    day = 1.0 if dtype == "date" else SECONDS_PER_DAY
    days = float(np.ptp(known)) / day
    # A value that was rounded stands for what is around it, and so do the parts.
    rounded = min(traits.resolution, day)
    start = -rounded / 2 - (offset_of(zone, float(np.median(known))) if dtype == "datetime" else 0.0)
    monday = FIRST_MONDAY * day + start
    weeks = ((7,), day, monday) if dtype == "date" or rounded == day else ((7, 24), HOUR, monday + max(rounded - HOUR, 0.0) / 2)
    cycles = [weeks] if days >= 7 * FEWEST_WEEKS else []
    cycles += [((12,), DAYS_OF_YEAR / 12 * day, start)] if days >= DAYS_OF_YEAR * FEWEST_YEARS else []
    return (
        *(made for parts in cycles for family in suitable[:2] if (made := with_cycles(family, *parts)) is not None),
        *suitable,
    )
