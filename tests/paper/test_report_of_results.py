"""The report of the committed results, and what `flatpc reproduce --quick` writes in a checkout, where these lie."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from flatpc.paper.results import read_table
from flatpc.paper.tables import TABLES
from tests.cli.running import run

RESULTS = Path(__file__).parents[2] / "results"


def test_the_report_of_the_committed_results(tmp_path):
    page = tmp_path / "report.html"
    run("report", RESULTS, "-o", page)
    text = page.read_text()
    assert len(re.findall('role="tab"', text)) >= 9
    for table in ("Table 1", "Table 2"):
        assert re.findall(rf"^## {table}, ", page.with_suffix(".md").read_text(), re.M)
    assert page.with_suffix(".tex").stat().st_size > 10_000


@pytest.mark.parametrize("table", ["table1", "table2", "never-lose"])
def test_a_quick_run_beside_the_committed_results(tmp_path, monkeypatch, table):
    assert quick(table, shutil.copytree(RESULTS, tmp_path / "results"), monkeypatch).stat().st_size > 1_000_000


@pytest.mark.parametrize("table", TABLES)
def test_a_quick_run_in_an_empty_folder(tmp_path, monkeypatch, table):
    assert quick(table, tmp_path / "results", monkeypatch).stat().st_size > 10_000
    assert read_table(tmp_path / "results" / f"{table}.csv", table)


def quick(table, folder, monkeypatch):
    """The report. What is not there is pretended, with the numbers of some committed run: the report is what is tried here."""
    numbers = read_table(RESULTS / f"{table}.csv", table)[0].metrics
    if table in ("table1", "table2", "never-lose"):
        numbers = next(row.metrics for row in read_table(RESULTS / f"{table}.csv", table) if row.cell.method == "plain")
    monkeypatch.setitem(TABLES, table, replace(TABLES[table], run=lambda cell, settings: numbers, missing=None))
    found = run("reproduce", table, "--quick", "--jobs", 1, "--folder", folder, "--json").json
    assert found["failed"] == found["left"] == 0
    return Path(found["report"])
