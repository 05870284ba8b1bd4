"""`report`: the paper's numbers and ours on one page, and as Markdown and LaTeX."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flatpc._writing import replace_file
from flatpc.paper import figures, full_data, never_lose_table
from flatpc.paper import printed as paper
from flatpc.paper.collapse import collapse, collapsed
from flatpc.paper.comparison import MEANS, Comparison, Mean, papers_mean
from flatpc.paper.payoff import WORDS, in_words, never_lose_in_words, payoff
from flatpc.paper.protocols import NAMES
from flatpc.paper.questions import Answer, answers
from flatpc.paper.results import Results, versions
from flatpc.paper.rivals import rivals
from flatpc.paper.sheets import Entry, Sheet, appendix_sheets, as_text, gain_sheets
from flatpc.paper.summary import (
    ASKED,
    CLAIMED,
    COLLAPSED,
    DIFFERING,
    PAYS,
    TITLES,
    asked,
    claims,
    contradictions,
    protocol_differences,
    protocol_title,
)
from flatpc.paper.tables import FRACTIONS, TABLES, TRIALS
from flatpc.paper.text_tables import latex, markdown
from flatpc.paper.verdicts import Verdict, decide

if TYPE_CHECKING:
    from flatpc.pages import Blocks, Cell


def report(folder: str | os.PathLike[str] = "results", output: str | os.PathLike[str] = "report.html") -> Path:
    """Write `output`, and beside it the same tables as `.md` and `.tex`; what has not been run yet is named with its command.

    `folder` is where `flatpc reproduce` keeps results.
    """
    from flatpc.pages import Page

    folder, output = Path(folder), Path(output)
    comparisons = compare(folder)
    texts = {".md": as_markdown(comparisons), ".tex": as_latex(comparisons)}
    page = Page("The paper, run again", _LEAD, footer="Made by `flatpc report`.")
    overview = page.tab("Overview")
    _overview(overview, comparisons, answers(folder))
    for suffix, text in texts.items():
        overview.download(output.stem + suffix, text, f"all tables as {'Markdown' if suffix == '.md' else 'LaTeX'}")
    for name in TITLES:
        tab = page.tab(TITLES[name])
        for comparison in comparisons[name]:
            _tables(tab, comparison)
    tab = page.tab("Rivals")
    _payoff(tab, comparisons, folder)
    tab.heading("All rivals")
    tab.text(_RIVALS)
    for name in TITLES:
        for comparison in comparisons[name]:
            _rivals(tab, comparison)
    _never_lose(page.tab("Never lose"), folder)
    for name in figures.FIGURES:
        _figure(page.tab(figures.figure(name).TAB), name, folder)
    tab = page.tab("Slips")
    tab.text(resources.files("flatpc.paper").joinpath("slips.md").read_text())
    tab.text(contradictions())
    tab = page.tab("Differences")
    tab.text(DIFFERING)
    for name in TITLES:
        _texts(tab, *protocol_differences(name), caption=TITLES[name])
    tab.text(_DIFFERENCES)
    tab.text(resources.files("flatpc.paper").joinpath("differences.md").read_text())
    page.write(output)
    for suffix, text in texts.items():
        replace_file(output.with_suffix(suffix), text.encode())
    return output


def compare(folder: Path, *, kept: bool = False) -> dict[str, list[Comparison]]:
    """Table -> one comparison for each protocol that has results; the first one always. Of what tables keep alone, if `kept`."""
    out = {}
    for name in TITLES:
        table = TABLES[name]
        runs = Results(folder, name)
        results = runs.kept() if kept else list(runs.all().values())
        others = sorted({result.cell.protocol for result in results} - set(NAMES))
        found = [Comparison(table, results, protocol) for protocol in (*NAMES, *others)]
        out[name] = [found[0], *(each for each in found[1:] if each)]
    return out


def _sheets(comparisons: dict[str, list[Comparison]]) -> Iterator[tuple[str, Sheet]]:
    for name, found in comparisons.items():
        for comparison in found:
            for sheet in (*gain_sheets(comparison), *appendix_sheets(comparison)):
                yield f"{TITLES[name]}, {protocol_title(comparison.protocol)}: {sheet.title}", sheet


def as_markdown(comparisons: dict[str, list[Comparison]]) -> str:
    """All tables, ours with the paper's in brackets."""
    parts = ["# The paper, run again\n\nOurs, mean ± standard error over trials, and the paper's in brackets."]
    parts += [f"## {title}\n\n{markdown(*as_text(sheet))}" for title, sheet in _sheets(comparisons)]
    return "\n\n".join(parts) + "\n"


