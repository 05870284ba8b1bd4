"""Columns: every container gives the same variables, kinds follow the stated rules, and rows come back as they were."""

import io
import re
from datetime import date, datetime, time
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from scipy import sparse

import flatpc as fp
from flatpc.errors import ColumnTypeError, DataError, MissingValueError, OptionError, ShapeError, SupportError
from flatpc.tables import Columns, kinds
from flatpc.tables.column import UnseenCategoryError
from flatpc.tables.reading import RawTable, read_raw

TABLE = {
    "smoker": [True, False, True, None],
    "city": ["Ulm", "Bonn", None, "Köln"],
    "height": [1.75, None, 1.62, 1.8],
    "visits": [3, 1, 2, 12],
}


def frames():
    yield "pandas", pd.DataFrame(TABLE)
    yield "pandas", pd.DataFrame(TABLE).convert_dtypes()
    yield "pandas", pd.DataFrame(TABLE).astype({"city": "category"})
    yield "polars", pl.DataFrame(TABLE)
    yield "polars", pl.DataFrame(TABLE).cast({"city": pl.Categorical})
    yield "numpy", np.array(list(zip(*TABLE.values(), strict=True)), dtype=object)
    yield "numpy", [list(row) for row in zip(*TABLE.values(), strict=True)]


@pytest.mark.parametrize(("container", "frame"), list(frames()))
def test_every_container_gives_the_same_variables(container, frame):
    columns = Columns.learn(frame, {3: "count"})
    assert list(columns.kinds.values()) == ["binary", "categorical", "continuous", "count"]
    assert [column.categories for column in columns.columns] == [(False, True), ("Bonn", "Köln", "Ulm"), (), ()]
    assert columns.container == container
    rows = columns.encode(frame, missing="marginalize")
    nan = np.nan
    np.testing.assert_array_equal(rows, [[1, 2, 1.75, 3], [0, 0, nan, 1], [1, nan, 1.62, 2], [nan, 1, 1.8, 12]])
    assert [type(family).__name__ for family in columns.families] == ["Bernoulli", "Categorical", "Gaussian", "NegativeBinomial"]


@pytest.mark.parametrize(("container", "frame"), list(frames()))
def test_filled_rows_come_back_in_the_same_container(container, frame):
    columns = Columns.learn(frame, {3: "count"})
    rows = columns.encode(frame, missing="marginalize")
    filled = columns.decode(np.where(np.isnan(rows), [[1, 0, 9.0, 0]], rows), like=read_raw(frame))
    values = filled.tolist() if container == "numpy" else filled.to_numpy().tolist()
    assert values == [[True, "Ulm", 1.75, 3], [False, "Bonn", 9.0, 1], [True, "Bonn", 1.62, 2], [True, "Köln", 1.8, 12]]
    if container == "pandas":
        assert isinstance(filled, pd.DataFrame)
        assert filled.columns.tolist() == list(TABLE)
        assert filled["visits"].dtype == frame["visits"].dtype
    elif container == "polars":
        assert filled.schema["smoker"] == pl.Boolean


def test_arrays_and_tensors():
    X = np.array([[0.0, 0.5], [1.0, 2.5], [1.0, np.nan]])
    for rows in (X, torch.from_numpy(X), torch.from_numpy(X).float(), X.tolist(), np.ma.masked_invalid(X)):
        columns = Columns.learn(rows)
        assert columns.kinds == {"x0": "binary", "x1": "continuous"}
        np.testing.assert_array_equal(columns.encode(rows, missing="marginalize"), X)
    decoded = Columns.learn(torch.from_numpy(X)).decode(X[:2])
    assert torch.equal(decoded, torch.from_numpy(X[:2]))
    np.testing.assert_array_equal(Columns.learn(X.astype(np.float32)).decode(X[:2]), X[:2])


