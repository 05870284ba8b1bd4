"""Data sets: eight manifolds and a Gaussian mixture drawn by seed, and the binary benchmarks."""

from flatpc.datasets.catalogue import DataSet, datasets, load
from flatpc.datasets.debd import DEBD, DEBD_EXTRA, load_debd
from flatpc.datasets.gaussian_mixture import GaussianMixture, gaussian_mixture, gaussian_mixture_splits
from flatpc.datasets.manifolds import MANIFOLDS, manifold, manifold_splits
from flatpc.datasets.splits import Splits, fraction_of

__all__ = [
    "DEBD",
    "DEBD_EXTRA",
    "MANIFOLDS",
    "DataSet",
    "GaussianMixture",
    "Splits",
    "datasets",
    "fraction_of",
    "gaussian_mixture",
    "gaussian_mixture_splits",
    "load",
    "load_debd",
    "manifold",
    "manifold_splits",
]
