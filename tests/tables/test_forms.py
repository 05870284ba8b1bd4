"""Dates, categories, nullable numbers, Decimals and many texts: read as numbers and codes, and given back as they were."""

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flatpc as fp
from flatpc.errors import ColumnTypeError, DataError, OptionError
from flatpc.tables import Columns, kinds
from flatpc.tables.column import UnseenCategoryError
from flatpc.tables.forms import TEMPORAL, Form, bounds_of_type, number_of
from flatpc.tables.reading import read_matrix, read_raw
from tests.cli.running import Answer, run

N = 120


def pandas_table():
    rng = np.random.default_rng(0)
    days = rng.integers(0, 900, N)
    return pd.DataFrame({
        "born": [date(1960, 1, 1) + timedelta(days=int(d)) for d in days],
        "seen": pd.to_datetime("2020-03-01") + pd.to_timedelta(days * 60, unit="min"),
        "zoned": (pd.to_datetime("2020-03-01") + pd.to_timedelta(days, unit="h")).tz_localize("UTC").tz_convert("Europe/Berlin"),
        "took": pd.to_timedelta(rng.exponential(50, N).round(), unit="s"),
        "size": pd.Categorical(rng.choice(["S", "M", "L"], N), ["S", "M", "L", "XL"], ordered=True),
        "mark": pd.Categorical(rng.choice([3, 1, 2], N), [3, 2, 1]),
        "visits": pd.array(rng.poisson(3, N), dtype="Int64"),
        "flag": pd.array(rng.random(N) < 0.5, dtype="boolean"),
        "price": [Decimal(f"{x:.2f}") for x in rng.gamma(2, 3, N)],
        "weight": rng.normal(size=N).astype("float32"),
        "level": rng.integers(90, 127, N).astype("int8"),
    })  # fmt: skip


def polars_table():
    frame = pandas_table()
    series = [pl.Series(name, frame[name].tolist()) for name in ("born", "price")]
    rest = pl.DataFrame(frame.drop(columns=["born", "price", "size"]))
    sizes = pl.Series("size", frame["size"].tolist(), dtype=pl.Enum(["S", "M", "L", "XL"]))
    clock = pl.Series("clock", [time(9, i % 60) for i in range(N)])
    return rest.with_columns(*series, sizes, clock)


@pytest.mark.parametrize("frame", [pandas_table(), polars_table()], ids=["pandas", "polars"])
def test_rows_come_back_as_they_were(frame):
    columns = Columns.learn(frame)
    again = columns.decode(columns.encode(frame))
    assert type(again) is type(frame)
    if isinstance(frame, pd.DataFrame):
        pd.testing.assert_frame_equal(again, frame)
    else:
        assert again.cast({"price": frame.schema["price"]}).equals(frame)
        assert {**again.schema, "price": 0} == {**frame.schema, "price": 0}


@pytest.mark.parametrize("frame", [pandas_table(), polars_table()], ids=["pandas", "polars"])
def test_gaps_are_filled_with_the_columns_own_type(frame):
    gaps = frame.copy() if isinstance(frame, pd.DataFrame) else frame.to_pandas()
    if isinstance(frame, pl.DataFrame):
        gaps = frame.with_columns(pl.when(pl.int_range(pl.len()) < 3).then(None).otherwise(pl.all()).name.keep())
    else:
        gaps.iloc[:3] = None
    columns = Columns.learn(frame)
    rows = columns.encode(gaps, missing="marginalize")
    assert np.isnan(rows[:3]).all()
    filled = columns.decode(columns.encode(frame), like=read_raw(gaps))
    if isinstance(frame, pd.DataFrame):
        pd.testing.assert_frame_equal(filled, frame, check_dtype=False)
        assert filled["seen"].dtype == frame["seen"].dtype
        assert filled["size"].dtype == frame["size"].dtype
    else:
        assert filled.cast({"price": frame.schema["price"]}).equals(frame)


def test_levels_are_honoured():
    columns = {column.name: column for column in Columns.learn(pandas_table()).columns}
    assert columns["size"].categories == ("S", "M", "L", "XL")
    assert columns["mark"].categories == (3, 2, 1)
    assert columns["mark"].kind == "categorical"
    np.testing.assert_array_equal(
        Columns.learn(pandas_table()[["mark"]]).encode(pd.DataFrame({"mark": [1, 2, 3, 2]}))[:, 0], [2, 1, 0, 1]
    )
    two = pd.DataFrame({"a": pd.Categorical(["x"] * 3, ["y", "x"])})
    assert Columns.learn(two).kinds == {"a": "binary"}


