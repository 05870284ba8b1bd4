"""Families of input distributions, one file each."""

from flatpc.families.base import Family
from flatpc.families.bernoulli import Bernoulli
from flatpc.families.binomial import Binomial
from flatpc.families.categorical import Categorical
from flatpc.families.gaussian import Gaussian
from flatpc.families.indicator import Indicator
from flatpc.families.poisson import Poisson
from flatpc.families.registry import family

__all__ = ["Bernoulli", "Binomial", "Categorical", "Family", "Gaussian", "Indicator", "Poisson", "family"]
