"""Probabilistic circuits with exact curvature, for learning from little data."""

from flatpc import queries, structures
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.families import Bernoulli, Binomial, Categorical, Family, Gaussian, Indicator, Poisson, family
from flatpc.circuit.files import load
from flatpc.circuit.nodes import Input, Mixture, Node, Product, Sum
from flatpc.errors import FlatpcError

__version__ = "0.1.0"

__all__ = [
    "Bernoulli",
    "Binomial",
    "Categorical",
    "Circuit",
    "Family",
    "FlatpcError",
    "Gaussian",
    "Indicator",
    "Input",
    "Mixture",
    "Node",
    "Poisson",
    "Product",
    "Sum",
    "family",
    "load",
    "queries",
    "structures",
]
