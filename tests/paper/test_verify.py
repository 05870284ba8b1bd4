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


def cheapest(name: str, method: str = "plain"):
    """The row of a method that took the least time."""
    rows = [row for row in read_table(RESULTS / f"{name}.csv", name) if row.cell.method == method and row.seconds > 0]
    return min(rows, key=lambda row: row.seconds)


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("table1", "plain"),
        pytest.param("table2", "plain", marks=needs_data),
        pytest.param("never-lose", "plain", marks=needs_data),
        pytest.param("without-validation", "chow_liu", marks=needs_data),
        pytest.param("tables", "independent", marks=needs_data),
    ],
)
def test_a_committed_cell_comes_out_again(name, method):
    check = compare(cheapest(name, method), TABLES[name])
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
    with pytest.raises(DataError, match="run again"):
        verify("never-lose", tmp_path)
