"""Data sets: eight manifolds and a Gaussian mixture drawn by seed, the binary benchmarks, and tables of a user's own."""

from flatpc.data.catalogue import DataSet, datasets, load
from flatpc.data.columns import Column, Columns, kinds
from flatpc.data.debd import DEBD, DEBD_EXTRA, load_debd
from flatpc.data.gaussian_mixture import GaussianMixture, gaussian_mixture, gaussian_mixture_splits
from flatpc.data.manifolds import MANIFOLDS, manifold, manifold_splits
from flatpc.data.splits import Splits, fraction_of
from flatpc.data.tables import Table, read_table

__all__ = [
    "DEBD",
    "DEBD_EXTRA",
    "MANIFOLDS",
    "Column",
    "Columns",
    "DataSet",
    "GaussianMixture",
    "Splits",
    "Table",
    "datasets",
    "fraction_of",
    "gaussian_mixture",
    "gaussian_mixture_splits",
    "kinds",
    "load",
    "load_debd",
    "manifold",
    "manifold_splits",
    "read_table",
]
