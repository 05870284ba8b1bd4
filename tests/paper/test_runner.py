"""Sweeps: killed and started again they lose nothing and repeat nothing, and a failing run is a result."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from flatpc.errors import DataError, OptionError
from flatpc.paper import cells, protocols
from flatpc.paper.cells import Cell, Result
from flatpc.paper.results import Results, read_table, versions
from flatpc.paper.runner import Forecast, sweep
from flatpc.paper.tables import FRACTIONS, TABLES, table

SETTINGS = {"text": protocols.Hclt(), "code": protocols.Hclt("code")}
CELLS = [Cell("toy", f"set{d}", 0.1, trial, "plain", "text") for trial in range(3) for d in range(8)]


def toy(cell: Cell, settings: protocols.Hclt) -> dict[str, float]:
    """A run that notes that it ended, so that repeated ones can be counted."""
    if cell.dataset == "set5":
        raise RuntimeError("set5 is broken")
    time.sleep(0.05)
    if "TOY_LOG" in os.environ:
        with open(os.environ["TOY_LOG"], "a") as file:
            file.write(f"{cell.label}\n")
    return {"test_nll": float(cell.trial), "latents": float(settings.n_latents), "nothing": float("nan")}


def one(cell: Cell, settings: protocols.Hclt) -> dict[str, float]:
    return {"test_nll": 1 / 3}


class TestSweep:
    def test_runs_every_cell_once_and_records_failures(self, tmp_path: Path) -> None:
        outcome = sweep(CELLS, toy, SETTINGS, tmp_path, n_jobs=1)
        assert (outcome.ran, outcome.failed, outcome.left) == (24, 3, 0)
        results = Results(tmp_path, "toy")
        assert {r.cell for r in results.all().values()} == set(CELLS)
        assert {r.error for r in results.failed()} == {"RuntimeError: set5 is broken"}
        again = sweep(CELLS, toy, SETTINGS, tmp_path, n_jobs=1)
        assert again.ran == 0
        assert again.core_hours == pytest.approx(outcome.core_hours, rel=1e-12)
        assert sweep(CELLS, toy, SETTINGS, tmp_path, n_jobs=1, retry=True).ran == 3

    def test_the_table_alone_counts_as_done(self, tmp_path: Path) -> None:
        sweep(CELLS[:4], one, SETTINGS, tmp_path, n_jobs=1)
        for path in Results(tmp_path, "toy").runs.iterdir():
            path.unlink()
        assert sweep(CELLS[:4], one, SETTINGS, tmp_path, n_jobs=1).ran == 0

    def test_what_numbers_depend_on_makes_other_runs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        cell, real = CELLS[0], Cell("toy", "nltcs", 0.1, 0, "plain", "text")
        keys = [cell.key(protocols.Hclt()), cell.key(protocols.Hclt(epochs=99)), CELLS[1].key(protocols.Hclt())]
        keys.append(real.key(protocols.Hclt()))
        monkeypatch.setattr(cells, "_digests", lambda dataset: {"train": "other rows"})
        keys.append(real.key(protocols.Hclt()))
        monkeypatch.setitem(cells.REVISIONS, ("toy", ""), 2)
        keys.append(real.key(protocols.Hclt()))
        monkeypatch.setitem(cells.REVISIONS, ("toy", "plain"), 3)
        keys.append(real.key(protocols.Hclt()))
        assert len(set(keys)) == len(keys) == 7

    def test_a_release_makes_no_other_runs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        before = CELLS[0].key(protocols.Hclt())
        monkeypatch.setattr("flatpc.__version__", "99.0.0")
        assert CELLS[0].key(protocols.Hclt()) == before

    def test_no_key_holds_digits_that_processors_differ_in(self) -> None:
        """Every number of every protocol is one that people would write."""

        def numbers(value: object) -> Iterator[float]:
            if isinstance(value, dict | list | tuple):
                for each in value.values() if isinstance(value, dict) else value:
                    yield from numbers(each)
            elif isinstance(value, float):
                yield value

        for declared in TABLES.values():
            for settings in declared.settings.values():
                assert all(float(f"{value:.7g}") == value for value in numbers(asdict(settings)))

    def test_budget_begins_no_more_cells(self, tmp_path: Path) -> None:
        outcome = sweep(CELLS, toy, SETTINGS, tmp_path, n_jobs=1, budget=0.12)
        assert 0 < outcome.ran < 8
        assert outcome.left == 24 - outcome.ran
        assert sweep(CELLS, toy, SETTINGS, tmp_path, n_jobs=1).ran == outcome.left

    def test_a_run_counts_for_its_twin(self, tmp_path: Path) -> None:
        settings = {"text": protocols.HCLT["text"], "ours": protocols.HCLT["ours"]}
        twin = TABLES["table2"].twin
        ours = [Cell("toy", "set0", 0.1, 0, method, "ours") for method in ("chow-liu", "mu=0.1")]
        text = [replace(cell, protocol="text") for cell in ours]
        assert sweep(ours, toy, settings, tmp_path, n_jobs=1, twin=twin).ran == 2
        assert sweep(text, toy, settings, tmp_path, n_jobs=1, twin=twin).ran == 1
        found = {(r.cell.method, r.cell.protocol): r for r in Results(tmp_path, "toy").all().values()}
        assert len(found) == 4
        assert found["chow-liu", "text"].metrics["test_nll"] == found["chow-liu", "ours"].metrics["test_nll"]
        assert found["chow-liu", "text"].seconds == 0 < found["mu=0.1", "text"].seconds

    def test_nothing_to_do(self, tmp_path: Path) -> None:
        assert sweep([], toy, SETTINGS, tmp_path).ran == 0

    def test_watch_sees_every_result(self, tmp_path: Path) -> None:
        seen: list[tuple[Result, int, float]] = []
        sweep(CELLS[:4], toy, SETTINGS, tmp_path, n_jobs=1, watch=lambda *args: seen.append(args))
        assert [left for _, left, _ in seen] == [3, 2, 1, 0]
        assert seen[-1][2] == 0.0
        assert seen[0][2] > 0.0

    def test_kill_and_resume_in_two_processes(self, tmp_path: Path) -> None:
        """Killed in mid-sweep, then resumed: the results of an uninterrupted sweep, and no finished run repeated."""
        log = tmp_path / "log"
        script = (
            "from tests.paper.test_runner import CELLS, SETTINGS, toy\n"
            "from flatpc.paper.runner import sweep\n"
            f"sweep(CELLS, toy, SETTINGS, {str(tmp_path)!r}, n_jobs=2)\n"
        )
        environment = {**os.environ, "TOY_LOG": str(log), "PYTHONPATH": str(Path(__file__).parents[2])}
        child = subprocess.Popen([sys.executable, "-c", script], env=environment, start_new_session=True)
        runs = Results(tmp_path, "toy").runs
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and (not runs.is_dir() or len(list(runs.glob("*.json"))) < 6):
            time.sleep(0.02)
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        kept = {r.cell.label for r in Results(tmp_path, "toy").all().values()}
        assert 6 <= len(kept) < 24
        log.write_text("")
        subprocess.run([sys.executable, "-c", script], env=environment, check=True, timeout=120)
        results = Results(tmp_path, "toy").all().values()
        assert sorted(r.cell.label for r in results) == sorted(cell.label for cell in CELLS)
        second = log.read_text().split("\n")[:-1]
        assert len(second) == len(set(second))
        assert not set(second) & kept


class TestResults:
    def test_table_holds_what_the_files_hold(self, tmp_path: Path) -> None:
        sweep(CELLS, toy, SETTINGS, tmp_path, n_jobs=1)
        results = Results(tmp_path, "toy")
        read = {r.key: r for r in read_table(results.table, "toy")}
        good = {key: r for key, r in results.all().items() if not r.error}
        assert read.keys() == good.keys()
        for key, result in read.items():
            assert result.cell == good[key].cell
            assert result.metrics == {name: v for name, v in good[key].metrics.items() if v == v}

    def test_versions_are_counted(self) -> None:
        cell = Cell("table1", "spiral", 0.05, 0, "plain", "text")
        runs = [Result(cell, "k", version, 1.0, {}) for version in ("0.2.0", "0.1.0", "0.2.0")]
        assert versions(runs) == "0.1.0 (1 run) and 0.2.0 (2 runs)"
        assert versions([*runs[:1], Result(cell, "k", "0.3.0", 1.0, {}, "broke")]) == "0.2.0"
        assert versions([]) == ""

    def test_numbers_keep_seven_digits(self, tmp_path: Path) -> None:
        sweep(CELLS[:1], one, SETTINGS, tmp_path, n_jobs=1)
        (read,) = read_table(Results(tmp_path, "toy").table, "toy")
        assert read.metrics["test_nll"] == 0.3333333

    def test_damaged_files_are_named(self, tmp_path: Path) -> None:
        results = Results(tmp_path, "toy")
        results.runs.mkdir(parents=True)
        (results.runs / "x.json").write_text(json.dumps({"cell": {}}))
        with pytest.raises(DataError, match=r"x\.json is not a result"):
            results.all()
        (results.runs / "x.json").unlink()
        results.table.write_text("dataset,fraction\na,b\n")
        with pytest.raises(DataError, match=r"toy\.csv is not a table"):
            results.all()


def test_forecast_knows_similar_cells() -> None:
    slow, fast = CELLS[0], CELLS[1]
    forecast = Forecast(
        [Result(slow, "a", "1", 10.0, {}), Result(fast, "b", "1", 2.0, {}), Result(fast, "c", "1", 99.0, {}, "bad")]
    )
    assert forecast.seconds([slow, fast, CELLS[2]]) == 10.0 + 2.0 + 6.0
    assert Forecast([]).seconds([slow]) == 0.0


class TestTables:
    @pytest.mark.parametrize(
        ("name", "n"),
        [
            ("table1", 8 * 5 * 5 * 11),
            ("table2", 20 * 5 * 5 * 12),
            ("never-lose", 20 * 5 * 5 * 14),
            ("full-data", 20),
            ("without-validation", 20 * 3),
        ],
    )
    def test_the_whole_grid(self, name: str, n: int) -> None:
        cells = table(name).cells()
        assert len(cells) == len(set(cells)) == n
        for protocol, choices in table(name).choices.items():
            assert set(choices) <= {cell.method for cell in table(name).cells(protocol)}
        fractions = {"full-data": {1.0}, "without-validation": {0.01, 0.05, 0.1}}.get(name, set(FRACTIONS))
        assert {cell.fraction for cell in cells} == fractions

    @pytest.mark.parametrize("name", TABLES)
    def test_quick_is_part_of_the_grid(self, name: str) -> None:
        declared = table(name)
        quick = declared.cells(**declared.quick)
        assert set(quick) < set(declared.cells())
        methods = {cell.method for cell in quick}
        least = {
            "full-data": {"default"},
            "without-validation": {"default", "chow_liu"},
            "tables": {"default", "mixture", "kde"},
            "judges": {"cv", "valid"},
            "uses": {"default", "boosting"},
            "more-rows": {"rows=3200"},
        }
        assert methods >= least.get(name, {"plain"})

    @pytest.mark.parametrize(
        "wrong", [{"datasets": ["nope"]}, {"fractions": [0.2]}, {"trials": [7]}, {"methods": ["mu=3"]}, {"protocol": "mine"}]
    )
    def test_unknown_parts_are_named(self, wrong: dict[str, object]) -> None:
        with pytest.raises(OptionError, match="choose"):
            table("table1").cells(**wrong)  # type: ignore[arg-type]

    def test_unknown_table(self) -> None:
        with pytest.raises(OptionError, match="table1"):
            table("table9")


@pytest.mark.data
@pytest.mark.skipif("FLATPC_DATA" not in os.environ, reason="needs the binary data sets: set FLATPC_DATA to their folder")
@pytest.mark.parametrize(("name", "dataset"), [("table1", "spiral"), ("table2", "nltcs")])
def test_twins_are_alike(name: str, dataset: str) -> None:
    declared = table(name)
    for method in declared.same:
        cell = Cell(name, dataset, 0.01, 0, method, "text")
        twin = declared.twin(cell)
        assert twin is not None
        assert declared.run(cell, declared.settings["text"]) == declared.run(twin, declared.settings["ours"])
    assert declared.twin(Cell(name, dataset, 0.01, 0, "mu=0.1", "text")) is None
    assert declared.twin(Cell(name, dataset, 0.01, 0, declared.same[0], "code")) is None
