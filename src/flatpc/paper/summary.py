"""The results in a page of Markdown: average gains, verdicts, where it pays, and what the runs took."""

from __future__ import annotations

from collections.abc import Sequence

from flatpc.paper import printed as paper
from flatpc.paper.baselines import baselines
from flatpc.paper.claims import CLAIMS, Claim
from flatpc.paper.collapse import ONE_GAUSSIAN, collapse
from flatpc.paper.comparison import MEANS, Comparison, Mean, papers_mean
from flatpc.paper.default_margins import default_margins, trials_in_words
from flatpc.paper.never_lose_table import Standing
from flatpc.paper.payoff import in_words, never_lose_in_words, payoff
from flatpc.paper.protocols import COMMIT, DIFFERENCES, REPOSITORY
from flatpc.paper.questions import Answer
from flatpc.paper.tables import FRACTIONS, TABLES
from flatpc.paper.text_tables import markdown
from flatpc.paper.verdicts import Verdict

Comparisons = dict[str, list[Comparison]]
"""Table -> one comparison for each protocol; `report.compare` makes it."""

TITLES = {"table1": "Table 1", "table2": "Table 2"}
"""The tables that the paper has; others may be declared."""
PROTOCOLS = {"text": "as the text says", "code": "as the authors' code does", "ours": "as we recommend"}


def protocol_title(name: str) -> str:
    """How a protocol is called.

    >>> protocol_title("text")
    'as the text says'
    """
    return PROTOCOLS.get(name, name)


def protocols_of(comparisons: Comparisons) -> list[str]:
    """Those of any table, in the order in which they are declared."""
    return list(dict.fromkeys(c.protocol for found in comparisons.values() for c in found))


def summary(comparisons: Comparisons, answers: Sequence[Answer] = (), cells: Sequence[Standing] = ()) -> str:
    """Everything below, with headings."""
    parts = []
    for name, found in comparisons.items():
        parts.append(
            f"**{TITLES[name]}**: mean gain of the regularised model in percent, over the data sets that were run, by the share "
            "of the rows that was learnt from."
        )
        parts.append(markdown(*gains(found, name)))
        parts += [BASELINES.format(TITLES[name]), markdown(*baselines(found))]
    parts += [CLAIMED, markdown(*claims(comparisons), texts=None)]
    if answers:
        parts += [ASKED, markdown(*asked(answers), texts=None)]
    parts += [COLLAPSED, markdown(*collapse(comparisons["table1"]))]
    for comparison in comparisons["table1"]:
        head, rows = default_margins(comparison)
        if rows:
            parts += [DEFAULT.format(trials_in_words(comparison)), markdown(head, rows)]
    parts.append(PAYS)
    for name, found in comparisons.items():
        for comparison in found:
            head, rows = payoff(comparison)
            if rows:
                parts += [f"{TITLES[name]}, {protocol_title(comparison.protocol)}. {in_words(comparison)}", markdown(head, rows)]
    if cells:
        parts.append(never_lose_in_words(cells))
    parts += [TOOK, markdown(*_took(comparisons))]
    return "\n\n".join(part for part in parts if part) + "\n"


def differences() -> str:
    """What the three protocols do, side by side."""
    tables = [f"{TITLES[name]}:\n\n{markdown(*protocol_differences(name), texts=None)}" for name in TITLES]
    return "\n\n".join([DIFFERING, *tables])


def gains(found: Sequence[Comparison], name: str) -> tuple[list[str], list[list[str]]]:
    """Mean gains, the paper's and ours; beside ours of some data sets the paper's of the same."""
    rows = []
    for quantity, title in MEANS.items():
        theirs = [papers_mean(TABLES[name], fraction, quantity) for fraction in FRACTIONS]
        rows.append([title, "paper", *map(_number, theirs)])
        for comparison in found:
            means = [comparison.mean_gain(fraction, quantity) for fraction in FRACTIONS]
            title = f"`{comparison.protocol}`{comparison.among}"
            rows.append(["", title, *("not run" if mean is None else mean.text() for mean in means)])
            if any(0 < len(comparison.ran(fraction)) < len(comparison.table.datasets) for fraction in FRACTIONS):
                same = [comparison.papers_mean_gain(fraction, quantity) for fraction in FRACTIONS]
                rows.append(["", "paper, same sets", *map(_number, same)])
    for comparison in found:
        counts = [len(comparison.ran(fraction)) for fraction in FRACTIONS]
        rows.append(["data sets", f"`{comparison.protocol}`", *map(str, counts)])
    return ["gain, %", "results", *(f"{100 * fraction:g}%" for fraction in FRACTIONS)], rows


def claims(comparisons: Comparisons) -> tuple[list[str], list[list[str]]]:
    """Each claim with the paper's numbers, and under each protocol a verdict with ours."""
    names = protocols_of(comparisons)
    rows = []
    for claim in CLAIMS:
        by_protocol = {c.protocol: c for c in comparisons[claim.table]}
        cells = [claimed(claim, by_protocol[name]) if name in by_protocol else Verdict.NOT_RUN.value for name in names]
        rows.append([f"{TITLES[claim.table]}: {claim.text}", ", ".join(map(_short, claim.papers())), *cells])
    return ["claim", "paper, %", *(f"`{name}`" for name in names)], rows


