"""Probabilistic circuits with exact curvature, for learning from little data."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from flatpc import queries, structures
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.families import Bernoulli, Binomial, Categorical, Family, Gaussian, Indicator, Poisson, family
from flatpc.circuit.files import load
from flatpc.circuit.nodes import Input, Mixture, Node, Product, Sum
from flatpc.errors import FlatpcError

if TYPE_CHECKING:
    from flatpc import curvature as curvature
    from flatpc import data as data
    from flatpc import learning as learning
    from flatpc.learning import Sharpness as Sharpness
    from flatpc.learning.fitting import fit as fit

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
    "Sharpness",
    "Sum",
    "curvature",
    "data",
    "family",
    "fit",
    "learning",
    "load",
    "queries",
    "structures",
]

# Imported when first used: they need numba or scipy, which take a while to load.
_LAZY = {"Sharpness": "flatpc.learning", "fit": "flatpc.learning", "curvature": "", "data": "", "learning": ""}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'flatpc' has no attribute {name!r}")
    home = _LAZY[name]
    return getattr(import_module(home), name) if home else import_module(f"flatpc.{name}")