def as_latex(comparisons: dict[str, list[Comparison]]) -> str:
    """All tables, for a document that uses booktabs."""
    parts = [
        latex(*as_text(sheet), caption=f"{title}. Ours, and the paper's in brackets.") for title, sheet in _sheets(comparisons)
    ]
    return "\n\n".join(parts) + "\n"


# ---- the parts of the page ---------------------------------------------------------------------------------------------


def _overview(tab: Blocks, comparisons: dict[str, list[Comparison]], found_answers: list[Answer]) -> None:
    from flatpc.pages import Column

    tab.heading("What the regulariser gains on average")
    for name, found in comparisons.items():
        rows: list[list[Any]] = []
        whole = len(TABLES[name].datasets)
        ran = {len(comparison.ran(fraction)) for comparison in found for fraction in FRACTIONS}
        marks = {n: _mark(i) for i, n in enumerate(sorted(ran - {0, whole}), start=1)}
        for quantity, title in MEANS.items():
            rows.append([title, "paper", *(papers_mean(TABLES[name], fraction, quantity) for fraction in FRACTIONS)])
            for comparison in found:
                row: list[Any] = ["", protocol_title(comparison.protocol)]
                for fraction in FRACTIONS:
                    note = marks.get(len(comparison.ran(fraction)), "")
                    row.append(_ours(comparison.mean_gain(fraction, quantity), 2, gain=True, note=note))
                rows.append(row)
        notes = {mark: f"{n} of {whole} data sets" for n, mark in marks.items()}
        columns = [Column("gain, %"), Column("results"), *(Column(f"{100 * fraction:g}%", ".2f") for fraction in FRACTIONS)]
        tab.table(columns, rows, caption=f"{TITLES[name]}: {TABLES[name].title}", notes=notes, sortable=False)
    tab.heading("What the paper claims")
    tab.text(CLAIMED)
    _texts(tab, *claims(comparisons))
    tab.text(ASKED)
    _texts(tab, *asked(found_answers))
    tab.heading("What it took")
    took = [
        [TITLES[name], protocol_title(c.protocol), c.n_runs, c.n_failed, c.seconds / 3600, len(c.missing()), len(c.partial())]
        for name, found in comparisons.items()
        for c in found
    ]
    counts = [Column(name, "d") for name in ("runs", "with an error", "cells not run", "cells in part")]
    columns = [Column("table"), Column("protocol"), *counts[:2], Column("core-hours", ".2f"), *counts[2:]]
    tab.table(columns, took, sortable=False, caption="A cell is a data set at a fraction")
    tab.text(f"The paper's runs took about {paper.GPU_HOURS} GPU-hours, on four NVIDIA L4.")


def _texts(tab: Blocks, head: list[str], rows: list[list[str]], caption: str = "") -> None:
    """A table of texts, in which verdicts have a colour."""
    from flatpc.pages import Cell

    def cell(text: str) -> Cell:
        bare = text.replace("**", "").replace("`", "")
        return Cell(bare, bare, tone=next((tone for word, tone in _TONES.items() if word in re.findall(r"^\w+|\w+$", bare)), ""))

    shown = [[cell(text) for text in row] for row in rows]
    tab.table([name.replace("`", "") for name in head], shown, caption=caption, sortable=False)


def _mark(n: int) -> str:
    """The n-th letter, for a note."""
    return chr(ord("a") + n - 1)


def _ours(mean: Mean | None, digits: int, *, gain: bool, note: str = "", command: str = "") -> Cell:
    from flatpc.pages import Cell

    if mean is None:
        return Cell(math.nan, "not run", hint=command)  # not a number, but in a column of numbers
    tone = TONES.get(decide(mean), "") if gain else ""
    return Cell(mean.value, mean.text(digits), tone=tone, note=note, hint=f"{mean.n} trials")


def _tables(tab: Blocks, comparison: Comparison) -> None:
    tab.heading(f"{comparison.table.title}, {protocol_title(comparison.protocol)}")
    tab.text(_missing(comparison))
    for sheet in (*gain_sheets(comparison), *appendix_sheets(comparison)):
        columns, rows, notes = _side_by_side(sheet)
        if sheet.note:
            notes["∗"] = sheet.note
        file = f"{comparison.table.name}-{comparison.protocol}-{sheet.name}.csv"
        # A mean sorted in among what it is the mean of would only confuse.
        whole = not sheet.means
        tab.table(columns, rows, caption=sheet.title + ("∗" if sheet.note else ""), notes=notes, sortable=whole, file=file)


