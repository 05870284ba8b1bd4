"""Plans: models that may be tried for a table.

Where all columns are binary or categorical, independent columns, Chow-Liu trees and their mixtures are counted, and hidden
Chow-Liu trees of several sizes, starts and numbers of trees are trained. Otherwise independent columns are counted, and kernel
densities of few rows; mixtures of independent columns, hidden trees, and random tensorised circuits where all columns are
continuous, are trained. A user's wishes leave some out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from flatpc import structures
from flatpc._messages import Message, Option
from flatpc._options import choice
from flatpc.errors import OptionError
from flatpc.families import Family
from flatpc.learning.regularizers.laplace import Laplace
from flatpc.learning.regularizers.sharpness import Sharpness
from flatpc.search import work
from flatpc.search.clusters import most_rows, start_at_clusters
from flatpc.search.samples import Sample
from flatpc.structures.blocks import SIZE, find_blocks
from flatpc.structures.trees.mutual_information import MAX_TABLE

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit


FACTORIZED = (None, 0.1, 1.0, 5.0)
"""Smoothings of independent variables; None is the one that leave-one-out chooses."""
TREES = (("even", (0.1, 1.0)), ("marginals", (None, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)))
"""Priors of the Chow-Liu tree, and the smoothings of each."""
MIXTURES = ((2, 10.0), (5, 5.0), (10, 5.0), (20, 5.0))
"""Numbers of mixed Chow-Liu trees, and their smoothings."""
COUNTED_SHARE = 0.2
"""Of a tree's work for each Chow-Liu tree: pairs are counted once for all smoothings."""

FEW = 2000
"""Rows below which the tree that a hidden one starts from is drawn towards its marginals."""
LARGE, FLAT = 48, (Sharpness(mu=0.3), Laplace(0.01, on="inputs"))
"""States of a latent, and regularisers, of a hidden tree that is large for few rows."""
SIZES = {"mixture": (128,), "hclt": (16, 64), "rat_spn": (16,)}
"""Sizes tried where not all columns have categories, never more than a quarter of the rows; twice the best is tried later."""
SMALL = {"mixture": (8,), "hclt": (4,)}
"""Further ones, where rows are few."""
FLOORS = (1e-2, 1e-3, 1e-4)
"""Of the variance of a Gaussian input, where columns have variance 1; lower ones are tried once a model is chosen."""
LOW_FLOORS = (1e-5, 1e-6, 1e-7)
"""Further ones of columns that are correlated, some of which may follow from the others."""
COMPONENTS, MOST_CORRELATED = (1, 4, 16, 64), 64
"""Multivariate Gaussians that are mixed, and the most columns of one."""
PER_COLUMN = 2
"""Rows for each of its columns that there have to be for each of several."""
POOLED = 0.25
"""Rows for each column, for which each has the common covariance of all; more and less is tried once a model is chosen."""
FEW_COLUMNS = 3
"""Of which none is likely to follow from the others."""
BLOCK_STATES, MANY_STATES, PER_STATE = (4, 16), (16, 64), 40
"""Of hidden trees whose leaves are blocks of correlated columns; of more where there are so many rows for each of the most."""
LEAST_FOR_RANK = 6
"""Correlated columns from which covariances of low rank are tried; they start with a quarter as many loadings."""
MANY_VALUES = 256
"""Of a variable, beyond which hidden trees don't start from the Chow-Liu tree."""
START_PSEUDOCOUNT = 0.3
"""Of inputs that are fitted to clusters of rows."""

NAMES = {
    "factorized": "independent columns",
    "kernels": "kernel density",
    "binned_tree": "tree of bins",
    "chow_liu": "Chow-Liu tree",
    "tree_mixture": "mixture of Chow-Liu trees",
    "hclt": "hidden Chow-Liu tree",
    "mixture": "mixture of independent columns",
    "rat_spn": "random tensorised circuit",
}
SEVERAL = {
    "binned_tree": "{} trees of bins",
    "tree_mixture": "mixture of {} Chow-Liu trees",
    "hclt": "{} hidden Chow-Liu trees",
}
"""Names of those that may have several trees."""
STRUCTURES = tuple(NAMES)
KERNELS = (0.1, 0.03, 0.3, 0.01, 0.6, 0.003)
"""Shares of kernel densities, where not all columns have categories; what is often best comes first."""
BINS = 40
"""Of a number in a tree of bins, at the most."""
BINNED_TREES = (1, 12)
"""So many of them."""
MOST_KERNELS = 1000
"""Rows, and so components, of one; of more rows, it is tried only if it is asked for, around some of them."""


