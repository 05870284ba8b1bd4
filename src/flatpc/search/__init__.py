"""Which model: structures, sizes, starts and regularisers on trial, judged by rows that had no part in learning."""

from flatpc.search.choice import Choice, Outcome
from flatpc.search.choosing import choose

__all__ = ["Choice", "Outcome", "choose"]
