"""What the paper claims of its tables, as inequalities that results confirm or not."""

from __future__ import annotations

from dataclasses import dataclass

from flatpc.experiments.comparison import Comparison, papers_mean
from flatpc.experiments.tables import FRACTIONS, TABLES

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

    def papers(self) -> list[float]:
        """The paper's own means, one for each fraction."""
        found = [papers_mean(TABLES[self.table], fraction, self.quantity) for fraction in self.fractions]
        return [value for value in found if value is not None]

    def ours(self, comparison: Comparison) -> list[float] | None:
        """Our means; None where one is not there yet."""
        found = [comparison.mean_gain(fraction, self.quantity) for fraction in self.fractions]
        return None if any(mean is None for mean in found) else [mean.value for mean in found if mean is not None]

    def holds(self, comparison: Comparison) -> bool | None:
        """Whether our results confirm it; None if they can't say."""
        values = self.ours(comparison)
        return None if values is None else all(value > self.above for value in values)


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
