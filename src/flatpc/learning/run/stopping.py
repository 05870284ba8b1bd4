"""`stopping=` of `fit`: when to end before all epochs are done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flatpc._options import put, seconds, whole_number, wrong


@dataclass(frozen=True)
class Stopping:
    """When to end before all epochs are done. `stopping=10` is short for `Stopping(patience=10)`.

    Parameters
    ----------
    patience
        Stop after so many epochs without a better validation NLL, and return the best model; None never does.
    time_budget
        Stop after so many seconds; None never does.

    Raises
    ------
    OptionError
        If an option is out of range.

    Examples
    --------
    >>> import flatpc as fp
    >>> fp.learning.Stopping(patience=10, time_budget=60.0)
    Stopping(patience=10, time_budget=60.0)
    """

    patience: int | None = None
    time_budget: float | None = None

    def __post_init__(self) -> None:
        if self.patience is not None:
            put(self, patience=whole_number("Stopping: patience", self.patience, 1))
        if self.time_budget is not None:
            put(self, time_budget=seconds("Stopping: time_budget", self.time_budget))


def read_stopping(given: Any) -> Stopping:
    """What a user gave: None, epochs of patience, or a `Stopping`."""
    if isinstance(given, Stopping):
        return given
    if given is None:
        return Stopping()
    try:
        return Stopping(patience=whole_number("stopping", given, 1))
    except ValueError:
        give = "give a number of epochs without a better validation NLL, fp.learning.Stopping(...), or None."
        raise wrong("stopping", given, give) from None