@dataclass(frozen=True)
class Wishes:
    """What a user has decided; None or `"auto"` leaves it open."""

    structure: str = "auto"
    n_latents: int | None = None
    depth: int | None = None
    """Cuts of a `rat_spn`."""

    def allow(self, structure: str) -> bool:
        return self.structure in ("auto", structure)

    def sizes(self, sizes: Sequence[int]) -> Sequence[int]:
        return sizes if self.n_latents is None else [self.n_latents]


@dataclass(frozen=True)
class Plan:
    """A model to be built from rows: the name of a structure, and its options."""

    structure: str
    options: dict[str, Any] = field(default_factory=dict)
    trained: bool = False
    """Whether it is only a start, to be trained by EM."""
    regularizer: tuple[Any, ...] = ()
    """With which its training begins."""
    clustered: bool = False
    """Whether units of inputs start at clusters of rows."""
    front: int = 0
    """Behind which front it is learnt: 0 has columns as they are, 1 maps skewed ones."""
    floor: float | None = None
    """Of variances, with which its training begins; None leaves it to the search."""
    floors: tuple[float, ...] = FLOORS
    """From which others are tried once it is chosen, the highest first."""
    mixed: bool = False
    """Whether each unit of a column has several families, among which learning chooses."""
    ordered: bool = False
    """Whether columns have families for categories in order where those are better given the other columns."""
    whole: bool = False
    """Whether steps of EM are whole ones, by all rows at once: for few units with many parameters, that gets there sooner."""

    @property
    def name(self) -> str:
        """For people.

        >>> Plan("hclt", {"n_latents": 8, "init": "chow-liu"}, trained=True).name
        'hidden Chow-Liu tree, 8 latents, from a Chow-Liu tree'
        >>> Plan("tree_mixture", {"n_trees": 5, "smoothing": 3.0}).name
        'mixture of 5 Chow-Liu trees, smoothing 3'
        """
        given = self.options
        n_trees = given.get("n_trees", 1)
        parts = [SEVERAL[self.structure].format(n_trees) if n_trees > 1 else NAMES[self.structure]]
        if self.is_correlated:
            parts = [f"mixture of correlated columns, {self.n_latents} components"]
        elif self.n_latents:
            parts.append(f"{self.n_latents} latents")
        parts += ["of correlated blocks"] if self.structure == "hclt" and "blocks" in given else []
        parts += [f"of rank {given['rank']}"] if "rank" in given else []
        if "depth" in given:
            parts.append(f"depth {given['depth']}")
        if self.trained:
            parts += ["from a Chow-Liu tree"] if given.get("init") == "chow-liu" else []
        else:
            smoothing = "by leave-one-out" if given["smoothing"] is None else f"{given['smoothing']:g}"
            parts += [f"spread {given['spread']:g}"] if "spread" in given else []
            parts += [f"share {given['share']:g}"] if "share" in given else [f"smoothing {smoothing}"]
            parts[-1] += " (marginals)" if given.get("prior") == "marginals" else ""
            parts += ["spread by validation rows too"] if given.get("by") == "all" else []
        parts += ["several families to a unit"] if self.mixed else []
        parts += ["categories in order"] if self.ordered else []
        parts += ["of mapped columns"] if self.front else []
        return ", ".join(parts)

    @property
    def n_latents(self) -> int:
        """States of a latent; 0 for a model that is counted."""
        return int(self.options.get("n_latents", 0))

    @property
    def is_correlated(self) -> bool:
        """Whether it is a mixture of multivariate Gaussians."""
        return self.structure == "mixture" and "blocks" in self.options

    @property
    def kind(self) -> tuple[Any, ...]:
        """What it has in common with plans that differ in sizes and strengths alone."""
        return (
            self.structure,
            "blocks" in self.options,
            "rank" in self.options,
            self.options.get("trees"),
            self.front,
            self.mixed,
            self.ordered,
        )

    def work(self, n_rows: int, families: Sequence[Family]) -> float:
        """About how much work it is to build."""
        n_variables, n_values = len(families), _n_values(families)
        if self.structure in ("factorized", "rat_spn", "mixture"):
            built = work.of_setup(n_variables)
        elif self.structure == "kernels":
            built = work.of_kernels(min(n_rows, MOST_KERNELS), n_variables)
        elif self.structure == "binned_tree":
            built = work.of_binned_tree(n_rows, families, self.options["bins"], self.options["n_trees"])
        else:
            mixed = self.structure == "tree_mixture" or self.options.get("trees") == "clusters"
            tree = work.of_tree(n_rows, n_variables, n_values)
            built = work.of_mixed_trees(n_rows, n_variables, n_values, int(self.options["n_trees"])) if mixed else tree
            if self.structure == "chow_liu":
                built *= COUNTED_SHARE
        return built + (
            work.of_clusters(min(n_rows, most_rows(self.n_latents)), n_variables, self.n_latents) if self.clustered else 0.0
        )

    def build(self, rows: Sample, families: Sequence[Family], seed: int) -> Circuit:
        """The circuit, fitted to the rows or ready to be trained on them."""
        circuit = self._circuit(rows, list(families), seed)
        if self.clustered:
            return start_at_clusters(circuit, rows.X, seed, START_PSEUDOCOUNT, rows.weights)
        if self.trained and not self.is_correlated and any(kind.defines("initialize_from") for kind in families):
            return circuit.randomize(seed, X=rows.drawn())
        return circuit

    def _circuit(self, rows: Sample, families: list[Family], seed: int) -> Circuit:
        if self.is_correlated:
            return structures.mixture(
                rows.X,
                self.options["n_latents"],
                family=families,
                blocks=self.options["blocks"],
                pooled=self.options["pooled"],
                rank=self.options.get("rank"),
                smoothing=START_PSEUDOCOUNT,
                seed=seed,
                sample_weight=rows.weights,
            )
        if self.structure in ("rat_spn", "mixture"):
            size = self.options["n_latents"]
            depth, repetitions = (0, 1) if self.structure == "mixture" else (self.options.get("depth", 1), 5)
            return structures.rat_spn(
                len(families), depth=depth, n_repetitions=repetitions, n_sums=size, n_inputs=size, family=families, seed=seed
            )
        chosen = {"seed": seed} if self.trained or "n_trees" in self.options else {}
        made: Circuit = getattr(structures, self.structure)(
            rows.X, family=families, sample_weight=rows.weights, **chosen, **self.options
        )
        return made


