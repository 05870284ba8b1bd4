"""`flatpc fit` of a table of categories, with nothing decided by the user: `fp.learning.choose`, within a budget."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from flatpc.circuit.families import Bernoulli, Categorical, Family
from flatpc.cli.application import say
from flatpc.cli.candidates import Candidate, Plan, Settings
from flatpc.learning.auto import Outcome, choose

SECONDS = 60.0
"""What a search takes at the most, unless told otherwise."""


def is_for(settings: Settings, families: Sequence[Family], judged: bool) -> bool:
    """Whether this is the way to go."""
    return settings.is_open and judged and all(isinstance(family, Bernoulli | Categorical) for family in families)


def search(
    settings: Settings, train: Any, valid: Any, families: Sequence[Family], quiet: bool
) -> tuple[list[Candidate], Candidate]:
    """All candidates, best first, and the choice: the best of them, or an average of several."""
    seconds = settings.budget or SECONDS
    progress = not quiet and sys.stderr.isatty()
    if not quiet:
        say(f"Choosing a model, for {seconds:g} seconds at the most (--budget).")
    choice = choose(
        train, valid, family=list(families), time_budget=seconds, seed=settings.seed, missing="marginalize", progress=progress
    )
    candidates = [
        Candidate(plan_of(found), choice.circuit, found.valid_nll, epochs=found.epochs, weight=found.weight)
        for found in choice.candidates
    ]
    first = plan_of(choice.chosen[0])
    plan = first if len(choice.chosen) == 1 else Plan("average", title=f"average of {len(choice.chosen)} models")
    stopped = "interrupted" if choice.interrupted else "chosen"
    epochs = sum(found.epochs for found in choice.chosen)
    return candidates, Candidate(plan, choice.circuit, choice.valid_nll, stopped=stopped, notes=(choice.why,), epochs=epochs)


def plan_of(found: Outcome) -> Plan:
    """What an outcome was made by."""
    mu = next((part.mu for part in found.regularizer if hasattr(part, "mu")), 0.0)
    structure = found.name.partition("(")[0].replace("_", "-")
    return Plan(structure, found.options.get("n_latents", 0), mu if isinstance(mu, str) else float(mu), found.name)
