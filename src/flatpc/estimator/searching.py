"""The thorough search: `fp.learning.choose` decides on everything, within a budget, and may average several models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from flatpc.errors import OptionError
from flatpc.estimator.choosing import Choice
from flatpc.estimator.plans import Options, Plan
from flatpc.estimator.trying import Candidate
from flatpc.families.base import Family
from flatpc.families.bernoulli import Bernoulli
from flatpc.families.categorical import Categorical
from flatpc.learning.history import History

if TYPE_CHECKING:
    from flatpc.learning.auto import Outcome

Array = NDArray[np.float64]

SEARCHES = ("quick", "thorough")


def search(
    rows: Array, families: Sequence[Family], options: Options, *, valid: Array | None = None, progress: bool = False
) -> Choice:
    """The choice for a table of categories, candidates best first; without `valid`, some of the rows are held back."""
    from flatpc.learning.auto import choose

    if not all(isinstance(family, Bernoulli | Categorical) for family in families):
        raise OptionError("search='thorough' is for tables of binary and categorical columns; leave it out for others.")
    if options != Options(seed=options.seed, time_budget=options.time_budget):
        raise OptionError(
            "search='thorough' decides on structure, n_latents, mu and all else but time_budget and random_state itself; leave "
            "them out."
        )
    found = choose(
        rows, valid, family=list(families), seed=options.seed, missing="marginalize", progress=progress,
        time_budget=1e6 if options.time_budget is None else options.time_budget,
    )  # fmt: skip
    again = "" if valid is not None or found.interrupted else f"; fitted again to all {len(rows):,} rows"
    candidates = tuple(map(_candidate, found.candidates))
    best = max(candidates, key=lambda candidate: candidate.weight)
    n_judges = len(valid) if valid is not None else 0
    cut_short = "interrupted" if found.interrupted else ""
    return Choice(best, found.circuit, candidates, n_judges, found.why.rstrip(".") + again, cut_short)


def _candidate(outcome: Outcome) -> Candidate:
    mu = next((part.mu for part in outcome.regularizer if hasattr(part, "mu")), 0.0)
    structure = outcome.name.partition("(")[0]
    plan = Plan(structure, outcome.options.get("n_latents", 1), mu, title=outcome.name)
    return Candidate(plan, outcome.valid_nll, None, History(), outcome.epochs, outcome.weight, "chosen")