@pytest.mark.parametrize(("values", "kind", "dtype"), [
    (pd.date_range("2020-01-01", periods=30), None, "datetime64"),
    (pd.date_range("2020-01-01", periods=30), "categorical", "category"),
    (range(5), None, "category"),
    (range(5), "continuous", "int64"),
    (range(5), "count", "int64"),
])  # fmt: skip
def test_levels_that_are_no_text_are_not_lost(values, kind, dtype):
    frame = pd.DataFrame({"v": pd.Categorical([*values] * 30)})
    columns = Columns.learn(frame, kind)
    again = columns.decode(columns.encode(frame))
    assert str(again.dtypes["v"]).split("[")[0] == dtype
    assert again["v"].tolist() == frame["v"].tolist()


@pytest.mark.parametrize("name", ["string", "large_string", "decimal128", "decimal256", "int64", "bool_", "date32", "float32"])
def test_arrow_types_of_pandas_come_back(name):
    pa = pytest.importorskip("pyarrow")
    values = {"decimal": [Decimal("1.25"), Decimal("-2.5"), Decimal("99.99")], "date32": [date(2020, 1, d) for d in (1, 2, 5)]}
    values |= {"string": ["a", "b", "c"], "large_string": ["a", "b", "c"], "bool_": [True, False, True]}
    given = values.get(name.strip("0123456789")) or values.get(name, [1, 2, 3])
    dtype = pd.ArrowDtype(getattr(pa, name)(*((6, 2) if "decimal" in name else ())))
    frame = pd.DataFrame({"v": pd.Series(given * 30, dtype=dtype)})
    columns = Columns.learn(frame)
    again = columns.decode(columns.encode(frame))
    assert again.dtypes["v"] == dtype
    assert again["v"].tolist() == frame["v"].tolist()
    wide = columns.decode(np.full((1, 1), 1e9)) if "decimal" in name else again
    assert len(wide) == len(wide.dropna())


def test_dates_are_days_and_times_seconds():
    frame = pl.DataFrame({
        "day": [date(1970, 1, 3), date(1969, 12, 31)],
        "at": [datetime(1970, 1, 1, 0, 1), datetime(1969, 12, 31, 23, 59)],
        "clock": [time(0, 1, 0, 500_000), time(23)],
        "took": [timedelta(hours=-1), timedelta(microseconds=1)],
    })  # fmt: skip
    np.testing.assert_array_equal(Columns.learn(frame).encode(frame), [[2, 60, 60.5, -3600], [-1, -60, 82800, 1e-6]])


def test_time_zones_are_one_clock():
    at = datetime(2020, 7, 1, 12, tzinfo=UTC)
    east = at.astimezone(timezone(timedelta(hours=2)))
    columns = Columns.learn([[at], [at + timedelta(hours=1)], [east]])
    rows = columns.encode([[at], [east]])
    assert rows[0, 0] == rows[1, 0] == at.timestamp()
    assert columns.decode(rows)[0, 0] == at
    only = Columns.learn([[east], [east + timedelta(hours=1)]])
    assert only.decode(only.encode([[east]]))[0, 0].utcoffset() == timedelta(hours=2)


@pytest.mark.parametrize("unit", ["D", "h", "s", "us", "ns"])
def test_numpy_dates(unit):
    X = (np.datetime64("2020-01-01", unit) + np.arange(20).astype(f"m8[{unit}]"))[:, None]
    X[3] = "NaT"
    columns = Columns.learn(X)
    rows = columns.encode(X, "marginalize")
    assert columns.columns[0].dtype == ("date" if unit == "D" else "datetime")
    assert np.isnan(rows[3, 0])
    shown = columns.decode(rows[:1])[0, 0]
    assert np.datetime64(shown).astype(f"M8[{unit}]") == X[0, 0]


def test_a_date_may_come_as_a_datetime():
    days = [[date(2020, 1, day)] for day in range(1, 20)]
    moments = [[datetime(2020, 1, day)] for day in range(1, 20)]
    np.testing.assert_array_equal(Columns.learn(days).encode(moments), Columns.learn(days).encode(days))
    np.testing.assert_array_equal(Columns.learn(moments).encode(days), Columns.learn(moments).encode(moments))