def counted_plans(families: Sequence[Family], wishes: Wishes, n_rows: int, n_given: int = 0, bins: bool = True) -> list[Plan]:
    """Independent columns; Chow-Liu trees where all columns have categories, and kernel densities of few rows where not; trees
    of bins, unless there are to be no `bins`, where some columns are whole numbers or have more than two categories.

    Where more validation rows are given than rows to learn from, columns' spread may be that of both.
    """
    tables = [_is_table(kind) for kind in families]
    plans = [Plan("factorized", {"smoothing": s}) for s in (FACTORIZED if any(tables) else [1.0])]
    if all(tables) and len(families) > 1:
        plans += [Plan("chow_liu", {"smoothing": s, "prior": prior}) for prior, several in TREES for s in several]
    several = any(kind.discrete and (kind.n_categories or 3) > 2 for kind in families)
    if wishes.structure == "binned_tree" or (bins and several and len(families) > 1):
        plans += [Plan("binned_tree", {"bins": BINS, "smoothing": None, "n_trees": n}) for n in BINNED_TREES]
    if wishes.structure == "kernels" or (not all(tables) and n_rows <= MOST_KERNELS):
        plans += [Plan("kernels", {"share": share, "smoothing": 1.0}) for share in KERNELS]
    if not all(tables) and n_rows < n_given:
        plans += [replace(plan, options={**plan.options, "by": "all"}) for plan in plans if plan.structure != "binned_tree"]
    return [plan for plan in plans if wishes.allow(plan.structure)]