def test_pandas_keeps_index_and_odd_names():
    frame = pd.DataFrame({0: [1.5, np.nan], "b": ["x", "y"]}, index=["p", "q"])
    columns = Columns.learn(frame)
    filled = columns.decode(np.array([[1.5, 0], [7.0, 1]]), like=read_raw(frame))
    pd.testing.assert_frame_equal(filled, pd.DataFrame({0: [1.5, 7.0], "b": ["x", "y"]}, index=["p", "q"]))


@pytest.mark.parametrize("labels", [[7, 2], pd.MultiIndex.from_tuples([("a", 1), ("a", 2)]), ["b", "a"]])
def test_pandas_columns_keep_their_labels(labels):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), columns=labels)
    density = fp.CircuitDensity(structure="factorized", effort=0.1, verbose=False).fit(frame)
    drawn = density.sample(5, random_state=0)
    assert drawn.columns.equals(frame.columns)
    assert np.isfinite(density.score(drawn))


def test_polars_columns_keep_their_names_and_types():
    frame = pl.DataFrame({
        "": pl.Series([1.5, 2.25, 0.5] * 20),
        "price": pl.Series([Decimal("1.25"), Decimal("2.50"), Decimal("7.75")] * 20, dtype=pl.Decimal(10, 2)),
        "wide": pl.Series([100_000, 200_001, 150_000] * 20, dtype=pl.Int128),
    })  # fmt: skip
    density = fp.CircuitDensity(structure="factorized", effort=0.1, verbose=False).fit(frame)
    drawn = density.sample(5, random_state=0)
    assert drawn.schema == frame.schema
    assert np.isfinite(density.score(drawn))


@pytest.mark.parametrize(("values", "kind"), [
    ([0, 1, 1, 0], "binary"),
    ([1.0, 1.0, 1.0], "binary"),
    ([3, 7, 7, 3], "binary"),
    (["a", "b", "a"], "binary"),
    ([True, True], "binary"),
    (["a", "a"], "categorical"),
    (["a", "b", "c"], "categorical"),
    ([1, 2, 3] * 2, "categorical"),
    ([1.0, 2.0, 5.0] * 2, "categorical"),
    ([-1, 0, 1] * 2, "categorical"),
    ([1, 2, 3, 4, 5], "count"),  # each only once
    (list(range(11)) * 9, "count"),
    (list(range(2, 30)), "continuous"),
    (list(range(2000)), "continuous"),
    ([-3, 5, 9, 11], "continuous"),
    ([0.5, 1, 1, 1], "continuous"),
    ([7, 7, 7, 7], "continuous"),
])  # fmt: skip
def test_rules(values, kind):
    assert kinds(pl.DataFrame({"a": values})) == {"a": kind}


def test_gaps_between_whole_categories_are_categories():
    columns = Columns.learn(np.array([[1], [2], [6]] * 3))
    assert columns.columns[0].categories == (1, 2, 3, 4, 5, 6)
    far = Columns.learn(np.array([[1], [2], [600]] * 3))
    assert far.columns[0].categories == (1, 2, 600)


def test_what_the_user_says_goes():
    X = np.array([[1.0, 0.5], [2.0, 1.5], [3.0, 0.5]] * 3)
    assert kinds(X, overrides="continuous") == {"x0": "continuous", "x1": "continuous"}
    assert kinds(X, overrides=["count", "continuous"]) == {"x0": "count", "x1": "continuous"}
    assert kinds(X, overrides={"x1": "binary", 0: "count"}) == {"x0": "count", "x1": "binary"}
    assert Columns.learn(X, {"x1": "categorical"}).columns[1].categories == (0.5, 1.5)


@pytest.mark.parametrize("make", [pl.DataFrame, lambda columns: np.array([*columns.values()]).T])
def test_numbers_as_text_in_other_tables(make):
    with pytest.raises(DataError, match="holds numbers as text, such as '20'"):
        kinds(make({"age": [str(20 + i % 40) for i in range(200)]}))


