"""Where sharpness-aware learning pays, and where early stopping does as well: gains with verdicts, and sentences made of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flatpc.paper.comparison import Comparison, Mean
from flatpc.paper.never_lose_table import Standing, contribution
from flatpc.paper.rivals import EARLY, PLAIN, REGULARISED, gain
from flatpc.paper.tables import FRACTIONS
from flatpc.paper.verdicts import Verdict, decide

WORDS = {Verdict.CONFIRMED: "pays", Verdict.REFUTED: "costs", Verdict.UNDECIDED: "undecided"}
BOTH_EARLY = "regularised against plain, both stopped early"
PAIRS = {
    "regularised against plain": (REGULARISED, PLAIN),
    "plain stopped early against plain": (PLAIN + EARLY, PLAIN),
    "regularised against plain stopped early": (REGULARISED, PLAIN + EARLY),
    BOTH_EARLY: (REGULARISED + EARLY, PLAIN + EARLY),
}
"""What is compared with what."""


def percents(fractions: Iterable[float]) -> list[str]:
    """How fractions head columns.

    >>> percents((0.01, 1.0))
    ['1%', '100%']
    """
    return [f"{100 * fraction:g}%" for fraction in fractions]


def payoff(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    """By how many percent one model's test NLL is lower than another's, and what that says at two standard errors.

    Where all models are stopped early anyway, there is one thing to compare.
    """
    rows = []
    for name in [BOTH_EARLY] if _always_early(comparison) else PAIRS:
        means = [gain(comparison, fraction, *PAIRS[name]) for fraction in FRACTIONS]
        if any(mean is not None for mean in means):
            rows.append([name, *map(_shown, means)])
    return ["lower test NLL by, %", *percents(FRACTIONS)], rows


def _always_early(comparison: Comparison) -> bool:
    """Whether the protocol takes the model of the best epoch anyway."""
    return getattr(comparison.table.settings.get(comparison.protocol), "patience", None) is not None


def _shown(mean: Mean | None) -> str:
    return "–" if mean is None else f"{mean.text()}: {WORDS[decide(mean)]}"


def in_words(comparison: Comparison) -> str:
    """Against the plain model stopped early, which costs nothing: at which fractions it pays. Empty where nothing says."""
    of = REGULARISED + EARLY
    means = {fraction: gain(comparison, fraction, of, PLAIN + EARLY) for fraction in FRACTIONS}
    if all(mean is None for mean in means.values()):
        of = REGULARISED
        means = {fraction: gain(comparison, fraction, of, PLAIN + EARLY) for fraction in FRACTIONS}
    name = "The regularised model, stopped early too," if of.endswith(EARLY) else "The regularised model after its last epoch"
    return _sentence(f"{name} against the plain one stopped early", means)


def never_lose_in_words(cells: Sequence[Standing]) -> str:
    """The same of `never-lose`, where everything is stopped early."""
    means = contribution(cells, "sharpness")
    return _sentence("In `never-lose`, where every hidden tree is stopped early, sharpness-aware EM against plain EM", means)


def _sentence(what: str, means: dict[float, Mean] | dict[float, Mean | None]) -> str:
    by_verdict: dict[Verdict, list[float]] = {}
    for fraction, mean in means.items():
        if mean is not None:
            by_verdict.setdefault(decide(mean), []).append(fraction)
    said = [f"{WORDS[verdict]} at {_listed(percents(by_verdict[verdict]))}" for verdict in WORDS if verdict in by_verdict]
    return f"{what}: {'; '.join(said)} of the rows." if said else ""


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
