"""Weekdays, hours and months of dates: families that know them, and what goes with them in other columns."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pytest

import flatpc as fp
from flatpc.families import Cyclic, Gaussian, Hurdle
from flatpc.search.suiting import choose_family
from flatpc.tables.calendar import on_calendar
from flatpc.tables.traits import Traits


def shop(n=700, seed=0):
    """A year of days, more sold at weekends, and nearly never open on Sundays."""
    rng = np.random.default_rng(seed)
    days = [date(2023, 1, 1) + timedelta(days=int(day)) for day in rng.integers(0, 365, n)]
    weekday = np.array([day.weekday() for day in days])
    sold = rng.gamma(20, np.where(weekday >= 5, 10, 4), n)
    return pl.DataFrame({"day": days, "sold": sold, "open": rng.random(n) < np.where(weekday == 6, 0.05, 0.9)})


def rides(n=900, zone=None, seed=0):
    """Moments of three months, to the minute, short rides in the morning."""
    rng = np.random.default_rng(seed)
    start = datetime(2023, 3, 1, tzinfo=zone)
    hour = rng.choice([8, 18], n)
    when = [start + timedelta(days=int(d), hours=int(h), minutes=int(m)) for d, h, m in
            zip(rng.integers(0, 92, n), hour, rng.integers(0, 60, n), strict=True)]  # fmt: skip
    return pl.DataFrame({"when": when, "minutes": rng.gamma(9, np.where(hour == 8, 1.0, 4.0), n)})


def parts(family, moments):
    """Which of the first and of the last parts numbers are in."""
    digits = family._digits(family._place(np.asarray(moments, float))[1].astype(int))
    return digits[0].tolist(), digits[-1].tolist()


def family_of(table):
    return fp.tables.Columns.learn(table).columns[0].family


def test_parts_of_dates_are_days_of_the_week():
    family = family_of(shop())
    assert isinstance(family, Cyclic)
    assert family.parts == (7,)
    days = [date(2023, 1, 1) + timedelta(days=k) for k in range(400)]
    found, _ = parts(family, [(day - date(1970, 1, 1)).days for day in days])
    assert found == [day.weekday() for day in days]


@pytest.mark.parametrize("zone", [None, UTC, ZoneInfo("America/New_York")])
def test_parts_of_datetimes_are_also_hours_of_the_day(zone):
    """Of the clocks of a time zone as they stand at the median moment: in summer, here."""
    family = family_of(rides(zone=zone))
    assert family.parts == (7, 24)
    moments = [datetime(2023, 5, 1, tzinfo=zone) + timedelta(minutes=17 * k) for k in range(1000)]
    seconds = [(m if m.tzinfo else m.replace(tzinfo=UTC)).timestamp() for m in moments]
    days, hours = parts(family, seconds)
    assert days == [m.weekday() for m in moments]
    assert hours == [m.hour for m in moments]


def test_years_have_months():
    days = np.arange(0.0, 4000.0)
    months = next(f for f in on_calendar("date", days, Traits(resolution=1.0), (Gaussian(),)) if f.parts == (12,))
    found, _ = parts(months, days)
    dates = [date(1970, 1, 1) + timedelta(days=int(day)) for day in days]
    # Twelfths of a year of 365.2425 days: months of 28 to 31 days begin up to two days away, after leap years three.
    assert np.mean(np.array(found) == [day.month - 1 for day in dates]) > 0.95
    assert months.step * 12 == pytest.approx(365.2425)


def test_what_spans_few_weeks_or_is_no_date_has_none():
    few = shop().with_columns(day=pl.Series([date(2023, 1, 1) + timedelta(days=k % 40) for k in range(700)]))
    assert family_of(few) == Gaussian()
    assert not family_of(shop().select("sold")).runs_in_cycles
    times = pl.DataFrame({"at": [datetime(2023, 1, 1, k % 24, k % 60).time() for k in range(500)]})
    assert not family_of(times).runs_in_cycles


def test_codes_of_dates_stand_out_beside_cycles():
    days = np.where(np.arange(700) % 10 == 0, -36_000.0, np.random.default_rng(0).integers(19_000, 19_400, 700))
    found = on_calendar("date", days, Traits(1.0, atoms=(-36_000.0,)), (Gaussian(), Hurdle((-36_000.0,), Gaussian())))
    assert Hurdle((-36_000.0,), Cyclic(Gaussian(), (7,), 1.0, 3.5)) in found
    chosen = choose_family(days, found, 0)
    assert chosen.set_apart == (-36_000.0,)
    assert chosen.runs_in_cycles


def test_a_model_knows_what_goes_with_weekdays(tmp_path):
    table = shop()
    train, test = table[:500], table[500:]
    density = fp.CircuitDensity(effort=3, verbose=False, random_state=0, missing="marginalize").fit(train)
    # A model of days that don't know their weekday could at best know the course of the year.
    numbers = train.with_columns(day=pl.col("day").to_physical().cast(pl.Float64) + 0.25)
    plain = fp.CircuitDensity(effort=3, verbose=False, random_state=0).fit(numbers)
    gain = density.score(test) - plain.score(test.with_columns(day=pl.col("day").to_physical().cast(pl.Float64) + 0.25))
    assert gain > 0.4
    asked = pl.DataFrame({"day": [date(2023, 6, 10), date(2023, 6, 11), date(2023, 6, 12)]})
    sold = np.asarray(density.predict(asked.with_columns(sold=None, open=None), "sold"))
    assert sold[:2].min() > 150
    assert sold[2] < 120
    is_open = np.asarray(density.predict_proba(asked.with_columns(sold=None, open=None), "open"))[:, 1]
    assert is_open[1] < 0.3
    assert is_open[[0, 2]].min() > 0.7
    drawn = density.sample(2000, random_state=0)
    assert drawn.schema == table.schema
    weekday = drawn["day"].dt.weekday()
    assert drawn["sold"].filter(weekday >= 6).mean() > 1.5 * drawn["sold"].filter(weekday < 6).mean()
    # A range of days is the sum of its days, and a file gives the same answers.
    each = [density.probability({"day": day}) for day in (date(2023, 6, 10), date(2023, 6, 11), date(2023, 6, 12))]
    assert density.probability({"day": (date(2023, 6, 10), date(2023, 6, 12))}) == pytest.approx(sum(each), rel=1e-9)
    density.save(tmp_path / "model.safetensors")
    again = fp.CircuitDensity.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.score_samples(test), density.score_samples(test))
    given = density.sample(200, given={"day": (date(2023, 6, 10), date(2023, 6, 12))}, random_state=0)
    assert given["day"].is_between(date(2023, 6, 10), date(2023, 6, 12)).all()
    assert (
        given["sold"].filter(given["day"].dt.weekday() >= 6).mean()
        > 1.5 * given["sold"].filter(given["day"].dt.weekday() < 6).mean()
    )


def test_moments_of_pandas_go_with_hours():
    table = pd.DataFrame({name: column.to_numpy() for name, column in zip(rides().columns, rides(), strict=True)})
    density = fp.CircuitDensity(effort=3, verbose=False, random_state=0).fit(table)
    drawn = density.sample(2000, random_state=0)
    assert drawn["when"].dtype == table["when"].dtype
    hours = drawn["when"].dt.hour
    assert hours.isin([8, 18]).mean() > 0.95
    assert drawn["minutes"][hours == 18].mean() > 2 * drawn["minutes"][hours == 8].mean()


@pytest.mark.parametrize("seed", range(4))
def test_a_default_date_leaves_no_weekday_impossible(seed):
    """A fifth of the days are a code, and 80 rows don't have all weekdays."""
    rng = np.random.default_rng(seed)
    after = 7 * rng.integers(0, 420, 400) + rng.choice(7, 400, p=[0.2, 0.2, 0.2, 0.2, 0.19, 0.005, 0.005])
    days = [date(2015, 1, 5) + timedelta(days=int(n)) for n in after]
    days = [date(1970, 1, 1) if coded else day for coded, day in zip(rng.random(400) < 0.2, days, strict=True)]
    table = pl.DataFrame({"day": days, "x": rng.normal(size=400)})
    density = fp.CircuitDensity(effort=0.5, verbose=False, random_state=0).fit(table[:80])
    assert np.isfinite(density.score_samples(table[80:])).all()
    assert (density.sample(400, random_state=0)["day"] == date(1970, 1, 1)).mean() > 0.1