def claimed(claim: Claim, comparison: Comparison) -> str:
    """The verdict, our numbers, and where these are of some data sets only, of how many, with the paper's for the same."""
    values = claim.ours(comparison)
    if values is None:
        return Verdict.NOT_RUN.value
    ran, whole = claim.data_sets(comparison)
    numbers = ", ".join(f"{_short(mean.value)} ± {mean.error:.1f}" for mean in values)
    part = f" (of {ran} of {whole} data sets, on which the paper has {', '.join(map(_short, claim.papers(comparison)))})"
    return f"**{claim.verdict(comparison)}**: {numbers}{part if ran < whole else ''}{comparison.among}"


def asked(answers: Sequence[Answer]) -> tuple[list[str], list[list[str]]]:
    """What the paper says beside its tables."""
    rows = [[answer.question, answer.claim, answer.measured, f"**{answer.verdict}**"] for answer in answers]
    return ["question", "what the paper says", "measured", "verdict"], rows


def protocol_differences(table: str) -> tuple[list[str], list[list[str]]]:
    """What the three protocols do differently."""
    rows = [[each.what, each.text, each.code, each.ours] for each in DIFFERENCES[table]]
    return ["", "`text`", "`code`", "`ours`"], rows


def contradictions() -> str:
    """Where a gain of the paper's main text has another sign than the means of its appendix, as items of a list."""
    return "".join(
        f"- **Signs: {each['dataset']}** with {each['fraction']:.0%} of the rows. {TITLES[each['table']]} says that "
        f"{_QUANTITIES[each['column']]} falls by {_number(each['stated'])}%. By the means in the appendix it "
        f"{'rises' if each['implied'] < 0 else 'falls'} by {abs(each['implied']):.2f}%.\n"
        for each in paper.contradictions()
    )


def _number(value: float | None) -> str:
    return "–" if value is None else Mean(value, float("nan"), 1).text()


def _short(value: float) -> str:
    return f"{value:.1f}".replace("-", "−")


def _took(comparisons: Comparisons) -> tuple[list[str], list[list[str]]]:
    rows = [
        [f"{TITLES[name]}, `{c.protocol}`", f"{c.n_runs:,}", str(c.n_failed), f"{c.seconds / 3600:.2f}",
         str(len(c.missing())), str(len(c.partial()))]
        for name, found in comparisons.items()
        for c in found
    ]  # fmt: skip
    return ["runs of", "runs", "failed", "core-hours", "cells not run", "cells in part"], rows


_QUANTITIES = {"nll": "the test NLL", "sharpness": "sharpness"}
DIFFERING = f"The three protocols side by side. `code` follows the authors' release, {REPOSITORY}, commit {COMMIT}."
BASELINES = (
    "{}, **the plain models that gains are taken from**: by how many percent their test NLL, on average over the data sets, is "
    "above that of the paper's."
)
CLAIMED = (
    "**What the paper claims of its regularised models**, on average over the data sets. A claim is *confirmed* if every "
    "mean that it speaks of is on its side by two standard errors, *refuted* if one is on the other side by two, and else "
    "*undecided*, as it is while some of the paper's data sets have not been run. Gains are paired: the plain and the "
    "regularised model of a trial have the same rows and the same start. They are averaged over the trials of a data set, then "
    "over data sets; the standard error is that between data sets."
)
ASKED = (
    "**Research questions Q1, Q2 and Q4, and the figures** (Q3 is that of the tables). Errors are standard errors over data "
    "sets (learning curves, landscapes), over trials (strength, capacity), or of the slope of a line of least squares "
    "(times); two of them decide, and what is an equation or a single run has none."
)
COLLAPSED = (
    "**Collapse.** Rows of table 1 are standardised, so that N(0, I), which has learnt nothing, has a mean NLL of 2.838 in "
    "two dimensions and 4.257 in three. A regularised model whose mean trace is below "
    f"{ONE_GAUSSIAN:g} is one Gaussian: flat, and of no use."
)
DEFAULT = (
    "**Our default on table 1's rows** (`fp.choose` with the validation rows, ten seconds of work; {}): by how many nats its "
    "mean test NLL is lower than that of what any density should beat. Rows are standardised, so that N(0, I) knows the spread "
    "of all rows."
)
TOOK = (
    f"**What it took**; the paper reports about {paper.GPU_HOURS} GPU-hours. What `text` and `ours` do alike is run once, and "
    "its time counted once."
)
PAYS = (
    "**Where it pays.** Test NLLs of models with the same rows and the same start, paired by trial, mean ± standard error over "
    "data sets; *pays* and *costs* are differences of more than two standard errors, *undecided* is the rest. Stopping the "
    "plain model early costs nothing, so that is what a regulariser has to beat."
)
