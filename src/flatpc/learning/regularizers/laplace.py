"""Laplace smoothing: counts added to every unit."""

from __future__ import annotations

from dataclasses import dataclass

from flatpc._options import choice, count, put

PARTS = ("all", "sums", "inputs")


@dataclass(frozen=True)
class Laplace:
    """Add `pseudocount` counts to each unit, spread over its edges or values: θ ∝ F + pseudocount / K.

    >>> Laplace(0.1, on="inputs").of_sums
    0.0

    Parameters
    ----------
    pseudocount
        As if seen in the whole data set.
    on
        `"all"`, `"sums"` or `"inputs"`.
    """

    pseudocount: float = 1.0
    on: str = "all"

    def __post_init__(self) -> None:
        put(self, pseudocount=count("Laplace: pseudocount", self.pseudocount), on=choice("Laplace: on", self.on, PARTS))

    @property
    def of_sums(self) -> float:
        """Counts of each sum unit."""
        return 0.0 if self.on == "inputs" else self.pseudocount

    @property
    def of_inputs(self) -> float:
        """Counts of each unit of an input."""
        return 0.0 if self.on == "sums" else self.pseudocount
