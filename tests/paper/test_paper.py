"""The paper's numbers, against its text and against each other."""

import os
import re
from pathlib import Path

import pytest

from flatpc.datasets import DEBD, MANIFOLDS, load_debd
from flatpc.errors import OptionError
from flatpc.paper import printed as paper
from flatpc.paper.summary import contradictions

CAPTIONS = {
    "table1": ("Percentage improvements", "Einsum Network"),
    "table2": ("Percentage improvements", "PyJuice HCLT"),
    "einsum_nll": ("Final", "Einsum Network"),
    "einsum_sharpness": ("Sharpness", "Einsum Network"),
    "hclt_nll": ("Final", "PyJuice HCLT"),
    "hclt_sharpness": ("Sharpness", "PyJuice HCLT"),
    "datasets": ("Overview", "20"),
}


def printed(tex: str, name: str) -> dict[str, list[float]]:
    """Data set -> the numbers of its row, left to right, from the LaTeX of the table whose caption fits."""
    begins, mentions = CAPTIONS[name]
    found = []
    for block in re.findall(r"\\begin\{table\*?\}.*?\\end\{table\*?\}", tex, re.S):
        caption = re.sub(r"\\textbf\{([^{}]*)\}", r"\1", block.split(r"\caption{")[1])
        if caption.startswith(begins) and mentions in caption.split(r"\label")[0]:
            found.append(block)
    (block,) = found
    rows = {}
    for line in block.split(r"\midrule", 1)[1].split(r"\bottomrule")[0].replace(r"\midrule", "").split(r"\\"):
        cells = [re.sub(r"\\(?:textbf|textit)|[{}$\\\s]", "", cell) for cell in line.split("&")]
        if len(cells) > 1:
            rows[cells[0].lower()] = [float(cell) for cell in cells[1:]]
    return rows


@pytest.mark.skipif(not os.environ.get("FLATPC_PAPER"), reason="FLATPC_PAPER does not name the paper's LaTeX file")
@pytest.mark.parametrize("name", paper.TABLES)
def test_every_number_is_the_papers(name):
    rows = printed(Path(os.environ["FLATPC_PAPER"]).read_text(), name)
    typed: dict[str, list[float]] = {}
    for record in paper.table(name):
        typed.setdefault(record["dataset"], []).extend(v for k, v in record.items() if k not in ("dataset", "fraction"))
    assert typed == rows
    if name != "datasets":
        for dataset in typed:
            assert [r["fraction"] for r in paper.table(name) if r["dataset"] == dataset] == list(paper.FRACTIONS)


@pytest.mark.parametrize(("name", "sets"), [("table1", set(MANIFOLDS)), ("table2", set(DEBD))])
def test_tables_are_whole(name, sets):
    assert {r["dataset"] for r in paper.table(name)} == sets | {"mean"}
    for kind in ("nll", "sharpness"):
        records = paper.table(f"{paper.APPENDIX[name]}_{kind}")
        assert {(r["dataset"], r["fraction"]) for r in records} == {(s, f) for s in sets for f in paper.FRACTIONS}


@pytest.mark.parametrize("name", ["table1", "table2"])
@pytest.mark.parametrize("column", ["nll", "dof", "sharpness"])
def test_means_are_means(name, column):
    """To the last printed digit; table 2's mean gain in NLL at 1% is 7.1145 from its rows, and printed as 7.12."""
    for fraction in paper.FRACTIONS:
        cells = [r[column] for r in paper.table(name) if r["fraction"] == fraction and r["dataset"] != "mean"]
        assert abs(sum(cells) / len(cells) - paper.value(name, "mean", fraction, column)) < 0.0056


@pytest.mark.parametrize("name", ["table1", "table2"])
@pytest.mark.parametrize("column", ["nll", "sharpness"])
def test_gains_agree_with_the_appendix(name, column):
    """Means of ratios against ratios of means: close in the middle, though not cell by cell."""
    apart = []
    for row in paper.table(name):
        base, flat = (
            paper.value(f"{paper.APPENDIX[name]}_{column}", row["dataset"], row["fraction"], c) for c in ("base", "regularised")
        )
        if base is not None:
            apart.append(abs(100 * (base - flat) / base - row[column]))
    assert sorted(apart)[len(apart) // 2] < 0.5
    assert sum(gap > 5 for gap in apart) <= 2


def test_the_papers_tables_contradict_each_other_once():
    (found,) = paper.contradictions()
    assert (found["table"], found["dataset"], found["fraction"], found["column"]) == ("table2", "jester", 0.01, "sharpness")
    assert (found["stated"], round(found["implied"], 2)) == (25.52, -31.04)
    assert contradictions() == (
        "- **Signs: jester** with 1% of the rows. Table 2 says that sharpness falls by 25.52%. By the means in the appendix it "
        "rises by 31.04%.\n"
    )


def test_unknown_names_are_refused():
    with pytest.raises(OptionError, match="table3"):
        paper.table("table3")
    with pytest.raises(OptionError, match="speed"):
        paper.value("table1", "spiral", 0.05, "speed")
    with pytest.raises(OptionError, match="datasets"):
        paper.value("datasets", "dna", 0.05, "train")
    assert paper.value("table1", "dna", 0.05, "nll") is None


@pytest.mark.data
@pytest.mark.skipif(not os.environ.get("FLATPC_DATA"), reason="FLATPC_DATA is not set")
@pytest.mark.parametrize("name", sorted(DEBD))
def test_sizes_of_the_benchmarks(name):
    """All as the paper has them, but for kdd's 64 variables."""
    (sizes,) = (r for r in paper.table("datasets") if r["dataset"] == name)
    if name == "kdd":
        assert sizes["variables"] == 65
        sizes["variables"] = 64
    data = load_debd(name)
    assert (data.train.shape[1], len(data.train), len(data.valid), len(data.test)) == (
        sizes["variables"], sizes["train"], sizes["valid"], sizes["test"],
    )  # fmt: skip