@settings(max_examples=60)
@given(st.data())
def test_every_moment_comes_back(data):
    dtype = data.draw(st.sampled_from(TEMPORAL))
    least, most = datetime(1700, 1, 1), datetime(2250, 1, 1)
    value = data.draw({
        "date": st.dates(), "datetime": st.datetimes(least, most), "time": st.times(),
        "duration": st.timedeltas(timedelta(-90_000), timedelta(90_000)),
    }[dtype])  # fmt: skip
    again = Form().restored(dtype, [number_of(dtype, value)])[0]
    # Microseconds are beyond float64's digits some centuries from 1970.
    assert again == value if dtype in ("date", "time") else abs(again - value) <= timedelta(microseconds=1)


def test_whole_minutes_are_a_resolution():
    columns = {column.name: column for column in Columns.learn(pandas_table()).columns}
    assert columns["seen"].traits.resolution == 3600
    assert columns["born"].traits.resolution == 1
    assert columns["seen"].traits.bounds == (-np.inf, np.inf)


@pytest.mark.parametrize(("native", "ends"), [("int8", (-128, 127)), ("UInt16", (0, 65535)), ("Int64", (-np.inf, np.inf))])
def test_narrow_types_are_bounds(native, ends):
    assert bounds_of_type(native) == ends


def test_samples_are_of_every_columns_type():
    for frame in (pandas_table(), polars_table()):
        density = fp.CircuitDensity(effort=0.05, verbose=False).fit(frame)
        drawn = density.sample(300, random_state=0)
        types = drawn.dtypes if isinstance(drawn, pd.DataFrame) else drawn.drop("price").schema
        wanted = frame.dtypes if isinstance(frame, pd.DataFrame) else frame.drop("price").schema
        assert dict(types) == dict(wanted)
        assert density.columns_.encode(drawn).shape == (300, len(wanted) + isinstance(frame, pl.DataFrame))
        seen = drawn["seen"].to_list()
        assert all(moment.minute == moment.second == moment.microsecond == 0 for moment in seen)


def test_questions_speak_of_dates():
    frame = pandas_table()[["born", "seen"]]
    density = fp.CircuitDensity(effort=0.05, verbose=False).fit(frame)
    share = density.probability({"born": (date(1960, 1, 1), date(1961, 1, 1))})
    assert share == pytest.approx((frame["born"] <= date(1961, 1, 1)).mean(), abs=0.1)
    assert isinstance(density.predict(frame[:2], "seen")[0], datetime)
    low, high = density.quantile(frame[:1], "born", q=[0.1, 0.9])[0]
    assert isinstance(low, date)
    assert low < high
    with pytest.raises(OptionError, match="give a date"):
        density.probability({"born": 3})
    drawn = density.sample(50, given={"born": (date(1961, 1, 1), None)}, random_state=0)
    assert min(drawn["born"]) >= date(1961, 1, 1)


def test_categories_may_be_dates(tmp_path):
    days = [date(2020, 1, 1), date(2020, 1, 8), date(2020, 1, 15)]
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"when": [days[k] for k in rng.integers(0, 3, 60)], "x": rng.normal(size=60)})
    options = {"kinds": {"when": "categorical"}, "structure": "factorized", "unseen": "raise", "effort": 0.2, "verbose": False}
    density = fp.CircuitDensity(**options).fit(frame)
    assert density.categories("when") == days
    assert set(density.predict(frame[:3], "when")) <= set(days)
    shares = [density.probability({"when": day}) for day in days]
    np.testing.assert_allclose(sum(shares), 1, atol=1e-12)
    np.testing.assert_allclose(density.probability({"when": (days[1], None)}), shares[1] + shares[2], atol=1e-12)
    assert density.sample(5, given={"when": days[1]}, random_state=0)["when"].to_list() == [days[1]] * 5
    with pytest.raises(fp.FlatpcError, match="whose values are 2020-01-01, 2020-01-08, 2020-01-15"):
        density.probability({"when": date(2021, 1, 1)})
    with pytest.raises(fp.FlatpcError, match=r"the value 2021-01-01 in row 0, .* \(2020-01-01, 2020-01-08, 2020-01-15\)"):
        density.score(frame[:1].with_columns(when=pl.lit(date(2021, 1, 1))))
    density.save(tmp_path / "days.model")
    drawn = run("sample", tmp_path / "days.model", "-n", 3, "--given", "when=2020-01-08", "--json").json
    assert [row["when"] for row in drawn] == ["2020-01-08"] * 3
    assert "are 2020-01-01, 2020-01-08" in Answer("sample", tmp_path / "days.model", "--given", "when=2021-01-01").err


