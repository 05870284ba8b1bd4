"""Data sets: eight manifolds and a Gaussian mixture drawn by seed, the binary benchmarks, and tables of a user's own."""

from flatpc.data.debd import DEBD, DEBD_EXTRA, load_debd
from flatpc.data.manifolds import MANIFOLDS, manifold, manifold_splits
from flatpc.data.splits import Splits, fraction_of

__all__ = ["DEBD", "DEBD_EXTRA", "MANIFOLDS", "Splits", "fraction_of", "load_debd", "manifold", "manifold_splits"]