def _side_by_side(sheet: Sheet) -> tuple[list[Any], list[list[Any]], dict[str, str]]:
    from flatpc.pages import Cell, Column

    comparison, form = sheet.comparison, f".{sheet.digits}f"
    columns: list[Any] = ["data set"]
    for fraction in FRACTIONS:
        group = f"{100 * fraction:g}% of the rows"
        if sheet.has_paper:
            columns.append(Column("paper", form, group=group))
        columns.append(Column("ours", form, group=group))
        if sheet.has_paper:
            columns.append(Column("difference", f"+{form}", group=group, hint="ours less the paper's"))
    notes: dict[str, str] = {}

    def cells(entry: Entry, note: str = "", command: str = "") -> list[Any]:
        ours = _ours(entry.ours, sheet.digits, gain=sheet.is_gain, note=note, command=command)
        if not sheet.has_paper:
            return [ours]
        return [entry.paper, ours, math.nan if entry.difference is None else entry.difference]

    rows: list[list[Any]] = []
    for dataset, row in sheet.cells.items():
        out: list[Any] = [dataset]
        for fraction, entry in row.items():
            n = 0 if entry.ours is None else entry.ours.n
            said = {_mark(n): f"{n} of {len(TRIALS)} trials"} if 0 < n < len(TRIALS) else {}
            if sheet.name == "nll-regularised" and collapsed(comparison, dataset, fraction)[0]:
                said[_GAUSSIAN] = "one Gaussian in some of the trials or all of them"
            note = "".join(said)
            if said:
                notes[note] = "; ".join(said.values())
            out += cells(entry, note, comparison.command([dataset]))
        rows.append(out)
    if sheet.means:
        rows.append([Cell("mean", bold=True), *(c for fraction in FRACTIONS for c in cells(sheet.means[fraction]))])
    if sheet.wins:
        out = [Cell("better on", bold=True)]
        for fraction in FRACTIONS:
            ours, theirs, n = sheet.wins[fraction]
            out += (
                [Cell(theirs, f"{theirs} of {n}"), Cell(ours, f"{ours} of {n}"), None]
                if n
                else [None, Cell(math.nan, "not run"), None]
            )
        rows.append(out)
    return columns, rows, dict(sorted(notes.items()))


def _missing(comparison: Comparison) -> str:
    missing, partial = comparison.missing(), comparison.partial()
    if not missing and not partial:
        return f"All {len(TRIALS)} trials of all cells have been run."
    n = len(comparison.table.datasets) * len(FRACTIONS)
    return (
        f"Of {n} cells (a data set at a fraction), {len(missing)} have not been run and {len(partial)} have some of their "
        f"{len(TRIALS)} trials. `{comparison.command()}` runs what is missing, and no more; with "
        f"`--datasets {missing[0][0] if missing else partial[0][0]}` only what is missing of that data set."
    )


def _rivals(tab: Blocks, comparison: Comparison) -> None:
    from flatpc.pages import Cell, Column

    for fraction in FRACTIONS:
        found = {d: rivals(comparison, d, fraction) for d in comparison.table.datasets if comparison.complete(d, fraction)}
        names = list(dict.fromkeys(name for row in found.values() for name in row))
        if not found:
            continue
        rows = []
        for dataset, row in found.items():
            shown = {name: f"{mean.value:.3f}" for name, mean in row.items()}
            best = min(shown, key=lambda name: row[name].value)
            cells = [
                Cell(mean.value, mean.text(3), bold=shown[name] == shown[best]) if (mean := row.get(name)) else Cell(None)
                for name in names
            ]
            rows.append([dataset, *cells])
        caption = (
            f"{TITLES[comparison.table.name]}, {protocol_title(comparison.protocol)}, {100 * fraction:g}% of the rows: "
            "test NLL, the best of each row in bold"
        )
        tab.table(["data set", *(Column(name, ".3f") for name in names)], rows, caption=caption)


def _payoff(tab: Blocks, comparisons: dict[str, list[Comparison]], folder: Path) -> None:
    tab.heading("Where sharpness-aware learning pays")
    tab.text(PAYS)
    for name, found in comparisons.items():
        for comparison in found:
            head, rows = payoff(comparison)
            if rows:
                _texts(tab, head, rows, f"{TITLES[name]}, {protocol_title(comparison.protocol)}")
                tab.text(in_words(comparison))
    tab.text(never_lose_in_words(never_lose_table.standings(Results(folder, "never-lose").all().values())))
    tab.heading("Collapse")
    tab.text(COLLAPSED)
    _texts(tab, *collapse(comparisons["table1"]))


