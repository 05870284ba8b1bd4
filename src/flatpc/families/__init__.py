"""Families of input distributions, one file each; `register` makes your own known to files."""

from flatpc.families.base import Family
from flatpc.families.bernoulli import Bernoulli
from flatpc.families.binomial import Binomial
from flatpc.families.categorical import Categorical
from flatpc.families.finite import Finite
from flatpc.families.gaussian import Gaussian
from flatpc.families.indicator import Indicator
from flatpc.families.poisson import Poisson
from flatpc.families.registry import family, family_names, register

__all__ = [
    "Bernoulli", "Binomial", "Categorical", "Family", "Finite", "Gaussian", "Indicator", "Poisson", "family",
    "family_names", "register",
]  # fmt: skip
