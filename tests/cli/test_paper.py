"""`flatpc reproduce` and `flatpc report`, with runs that take no time in place of the real ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flatpc.paper.tables import TABLES
from tests.cli.running import Answer, run

METRICS = {
    "train_nll": 1.0, "valid_nll": 1.2, "test_nll": 1.3, "sharpness_weights": 5.0, "sharpness_logits": 2.0,
    "sharpness_logit-gradient": 1.0, "best_train_nll": 1.1, "best_valid_nll": 1.15, "best_test_nll": 1.2,
    "best_sharpness_weights": 4.0, "best_epoch": 7.0,
}  # fmt: skip
Ran = list[str]


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Ran:
    """The cells of table 1 that have been run."""
    cells: Ran = []
    pretend(monkeypatch, lambda cell: cells.append(cell.label))
    return cells


def pretend(monkeypatch: pytest.MonkeyPatch, before: Callable[[Any], object]) -> None:
    def one(cell: Any, _: Any) -> dict[str, float]:
        before(cell)
        return {**METRICS, "test_nll": METRICS["test_nll"] - 0.1 * (cell.method != "plain")}

    monkeypatch.setitem(TABLES, "table1", replace(TABLES["table1"], run=one))


def test_a_table_and_its_report(tmp_path: Path, ran: Ran) -> None:
    folder = tmp_path / "results"
    answer = run("reproduce", "table1", "--quick", "--jobs", 1, "--datasets", "spiral", "--folder", folder)
    assert len(ran) == 2 * 2 * 5  # fractions, trials, methods
    assert (folder / "table1.csv").read_text().count("spiral") == 20
    assert (folder / "report.html").stat().st_size > 10_000
    assert "ran" in answer.out
    assert str(folder / "report.html") in answer.err


def test_nothing_is_run_twice(tmp_path: Path, ran: Ran) -> None:
    typed = ("reproduce", "table1", "--quick", "--jobs", 1, "--datasets", "spiral,helix", "--folder", tmp_path, "--json")
    assert run(*typed).json["ran"] == 40
    again = run(*typed, "--resume").json
    assert (again["ran"], again["left"], again["failed"]) == (0, 0, 0)
    assert again["report"] == str(tmp_path / "report.html")
    assert len(ran) == 40
    assert run(*typed, "--protocol", "code").json["ran"] == 40


def test_stopped_and_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells: Ran = []

    def interrupt(cell: Any) -> None:
        cells.append(cell.label)
        if len(cells) == 4:
            raise KeyboardInterrupt

    pretend(monkeypatch, interrupt)
    typed = ("reproduce", "table1", "--quick", "--jobs", 1, "--datasets", "spiral", "--folder", tmp_path)
    answer = Answer(*typed)
    assert answer.code == 130
    assert "the same command goes on from there" in answer.err
    assert "Traceback" not in answer.err
    assert run(*typed, "--json").json["ran"] == 20 - 3


def test_what_fails_is_told_and_can_be_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(cell: Any) -> None:
        if cell.method == "adaptive":
            raise ArithmeticError("no such luck")

    pretend(monkeypatch, fail)
    typed = ("reproduce", "table1", "--quick", "--jobs", 1, "--datasets", "spiral", "--folder", tmp_path)
    answer = Answer(*typed)
    assert answer.code == 1
    assert "4 runs ended with an error; run them again with --retry." in answer.err
    pretend(monkeypatch, lambda _: None)
    assert run(*typed, "--retry", "--json").json["ran"] == 4


def test_a_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def compute(name: str, folder: Path, **options: Any) -> dict[str, Any]:
        seen.update(options, name=name, folder=folder)
        return {"one": {}}

    monkeypatch.setattr("flatpc.paper.figures.compute", compute)
    found = run("reproduce", "figure-ablation", "--quick", "--budget", 60, "--folder", tmp_path, "--json").json
    assert found["pieces"] == 1
    assert (seen["name"], seen["folder"], seen["quick"], seen["budget"]) == ("figure-ablation", tmp_path, True, 60.0)


def test_experiments_are_listed() -> None:
    listed = run("reproduce", "list", "--json").json
    assert set(TABLES) < set(listed)
    assert "figure-trace" in listed
    lines = run("reproduce", "list").out.splitlines()
    assert [line.split("  ")[0] for line in lines] == list(listed)  # one line each, with room between name and title


def test_a_report_of_nothing_says_what_to_run(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    page = tmp_path / "page.html"
    assert run("report", tmp_path / "results", "-o", page, "--json").json == {"report": str(page)}
    assert "flatpc reproduce table1" in page.read_text()
    again = Answer("report", tmp_path / "results", "-o", page)
    assert again.code == 1
    assert "--force" in again.err
    run("report", tmp_path / "results", "-o", page, "--force")


def test_parts_of_a_table(tmp_path: Path, ran: Ran) -> None:
    typed = ("--fractions", "0.05,1", "--trials", "3", "--methods", "plain, adaptive", "--datasets", "spiral")
    assert run("reproduce", "table1", "--jobs", 1, *typed, "--folder", tmp_path, "--json").json["ran"] == 4