def mixture_plans(families: Sequence[Family], rows: Sample, wishes: Wishes) -> list[Plan]:
    """Mixtures of Chow-Liu trees, as many as there are rows for."""
    if not all(map(_is_table, families)) or len(families) == 1 or not wishes.allow("tree_mixture"):
        return []
    if np.isnan(rows.X).any() or _n_values(families) > MAX_TABLE:
        return []
    return [Plan("tree_mixture", {"n_trees": n, "smoothing": s}) for n, s in MIXTURES if rows.weight >= 10 * n]


def trained_plans(
    families: Sequence[Family], rows: Sample, wishes: Wishes, sharpness: bool, normal: Sequence[Family] | None = None
) -> list[Plan]:
    """Models with latents; `sharpness` says whether curvature may be penalised as the search sees fit.

    `normal` are the families where as many columns as possible are Gaussians, which may be correlated.
    """
    if all(map(_is_table, families)):
        plans = _hidden_trees(families, rows, wishes, sharpness) if len(families) > 1 else []
        if wishes.structure == "mixture":
            plans = _several("mixture", rows, wishes)
        return plans
    wanted = ["mixture"] if len(families) == 1 else ["mixture", "hclt"]
    all_continuous = all(kind.defines("rescaled") for kind in families)
    if len(families) > 1 and (all_continuous or wishes.structure == "rat_spn"):
        wanted.append("rat_spn")
    plans = [plan for structure in wanted if wishes.allow(structure) for plan in _several(structure, rows, wishes)]
    # What is cheap and often best comes first.
    return [*(_correlated(normal or families, rows) if wishes.structure == "auto" and wishes.n_latents is None else []), *plans]


def _correlated(families: Sequence[Family], rows: Sample) -> list[Plan]:
    """Mixtures of multivariate Gaussians times other columns, of as many components as there are rows for."""
    n = sum(kind.joins for kind in families)
    if not 2 <= n <= MOST_CORRELATED:
        return []
    sizes = [size for size in COMPONENTS if size == 1 or rows.weight >= PER_COLUMN * n * size]
    plan = Plan(
        "mixture", {"blocks": "all", "pooled": POOLED * n}, trained=True, whole=True, floor=FLOORS[-1],
        floors=(*FLOORS, *LOW_FLOORS) if n > FEW_COLUMNS else FLOORS,
    )  # fmt: skip
    return [replace(plan, options={"n_latents": size, **plan.options}) for size in sizes]


