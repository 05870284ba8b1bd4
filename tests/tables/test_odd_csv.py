"""csv files divided or ended in odd ways, wide ones, and texts that are not safe to print or to open."""

import time

import polars as pl
import pytest

import flatpc as fp
from flatpc._printable import printable, without_formulas
from flatpc.errors import DataError, OptionError, ShapeError
from flatpc.tables import kinds, read_table


@pytest.mark.parametrize("text", ["a\tb\n1\t2\n3\t4\n", "a|b\n1|2\n3|4\n", "a,b\r1,2\r3,4\r", '"a"\tb\n1\t2\n3\t4\n'])
def test_tabs_bars_and_carriage_returns(tmp_path, text):
    file = tmp_path / "t.csv"
    file.write_bytes(text.encode())
    assert read_table(file).train.to_dict(as_series=False) == {"a": [1, 3], "b": [2, 4]}


def test_many_columns_are_read_in_time(tmp_path):
    """A search through all names for each name took a minute."""
    file, n = tmp_path / "wide.csv", 30_000
    file.write_text(",".join(f"c{j}" for j in range(n)) + "\n" + ",".join(["0"] * n) + "\n")
    began = time.process_time()
    assert read_table(file).train.shape == (1, n)
    assert time.process_time() - began < 10


def test_control_characters_are_spelt_out():
    assert printable("a\x1b[31m\x9b\tb\n") == "a\\x1b[31m\\x9b\tb\n"


def test_formulas_get_an_apostrophe_and_numbers_do_not():
    frame = pl.DataFrame({"=a": ["@SUM(1)", "-1.5", None, "x"], "b": [1, 2, 3, -4]})
    safe, changed = without_formulas(frame)
    assert safe.to_dict(as_series=False) == {"'=a": ["'@SUM(1)", "-1.5", None, "x"], "b": [1, 2, 3, -4]}
    assert changed == ["=a"]


def test_identifiers_and_thousands_are_named():
    with pytest.raises(DataError, match="beyond 2\\*\\*53 a float can't tell one from the next"):
        kinds(pl.DataFrame({"id": [2**53, 2**53 + 1] * 8}))
    assert kinds(pl.DataFrame({"id": [2**53, 2**53 + 2] * 8})) == {"id": "binary"}
    with pytest.raises(DataError, match="commas between thousands, such as '1,000'"):
        kinds(pl.DataFrame({"p": [f"1,{i:03d}" for i in range(30)]}))


def test_wrong_columns_are_an_error_of_our_own():
    density = fp.CircuitDensity(structure="factorized", verbose=False).fit(
        pl.DataFrame({"a": [1.5, 2.5, 0.5], "b": [3.5, 1.5, 2.5]})
    )
    with pytest.raises(ShapeError, match="feature names should match"):
        density.score(pl.DataFrame({"a": [1.5], "c": [2.5]}))


def test_given_twice_is_refused():
    from flatpc.cli.fitting import read_kinds
    from flatpc.cli.models import read_given
    from flatpc.tables.columns import Columns

    columns = Columns.learn(pl.DataFrame({"age": [40.5, 50.5]}))
    with pytest.raises(OptionError, match="--given age stands there twice"):
        read_given(["age=40", "age=50"], columns)
    with pytest.raises(OptionError, match="--kind age stands there twice"):
        read_kinds(["age=count", "age=continuous"])
