"""Tables of paper and ours side by side, before anybody decides how they look."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from flatpc.paper import printed as paper
from flatpc.paper.comparison import GAINS, SHARPNESS, Comparison, Mean
from flatpc.paper.tables import FRACTIONS


@dataclass(frozen=True)
class Entry:
    """Two numbers to compare."""

    paper: float | None
    ours: Mean | None

    @property
    def difference(self) -> float | None:
        """Ours less the paper's."""
        return None if self.paper is None or self.ours is None else self.ours.value - self.paper


@dataclass(frozen=True)
class Sheet:
    """One quantity by data set and fraction."""

    name: str
    """For files."""
    title: str
    comparison: Comparison
    digits: int
    cells: dict[str, dict[float, Entry]]
    """Data set -> fraction -> numbers."""
    means: dict[float, Entry] = field(default_factory=dict)
    """Over the data sets that we ran, for gains."""
    wins: dict[float, tuple[int, int, int]] = field(default_factory=dict)
    """How often the regularised model is better: ours, the paper's, of how many."""
    note: str = ""

    @property
    def is_gain(self) -> bool:
        """Whether a positive number is good."""
        return bool(self.means)

    @property
    def has_paper(self) -> bool:
        """Whether the paper has this quantity."""
        return any(entry.paper is not None for row in self.cells.values() for entry in row.values())


_NOTES = {
    ("table1", "sharpness"): "Squared gradients in the logits, which is what the paper's column holds.",
    ("table2", "sharpness"): "Ours is the trace of the text; the paper's column holds another quantity (see Differences).",
}


def gain_sheets(comparison: Comparison) -> list[Sheet]:
    """What the regulariser gains: the paper's tables 1 and 2, a sheet for each column."""
    sheets = [_gain(comparison, quantity, f"{title}, %") for quantity, title in GAINS.items()]
    if comparison.table.name == "table1":
        sheets.append(_gain(comparison, "sharpness_weights", "ΔSharp in the weights, %"))
    return sheets


def _gain(comparison: Comparison, quantity: str, title: str) -> Sheet:
    name = comparison.table.name

    def papers(dataset: str, fraction: float) -> float | None:
        return paper.value(name, dataset, fraction, quantity) if quantity in GAINS else None

    cells = _cells(comparison, papers, lambda d, f: comparison.gain(d, f, quantity))
    means, wins = {}, {}
    for fraction in FRACTIONS:
        theirs = comparison.papers_mean_gain(fraction, quantity) if quantity in GAINS else None
        if theirs is None and quantity in GAINS:
            theirs = papers("mean", fraction)
        means[fraction] = Entry(theirs, comparison.mean_gain(fraction, quantity))
        if quantity in GAINS:
            wins[fraction] = comparison.wins(fraction, quantity)
    note = _NOTES.get((name, quantity), "")
    if quantity == "sharpness_weights":
        note = "The exact trace of the Hessian in the weights, which the paper's text defines; its tables don't have it."
    return Sheet(f"gain-{quantity}", title, comparison, 2, cells, means, wins, note)


def appendix_sheets(comparison: Comparison) -> list[Sheet]:
    """Test NLL and sharpness of both models: the paper's appendix."""
    name = comparison.table.name
    model = paper.APPENDIX[name]
    quantities = {"nll": ("Test NLL", "test_nll"), "sharpness": ("Sharpness", SHARPNESS[name])}
    sheets = []
    for quantity, (title, metric) in quantities.items():
        for column, which in (("base", "plain"), ("regularised", "regularised")):
            cells = _cells(
                comparison,
                lambda d, f, t=f"{model}_{quantity}", c=column: paper.value(t, d, f, c),  # type: ignore[misc]
                lambda d, f, w=which, m=metric: comparison.value(d, f, w, m),  # type: ignore[misc]
            )
            note = _NOTES[name, "sharpness"] if quantity == "sharpness" else ""
            sheets.append(Sheet(f"{quantity}-{which}", f"{title}, {which}", comparison, 3, cells, note=note))
    return sheets


def _cells(
    comparison: Comparison, papers: Callable[[str, float], float | None], ours: Callable[[str, float], Mean | None]
) -> dict[str, dict[float, Entry]]:
    return {d: {f: Entry(papers(d, f), ours(d, f)) for f in FRACTIONS} for d in comparison.table.datasets}


def as_text(sheet: Sheet) -> tuple[list[str], list[list[str]]]:
    """Head and rows of text: ours, and the paper's in brackets."""

    def shown(entry: Entry) -> str:
        ours = "not run" if entry.ours is None else entry.ours.text(sheet.digits)
        return ours if entry.paper is None else f"{ours} ({entry.paper:.{sheet.digits}f})".replace("-", "−")

    head = ["data set", *(f"{100 * fraction:g}%" for fraction in FRACTIONS)]
    rows = [[dataset, *(shown(row[fraction]) for fraction in FRACTIONS)] for dataset, row in sheet.cells.items()]
    if sheet.means:
        rows.append(["mean", *(shown(sheet.means[fraction]) for fraction in FRACTIONS)])
    if sheet.wins:
        rows.append(["better on", *(_wins(*sheet.wins[fraction]) for fraction in FRACTIONS)])
    return head, rows


def _wins(ours: int, theirs: int, n: int) -> str:
    return f"{ours} ({theirs}) of {n}" if n else "not run"
