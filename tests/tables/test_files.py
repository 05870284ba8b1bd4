"""Files of a user's own: what is in them comes back, and what can't be read is said."""

import gzip

import numpy as np
import polars as pl
import pytest

from flatpc.errors import DataError, ShapeError
from flatpc.tables import read_table, scan

CSV = "age,smoker,city\n31,yes,Ulm\n47.5,no,\nNA,no,Bonn\n"


def test_csv_and_its_relatives(tmp_path):
    for name, text in [("a.csv", CSV), ("a.tsv", CSV.replace(",", "\t"))]:
        (tmp_path / name).write_text(text)
        with gzip.open(tmp_path / f"{name}.gz", "wt") as file:
            file.write(text)
        for path in (tmp_path / name, str(tmp_path / f"{name}.gz")):
            table = read_table(path)
            assert table.name == "a"
            assert table.rows.to_dict(as_series=False) == {
                "age": [31.0, 47.5, None], "smoker": ["yes", "no", "no"], "city": ["Ulm", None, "Bonn"],
            }  # fmt: skip
            assert table.valid is None


def test_a_first_line_of_numbers_is_a_row(tmp_path):
    (tmp_path / "bits.csv").write_text("0,1,1\n1,0,1\n")
    table = read_table(tmp_path / "bits.csv")
    assert table.train.columns == ["x0", "x1", "x2"]
    np.testing.assert_array_equal(table.train.to_numpy(), [[0, 1, 1], [1, 0, 1]])


def test_a_header_that_numbers_the_columns_is_no_row(tmp_path):
    """As `pandas.DataFrame(X).to_csv(file, index=False)` writes it; up to three numbers may be a row as well."""
    (tmp_path / "a.csv").write_text("0,1,2,3\n1,0,1,1\n")
    table = read_table(tmp_path / "a.csv").train
    assert table.rows() == [(1, 0, 1, 1)]
    assert table.columns == ["0", "1", "2", "3"]
    (tmp_path / "b.csv").write_text("0,1,2\n1,0,1\n")
    assert len(read_table(tmp_path / "b.csv").train) == 2


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("text", [
    "name, age, height\nAnn Lee , 31, 1.5\n Bo , ?, 2\n", "name;age;height\nAnn Lee;31;1,5\nBo;NA;2\n",
    'name,"age",height\n"Ann Lee",31,1.5\nBo,,2.0\n',
])  # fmt: skip
def test_blanks_semicolons_and_decimal_commas(tmp_path, text, mark):
    (tmp_path / "a.csv").write_bytes(mark + text.encode())
    table = read_table(tmp_path / "a.csv").train
    assert table.to_dict(as_series=False) == {"name": ["Ann Lee", "Bo"], "age": [31, None], "height": [1.5, 2.0]}
    assert table.dtypes == [pl.String, pl.Int64, pl.Float64]


def test_a_mark_at_the_beginning_makes_no_header(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbf1,2\n3,4\n")
    assert read_table(tmp_path / "a.csv").train.rows() == [(1, 2), (3, 4)]


def test_a_folder_is_no_table(tmp_path):
    with pytest.raises(DataError, match="is a folder; give a file in it"):
        read_table(tmp_path)


def test_a_late_fraction_makes_a_column_of_floats(tmp_path):
    (tmp_path / "a.csv").write_text("a\n" + "1\n" * 5000 + "0.5\n")
    assert read_table(tmp_path / "a.csv").train["a"][-1] == 0.5


def test_parquet(tmp_path):
    frame = pl.DataFrame({"a": [1, None], "b": ["x", "y"]})
    frame.write_parquet(tmp_path / "a.parquet")
    assert read_table(tmp_path / "a.parquet").train.equals(frame)


def test_npz(tmp_path):
    rows = np.arange(6.0).reshape(3, 2)
    np.savez(tmp_path / "a.npz", X=rows)
    np.testing.assert_array_equal(read_table(tmp_path / "a.npz").train, rows)
    np.savez(tmp_path / "b.npz", train=rows, test=-rows)
    table = read_table(tmp_path / "b.npz")
    np.testing.assert_array_equal(table.test, -rows)
    assert table.valid is None
    bits = np.random.default_rng(0).integers(0, 2, (5, 11), dtype=np.uint8)
    np.savez(tmp_path / "c.npz", train=np.packbits(bits, axis=1), num_vars=11)
    np.testing.assert_array_equal(read_table(tmp_path / "c.npz").train, bits)


@pytest.mark.parametrize(("name", "content", "kind", "match"), [
    ("a.xlsx", b"", DataError, "save it as one of these"),
    ("a.csv", None, DataError, "There is no file"),
    ("a.csv", b"", DataError, "can't be read as a table"),
    ("a.csv", b"a,b\n", ShapeError, "0 rows"),
    ("a.csv", b"a,b\n1,2,3\n", DataError, "line 2 has 3 values, and the first line 2"),
    ("a.csv", b"a,b,a\n1,2,3\n", DataError, "two columns are called 'a'"),
    ("a.csv", b"\xff\xfe\x00\x01", DataError, "not UTF-8 text; save it again"),
    ("a.csv", "a\nGröße\n".encode("latin-1"), DataError, "not UTF-8 text; save it again"),
    ("a.csv", b"a\n" + b"x\n" * 9999 + b"\xf6\n", DataError, "not UTF-8 text; save it again"),
    ("a.csv.gz", b"a,b\n1,2\n", DataError, "can't be read as a table"),
    ("a.parquet", b"not parquet", DataError, "can't be read as parquet"),
    ("a.npz", b"not an archive", DataError, "npz archive of numbers"),
])  # fmt: skip
def test_files_that_are_no_tables(tmp_path, name, content, kind, match):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(kind, match=match) as error:
        read_table(tmp_path / name)
    assert name in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("arrays", "match"), [
    ({"a": np.zeros((2, 2)), "b": np.zeros((2, 2))}, "call the table X"),
    ({"X": np.zeros(3)}, "two dimensions"),
    ({"X": np.zeros((0, 3))}, "two dimensions"),
    ({"X": np.array([{"a": 1}])}, "npz archive of numbers"),
    ({"train": np.zeros((3, 1), np.uint8), "num_vars": 17}, "17 bits"),
])  # fmt: skip
def test_archives_that_are_no_tables(tmp_path, arrays, match):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=match):
        read_table(tmp_path / "a.npz")


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_blank_lines_are_no_rows(tmp_path, ending):
    lines = ["", "a,b", "1.5,2", "", "3.5,4", "", ""]
    (tmp_path / "a.csv").write_bytes(ending.join(lines).encode())
    expected = [(1.5, 2), (3.5, 4)]
    assert read_table(tmp_path / "a.csv").rows.rows() == expected
    assert [row for block in scan(tmp_path / "a.csv").blocks() for row in block.rows()] == expected


def test_a_blank_line_of_one_column_is_a_missing_value(tmp_path):
    (tmp_path / "a.csv").write_text("a\n1.5\n\n3.5\n")
    assert read_table(tmp_path / "a.csv").rows.rows() == [(1.5,), (None,), (3.5,)]


def test_rows_without_values_stay_where_blank_lines_are_quoted_alone(tmp_path):
    (tmp_path / "a.csv").write_text('a,b\n1,"x\n\ny"\n,\n')
    assert read_table(tmp_path / "a.csv").rows.rows() == [(1, "x\n\ny"), (None, None)]
