"""Verdicts on the research questions and figures, on data made up so that every number is known."""

import json
import math

import pytest

from flatpc.paper import figures
from flatpc.paper.comparison import Mean
from flatpc.paper.questions import answers, rank_correlation, slope
from flatpc.paper.verdicts import Verdict, all_of, decide


@pytest.mark.parametrize(
    ("mean", "above", "said"),
    [
        (Mean(2.1, 1.0, 5), 0.0, "confirmed"),
        (Mean(1.9, 1.0, 5), 0.0, "undecided"),
        (Mean(-1.9, 1.0, 5), 0.0, "undecided"),
        (Mean(-2.1, 1.0, 5), 0.0, "refuted"),
        (Mean(-0.3, 0.05, 5), -0.5, "confirmed"),
        (Mean(19.66, 17.96, 12), 0.0, "undecided"),
        (Mean(5.0, math.nan, 1), 0.0, "undecided"),
        (None, 0.0, "not run"),
    ],
)
def test_two_standard_errors(mean, above, said):
    assert decide(mean, above) == said


def test_parts_of_a_claim():
    yes, no, maybe, nothing = Verdict.CONFIRMED, Verdict.REFUTED, Verdict.UNDECIDED, Verdict.NOT_RUN
    assert all_of([yes, yes]) == yes
    assert all_of([yes, maybe]) == maybe
    assert all_of([maybe, no, nothing]) == no
    assert all_of([yes, nothing, maybe]) == nothing
    assert all_of([]) == nothing


def test_slope_and_rank_correlation():
    line = slope([0, 1, 2, 3], [1.0, 3.0, 5.0, 7.0])
    assert (line.value, line.error, line.n) == (pytest.approx(2.0), pytest.approx(0.0, abs=1e-12), 4)
    assert slope([0, 1], [0.0, 1.0]) is None
    assert rank_correlation([1, 2, 3], [3, 2, 1]) == -1.0


def write(folder, name, data):
    path = folder / "figures" / f"{name}.json"
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(json.dumps({"pieces": {key: {"configuration": {}, "data": value} for key, value in data.items()}}))


def said(folder):
    return {(answer.question.split(",")[0], answer.claim): answer for answer in answers(folder)}


def test_nothing_is_said_of_nothing(tmp_path):
    found = answers(tmp_path)
    assert {answer.verdict for answer in found} == {"not run"}
    assert {answer.question[:2] for answer in found} >= {"Q1", "Q2", "Q4"}


def curve(dataset, sharpness, valid):
    epochs = list(range(1, len(valid) + 1))
    return {
        "dataset": dataset, "fraction": 0.05, "method": "plain", "train": [-0.1 * epoch for epoch in epochs], "valid": valid,
        "sharpness": {"epoch": epochs, "weights": sharpness, "logits": sharpness}, "test": 1.0, "stopped": "epochs",
    }  # fmt: skip


def test_sharpness_that_falls_while_the_gap_grows_refutes_q1_in_part(tmp_path):
    rising, falling = [3.0, 2.0, 4.0, 6.0 + 0.1], [1.0, 9.0, 5.0, 3.0]
    write(tmp_path, "curves", {
        "a": curve("spiral", falling, rising), "b": curve("helix", [1.0, 8.0, 5.0, 2.0], [3.0, 2.0, 4.0, 6.0]),
        "c": curve("dna", [1.0, 2.0, 3.0, 4.0], rising), "d": curve("nltcs", [1.0, 2.0, 4.0, 8.0], [3.0, 2.0, 4.0, 6.0]),
    })  # fmt: skip
    verdicts = {(a.question.split(",")[1].strip(), a.claim[:9]): a.verdict for a in answers(tmp_path) if a.question[:2] == "Q1"}
    assert verdicts["Einsum Networks", "overfit: "] == "confirmed"
    assert verdicts["Einsum Networks", "sharpness"] == "refuted"
    assert verdicts["hidden Chow-Liu trees", "sharpness"] == "confirmed"


def test_the_strength_of_the_penalty(tmp_path):
    pieces = {}
    for trial, shift in enumerate((0.0, 0.01, -0.01)):
        for mu, valid, sharp in ((0.0, 100.0, 100.0), (0.01, 99.0, 40.0), (0.1, 99.5, 20.0), (1.0, 102.0, 10.0)):
            numbers = {"valid": valid + shift * (mu + 1), "test": valid, "overfitting": sharp, "sharpness": sharp}
            pieces[f"mu {mu:g} trial {trial}"] = {"mu": mu, **numbers}
    write(tmp_path, "ablation", pieces)
    found = said(tmp_path)
    verdicts = {claim.split(":")[0]: answer.verdict for (question, claim), answer in found.items() if question == "Q4"}
    assert verdicts["μ = 0.1 is enough for most of what any μ takes off sharpness"] == "confirmed"  # 80 of 90
    assert verdicts["robust"] == "refuted"  # μ = 1 loses 2%
    assert verdicts["the μ that validation likes best has the better test NLL"] == "confirmed"


def test_the_picture_of_the_data_sets(tmp_path):
    figures.compute("figure-datasets", tmp_path, quick=True, progress=False)
    found = figures.load("figure-datasets", tmp_path)
    assert sorted(len(data["points"]) for data in found.values()) == [2, 2, 2, 3, 3, 3, 3, 3]
    (answer,) = (answer for answer in answers(tmp_path) if answer.question.startswith("Picture"))
    assert answer.verdict == "confirmed"
    assert list(figures.plot("figure-datasets", found)) == ["datasets"]
    assert sum(len(panel.figures) for panel in figures.draw("figure-datasets", found)) == 8