def further_plans(families: Sequence[Family], rows: Sample, best: Plan) -> list[Plan]:
    """What pays less often: hidden trees whose leaves are blocks of correlated columns, if there are such, and mixtures of
    Gaussians of low rank, of sizes around that of the best plan.

    `families` and `rows` are in the units in which columns may be correlated.
    """
    joined = sum(kind.joins for kind in families)
    plans = trees_of_blocks(families, rows, BLOCK_STATES)
    if LEAST_FOR_RANK <= joined <= MOST_CORRELATED:
        middle = best.n_latents if best.is_correlated else COMPONENTS[1]
        low = {"blocks": "all", "pooled": best.options.get("pooled", POOLED * joined), "rank": joined // 4}
        plans += [
            Plan("mixture", {"n_latents": size, **low}, trained=True, whole=True, floors=(*FLOORS, *LOW_FLOORS))
            for size in (middle, 4 * middle)
            if size == middle or rows.weight >= PER_COLUMN * low["rank"] * size
        ]
    return plans


def trees_of_blocks(families: Sequence[Family], rows: Sample, sizes: Sequence[int]) -> list[Plan]:
    """Hidden trees whose leaves are blocks of correlated columns, of those sizes for which there are such blocks."""
    joined = sum(kind.joins for kind in families)
    if not 2 <= joined <= MOST_CORRELATED or (len(families) == joined <= SIZE):
        return []
    return [
        Plan("hclt", {"n_latents": size, "blocks": "auto"}, trained=True, clustered=True, floors=(*FLOORS, *LOW_FLOORS))
        for size in sizes
        if size <= max(rows.weight // 4, 2)
        and any(len(block) > 1 for block in find_blocks(rows.X, families, SIZE, size, rows.weights))
    ]


def plain_mixtures(rows: Sample, wishes: Wishes) -> list[Plan]:
    """Mixtures of independent columns, which need no tree."""
    return _several("mixture", rows, wishes) if wishes.allow("mixture") else []


def _several(structure: str, rows: Sample, wishes: Wishes) -> list[Plan]:
    """One structure in several sizes, its units at clusters of rows."""
    out: list[Plan] = []
    most = max(int(rows.weight) // 4, 2)
    for size in wishes.sizes((*(SMALL.get(structure, ()) if rows.weight < FEW else ()), *SIZES[structure])):
        size = size if wishes.n_latents else min(size, most)
        # A size that is hardly another one is not worth the work.
        if out and size < 2 * out[-1].n_latents:
            continue
        depth = {"depth": wishes.depth} if structure == "rat_spn" and wishes.depth is not None else {}
        # The cuts of a rat_spn pair all units of their halves: each variable is clustered on its own, by `randomize`.
        out.append(Plan(structure, {"n_latents": size, **depth}, trained=True, clustered=structure != "rat_spn"))
    return out


def _hidden_trees(families: Sequence[Family], rows: Sample, wishes: Wishes, sharpness: bool) -> list[Plan]:
    """Hidden Chow-Liu trees of several sizes, starts and numbers of trees.

    Sizes are those for which there are six rows for each state of a latent, and the smallest; where rows are few and `sharpness`
    may be penalised, also one that is too large for them without the penalty.
    """
    if not wishes.allow("hclt"):
        return _several(wishes.structure, rows, wishes) if wishes.structure in SIZES else []
    least = max(kind.n_categories or 2 for kind in families)
    start: dict[str, Any] = {"init": "chow-liu", "noise": 0.3}
    if least > MANY_VALUES:
        # A state for each value would be more than can be learnt.
        least, start = 1, {}
    elif rows.weight < FEW:
        start |= {"prior": "marginals", "smoothing": 10.0}
    if wishes.n_latents is not None:
        fits = wishes.n_latents >= least
        return [Plan("hclt", {"n_latents": wishes.n_latents, **(start if fits else {})}, trained=True)]
    plans = []
    # Either start is better now and then, and models that differ are better averaged: sizes take turns.
    for place, size in enumerate(_fitting((4, 8, 16, 32, 64), rows)[-3:]):
        plans.append(Plan("hclt", {"n_latents": max(size, least), **({} if place == 1 else start)}, trained=True))
    if rows.weight < FEW and sharpness:
        plans.append(Plan("hclt", {"n_latents": max(LARGE, least)}, trained=True, regularizer=FLAT))
    if start and not np.isnan(rows.X).any() and _n_values(families) <= MAX_TABLE:
        clusters = {"trees": "clusters", "smoothing": 5.0, "init": "chow-liu", "noise": 0.3}
        for size, n_trees in ((4, 4), (8, 10), (16, 8))[0 if rows.weight < FEW else 1 :]:
            if rows.weight >= 50 * n_trees:
                plans.append(Plan("hclt", {"n_latents": max(size, least), "n_trees": n_trees, **clusters}, trained=True))
    return plans


def check_wishes(wishes: Wishes, families: Sequence[Family]) -> None:
    """Raise `OptionError` for a structure that there is none of, or that doesn't suit the columns."""
    choice("structure", wishes.structure, ("auto", *STRUCTURES))
    if wishes.structure in ("chow_liu", "tree_mixture") and not all(map(_is_table, families)):
        given = Option("structure", wishes.structure)
        text = f"{given} is for binary and categorical columns only; choose 'hclt' for tables with others."
        raise OptionError(Message(text, given), option="structure")


def _fitting(sizes: Sequence[int], rows: Sample) -> list[int]:
    return [size for size in sizes if size == sizes[0] or rows.weight >= 6 * size]


def _n_values(families: Sequence[Family]) -> int:
    return sum(kind.n_categories or 0 for kind in families)


def _is_table(family: Family) -> bool:
    return family.is_free_table
