"""Rows: every table a user may have is read, and every mistake is named with its column, its row and the remedy."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

import flatpc as fp
from flatpc.circuit.rows import read_rows
from flatpc.errors import DataError, FlatpcError, MissingValueError, OptionError, ShapeError, SupportError
from flatpc.tables.matrix import read_matrix

CIRCUIT = fp.Circuit([fp.Input(0, fp.Bernoulli()), fp.Input(1, fp.Gaussian()), fp.Product((0, 1))])
TABLE = [[0.0, -1.5], [1.0, 2.5]]


# ---- what is read -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "X",
    [
        TABLE,
        tuple(map(tuple, TABLE)),
        np.array(TABLE),
        np.array(TABLE, dtype=np.float32),
        np.array(TABLE, dtype=np.float16),
        np.array(TABLE, dtype=object),
        np.asfortranarray(TABLE),
        np.array(TABLE)[::-1][::-1],
        np.ma.array(TABLE),
        torch.tensor(TABLE),
        torch.tensor(TABLE, dtype=torch.bfloat16),
        torch.tensor(TABLE, requires_grad=True),
        torch.nn.Parameter(torch.tensor(TABLE)),
        torch.tensor(TABLE).to_sparse(),
        pd.DataFrame(TABLE),
        pd.DataFrame(TABLE, columns=["b", "a"], index=[7, 5]),
        pd.DataFrame({"b": [False, True], "a": [-1.5, 2.5]}),
        pd.DataFrame({"b": pd.array([0, 1], dtype="Int64"), "a": pd.array([-1.5, 2.5], dtype="Float32")}),
        pl.DataFrame({"b": [0, 1], "a": [-1.5, 2.5]}),
        pl.DataFrame({"b": [False, True], "a": [-1.5, 2.5]}),
    ],
    ids=lambda X: type(X).__name__,
)
def test_tables_of_all_kinds_are_read(X):
    rows = read_rows(CIRCUIT, X)
    assert rows.dtype == np.float64
    assert rows.flags.c_contiguous
    np.testing.assert_array_equal(rows, TABLE)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.int64, np.uint64])
def test_whole_numbers_are_read(dtype):
    np.testing.assert_array_equal(read_matrix(np.array([[0, 1]], dtype=dtype))[0], [[0.0, 1.0]])
    np.testing.assert_array_equal(read_matrix(torch.tensor([[0, 1]], dtype=torch.int32))[0], [[0.0, 1.0]])


MISSING = [
    [[1.0, np.nan]],
    [[1.0, None]],
    np.array([[1, None]], dtype=object),
    np.ma.array([[1, 5]], mask=[[False, True]]),
    np.ma.array([[1.0, 5.0]], mask=[[False, True]]),
    torch.tensor([[1.0, torch.nan]]),
    pd.DataFrame({"b": [1], "a": [np.nan]}),
    pd.DataFrame({"b": [1], "a": pd.array([None], dtype="Int64")}),
    pd.DataFrame({"b": [1], "a": pd.array([None], dtype="boolean")}),
    pl.DataFrame({"b": [1], "a": [None]}),
    pl.DataFrame({"b": [1], "a": pl.Series([None], dtype=pl.Int64)}),
    pl.DataFrame({"b": [1], "a": pl.Series([None], dtype=pl.Boolean)}),
]


@pytest.mark.parametrize("X", MISSING, ids=lambda X: type(X).__name__)
def test_missing_values_of_all_kinds_become_nan_or_are_refused(X):
    np.testing.assert_array_equal(read_rows(CIRCUIT, X, missing="marginalize"), [[1.0, np.nan]])
    with pytest.raises(MissingValueError, match=r"(Column 1|Column 'a') is NaN in row 0\. Pass missing='marginalize'"):
        read_rows(CIRCUIT, X)


def test_columns_are_named_as_the_user_names_them():
    assert read_matrix(pd.DataFrame([[1, 2]], columns=["age", "sex"]))[1] == ["Column 'age'", "Column 'sex'"]
    assert read_matrix(np.zeros((1, 2)))[1] == ["Column 0", "Column 1"]


# ---- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        # Wrong shape.
        ([0.0, 1.0], ShapeError, r"shape is \(2,\); for one row write X\[None\]"),
        (np.float64(3.0), ShapeError, "two dimensions"),
        (np.zeros((2, 2, 2)), ShapeError, r"shape is \(2, 2, 2\)"),
        (torch.zeros(2), ShapeError, r"X\[None\]"),
        (pd.Series([1.0, 2.0]), ShapeError, r"X\[None\]"),
        (pl.Series([1.0, 2.0]), ShapeError, r"X\[None\]"),
        ([[0.0, 1.0], [1.0]], ShapeError, "different lengths"),
        ([[0.0, 1.0], 1.0], ShapeError, "different lengths"),
        (np.zeros((2, 3)), ShapeError, "3 columns, but the circuit is over 2 variables"),
        (pd.DataFrame({"a": [1.0]}), ShapeError, "1 columns, but the circuit is over 2 variables"),
        # Nothing there.
        ([], ShapeError, "two dimensions"),
        ([[]], ShapeError, "no columns"),
        (np.zeros((0, 2)), ShapeError, "no rows; give at least one"),
        (np.zeros((2, 0)), ShapeError, "no columns"),
        (torch.zeros(0, 2), ShapeError, "no rows"),
        (pd.DataFrame({"a": [], "b": []}), ShapeError, "no rows"),
        (pd.DataFrame(index=[0, 1]), ShapeError, "no columns"),
        (pl.DataFrame({"a": [], "b": []}), ShapeError, "no rows"),
        (pl.DataFrame(), ShapeError, "no columns"),
        # Not numbers.
        (None, DataError, "Can't read rows from a NoneType; pass a NumPy array"),
        ("rows", DataError, "Can't read rows from a str"),
        ({"a": [1.0]}, DataError, "Can't read rows from a dict"),
        (torch.float32, DataError, "Can't read rows from a dtype"),
        (pl.LazyFrame({"a": [1.0]}), DataError, "Can't read rows from a LazyFrame"),
        ([["x", "y"]], DataError, "Column 0 holds .*'x'.* in row 0, which is not a float64 number"),
        (np.array([["1", "2"]]), DataError, "Column 0 holds .*'1'.* in row 0"),
        (np.array([[b"1", b"2"]]), DataError, "Column 0 holds .*b'1'.* in row 0"),
        (np.array([[0.0, 1.0], [1.0, "blue"]], dtype=object), DataError, "Column 1 holds 'blue' in row 1"),
        (np.array([[0.0, "2"]], dtype=object), DataError, "Column 1 holds '2' in row 0"),
        (np.array([[0.0, [1]]], dtype=object), DataError, r"Column 1 holds \[1\] in row 0"),
        ([[0.0, 10**400]], DataError, "Column 1 holds 1000.*in row 0"),
        (np.array([[1j, 0]]), DataError, "complex128"),
        (np.array([["2020-01-01"]], dtype="datetime64[D]"), DataError, "datetime64"),
        (np.array([(1, 2.0)], dtype=[("a", int), ("b", float)]), DataError, "not numbers"),
        (torch.zeros(1, 2, dtype=torch.complex64), DataError, "complex64"),
        (pd.DataFrame({"b": [1], "colour": ["red"]}), DataError, "Column 'colour' has the type String.*encode it as 0, 1, 2"),
        (pd.DataFrame({"b": [1], "colour": pd.Categorical(["red"])}), DataError, "Column 'colour' has the type Categorical"),
        (pd.DataFrame({"b": [1], "when": pd.to_datetime(["2020-01-01"])}), DataError, "Column 'when' has the type Datetime"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), DataError, "same name"),
        (pl.DataFrame({"b": [1], "colour": ["red"]}), DataError, "Column 'colour' has the type String"),
        # Infinities.
        ([[0.0, np.inf]], DataError, "Column 1 is inf in row 0; replace infinities"),
        (np.array([[0.0, 1.0], [-np.inf, 1.0]]), DataError, "Column 0 is -inf in row 1"),
        (pd.DataFrame({"b": [1], "a": [np.inf]}), DataError, "Column 'a' is inf in row 0"),
        (torch.tensor([[0.0, torch.inf]]), DataError, "Column 1 is inf in row 0"),
        # Outside the support.
        ([[1.0, 0.0], [2.0, 0.0]], SupportError, "Column 0 has the value 2 in row 1.*Bernoulli.*0 and 1"),
        (np.array([[0.5, 0.0]]), SupportError, "Column 0 has the value 0.5 in row 0"),
        (pl.DataFrame({"sick": [-1], "a": [0.0]}), SupportError, "Column 'sick' has the value -1 in row 0"),
    ],
)
def test_bad_rows_are_refused(X, error, message):
    with pytest.raises(error, match=message) as caught:
        read_rows(CIRCUIT, X)
    assert type(caught.value) is error
    assert isinstance(caught.value, FlatpcError)
    assert isinstance(caught.value, ValueError)


def test_values_outside_the_support_are_refused_beside_missing_ones():
    with pytest.raises(SupportError, match="Column 0 has the value 3 in row 1"):
        read_rows(CIRCUIT, [[np.nan, np.nan], [3.0, np.nan]], missing="marginalize")


@pytest.mark.parametrize("missing", ["ignore", None, True])
def test_unknown_treatment_of_missing_values(missing):
    with pytest.raises(OptionError, match="choose 'raise' or 'marginalize'"):
        read_rows(CIRCUIT, TABLE, missing)


def test_reading_does_not_change_what_is_given():
    X = np.ma.array([[1.0, 5.0]], mask=[[False, True]])
    read_rows(CIRCUIT, X, missing="marginalize")
    assert X.data.tolist() == [[1.0, 5.0]]
