"""Data sets: eight manifolds and a Gaussian mixture drawn by seed, the binary benchmarks, tables of mixed columns, and MNIST."""

from flatpc.datasets.catalogue import DataSet, datasets, load
from flatpc.datasets.debd import DEBD, DEBD_EXTRA, load_debd
from flatpc.datasets.gaussian_mixture import GaussianMixture, gaussian_mixture, gaussian_mixture_splits
from flatpc.datasets.manifolds import MANIFOLDS, manifold, manifold_splits
from flatpc.datasets.mixed import MIXED, load_mixed
from flatpc.datasets.mnist import Digits, load_mnist
from flatpc.datasets.packaged import PACKAGED, load_packaged
from flatpc.datasets.splits import Splits, fraction_of
from flatpc.datasets.table_splits import Column, TableSplits

__all__ = [
    "DEBD",
    "DEBD_EXTRA",
    "MANIFOLDS",
    "MIXED",
    "PACKAGED",
    "Column",
    "DataSet",
    "Digits",
    "GaussianMixture",
    "Splits",
    "TableSplits",
    "datasets",
    "fraction_of",
    "gaussian_mixture",
    "gaussian_mixture_splits",
    "load",
    "load_debd",
    "load_mixed",
    "load_mnist",
    "load_packaged",
    "manifold",
    "manifold_splits",
]