def test_numbers_that_are_names_come_before_positions():
    X = pd.DataFrame({5: [1.0, 2.0, 3.0] * 3, 0: [1.0, 2.0, 3.0] * 3, 3: [0.5, 1.5, 2.5] * 3})
    assert kinds(X, overrides={0: "count"}) == {"5": "categorical", "0": "count", "3": "continuous"}
    assert kinds(X, overrides={5: "count"}) == {"5": "count", "0": "categorical", "3": "continuous"}
    assert kinds(X, overrides={1: "count"})["0"] == "count"


def test_unseen_categories():
    columns = Columns.learn(pl.DataFrame({"city": ["Ulm", "Bonn"] * 2, "mark": [1, 2] * 2}))
    strange = pl.DataFrame({"city": ["Ulm", "Rom"], "mark": [1, 1]})
    with pytest.raises(UnseenCategoryError, match=r"Column 'city' has the value 'Rom' in row 1.*unseen='missing'"):
        columns.encode(strange)
    np.testing.assert_array_equal(columns.encode(strange, unseen="missing"), [[1, 0], [np.nan, 0]])
    with pytest.raises(UnseenCategoryError, match=r"Column 'mark' has the value 5 in row 0"):
        columns.encode(pl.DataFrame({"city": ["Ulm"], "mark": [5]}))


X = np.array([[0.0, 1.5], [1.0, 2.5]])


@pytest.mark.parametrize(("call", "kind", "match"), [
    (lambda: Columns.learn(np.zeros(3)), ShapeError, "two dimensions"),
    (lambda: Columns.learn(np.zeros((0, 3))), ShapeError, "no rows"),
    (lambda: Columns.learn(np.zeros((3, 0))), ShapeError, "no columns"),
    (lambda: Columns.learn([[1], [1, 2]]), ShapeError, "different lengths"),
    (lambda: Columns.learn(sparse.csr_array(X)), ColumnTypeError, "sparse"),
    (lambda: Columns.learn(X * 1j), ColumnTypeError, "[Cc]omplex"),
    (lambda: Columns.learn(7), ColumnTypeError, "int"),
    (lambda: Columns.learn(np.array([[{}, 1]], dtype=object)), ColumnTypeError, "'x0' holds {}"),
    (lambda: Columns.learn([["a", 1], [2, 1]]), ColumnTypeError, "'x0' holds 2"),
    (lambda: Columns.learn(pl.DataFrame({"a": [None, None]})), MissingValueError, "'a' has only missing"),
    (lambda: Columns.learn(pl.DataFrame({"id": [f"p{i}" for i in range(300)]})), DataError, "'id' holds 300 different texts"),
    (lambda: Columns.learn([[np.inf]]), DataError, "inf in row 0"),
    (lambda: Columns.learn(X, {"x7": "count"}), OptionError, "'x7'"),
    (lambda: Columns.learn(X, {"x0": "ordinal"}), OptionError, "'ordinal'"),
    (lambda: Columns.learn(X, ["count"]), OptionError, "2 columns but 1 kinds"),
    (lambda: Columns.learn(X, "count"), SupportError, "'x1' has the value 1.5"),
    (lambda: Columns.learn([["a"], ["b"]], "continuous"), DataError, "holds text"),
    (lambda: Columns.learn([["a"], ["b"], ["c"]], "binary"), DataError, "3 different values"),
    (lambda: Columns.learn(X).encode(X[:, :1]), ShapeError, "1 columns; 2"),
    (lambda: Columns.learn(X).encode([[0, "b"]]), DataError, "'x1' holds text, but numbers"),
    (lambda: Columns.learn(X).encode([[0, np.nan]]), MissingValueError, "'x1' is missing .NaN. in row 0.*marginalize"),
    (lambda: Columns.learn(X).encode([[0, -np.inf]]), DataError, "'x1' is -inf in row 0"),
    (lambda: Columns.learn(X).encode(X, missing="drop"), OptionError, "missing='drop'"),
    (lambda: Columns.learn(X).encode(X, unseen="drop"), OptionError, "unseen='drop'"),
    (lambda: Columns.learn(X).position("y"), OptionError, "'y'"),
    (lambda: Columns.learn(pd.DataFrame([[1, 2]], columns=["a", "a"])), DataError, "same name"),
])  # fmt: skip
def test_mistakes_are_named(call, kind, match):
    with pytest.raises(kind, match=match) as error:
        call()
    assert isinstance(error.value, ValueError)
    assert len(str(error.value)) < 300


