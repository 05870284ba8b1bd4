"""Families of input distributions, one file each; `register` makes your own known to files."""

from flatpc.families.base import Family
from flatpc.families.bernoulli import Bernoulli
from flatpc.families.beta import Beta
from flatpc.families.binomial import Binomial
from flatpc.families.categorical import Categorical
from flatpc.families.cyclic import Cyclic
from flatpc.families.discretized import Discretized
from flatpc.families.exponential import Exponential
from flatpc.families.finite import Finite
from flatpc.families.gamma import Gamma
from flatpc.families.gaussian import Gaussian
from flatpc.families.geometric import Geometric
from flatpc.families.histogram import Histogram
from flatpc.families.hurdle import Hurdle
from flatpc.families.indicator import Indicator
from flatpc.families.log_normal import LogNormal
from flatpc.families.logistic import Logistic
from flatpc.families.logistic_mixture import LogisticMixture
from flatpc.families.mapped_gaussian import MappedGaussian
from flatpc.families.multivariate_gaussian import MultivariateGaussian
from flatpc.families.negative_binomial import NegativeBinomial
from flatpc.families.ordinal import Ordinal
from flatpc.families.piecewise_linear import PiecewiseLinear
from flatpc.families.poisson import Poisson
from flatpc.families.registry import family, family_names, register
from flatpc.families.student_t import StudentT
from flatpc.families.transformed import Transformed
from flatpc.families.transforms import Log, Quantiles, Transform, YeoJohnson

__all__ = [
    "Bernoulli",
    "Beta",
    "Binomial",
    "Categorical",
    "Cyclic",
    "Discretized",
    "Exponential",
    "Family",
    "Finite",
    "Gamma",
    "Gaussian",
    "Geometric",
    "Histogram",
    "Hurdle",
    "Indicator",
    "Log",
    "LogNormal",
    "Logistic",
    "LogisticMixture",
    "MappedGaussian",
    "MultivariateGaussian",
    "NegativeBinomial",
    "Ordinal",
    "PiecewiseLinear",
    "Poisson",
    "Quantiles",
    "StudentT",
    "Transform",
    "Transformed",
    "YeoJohnson",
    "family",
    "family_names",
    "register",
]
