"""Laplace smoothing: counts added to every unit."""

from __future__ import annotations

from dataclasses import dataclass

from flatpc._options import choice, count, put
from flatpc.learning.regularizers.base import Regularizer
from flatpc.learning.steps.method import Method

PARTS = ("all", "sums", "inputs")


@dataclass(frozen=True)
class Laplace(Regularizer):
    """Add `pseudocount` counts to each unit, spread over its edges or values: θ ∝ F + pseudocount / K.

    Parameters
    ----------
    pseudocount
        As if seen in the whole data set.
    on
        `"all"`, `"sums"` or `"inputs"`.

    Raises
    ------
    OptionError
        If an option is out of range.

    Examples
    --------
    >>> import flatpc as fp
    >>> fp.learning.Laplace(0.1, on="inputs").counts()
    (0.0, 0.1)
    """

    pseudocount: float = 1.0
    on: str = "all"

    def __post_init__(self) -> None:
        put(self, pseudocount=count("Laplace: pseudocount", self.pseudocount), on=choice("Laplace: on", self.on, PARTS))

    def counts(self) -> tuple[float, float]:
        """Counts of each sum unit, and of each unit of an input."""
        return 0.0 if self.on == "inputs" else self.pseudocount, 0.0 if self.on == "sums" else self.pseudocount

    def objection(self, other: Regularizer, method: Method) -> str:
        """Two of them are for different units."""
        if isinstance(other, Laplace) and (self.on == other.on or "all" in (self.on, other.on)):
            return "both are for the same units (one for 'sums' and one for 'inputs' would do)"
        return ""
