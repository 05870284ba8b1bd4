"""What the paper claims of its tables, as inequalities; results confirm or refute them, or leave them undecided.

A gain is paired: the plain and the regularised model of a trial have the same rows and the same start. It is averaged over the
trials of a data set first, then over data sets, and the standard error is that between data sets.
"""

from __future__ import annotations

from dataclasses import dataclass

from flatpc.paper.comparison import Comparison, Mean, papers_mean
from flatpc.paper.tables import FRACTIONS, TABLES
from flatpc.paper.verdicts import Verdict, all_of, decide

_BETTER = {"nll": "has the better test NLL", "dof": "overfits less", "sharpness": "is less sharp"}
"""What is said of the regularised model, on average over the data sets."""


@dataclass(frozen=True)
class Claim:
    """A mean gain of a table, at some fractions, is above a bound."""

    table: str
    text: str
    quantity: str
    fractions: tuple[float, ...]
    above: float = 0.0

    def papers(self, comparison: Comparison | None = None) -> list[float]:
        """The paper's own means, one for each fraction; over the data sets that a comparison has, if one is given."""
        table = TABLES[self.table]
        found = [
            papers_mean(table, fraction, self.quantity, None if comparison is None else comparison.ran(fraction))
            for fraction in self.fractions
        ]
        return [value for value in found if value is not None]

    def ours(self, comparison: Comparison) -> list[Mean] | None:
        """Our means; None where one is not there yet."""
        found = [mean for fraction in self.fractions if (mean := comparison.mean_gain(fraction, self.quantity)) is not None]
        return found if len(found) == len(self.fractions) else None

    def verdict(self, comparison: Comparison) -> Verdict:
        """At two standard errors, over the data sets of the paper's mean; undecided while some of them have not been run."""
        found = all_of(decide(comparison.mean_gain(fraction, self.quantity), self.above) for fraction in self.fractions)
        ran, whole = self.data_sets(comparison)
        return found if ran == whole or found is Verdict.NOT_RUN else Verdict.UNDECIDED

    def data_sets(self, comparison: Comparison) -> tuple[int, int]:
        """On how many data sets the verdict rests, the fewest of its fractions; and of how many the paper's does."""
        return min(len(comparison.ran(fraction)) for fraction in self.fractions), len(comparison.table.datasets)


def _at_one_percent(table: str) -> list[Claim]:
    return [Claim(table, f"{better} with 1% of the rows", quantity, (0.01,)) for quantity, better in _BETTER.items()]


CLAIMS = (
    *_at_one_percent("table1"),
    Claim("table1", f"{_BETTER['sharpness']} at every fraction", "sharpness", FRACTIONS),
    Claim("table1", f"{_BETTER['sharpness']} at every fraction, by logarithms", "log_sharpness", FRACTIONS),
    Claim("table1", f"{_BETTER['nll']} at every fraction", "nll", FRACTIONS),
    Claim("table1", f"{_BETTER['dof']} at every fraction", "dof", FRACTIONS),
    *_at_one_percent("table2"),
    Claim("table2", f"{_BETTER['sharpness']} at every fraction", "sharpness", FRACTIONS),
    Claim("table2", f"{_BETTER['sharpness']} at every fraction, by logarithms", "log_sharpness", FRACTIONS),
    Claim("table2", f"{_BETTER['dof']} at every fraction", "dof", FRACTIONS),
    Claim("table2", "loses less than 0.5% of test NLL with half of the rows and more", "nll", (0.5, 1.0), -0.5),
)
