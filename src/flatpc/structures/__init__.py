"""Ways to get a circuit: from data, at random, on a grid, along a sequence, written down, or from another circuit."""

from flatpc.structures.blocks import correlated_blocks
from flatpc.structures.edit.compacting import compact
from flatpc.structures.edit.growing import grow
from flatpc.structures.edit.mixing import mix
from flatpc.structures.edit.mixing_families import mix_families
from flatpc.structures.edit.pruning import prune
from flatpc.structures.factorized import factorized
from flatpc.structures.from_edges import from_edges
from flatpc.structures.hmm import hmm
from flatpc.structures.kernels import kernels
from flatpc.structures.mixture import mixture
from flatpc.structures.regions.poon_domingos import poon_domingos
from flatpc.structures.regions.quad_tree import quad_tree
from flatpc.structures.regions.rat_spn import rat_spn
from flatpc.structures.trees.binned_tree import binned_tree
from flatpc.structures.trees.chow_liu import chow_liu
from flatpc.structures.trees.hclt import hclt
from flatpc.structures.trees.tree_mixture import tree_mixture

__all__ = [
    "binned_tree",
    "chow_liu",
    "compact",
    "correlated_blocks",
    "factorized",
    "from_edges",
    "grow",
    "hclt",
    "hmm",
    "kernels",
    "mix",
    "mix_families",
    "mixture",
    "poon_domingos",
    "prune",
    "quad_tree",
    "rat_spn",
    "tree_mixture",
]