def test_the_table_of_kinds():
    out = io.StringIO()
    Console(file=out, width=120).print(Columns.learn(pl.DataFrame(TABLE)).show())
    for word in ("smoker", "binary", "true and false", "Bonn, Köln, Ulm", "height", "continuous", "visits", "count"):
        assert word in out.getvalue()


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.booleans(), st.sampled_from("abcd"), st.floats(-1e9, 1e9), st.integers(0, 40)), min_size=1, max_size=30)
)
def test_decoding_undoes_encoding(rows):
    frame = pl.DataFrame(rows, schema={"a": pl.Boolean, "b": pl.String, "c": pl.Float64, "d": pl.Int64}, orient="row")
    columns = Columns.learn(frame, {"c": "continuous", "d": "count"})
    assert columns.decode(columns.encode(frame)).equals(frame)


def test_names_in_brackets_are_shown():
    """They are no markup of rich's."""
    out = io.StringIO()
    Console(file=out, width=200).print(Columns.learn(pl.DataFrame({"height [cm]": ["[b]x", "y"]})).show())
    assert "height [cm]" in out.getvalue()
    assert "[b]x" in out.getvalue()


@pytest.mark.parametrize(("values", "match"), [
    ([f"u{i}" for i in range(20)], "20 different texts, as names or identifiers do"),
    ([f"{i % 28 + 1:02d}.01.2020" for i in range(60)], "dates as text, such as '01.01.2020'; write all of them like '2020"),
    ([f"2020-02-{i % 31 + 1:02d}" for i in range(60)], "dates as text"),
    ([f"{i % 28 + 1}/1/2020 10:30" for i in range(60)], "dates as text"),
    ([*map(str, range(30)), "unknown"], "numbers, but also text such as 'unknown'"),
    ([str(20 + i % 40) for i in range(200)], "numbers as text, such as '20'; turn them into numbers .pandas.to_numeric"),
    ([f" {i % 30} " for i in range(60)], "numbers as text, such as ' 0 '"),
    ([*(f"{i},000" for i in range(1, 40)), "n/a"], "look like numbers with other signs, such as '1,000'; write digits alone"),
    ([f" {i},000" for i in range(1, 40)], "look like numbers with other signs, such as ' 1,000'"),
    ([f"${i},234.50" for i in range(1, 40)], "look like numbers with other signs, such as '.1,234.50'"),
    ([f"{i / 2}%" for i in range(40)], "look like numbers with other signs, such as '0.0%'"),
])  # fmt: skip
def test_texts_that_are_hardly_categories(values, match):
    with pytest.raises(DataError, match=match) as error:
        kinds(pd.DataFrame({"a": values}))
    assert "kinds={'a': 'categorical'}" in str(error.value)
    assert kinds(pd.DataFrame({"a": values}), overrides={"a": "categorical"}) == {"a": "categorical"}


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize(("texts", "first", "written"), [
    ([f"2020-01-{i:02d}" for i in range(1, 31)], 18262.0, date(2020, 1, 1)),
    ([f"2020-01-01T{i:02d}:30" for i in range(24)], 18262 * 86400 + 1800.0, datetime(2020, 1, 1, 0, 30)),
    ([f"2020-01-01 10:{i:02d}:00.5" for i in range(24)], 18262 * 86400 + 36000.5, datetime(2020, 1, 1, 10, 0, 0, 500_000)),
    ([f"{i:02d}:15" for i in range(24)], 900.0, time(0, 15)),
])  # fmt: skip
def test_many_dates_that_are_text_are_dates(make, texts, first, written):
    """As csv files have them."""
    frame = make({"when": [*texts, None]})
    columns = Columns.learn(frame)
    assert columns.kinds == {"when": "continuous"}
    rows = columns.encode(frame, missing="marginalize")
    assert rows[0, 0] == first
    assert np.isnan(rows[-1, 0])
    assert columns.columns[0].decode(rows[:1, 0])[0] == written
    assert kinds(make({"when": texts[:3] * 9}), overrides={"when": "continuous"}) == {"when": "continuous"}


