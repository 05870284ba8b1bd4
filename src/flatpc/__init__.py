"""Probabilistic circuits with exact curvature, for learning from little data."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flatpc import adapters as adapters
    from flatpc import curvature as curvature
    from flatpc import datasets as datasets
    from flatpc import errors as errors
    from flatpc import families as families
    from flatpc import learning as learning
    from flatpc import queries as queries
    from flatpc import search as search
    from flatpc import structures as structures
    from flatpc import tables as tables
    from flatpc import testing as testing
    from flatpc.circuit.circuit import Circuit as Circuit
    from flatpc.circuit.files import load as load
    from flatpc.circuit.nodes import Input as Input
    from flatpc.circuit.nodes import Mixture as Mixture
    from flatpc.circuit.nodes import Node as Node
    from flatpc.circuit.nodes import Product as Product
    from flatpc.circuit.nodes import Sum as Sum
    from flatpc.errors import FamilyError as FamilyError
    from flatpc.errors import FlatpcError as FlatpcError
    from flatpc.errors import ParameterError as ParameterError
    from flatpc.estimator import CircuitDensity as CircuitDensity
    from flatpc.families.base import Family as Family
    from flatpc.families.bernoulli import Bernoulli as Bernoulli
    from flatpc.families.beta import Beta as Beta
    from flatpc.families.binomial import Binomial as Binomial
    from flatpc.families.categorical import Categorical as Categorical
    from flatpc.families.cyclic import Cyclic as Cyclic
    from flatpc.families.discretized import Discretized as Discretized
    from flatpc.families.exponential import Exponential as Exponential
    from flatpc.families.gamma import Gamma as Gamma
    from flatpc.families.gaussian import Gaussian as Gaussian
    from flatpc.families.geometric import Geometric as Geometric
    from flatpc.families.histogram import Histogram as Histogram
    from flatpc.families.hurdle import Hurdle as Hurdle
    from flatpc.families.indicator import Indicator as Indicator
    from flatpc.families.log_normal import LogNormal as LogNormal
    from flatpc.families.logistic import Logistic as Logistic
    from flatpc.families.logistic_mixture import LogisticMixture as LogisticMixture
    from flatpc.families.multivariate_gaussian import MultivariateGaussian as MultivariateGaussian
    from flatpc.families.negative_binomial import NegativeBinomial as NegativeBinomial
    from flatpc.families.ordinal import Ordinal as Ordinal
    from flatpc.families.piecewise_linear import PiecewiseLinear as PiecewiseLinear
    from flatpc.families.poisson import Poisson as Poisson
    from flatpc.families.registry import family as family
    from flatpc.families.student_t import StudentT as StudentT
    from flatpc.families.transformed import Transformed as Transformed
    from flatpc.learning import EM as EM
    from flatpc.learning import SGD as SGD
    from flatpc.learning import Adam as Adam
    from flatpc.learning import NaturalGradient as NaturalGradient
    from flatpc.learning import Newton as Newton
    from flatpc.learning import Sharpness as Sharpness
    from flatpc.learning.fitting import fit as fit
    from flatpc.search.choosing import choose as choose

__version__ = "0.3.0.dev0"

# Where each public name lives. It is imported when first used: SciPy, numba and torch take a while to load, and who only asks
# `flatpc --help` needs none of them.
_HOMES = {
    "flatpc": (
        "adapters", "curvature", "datasets", "errors", "families", "learning", "queries", "search", "structures", "tables",
        "testing",
    ),
    "flatpc.circuit.circuit": ("Circuit",),
    "flatpc.circuit.files": ("load",),
    "flatpc.circuit.nodes": ("Input", "Mixture", "Node", "Product", "Sum"),
    "flatpc.errors": ("FamilyError", "FlatpcError", "ParameterError"),
    "flatpc.estimator": ("CircuitDensity",),
    "flatpc.families": (
        "Bernoulli", "Beta", "Binomial", "Categorical", "Cyclic", "Discretized", "Exponential", "Family",
        "Gamma", "Gaussian", "Geometric", "Histogram", "Hurdle", "Indicator", "LogNormal",
        "Logistic", "LogisticMixture", "MultivariateGaussian", "NegativeBinomial", "Ordinal", "PiecewiseLinear", "Poisson",
        "StudentT", "Transformed", "family",
    ),
    "flatpc.learning": ("EM", "SGD", "Adam", "NaturalGradient", "Newton", "Sharpness", "fit"),
    "flatpc.search.choosing": ("choose",),
}  # fmt: skip
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'flatpc' has no attribute {name!r}")
    home = _HOME[name]
    return import_module(f"flatpc.{name}") if home == "flatpc" else getattr(import_module(home), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
