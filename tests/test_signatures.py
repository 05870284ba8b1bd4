"""What may be given by position: what a function is about, and the sizes of a structure. All else is given by name.

CONTRIBUTING states the rule. Constructors of values (nodes, families, regularisers) are notation and not asked.
"""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import flatpc as fp
from tests.hostile.calls import ASKED, surface

DATA = {
    "X", "circuit", "circuits", "column", "edges", "evidence", "folder", "given", "H", "i", "n", "n_samples", "name", "nodes",
    "parameters", "passes", "path", "root", "rows", "study", "train_nll", "trial", "valid", "valid_nll", "values", "x", "y",
}  # fmt: skip
"""What a function is about; `y` is scikit-learn's."""
SIZES = {
    "delta", "depth", "end", "fraction", "k", "length", "n_components", "n_inputs", "n_latents", "n_products", "n_repetitions",
    "n_sums", "n_trees", "n_variables", "shape", "size", "start", "weights",
}  # fmt: skip
"""How large, how many, from where to where: numbers that a reader of the call can't take for anything else."""
BY_POSITION = {
    "Circuit.randomize": ["seed"], "EMStep.apply": ["statistics"], "queries.register": ["question"],
    "learning.register_regularizer": ["kind"], "CircuitDensity.probability": ["event"],
}  # fmt: skip
"""Functions that are about something else, which is their only argument by position."""

kinds = inspect.Parameter


def positional(found: Any) -> list[str]:
    parameters = inspect.signature(found).parameters.values()
    return [p.name for p in parameters if p.name != "self" and p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]


PUBLIC = {name: found for name, found in surface() if not inspect.isclass(found) or name in ASKED}


@pytest.mark.parametrize("name", PUBLIC)
def test_options_are_given_by_name(name: str) -> None:
    found = positional(PUBLIC[name])
    wrong = [p for p in found if p not in DATA | SIZES and p not in BY_POSITION.get(name, [])]
    assert not wrong, f"{name} takes {', '.join(wrong)} by position; put a * before"
    first_size = next((place for place, p in enumerate(found) if p in SIZES), len(found))
    assert not [p for p in found[first_size:] if p in DATA], "data come before sizes"


def test_seeds_are_called_seed() -> None:
    """All but those of the scikit-learn face, which scikit-learn's own tools look for by the name of random_state."""
    for name, found in PUBLIC.items():
        options = inspect.signature(found).parameters
        assert not {"rng", "random_seed", "generator"} & set(options), name
        assert "random_state" not in options or name.startswith("CircuitDensity"), name


def test_progress_is_called_progress() -> None:
    """All but that of the scikit-learn face."""
    for name, found in PUBLIC.items():
        options = inspect.signature(found).parameters
        assert "verbose" not in options or name.startswith("CircuitDensity"), name


def test_what_is_left_to_us_is_auto() -> None:
    for name in ("choose", "CircuitDensity"):
        options = inspect.signature(getattr(fp, name)).parameters
        assert {options[option].default for option in ("structure", "n_latents", "judge")} == {"auto"}


def test_budgets_and_patience_have_one_name() -> None:
    for name, found in PUBLIC.items():
        assert not {"budget", "max_time", "seconds", "timeout"} & set(inspect.signature(found).parameters), f"{name}: time_budget"


def test_the_rule_can_be_broken() -> None:
    def bad(circuit: Any, X: Any, missing: str = "raise") -> None: ...

    assert [p for p in positional(bad) if p not in DATA | SIZES] == ["missing"]