def test_models_keep_forms(tmp_path):
    for frame in (pandas_table(), polars_table()):
        density = fp.CircuitDensity(effort=0.05, verbose=False).fit(frame)
        density.save(tmp_path / "model")
        again = fp.CircuitDensity.load(tmp_path / "model")
        assert again.columns_.columns == density.columns_.columns
        assert again.sample(20, random_state=1).equals(density.sample(20, random_state=1))


def towns(n_rare=400):
    return pl.DataFrame({"town": ["Ulm"] * 300 + ["Bonn"] * 200 + [f"t{i}" for i in range(n_rare)], "x": [0.5] * (500 + n_rare)})


def test_rare_texts_are_one_category():
    frame = towns()
    column = Columns.learn(frame).columns[0]
    assert column.categories == ("Bonn", "Ulm", "other")
    assert column.why == "2 frequent texts of 402"
    codes = Columns.learn(frame).encode(pl.DataFrame({"town": ["Ulm", "t7", "new"], "x": [0.5] * 3}))[:, 0]
    np.testing.assert_array_equal(codes, [1, 2, 2])
    named = frame.with_columns(pl.col("town").str.replace("Ulm", "other"))
    assert Columns.learn(named).columns[0].categories == ("Bonn", "other", "other_")


def test_the_probability_of_rare_texts_is_their_share(tmp_path):
    density = fp.CircuitDensity(effort=0.05, verbose=False, kinds={"x": "categorical"}).fit(towns())
    assert density.probability({"town": "some new town"}) == pytest.approx(400 / 900, abs=0.01)
    density.save(tmp_path / "model")
    again = fp.CircuitDensity.load(tmp_path / "model")
    assert again.columns_ == density.columns_
    rows = pl.DataFrame({"town": ["Ulm", "t7", "other", "new"], "x": [0.5] * 4})
    scores = again.score_samples(rows)
    np.testing.assert_array_equal(scores, density.score_samples(rows))
    assert scores[1] == scores[2] == pytest.approx(np.log(4 / 9 / 400), abs=0.03)
    assert scores[3] == pytest.approx(np.log(1 / 2 / 901), abs=0.03)
    assert scores[0] > scores[1] > scores[3]


def test_a_text_that_was_never_seen_is_no_rare_one():
    options = {"effort": 0.05, "verbose": False, "kinds": {"x": "categorical"}}
    density = fp.CircuitDensity(**options).fit(towns())
    frame = pl.DataFrame({"town": ["Ulm", "t7", "new"], "x": [0.5] * 3})
    scores, causes = density.anomaly_score(frame, explain=True)
    assert scores.argmax() == causes[:, 0].argmax() == 2
    assert causes[0, 0] < causes[1, 0]
    careful = fp.CircuitDensity(unseen="raise", **options).fit(towns())
    np.testing.assert_array_equal(careful.score_samples(frame[:2]), density.score_samples(frame[:2]))
    with pytest.raises(UnseenCategoryError, match="Column 'town' has the value 'new' in row 2"):
        careful.score_samples(frame)


def test_identifiers_are_refused_still():
    with pytest.raises(DataError, match="identifiers"):
        kinds(pl.DataFrame({"id": [f"p{i % 300}" for i in range(600)]}))


def test_what_is_no_column_of_moments():
    with pytest.raises(ColumnTypeError, match="with a time zone and times without"):
        Columns.learn([[datetime(2020, 1, 1)], [datetime(2020, 1, 1, tzinfo=UTC)]])
    with pytest.raises(ColumnTypeError, match="dates or times"):
        read_matrix(pl.DataFrame({"when": [date(2020, 1, 1)]}))
    with pytest.raises(DataError, match="holds numbers, but dates when it was learnt"):
        Columns.learn([[date(2020, 1, 1)], [date(2020, 1, 2)]]).encode([[1], [2]])