def _never_lose(tab: Blocks, folder: Path) -> None:
    from flatpc.pages import Cell, Column

    runs = list(Results(folder, "never-lose").all().values())
    tab.text(_NEVER_LOSE.format(f" of version {versions(runs)}" if runs else ""))
    cells = never_lose_table.standings(runs)
    won, decided = never_lose_table.count(cells)
    tab.text(f"Won: {won} of {decided} cells that have been run, of 100. `flatpc reproduce never-lose` runs what is missing.")
    _full_data(tab, folder)
    if not cells:
        return
    names = never_lose_table.COLUMNS
    rows: list[list[Any]] = []
    for each in cells:
        means = {name: Cell(mean.value, mean.text(3)) for name, mean in each.ours.items()}
        means |= {name: Cell(value, f"{value:.3f}") for name, value in each.papers.items()}
        won_by = "" if each.target is None else each.target[0]
        verdicts = {True: Cell("yes", tone="better"), False: Cell(f"no: {won_by}", tone="worse"), None: Cell(None, "not run")}
        rows.append([each.dataset, 100 * each.fraction, verdicts[each.won], *(means.get(name, Cell(None)) for name in names)])
    columns = [Column("data set"), Column("rows, %", "g"), Column("won"), *(Column(name, ".3f") for name in names)]
    tab.table(columns, rows, caption="Test NLL, mean ± standard error over trials", file="never-lose.csv")
    ahead = [[each.dataset, 100 * each.fraction, name, percent] for each, name, percent in never_lose_table.beaten(cells)]
    if ahead:
        columns = [Column("data set"), Column("rows, %", "g"), Column("contender"), Column("better by, %", ".2f")]
        tab.table(columns, ahead, caption="Where one of the contenders alone does better than the default")


def _full_data(tab: Blocks, folder: Path) -> None:
    from flatpc.pages import Column

    found = full_data.entries(Results(folder, "full-data").all().values())
    tab.text("With all rows, two threads and two minutes for each data set: `flatpc reproduce full-data`.")
    if found:
        columns = [Column(full_data.HEAD[0]), *(Column(name) for name in full_data.HEAD[1:])]
        tab.table(columns, full_data.as_rows(found), caption="Mean test log-likelihood", file="full-data.csv")


def _figure(tab: Blocks, name: str, folder: Path) -> None:
    module = figures.figure(name)
    tab.heading(module.TITLE)
    tab.text(module.CAPTION)
    found = figures.load(name, folder)
    left = figures.missing(name, folder)
    if figures.is_quick(name, folder):
        tab.text(f"This is its quick version, smaller and trained for less. In full: `flatpc reproduce {name}`")
    elif left:
        tab.text(f"Not run: {len(left)} of {len(module.pieces())} pieces. `flatpc reproduce {name}` goes on where it stopped.")
    for panel in figures.draw(name, found) if found else ():
        if panel.title:
            tab.heading(panel.title)
        tab.figures(panel.figures, note=panel.note, height=panel.height, linked=panel.linked)


TONES = {Verdict.CONFIRMED: "better", Verdict.REFUTED: "worse"}
"""Colours; what is undecided has none."""
_TONES = {word: tone for verdict, tone in TONES.items() for word in (verdict.value, WORDS[verdict])}
_GAUSSIAN = "†"
_LEAD = (
    "Every table and figure of *Tractable Sharpness-Aware Learning of Probabilistic Circuits*, run again with flatpc, beside "
    "the paper's own numbers. Ours are means over trials ± their standard errors. A gain of the regularised model over the plain "
    "one is green if it is more than two standard errors, a loss red; what has no colour is undecided."
)
_NEVER_LOSE = (
    "Our default, `fp.choose`{} with 60 seconds for each cell, against the factorised model, the Chow-Liu "
    "tree and the paper's two models: a cell is won if its mean test NLL is at most the best of theirs, or within one standard "
    "error of it. Beside them the rivals, each alone: the same hidden tree with each regulariser, as strong "
    "as validation likes best."
)
_RIVALS = (
    "What else could be done with the same rows. μ, the count of Laplace's rule and the smoothing of the simple models are "
    "chosen by validation NLL. *Stopped early* is the model of the best validation epoch instead of the last."
)
_DIFFERENCES = (
    "Where the authors' released code does something else than the paper's text says, and what that means for the numbers. The "
    "protocol `code` does the same where it can."
)
