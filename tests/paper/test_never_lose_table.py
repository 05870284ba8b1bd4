"""Who won a cell, and by how much a regulariser helps."""

import math

import pytest

from flatpc.paper.cells import Cell, Result
from flatpc.paper.never_lose_table import as_markdown, as_rows, beaten, best_alone, contribution, count, standings


def result(method: str, nll: float, trial: int = 0, dataset: str = "nltcs", fraction: float = 0.01, error: str = "") -> Result:
    cell = Cell("never-lose", dataset, fraction, trial, method, "text")
    return Result(cell, f"{method}{trial}{dataset}{fraction}", "1", 1.0, {"test_nll": nll}, error)


SIMPLE = [result("factorized", 9.0), result("chow_liu", 6.9)]


def test_the_target_is_the_best_of_simple_models_and_the_paper() -> None:
    (cell,) = standings(SIMPLE)
    assert cell.target == ("paper's regularised", 6.576)
    assert cell.won is None
    (cell,) = standings([*SIMPLE, result("chow_liu", 1.0, trial=1)])
    assert cell.target == ("chow_liu", pytest.approx(3.95))


@pytest.mark.parametrize(
    ("values", "won"), [([6.5], True), ([6.6], False), ([6.5, 6.7], True), ([6.69, 6.70], False), ([6.576], True)]
)
def test_within_a_standard_error_counts(values: list[float], won: bool) -> None:
    (cell,) = standings([*SIMPLE, *(result("default", nll, trial) for trial, nll in enumerate(values))])
    assert cell.won is won
    assert count([cell]) == (int(won), 1)


def test_no_verdict_without_the_simple_models() -> None:
    (cell,) = standings([SIMPLE[0], result("default", 1.0)])
    assert cell.won is None
    assert count([cell]) == (0, 0)


def test_failed_runs_do_not_count() -> None:
    (cell,) = standings([*SIMPLE, result("default", 1.0, error="oh")])
    assert "default" not in cell.ours


def test_contribution_is_a_mean_over_data_sets() -> None:
    cells = standings([
        result("plain", 10.0), result("sharpness", 9.0), result("plain", 20.0, dataset="dna"),
        result("sharpness", 22.0, dataset="dna"), result("plain", 5.0, dataset="kdd"),
        result("plain", 4.0, fraction=0.05), result("sharpness", 3.0, fraction=0.05),
    ])  # fmt: skip
    gains = contribution(cells, "sharpness")
    assert gains[0.01].value == pytest.approx(0.0)
    assert gains[0.01].n == 2
    assert gains[0.05].value == pytest.approx(25.0)
    assert math.isnan(gains[0.05].error)
    # A trial that only one of them has doesn't count.
    more = standings(
        [result("plain", 10.0), result("sharpness", 9.0), result("plain", 100.0, trial=1), result("sharpness", 1.0, 2)]
    )
    assert contribution(more, "sharpness")[0.01].value == pytest.approx(10.0)


def test_the_best_alone_is_the_best_but_for_the_default() -> None:
    cells = standings(
        [*SIMPLE, result("plain", 6.0), result("sharpness", 5.0), result("default", 4.0), result("plain", 1.0, dataset="dna")]
    )
    counted = best_alone(cells)
    assert (counted.pop("sharpness"), counted.pop("plain")) == (1, 1)
    assert not any(counted.values())
    assert "default" not in counted
    assert not any(best_alone(standings([result("plain", 1.0), result("sharpness", 2.0, trial=1)])).values())
    both = [result("plain", 2.0), result("sharpness", 1.0), result("plain", -9.0, trial=1)]
    assert best_alone(standings(both))["sharpness"] == 1  # in the trial that both have
    text = as_markdown(cells)
    assert "`plain` in 1:" in text
    more = as_markdown([*cells, *standings([result("plain", 6.0, dataset="kdd"), result("default", 4.5, dataset="kdd")])])
    assert "| sharpness | 16.67 (1 data sets) | 1 |" in more
    assert "| sharpness | 16.67 | 1 |" in text  # 100 (6 - 5) / 6
    assert "| default | 33.33 | – |" in text


def test_contenders_that_beat_the_default_are_named() -> None:
    """In the trials that both have: plain's other one would be better still."""
    results = [*SIMPLE, result("default", 5.0), result("plain", 4.9), result("asam", 4.0), result("plain", 1.0, trial=1)]
    cells = standings([*results, result("plain", 3.0, dataset="dna"), result("default", 2.0, dataset="dna")])
    ((cell, name, percent),) = beaten(cells)
    assert (cell.dataset, name, percent) == ("nltcs", "asam", pytest.approx(20.0))
    text = as_markdown(cells)
    assert "does better than the default, 1:" in text
    assert "| nltcs | 1 | asam | 20.00 |" in text
    assert "does better than the default" not in as_markdown(standings([*SIMPLE, result("default", 5.0)]))


def test_rows_say_who_won() -> None:
    head, rows = as_rows(standings([*SIMPLE, result("default", 7.0)]))
    assert len(head) == len(rows[0])
    assert rows[0][:8] == ["nltcs", "1", "no: paper's regularised", "7.000", "6.588", "6.576", "9.000", "6.900"]
    assert set(rows[0][8:]) == {"–"}


def test_the_summary_counts_and_names_lost_cells() -> None:
    dna = [result("factorized", 99.0, dataset="dna", fraction=1.0), result("chow_liu", 98.0, dataset="dna", fraction=1.0)]
    text = as_markdown(standings([*SIMPLE, result("default", 7.0), *dna, result("default", 79.0, dataset="dna", fraction=1.0)]))
    assert "wins 1 of 2 cells" in text
    assert "| nltcs | 1 | paper's regularised | −6.45 |" in text  # 100 (6.576 - 7) / 6.576
    assert "| dna | 100 | paper's plain |" not in text
    assert "mean test log-likelihood over 1 data sets is −79.00." in text
    assert "None of these is lost." not in text
    assert "On 0 of the 2 cells a factorised model or a Chow-Liu tree" in text
    simple = as_markdown(standings([result("factorized", 9.0), result("chow_liu", 6.5), result("default", 7.0)]))
    assert "On 1 of the 1 cells a factorised model or a Chow-Liu tree" in simple  # the paper has 6.576 and 6.588
    text = as_markdown(standings([*SIMPLE, result("default", 6.0)]))
    assert "None of these is lost." in text
    assert "| nltcs | 1 | paper's regularised | 8.76 |" in text  # 100 (6.576 - 6) / 6.576


def test_the_report_has_the_cells(tmp_path) -> None:
    from flatpc.paper.report import report
    from flatpc.paper.results import Results

    results = Results(tmp_path, "never-lose")
    for each in [*SIMPLE, result("default", 6.5), result("asam", 6.4)]:
        results.add(each)
    page = report(tmp_path, tmp_path / "report.html").read_text()
    assert "Won: 1 of 1 cells" in page
    assert "Never lose" in page
    assert "does better than the default" in page
