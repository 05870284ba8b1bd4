"""Families by name."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from flatpc._options import choice
from flatpc.errors import OptionError
from flatpc.families.base import Family
from flatpc.families.bernoulli import Bernoulli
from flatpc.families.binomial import Binomial
from flatpc.families.categorical import Categorical
from flatpc.families.gaussian import Gaussian
from flatpc.families.indicator import Indicator
from flatpc.families.poisson import Poisson

FAMILIES: dict[str, type[Family]] = {
    "bernoulli": Bernoulli,
    "categorical": Categorical,
    "gaussian": Gaussian,
    "binomial": Binomial,
    "poisson": Poisson,
    "indicator": Indicator,
}


def family(name: str | Family, **options: Any) -> Family:
    """A family by its name: `family("categorical", n=3)`. A family is returned as it is."""
    if isinstance(name, Family):
        return name
    made = FAMILIES[choice("family", name, sorted(FAMILIES), also="a family, such as flatpc.Bernoulli()")]
    known = [option.name for option in fields(made)]
    unknown = [option for option in options if option not in known]
    if unknown:
        raise OptionError(f"The family {name!r} has no option {unknown[0]!r}; it has {', '.join(known) or 'none'}.")
    return made(**options)


def family_name(of: Family) -> str:
    """The name by which `family` finds this one."""
    return type(of).__name__.lower()
