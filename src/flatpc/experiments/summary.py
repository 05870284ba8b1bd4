"""The results in a page of Markdown: average gains, a verdict on every claim, and what the runs took."""

from __future__ import annotations

from flatpc.experiments import paper
from flatpc.experiments.claims import CLAIMS, Claim
from flatpc.experiments.comparison import MEANS, Comparison, papers_mean
from flatpc.experiments.tables import FRACTIONS, TABLES
from flatpc.experiments.text_tables import markdown

Comparisons = dict[str, list[Comparison]]
"""Table -> one comparison for each protocol; `report.compare` makes it."""

TITLES = {"table1": "Table 1", "table2": "Table 2"}
"""The tables that the paper has; others may be declared."""
PROTOCOLS = {"text": "ours, `text`", "code": "ours, `code`"}


def summary(comparisons: Comparisons) -> str:
    """Everything below, with headings."""
    parts = []
    for name in comparisons:
        parts.append(f"**{TITLES[name]}**: mean gain of the regularised model in percent, over the data sets that were run.")
        parts.append(_gains(comparisons[name], name))
    parts += ["**What the paper claims of its regularised models**, on average over the data sets:", claims(comparisons)]
    parts += [f"**What it took**; the paper reports about {paper.GPU_HOURS} GPU-hours.", _took(comparisons)]
    return "\n\n".join(parts) + "\n"


def _gains(found: list[Comparison], name: str) -> str:
    rows = []
    for quantity, title in MEANS.items():
        theirs = [papers_mean(TABLES[name], fraction, quantity) for fraction in FRACTIONS]
        rows.append([title, "paper", *("–" if value is None else f"{value:.2f}".replace("-", "−") for value in theirs)])
        for comparison in found:
            means = [comparison.mean_gain(fraction, quantity) for fraction in FRACTIONS]
            rows.append(["", PROTOCOLS[comparison.protocol], *("not run" if mean is None else mean.text() for mean in means)])
    for comparison in found:
        counts = [len(comparison.ran(fraction)) for fraction in FRACTIONS]
        rows.append(["data sets", PROTOCOLS[comparison.protocol], *map(str, counts)])
    return markdown(["gain, %", "results", *(f"{100 * fraction:g}% of the rows" for fraction in FRACTIONS)], rows)


def claims(comparisons: Comparisons) -> str:
    """Each claim with the paper's numbers, ours, and a verdict."""
    rows = []
    for claim in CLAIMS:
        by_protocol = {c.protocol: c for c in comparisons[claim.table]}
        numbers = [_numbers(claim.ours(by_protocol[name])) if name in by_protocol else "not run" for name in PROTOCOLS]
        rows.append([f"{TITLES[claim.table]}: {claim.text}", _numbers(claim.papers()), *numbers, verdict(claim, comparisons)])
    return markdown(["claim", "paper, %", *PROTOCOLS.values(), "verdict"], rows)


def verdict(claim: Claim, comparisons: Comparisons) -> str:
    """Whether a claim holds as the text has it, only as the authors' code has it, or not."""
    holds = {c.protocol: claim.holds(c) for c in comparisons[claim.table]}
    text, code = holds.get("text"), holds.get("code")
    if text is None:
        return "under the authors' protocol; `text` is not run" if code else "not run"
    if text:
        return "confirmed"
    return {
        True: "only under the authors' protocol",
        False: "not confirmed",
        None: "not confirmed under `text`; `code` is not run",
    }[code]


def _numbers(values: list[float] | None) -> str:
    return "not run" if values is None else ", ".join(f"{value:.1f}".replace("-", "−") for value in values)


def _took(comparisons: Comparisons) -> str:
    rows = [
        [f"{TITLES[name]}, `{c.protocol}`", f"{c.n_runs:,}", str(c.n_failed), f"{c.seconds / 3600:.2f}",
         str(len(c.missing())), str(len(c.partial()))]
        for name, found in comparisons.items()
        for c in found
    ]  # fmt: skip
    return markdown(["runs of", "runs", "failed", "core-hours", "cells not run", "cells in part"], rows)
