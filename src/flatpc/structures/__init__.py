"""Ways to get a circuit: from data, at random, on a grid, along a sequence, written down, or from another circuit."""

from flatpc.structures.edit.compacting import compact
from flatpc.structures.edit.growing import grow
from flatpc.structures.edit.mixing import mix
from flatpc.structures.edit.pruning import prune
from flatpc.structures.factorized import factorized
from flatpc.structures.from_edges import from_edges
from flatpc.structures.hmm import hmm
from flatpc.structures.regions.poon_domingos import poon_domingos
from flatpc.structures.regions.rat_spn import rat_spn
from flatpc.structures.trees.chow_liu import chow_liu
from flatpc.structures.trees.hclt import hclt
from flatpc.structures.trees.tree_mixture import tree_mixture

__all__ = [
    "chow_liu",
    "compact",
    "factorized",
    "from_edges",
    "grow",
    "hclt",
    "hmm",
    "mix",
    "poon_domingos",
    "prune",
    "rat_spn",
    "tree_mixture",
]
