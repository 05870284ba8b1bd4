"""What `choose` chooses from: simple models that are fitted at once, and hidden ones that are trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flatpc import structures
from flatpc.families.base import Family
from flatpc.families.bernoulli import Bernoulli
from flatpc.families.categorical import Categorical
from flatpc.families.gaussian import Gaussian
from flatpc.learning.laplace import Laplace
from flatpc.learning.sharpness import Sharpness
from flatpc.structures.mutual_information import MAX_TABLE

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

Array = NDArray[np.float64]

FACTORIZED = (0.1, 1.0, 5.0)
"""Smoothings of independent variables."""
TREES = (("even", (0.1, 1.0)), ("marginals", (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)))
"""Priors of the Chow-Liu tree, and the smoothings of each."""
MIXTURES = ((2, 10.0), (5, 5.0), (10, 5.0), (20, 5.0))
"""Numbers of mixed Chow-Liu trees, and their smoothings."""

FEW = 2000
"""Rows below which the tree that a hidden one starts from is drawn towards its marginals."""
LARGE, FLAT = 48, (Sharpness(mu=0.3), Laplace(0.01, on="inputs"))
"""States of a latent, and regularisers, of a hidden tree that is large for few rows."""
MANY_VALUES = 256
"""Of a variable, beyond which hidden trees don't start from the Chow-Liu tree."""


@dataclass(frozen=True)
class Plan:
    """A model to be built from rows: the name of a structure, and its options."""

    structure: str
    options: dict[str, Any] = field(default_factory=dict)
    trained: bool = False
    """Whether it is only a start, to be trained by EM."""
    regularizer: tuple[Any, ...] = ()
    """With which its training begins."""

    @property
    def name(self) -> str:
        """For people.

        >>> Plan("hclt", {"n_latents": 8}).name
        'hclt(n_latents=8)'
        """
        return f"{self.structure}({', '.join(f'{key}={value!r}' for key, value in self.options.items())})"

    @property
    def n_mixed(self) -> int:
        """Trees of the mixture that it is or starts from; 0 if it takes none.

        >>> Plan("tree_mixture", {"n_trees": 5}).n_mixed, Plan("hclt", {"n_latents": 8}).n_mixed
        (5, 0)
        """
        mixed = self.structure == "tree_mixture" or self.options.get("trees") == "clusters"
        return int(self.options["n_trees"]) if mixed else 0

    def build(self, rows: Array, families: Sequence[Family], seed: int) -> Circuit:
        """The circuit, fitted to the rows or ready to be trained on them."""
        if self.structure == "rat_spn":
            circuit = structures.rat_spn(len(families), family=list(families), seed=seed, **self.options)
        else:
            chosen = {"seed": seed} if self.trained or self.structure == "tree_mixture" else {}
            circuit = getattr(structures, self.structure)(rows, family=list(families), **chosen, **self.options)
        if self.trained and any(isinstance(kind, Gaussian) for kind in families):
            return circuit.randomize(seed, X=rows)
        return circuit


def simple_plans(families: Sequence[Family]) -> list[Plan]:
    """Independent variables, and Chow-Liu trees where all variables are finite."""
    tables = [isinstance(kind, Bernoulli | Categorical) for kind in families]
    plans = [Plan("factorized", {"smoothing": s}) for s in (FACTORIZED if any(tables) else FACTORIZED[1:2])]
    if all(tables) and len(families) > 1:
        plans += [Plan("chow_liu", {"smoothing": s, "prior": prior}) for prior, several in TREES for s in several]
    return plans


def mixture_plans(families: Sequence[Family], rows: Array) -> list[Plan]:
    """Mixtures of Chow-Liu trees, as many as there are rows for."""
    if not _tabular(families) or np.isnan(rows).any() or _n_values(families) > MAX_TABLE:
        return []
    return [Plan("tree_mixture", {"n_trees": n, "smoothing": s}) for n, s in MIXTURES if len(rows) >= 10 * n]


def hidden_plans(families: Sequence[Family], rows: Array, sharpness: bool) -> list[Plan]:
    """Hidden Chow-Liu trees of several sizes, starts and numbers of trees; Einsum Networks for numbers.

    Sizes are those for which there are six rows for each state of a latent, and the smallest; where rows are few and `sharpness`
    may be penalised, also one that is too large for them without the penalty.
    """
    if not _tabular(families):
        plans = [Plan("hclt", {"n_latents": size}, trained=True) for size in _fitting((4, 8, 16), rows)]
        if len(families) > 1:
            plans.append(Plan("rat_spn", {"depth": 1, "n_repetitions": 5, "n_sums": 10, "n_inputs": 10}, trained=True))
        return plans
    least = max(kind.n_categories or 2 for kind in families)
    start: dict[str, Any] = {"init": "chow-liu", "noise": 0.3}
    if least > MANY_VALUES:
        # A state for each value would be more than can be learnt.
        least, start = 1, {}
    elif len(rows) < FEW:
        start |= {"prior": "marginals", "smoothing": 10.0}
    plans = []
    # Either start is better now and then, and models that differ are better averaged: sizes take turns.
    for place, size in enumerate(_fitting((4, 8, 16, 32, 64), rows)[-3:]):
        plans.append(Plan("hclt", {"n_latents": max(size, least), **({} if place == 1 else start)}, trained=True))
    if len(rows) < FEW and sharpness:
        plans.append(Plan("hclt", {"n_latents": max(LARGE, least)}, trained=True, regularizer=FLAT))
    if start and not np.isnan(rows).any() and _n_values(families) <= MAX_TABLE:
        clusters = {"trees": "clusters", "smoothing": 5.0, "init": "chow-liu", "noise": 0.3}
        for size, n_trees in ((4, 4), (8, 10), (16, 8))[0 if len(rows) < FEW else 1 :]:
            if len(rows) >= 50 * n_trees:
                plans.append(Plan("hclt", {"n_latents": max(size, least), "n_trees": n_trees, **clusters}, trained=True))
    return plans


def _fitting(sizes: Sequence[int], rows: Array) -> list[int]:
    return [size for size in sizes if size == sizes[0] or len(rows) >= 6 * size]


def _n_values(families: Sequence[Family]) -> int:
    return sum(kind.n_categories or 0 for kind in families)


def _tabular(families: Sequence[Family]) -> bool:
    return all(isinstance(kind, Bernoulli | Categorical) for kind in families)
