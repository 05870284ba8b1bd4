"""Rows: every table a user may have is read, and every mistake is named with its column, its row and the remedy."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy import sparse

import flatpc as fp
from flatpc.circuit.rows import read_rows
from flatpc.errors import ColumnTypeError, DataError, FlatpcError, MissingValueError, OptionError, ShapeError, SupportError
from flatpc.tables.reading import read_matrix

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
        np.array([[Decimal(0), Fraction(-3, 2)], [np.int8(1), 2.5]], dtype=object),
        pd.DataFrame({"b": pd.Categorical([0, 1]), "a": [Decimal("-1.5"), Decimal("2.5")]}),
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
    with pytest.raises(MissingValueError, match=r"Column '(x1|a)' is missing .NaN. in row 0\. Pass missing='marginalize'"):
        read_rows(CIRCUIT, X)


def test_columns_are_named_as_the_user_names_them():
    assert read_matrix(pd.DataFrame([[1, 2]], columns=["age", "sex"]))[1] == ["Column 'age'", "Column 'sex'"]
    assert read_matrix(np.zeros((1, 2)))[1] == ["Column 'x0'", "Column 'x1'"]


# ---- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        # Wrong shape.
        ([0.0, 1.0], ShapeError, r"shape is \(2,\); for one row write X\[None\]"),
        (np.float64(3.0), ShapeError, "two dimensions"),
        (np.zeros((2, 2, 2)), ShapeError, r"shape is \(2, 2, 2\)"),
        (torch.zeros(2), ShapeError, r"X\[None\]"),
        (pd.Series([1.0, 2.0]), ShapeError, r"A Series is one column or row of a table; pass X\.to_frame\(\) for a column"),
        (pl.Series([1.0, 2.0]), ShapeError, r"A Series is one column or row of a table; pass X\.to_frame\(\) for a column"),
        ([[0.0, 1.0], [1.0]], ShapeError, "different lengths"),
        ([[0.0, 1.0], 1.0], ShapeError, "different lengths"),
        (np.zeros((2, 3)), ShapeError, "3 columns, but the circuit is over 2 variables"),
        (pd.DataFrame({"a": [1.0]}), ShapeError, "1 columns, but the circuit is over 2 variables"),
        # Nothing there.
        ([], ShapeError, "two dimensions"),
        ([[]], ShapeError, "no columns"),
        (np.zeros((0, 2)), ShapeError, "There are no rows: 0 sample"),
        (np.zeros((2, 0)), ShapeError, "no columns"),
        (torch.zeros(0, 2), ShapeError, "no rows"),
        (pd.DataFrame({"a": [], "b": []}), ShapeError, "no rows"),
        (pd.DataFrame(index=[0, 1]), ShapeError, "no columns"),
        (pl.DataFrame({"a": [], "b": []}), ShapeError, "no rows"),
        (pl.DataFrame(), ShapeError, "no columns"),
        # Not numbers.
        (None, ColumnTypeError, "Can't read a table from a NoneType; pass a NumPy array"),
        ("rows.csv", ColumnTypeError, r"Can't read a table from a str; .* Of a file: fp\.tables\.read_table\(path\)\.rows\."),
        ({"a": [1.0]}, ColumnTypeError, r"Can't read a table from a dict; .* Of a dict: pandas\.DataFrame\(X\)\."),
        (torch.float32, ColumnTypeError, "Can't read a table from a dtype"),
        (pl.LazyFrame({"a": [1.0]}), ColumnTypeError, r"A LazyFrame has no rows yet; pass X\.collect"),
        (sparse.csr_array(np.eye(2)), ColumnTypeError, r"write X\.toarray"),
        ([["x", "y"]], ColumnTypeError, "Column 'x0' holds 'x' in row 0, which is not a number; encode it as 0, 1, 2"),
        (np.array([["1", "2"]]), ColumnTypeError, "Column 'x0' holds '1' in row 0"),
        (np.array([[b"1", b"2"]]), ColumnTypeError, "Column 'x0' holds b'1', a bytes, in row 0"),
        (np.array([[0.0, 1.0], [1.0, "blue"]], dtype=object), ColumnTypeError, "Column 'x1' holds 1.0, a float, in row 0"),
        (np.array([[0.0, "2"]], dtype=object), ColumnTypeError, "Column 'x1' holds '2' in row 0"),
        (np.array([[0.0, [1]]], dtype=object), ColumnTypeError, r"Column 'x1' holds \[1\], a list, in row 0"),
        ([[0.0, 10**400]], ColumnTypeError, "Column 'x1' holds whole numbers such as 1000.*2\\*\\*53"),
        ([[0.0, 10**400], [0.0, 0.5]], ColumnTypeError, "Column 'x1' holds 1000.* in row 0, which no float64 can hold"),
        (np.array([[0, 2**53], [0, 2**53 + 1]]), ColumnTypeError, "Column 'x1' holds whole numbers such as 9007199254740993"),
        (np.array([[1j, 0]]), ColumnTypeError, "Complex"),
        (np.array([["2020-01-01"]], dtype="datetime64[D]"), ColumnTypeError, "datetime64"),
        (np.array([[(1, 2.0)]], dtype=[("a", int), ("b", float)]), ColumnTypeError, "give numbers or text"),
        (torch.zeros(1, 2, dtype=torch.complex64), ColumnTypeError, "Complex"),
        (torch.zeros(1, 2, device="meta"), DataError, "Can't read a table from a meta tensor of torch.float32"),
        (pd.DataFrame({"b": [1], "colour": ["red"]}), ColumnTypeError, "Column 'colour' holds 'red' in row 0.*encode it"),
        (pd.DataFrame({"b": [1], "colour": pd.Categorical(["red"])}), ColumnTypeError, "Column 'colour' holds 'red' in row 0"),
        (pd.DataFrame({"b": [1], "when": pd.to_datetime(["2020-01-01"])}), ColumnTypeError, "Column 'when' holds dates or times"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), DataError, "same name"),
        (pl.DataFrame({"b": [1], "colour": ["red"]}), ColumnTypeError, "Column 'colour' holds 'red' in row 0"),
        # Infinities.
        ([[0.0, np.inf]], DataError, "Column 'x1' is inf in row 0; replace infinities"),
        (np.array([[0.0, 1.0], [-np.inf, 1.0]]), DataError, "Column 'x0' is -inf in row 1"),
        (pd.DataFrame({"b": [1], "a": [np.inf]}), DataError, "Column 'a' is inf in row 0"),
        (torch.tensor([[0.0, torch.inf]]), DataError, "Column 'x1' is inf in row 0"),
        # Outside the support.
        ([[1.0, 0.0], [2.0, 0.0]], SupportError, "Column 'x0' has the value 2 in row 1.*Bernoulli.*0 and 1"),
        (np.array([[0.5, 0.0]]), SupportError, "Column 'x0' has the value 0.5 in row 0"),
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
    with pytest.raises(SupportError, match="Column 'x0' has the value 3 in row 1"):
        read_rows(CIRCUIT, [[np.nan, np.nan], [3.0, np.nan]], missing="marginalize")


@pytest.mark.parametrize("missing", ["ignore", None, True])
def test_unknown_treatment_of_missing_values(missing):
    with pytest.raises(OptionError, match="choose 'raise' or 'marginalize'"):
        read_rows(CIRCUIT, TABLE, missing)


def test_reading_does_not_change_what_is_given():
    X = np.ma.array([[1.0, 5.0]], mask=[[False, True]])
    read_rows(CIRCUIT, X, missing="marginalize")
    assert X.data.tolist() == [[1.0, 5.0]]


def test_a_plain_array_is_not_copied():
    X = np.array(TABLE)
    assert read_matrix(X)[0] is X


MISTAKES = {
    "one dimension": np.zeros(3),
    "no rows": np.zeros((0, 2)),
    "no columns": np.zeros((2, 0)),
    "lists of different lengths": [[1.0], [1.0, 2.0]],
    "complex": np.ones((2, 2)) * 1j,
    "lists in cells": np.array([[0.5, [1]], [0.5, [2]]], dtype=object),
    "numbers beside text": [["a", 0.5], [1.0, 0.5]],
    "sparse": sparse.csr_array(np.eye(2)),
    "no table": 7,
    "infinite": [[0.5, 1.5], [0.5, -np.inf]],
    "infinite in a frame": pl.DataFrame({"a": [0.5, np.inf], "b": [0.5, 1.5]}),
    "beyond 2**53": np.array([[2**53, 0], [2**53 + 1, 1]]),
    "beyond float64": [[0.5, 10**400], [0.5, 1.5]],
    "two columns of one name": pd.DataFrame([[0.5, 1.5]], columns=["a", "a"]),
    "nothing in it": torch.zeros(2, 2, device="meta"),
}


@pytest.mark.parametrize("X", MISTAKES.values(), ids=MISTAKES)
def test_the_same_mistake_has_the_same_message_everywhere(X):
    circuit = fp.structures.factorized(np.zeros((2, 2)), family="gaussian")
    asks = [
        lambda: circuit.log_prob(X),
        lambda: fp.fit(circuit, X, progress=False),
        lambda: fp.curvature.trace(circuit, X),
        lambda: fp.structures.factorized(X, family="gaussian"),
        lambda: fp.datasets.GaussianMixture.draw(n_variables=2, n_components=2).log_prob(X),
        lambda: fp.tables.kinds(X),
        lambda: fp.CircuitDensity(verbose=False).fit(X),
    ]
    said = set()
    for ask in asks:
        with pytest.raises(DataError) as caught:
            ask()
        said.add((type(caught.value), str(caught.value)))
    assert len(said) == 1, said


@pytest.mark.parametrize("value", [2.0, -1.0, 255.0, 256.0, 0.5, np.nan])
def test_one_wrong_value_among_many_small_ones_is_found(value):
    """Many rows of small whole numbers are checked at once; the first wrong value is named as in a small table."""
    many = np.tile([[0.0, 3.0], [1.0, 7.0]], (2000, 1))
    assert read_rows(CIRCUIT, many) is not None
    many[3001, 0] = value
    with pytest.raises(MissingValueError if np.isnan(value) else SupportError, match="3001"):
        read_rows(CIRCUIT, many)
    many[3001] = 1.0, 255.0  # the largest that is looked at so; the Bernoulli's neighbour may have it
    np.testing.assert_array_equal(read_rows(CIRCUIT, many), many)
    many[3001] = 1.0, 0.25
    np.testing.assert_array_equal(read_rows(CIRCUIT, many), many)
