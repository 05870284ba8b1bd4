"""Which model: structures, sizes, starts and regularisers on trial, judged by rows that had no part in learning."""

from flatpc.search.choice import Choice, Outcome
from flatpc.search.choosing import choose
from flatpc.search.selection import Candidate, Selection, select

__all__ = ["Candidate", "Choice", "Outcome", "Selection", "choose", "select"]
