"""What may be tried: structures that suit the columns, sizes that suit the rows, and weights of the penalty.

1. Structures, with μ = 0.1: independent columns; a Chow-Liu tree if all columns have categories; random tensorised circuits if
   all are continuous, else hidden Chow-Liu trees; plain mixtures. Those with latents come with few and with more of them; if all
   columns have categories and rows are few, also with far too many, under a stronger penalty.
2. For the best one that has a penalty: other weights μ of it, smaller pseudocounts of inputs that have categories, and smaller
   floors of the variance of Gaussian inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flatpc.errors import OptionError
from flatpc.families.base import Family
from flatpc.families.bernoulli import Bernoulli
from flatpc.families.categorical import Categorical
from flatpc.families.gaussian import Gaussian

LATENTS = {"hclt": (4, 16), "mixture": (8, 32, 128), "rat_spn": (8, 16)}
"""Sizes tried unless one is given, from few to many, never more than a quarter of the rows."""
STRUCTURES = ("factorized", "chow_liu", *LATENTS)
NAMES = {
    "factorized": "independent columns",
    "chow_liu": "Chow-Liu tree",
    "hclt": "hidden Chow-Liu tree",
    "mixture": "mixture of independent columns",
    "rat_spn": "random tensorised circuit",
}
MUS = (0.1, 0.0, 0.3, 1.0)
"""In the order in which they are tried."""
PSEUDOCOUNTS = (0.3, 0.1, 0.03, 0.01)
"""Of each unit of an input that has categories; tried as long as each is better than the one before."""
FLOORS = (1e-2, 1e-3, 1e-4)
"""Of the variance of a Gaussian input, where columns have variance 1; tried as long as each is better than the one before."""
FEW_ROWS, TOO_MANY = 2000, 48
"""Rows below which hidden trees are tried with that many latents; the penalty holds them back."""


@dataclass(frozen=True)
class Options:
    """What the user has decided; None or `"auto"` leaves it open."""

    structure: str = "auto"
    n_latents: int | None = None
    mu: float | str | None = None
    pseudocount: float | None = None
    validation_fraction: float = 0.2
    epochs: int = 200
    patience: int = 10
    """Epochs without a better validation NLL; 0 for ever."""
    time_budget: float | None = 30.0
    seed: int = 0
    method: str = "em"
    batch_size: int | None = None
    step_size: float | None = None
    depth: int | None = None
    """Cuts of a `rat_spn`."""


@dataclass(frozen=True)
class Plan:
    """One way to make a circuit.

    >>> str(Plan("hclt", 4, mu=0.1)), str(Plan("factorized"))
    ('hidden Chow-Liu tree, 4 latents, μ = 0.1', 'independent columns')
    """

    structure: str
    n_latents: int = 1
    mu: float | str = 0.0
    pseudocount: float = PSEUDOCOUNTS[0]
    floor: float = FLOORS[0]
    title: str = ""
    """What to call it, if the above says less than there is to say."""

    @property
    def is_learnt(self) -> bool:
        """Whether it is learnt step by step; the others are counted."""
        return self.structure in LATENTS

    def __str__(self) -> str:
        if self.title:
            return self.title
        if not self.is_learnt:
            return NAMES[self.structure]
        mu = self.mu if isinstance(self.mu, str) else f"{self.mu:g}"
        counts = "" if self.pseudocount == PSEUDOCOUNTS[0] else f", pseudocount {self.pseudocount:g}"
        floor = "" if self.floor == FLOORS[0] else f", variances from {self.floor:g}"
        return f"{NAMES[self.structure]}, {self.n_latents} latents, μ = {mu}{counts}{floor}"


class Plans:
    """What to try for a table; `most` is how many there can be."""

    def __init__(self, families: Sequence[Family], n_rows: int, options: Options) -> None:
        mu = MUS[0] if options.mu is None else options.mu
        counts = PSEUDOCOUNTS[0] if options.pseudocount is None else options.pseudocount
        self.first = [
            Plan(structure, size, mu if structure in LATENTS else 0.0, counts)
            for structure in _structures(families, options.structure)
            for size in _sizes(structure, n_rows, options.n_latents)
        ]
        tables = [isinstance(family, Bernoulli | Categorical) for family in families]
        is_open = options.n_latents is None and options.mu is None and options.pseudocount is None
        if is_open and all(tables) and n_rows < FEW_ROWS and any(plan.structure == "hclt" for plan in self.first):
            self.first.append(Plan("hclt", TOO_MANY, 0.3, PSEUDOCOUNTS[-1]))
        is_learnt = any(plan.is_learnt for plan in self.first)
        self.mus = MUS if is_learnt and options.mu is None else ()
        self.stages: list[tuple[str, Sequence[float]]] = []
        # Gradient learning has no pseudocounts.
        if is_learnt and any(tables) and options.pseudocount is None and options.method == "em":
            self.stages.append(("pseudocount", PSEUDOCOUNTS))
        if is_learnt and any(isinstance(family, Gaussian) for family in families):
            self.stages.append(("floor", FLOORS))
        self.most = len(self.first) + max(len(self.mus) - 1, 0) + sum(len(values) - 1 for _, values in self.stages)

    def __call__(self, best: Callable[[], Plan]) -> Iterator[Plan]:
        """One after another; `best` tells which one of those that are learnt has done best so far."""
        yield from self.first
        if self.mus:
            base = best()
            yield from (replace(base, mu=mu) for mu in self.mus if mu != base.mu)
        for name, values in self.stages:
            base = best()
            rest = [value for value in values if value < getattr(base, name)]
            for value in rest:
                changed: dict[str, Any] = {name: value}
                plan = replace(base, **changed)
                yield plan
                if best() != plan:
                    break


def _structures(families: Sequence[Family], asked: str) -> tuple[str, ...]:
    all_tables = all(isinstance(family, Bernoulli | Categorical) for family in families)
    if asked == "auto":
        if len(families) == 1:
            return ("factorized",) if all_tables else ("factorized", "mixture")
        if all_tables:
            return "factorized", "chow_liu", "hclt", "mixture"
        all_continuous = all(isinstance(family, Gaussian) for family in families)
        return "factorized", "rat_spn" if all_continuous else "hclt", "mixture"
    if asked == "chow_liu" and not all_tables:
        raise OptionError(
            "structure='chow_liu' is for binary and categorical columns only; choose 'hclt' for tables with others."
        )
    return (asked,)


def _sizes(structure: str, n_rows: int, asked: int | None) -> list[int]:
    if structure not in LATENTS:
        return [1]
    if asked is not None:
        return [asked]
    most = max(n_rows // 4, 2)
    out: list[int] = []
    for size in LATENTS[structure]:
        # A size that is hardly another one is not worth a fit.
        if not out or min(size, most) >= 2 * out[-1]:
            out.append(min(size, most))
    return out