def test_few_texts_are_categories_whatever_they_look_like():
    assert kinds(pl.DataFrame({"a": [f"u{i}" for i in range(19)]})) == {"a": "categorical"}
    assert kinds(pl.DataFrame({"a": ["2020-01-01", "2021-01-01", "2022-01-01"] * 9})) == {"a": "categorical"}
    assert kinds(pl.DataFrame({"a": ["1", "2", "3+"] * 9})) == {"a": "categorical"}


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_columns_that_are_left_out_may_hold_anything(make):
    frame = make({"a": [0, 1], "b": [[1], [2]]})
    table = read_raw(frame)
    assert len(table) == 2
    with pytest.raises(ColumnTypeError, match="'b' holds"):
        Columns.learn(RawTable(table.columns[1:], table.container))
    columns = Columns.learn(RawTable(table.columns[:1], table.container))
    assert columns.kinds == {"a": "binary"}
    with pytest.raises(ColumnTypeError, match="'b' holds"):
        columns.encode(RawTable(table.columns[1:2], table.container))


def test_an_index_among_the_columns_is_noticed():
    frame = pl.DataFrame({"": np.arange(30), "a": [0, 1] * 15, "b": np.arange(30) / 2})
    assert Columns.learn(frame).notes == (
        "Column '' counts the rows from 0 to 29, as an index does; drop the column unless it is a variable.",
    )
    assert Columns.learn(frame[::2]).notes == ()
    assert Columns.learn(frame.to_numpy()).notes == ()


def test_a_frame_without_rows_yet():
    with pytest.raises(ColumnTypeError, match=r"pass X\.collect"):
        read_raw(pl.LazyFrame({"a": [1]}))


def test_decimals_of_a_database_are_numbers():
    frame = pd.DataFrame({"price": [Decimal("1.50"), Decimal("2.25"), None] * 3})
    columns = Columns.learn(frame)
    assert columns.kinds == {"price": "continuous"}
    np.testing.assert_array_equal(columns.encode(frame, "marginalize")[:3, 0], [1.5, 2.25, np.nan])


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([[np.nan, 1.0, 2.0]], "Column 'x0' has nan in row 0; give a code from 0 to 1."),
        ([[0.0, 1.0, 2.0], [-1.0, 1.0, 2.0]], "Column 'x0' has -1 in row 1; give a code from 0 to 1."),
        ([[2.0, 1.0, 2.0]], "Column 'x0' has 2 in row 0; give a code from 0 to 1."),
        ([[0.5, 1.0, 2.0]], "Column 'x0' has 0.5 in row 0; give a code from 0 to 1."),
        ([[0.0, 1.0, np.nan]], "Column 'x2' has nan in row 0; give a finite number."),
        ([[0.0, 1.0]], "The rows have 2 columns; 3 were learnt."),
        ("rows", "Can't read a table from a str"),
    ],
)
def test_codes_that_stand_for_nothing_are_refused(rows, said):
    columns = Columns.learn([["a", 1.5, 20], ["b", 2.5, 30], ["a", 3.5, 40]])
    with pytest.raises(DataError, match=re.escape(said)):
        columns.decode(rows if isinstance(rows, str) else np.array(rows))
    assert columns.decode([[1, 9.5, 31]]).tolist() == [["b", 9.5, 31]]
