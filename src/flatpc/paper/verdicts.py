"""Confirmed, refuted or undecided: a mean against a bound, at two standard errors."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from flatpc.paper.comparison import Mean

STANDARD_ERRORS = 2.0
"""How far from the bound a mean must be."""


class Verdict(StrEnum):
    """What results say of a claim."""

    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    UNDECIDED = "undecided"
    NOT_RUN = "not run"


def decide(mean: Mean | None, above: float = 0.0) -> Verdict:
    """Whether a mean is above a bound by two standard errors, below it by two, or neither; one value alone has no error.

    >>> decide(Mean(20.0, 18.0, 12)).value, decide(Mean(20.0, 9.0, 12)).value
    ('undecided', 'confirmed')
    """
    if mean is None:
        return Verdict.NOT_RUN
    if mean.value - STANDARD_ERRORS * mean.error > above:
        return Verdict.CONFIRMED
    if mean.value + STANDARD_ERRORS * mean.error < above:
        return Verdict.REFUTED
    return Verdict.UNDECIDED


def all_of(verdicts: Iterable[Verdict]) -> Verdict:
    """Of a claim with several parts: one refuted part refutes it, and it is confirmed when all are.

    >>> all_of([Verdict.CONFIRMED, Verdict.UNDECIDED]).value, all_of([Verdict.NOT_RUN, Verdict.REFUTED]).value
    ('undecided', 'refuted')
    """
    found = list(verdicts)
    order = (Verdict.REFUTED, Verdict.NOT_RUN, Verdict.UNDECIDED)
    return next((verdict for verdict in order if verdict in found), Verdict.CONFIRMED if found else Verdict.NOT_RUN)


def of_fact(holds: bool) -> Verdict:
    """Of something without an error, such as an equation."""
    return Verdict.CONFIRMED if holds else Verdict.REFUTED
