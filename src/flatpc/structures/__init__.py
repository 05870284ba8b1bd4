"""Ways to get a circuit: from data, at random, on a grid, along a sequence, or written down."""

from flatpc.structures.chow_liu import chow_liu
from flatpc.structures.factorized import factorized
from flatpc.structures.from_edges import from_edges
from flatpc.structures.hclt import hclt
from flatpc.structures.hmm import hmm
from flatpc.structures.mixing import mix
from flatpc.structures.poon_domingos import poon_domingos
from flatpc.structures.rat_spn import rat_spn
from flatpc.structures.tree_mixture import tree_mixture

__all__ = ["chow_liu", "factorized", "from_edges", "hclt", "hmm", "mix", "poon_domingos", "rat_spn", "tree_mixture"]
