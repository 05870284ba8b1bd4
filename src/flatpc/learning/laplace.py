"""Laplace smoothing: counts added to every unit."""

from __future__ import annotations

import math
from dataclasses import dataclass

from flatpc.errors import OptionError

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
        check_count("Laplace: pseudocount", self.pseudocount)
        if self.on not in PARTS:
            raise OptionError(f"Laplace(on={self.on!r}); choose one of {', '.join(repr(part) for part in PARTS)}.")

    @property
    def of_sums(self) -> float:
        """Counts of each sum unit."""
        return 0.0 if self.on == "inputs" else self.pseudocount

    @property
    def of_inputs(self) -> float:
        """Counts of each unit of an input."""
        return 0.0 if self.on == "sums" else self.pseudocount


def check_count(name: str, value: float) -> float:
    """The value, or an error unless it is a finite number of 0 or more."""
    try:
        good = 0 <= value < math.inf
    except TypeError:
        good = False
    if not good:
        raise OptionError(f"{name}={value!r}; it counts rows, so it is 0 or a positive number.")
    return value
