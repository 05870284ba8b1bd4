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
from flatpc.search.plans import MOST_KERNELS, Plan
from flatpc.search.samples import Sample
from flatpc.structures.factorized import fit_columns, independent
from flatpc.structures.kernels import Spread, around_rows
from flatpc.structures.trees.binned_tree import binned_tree
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

    def __init__(self, rows: Sample, valid: Array, families: Sequence[Family], seed: int, given: Sample | None = None) -> None:
        """`given` are validation rows that the spread of columns may be taken from."""
        self.rows, self.valid, self.families, self.seed, self.given = rows, valid, families, seed, given
        self._spreads: dict[tuple[float, str], Spread] = {}

    def fit(self, plan: Plan) -> Judged:
        """Fit a plan and judge it."""
        if plan.structure == "factorized":
            return self._factorized(**plan.options)
        if plan.structure == "kernels":
            return self._kernels(**plan.options)
        if plan.structure == "binned_tree":
            return self._binned_tree(**plan.options)
        if plan.structure == "chow_liu":
            return self._trees(np.ones(1), [self._tree(**plan.options)])
        return self._trees(*self._mixture(**plan.options))

    def _mixture(self, **options: Any) -> tuple[Array, list[TreeModel]]:
        return fit_tree_mixture(self.rows.X, self._sizes, seed=self.seed, row_weights=self.rows.weights, **options)

    def _binned_tree(self, **options: Any) -> Judged:
        circuit = binned_tree(self.rows.X, family=list(self.families), seed=self.seed, sample_weight=self.rows.weights, **options)
        log_prob = circuit.log_prob(self.valid, missing="marginalize") if len(self.valid) else np.empty(0)
        return np.asarray(log_prob), lambda: circuit

    def _factorized(self, smoothing: float | None, by: str = "rows") -> Judged:
        if smoothing is None:
            smoothing = smoothing_of_columns(self.rows, self.families)
        fitted: list[Any] = fit_columns(*self._by(by), smoothing)
        total = np.zeros(len(self.valid))
        for v, kind in enumerate(self.families):
            total += asking.log_density(kind, fitted[v], self.valid[:, v])[:, 0]
        return total, lambda: independent(self.families, fitted)

    def _kernels(self, share: float, smoothing: float, by: str = "rows") -> Judged:
        if (smoothing, by) not in self._spreads:
            self._spreads[smoothing, by] = Spread.of(*self._by(by), smoothing)
        spread = self._spreads[smoothing, by]
        rows = self.rows
        if len(rows) > MOST_KERNELS:
            rows = rows.some(np.sort(np.random.default_rng(self.seed).permutation(len(rows))[:MOST_KERNELS]))
        circuit = around_rows(rows.X, self.families, spread, share, _weights(rows))
        judged = circuit.log_prob(self.valid, missing="marginalize") if len(self.valid) else np.empty(0)
        return np.asarray(judged), lambda: circuit

    def _by(self, by: str) -> tuple[Array, Sequence[Family], Array]:
        """Rows that tell the spread of columns, families, and how often each row counts."""
        samples = [self.rows, *([self.given] if by == "all" and self.given is not None else [])]
        return np.concatenate([s.X for s in samples]), self.families, np.concatenate([_weights(s) for s in samples])

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


def _weights(sample: Sample) -> Array:
    return np.ones(len(sample)) if sample.weights is None else sample.weights
