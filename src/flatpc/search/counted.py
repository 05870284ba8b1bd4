"""Models that are counted rather than trained, evaluated without their circuits.

A tree of many variables is evaluated in less time than its circuit takes to set up, and few of the circuits are wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logsumexp

from flatpc._typing import Array
from flatpc.families import Family, asking
from flatpc.search.leave_one_out import smoothing_of_columns, smoothing_of_tree
from flatpc.search.plans import Plan
from flatpc.search.samples import Sample
from flatpc.structures.factorized import factorized
from flatpc.structures.trees.chow_liu import table_sizes, tree_circuit
from flatpc.structures.trees.mutual_information import PairCounts
from flatpc.structures.trees.tree_mixture import fit_tree_mixture
from flatpc.structures.trees.tree_models import TreeModel, fit_tree, tree_tables

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

Judged = tuple[Array, Callable[[], "Circuit"]]
"""Log-likelihoods of the validation rows, and how to get the circuit."""


def fitted(plan: Plan, rows: Sample, families: Sequence[Family], seed: int) -> Circuit:
    """The circuit of a plan that is counted."""
    return Counted(rows, rows.X[:0], families, seed).fit(plan)[1]()


class Counted:
    """Fits the simple plans to the same rows; what they share is counted once."""

    def __init__(self, rows: Sample, valid: Array, families: Sequence[Family], seed: int) -> None:
        self.rows, self.valid, self.families, self.seed = rows, valid, families, seed

    def fit(self, plan: Plan) -> Judged:
        """Fit a plan and judge it."""
        if plan.structure == "factorized":
            return self._factorized(**plan.options)
        if plan.structure == "chow_liu":
            return self._trees(np.ones(1), [self._tree(**plan.options)])
        return self._trees(*self._mixture(**plan.options))

    def _mixture(self, **options: Any) -> tuple[Array, list[TreeModel]]:
        return fit_tree_mixture(self.rows.X, self._sizes, seed=self.seed, row_weights=self.rows.weights, **options)

    def _factorized(self, smoothing: float | None) -> Judged:
        if smoothing is None:
            smoothing = smoothing_of_columns(self.rows, self.families)
        circuit = factorized(self.rows.X, family=list(self.families), smoothing=smoothing, sample_weight=self.rows.weights)
        total = np.zeros(len(self.valid))
        for v, kind in enumerate(self.families):
            parameters: Any = circuit.parameters[v]
            total += asking.log_density(kind, parameters, self.valid[:, v])[:, 0]
        return total, lambda: circuit

    def _tree(self, smoothing: float | None, prior: str) -> TreeModel:
        if prior == "even":
            assert smoothing is not None
            return fit_tree(self._counts, smoothing)
        # The tree itself doesn't depend on the smoothing.
        tree = self._drawn_to_marginals.tree
        if smoothing is None:
            smoothing = smoothing_of_tree(tree, self._counts, self.rows)
        return TreeModel(tree, tree_tables(tree, self._counts, smoothing, prior))

    def _trees(self, weights: Array, models: list[TreeModel]) -> Judged:
        def make() -> Circuit:
            return tree_circuit(models, weights)

        if np.isnan(self.valid).any():
            return np.asarray(make().log_prob(self.valid, missing="marginalize")), make
        parts = np.stack([model.log_prob(self.valid) for model in models], axis=1)
        return np.asarray(logsumexp(parts + np.log(weights), axis=1)), make

    @cached_property
    def _sizes(self) -> list[int]:
        return table_sizes(self.families, "a tree")

    @cached_property
    def _counts(self) -> PairCounts:
        return PairCounts(self.rows.X, self._sizes, self.rows.weights)

    @cached_property
    def _drawn_to_marginals(self) -> TreeModel:
        return fit_tree(self._counts, 1.0, "marginals")
