"""Data sets: eight manifolds drawn by seed, and the binary benchmarks from a folder."""

from flatpc.data.debd import DEBD, load_debd
from flatpc.data.manifolds import MANIFOLDS, manifold, manifold_splits
from flatpc.data.splits import Splits, fraction_of

__all__ = ["DEBD", "MANIFOLDS", "Splits", "fraction_of", "load_debd", "manifold", "manifold_splits"]
