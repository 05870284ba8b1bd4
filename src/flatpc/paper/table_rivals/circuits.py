"""Both scores of a circuit that was learnt from a table, exactly: inputs give densities, or probabilities of x ± r/2.

A probability of a value counts as one of its cell, so that a column that the circuit takes for whole numbers or for multiples
of a resolution s has the density P(x) / s; and a value that stands out (`fp.Hurdle`) has its probability over r.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from flatpc._typing import Array
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.nodes import Input, Mixture, Product
from flatpc.datasets.table_splits import TableSplits
from flatpc.estimator.density import CircuitDensity
from flatpc.families.base import Family, Parameters
from flatpc.families.discretized import Discretized
from flatpc.paper.table_rivals.gaussians import log_box
from flatpc.paper.table_rivals.rows import SCORES

CHUNK = 500
"""Rows at a time."""


@dataclass(frozen=True)
class Scorer:
    """One of `SCORES` of a circuit over a table's columns."""

    circuit: Circuit
    name: str
    continuous: Array
    """`[D]`: whether a column is continuous in the comparison, whatever the circuit takes it for."""
    r: Array
    """`[D]`: resolutions."""

    def __call__(self, rows: Array) -> Array:
        """`[N]`."""
        return np.concatenate([self._part(rows[i : i + CHUNK]) for i in range(0, len(rows), CHUNK)])

    def _part(self, rows: Array) -> Array:
        values: list[Array] = []
        for i, node in enumerate(self.circuit.nodes):
            given: Any = self.circuit.parameters.get(i)
            if isinstance(node, Input):
                values.append(self._input(node, given, rows))
            elif isinstance(node, Product):
                out = values[node.children[0]]
                for child in node.children[1:]:
                    other = values[child]
                    if node.kind == "kronecker":
                        out = (out[:, :, None] + other[:, None, :]).reshape(len(rows), -1)
                    else:
                        out = out + other
                values.append(out)
            elif isinstance(node, Mixture):
                with np.errstate(divide="ignore"):
                    logs = np.log(given).T[None]
                values.append(np.asarray(logsumexp(np.stack([values[c] for c in node.children], axis=1) + logs, axis=1)))
            else:
                values.append(_sums(np.hstack([values[c] for c in node.children]), np.asarray(given, np.float64)))
        return values[self.circuit.root][:, 0]

    def _input(self, node: Input, parameters: Parameters, rows: Array) -> Array:
        variables = list(getattr(node, "variables", None) or (node.variable,))
        if len(variables) > 1:
            return self._block(node, parameters, rows[:, variables], self.r[variables])
        j = variables[0]
        return self._column(node.family, parameters, rows[:, j], bool(self.continuous[j]), float(self.r[j]))

    def _block(self, node: Input, parameters: Parameters, x: Array, r: Array) -> Array:
        """Several variables at once."""
        if self.name == "plain":
            return node.family.log_density(parameters, x)
        family: Any = node.family
        covariance = family.covariance(parameters)
        # Cells are boxes behind maps too; what lies below all values is no part of one.
        least = np.array([family.marginal_family(j).bounds[0] for j in range(family.n_variables)])
        start = np.where(np.isfinite(least), least, 0.0)
        low = family.forward(np.where(np.isfinite(least), np.maximum(x - r / 2, start + 1e-9 * (x + r / 2 - start)), x - r / 2))
        high = family.forward(x + r / 2)
        centre, width = (low + high) / 2, high - low
        out = np.empty((len(x), len(covariance)))
        for missing in np.unique(np.isnan(x), axis=0):
            at, known = np.flatnonzero((np.isnan(x) == missing).all(axis=1)), np.flatnonzero(~missing)
            factors = np.linalg.cholesky(covariance[:, known[:, None], known])
            means, cells = parameters["mean"][:, known], np.ix_(at, known)
            boxes = [log_box(centre[cells], width[cells], mean, factor) for mean, factor in zip(means, factors, strict=True)]
            out[at] = np.stack(boxes, axis=1) - float(np.log(r[known]).sum())
        return out

    def _column(self, family: Family, parameters: Parameters, x: Array, continuous: bool, r: float) -> Array:
        missing = np.isnan(x)
        width = len(next(iter(parameters.values())))
        out = np.full((len(x), width), -np.inf)
        asked = np.flatnonzero(~missing & ~self._outside(family, x, continuous, r))
        if len(asked):
            out[asked] = self._known(family, parameters, x[asked], continuous, r)
        out[missing] = 0.0
        return out

    def _outside(self, family: Family, x: Array, continuous: bool, r: float) -> NDArray[np.bool_]:
        """Values that have no density; or cells of which the family reaches nothing."""
        if family.discrete or (self.name == "plain" and continuous):
            return family.outside(x)
        low, high = family.bounds
        return np.asarray((x + r / 2 <= low) | (x - r / 2 >= high))

    def _known(self, family: Family, parameters: Parameters, x: Array, continuous: bool, r: float) -> Array:
        if family.discrete:
            step = family.grid[0] if family.grid is not None else 1.0
            if not continuous:
                return family.log_density(parameters, x)
            if self.name == "plain" or r < 1.5 * step:
                return np.asarray(family.log_density(parameters, x) - np.log(max(step, r) if self.name == "bounded" else step))
            with np.errstate(divide="ignore"):
                return np.asarray(np.log(family.cdf(parameters, x + r / 2) - family.cdf(parameters, x - r / 2)) - np.log(r))
        if family.set_apart:
            return self._hurdle(family, parameters, x, continuous, r)
        if self.name == "plain" and continuous:
            return family.log_density(parameters, x)
        return np.asarray(Discretized(family, r).log_density(parameters, x) - np.log(r))

    def _hurdle(self, family: Any, parameters: Parameters, x: Array, continuous: bool, r: float) -> Array:
        rest = {name: value for name, value in parameters.items() if name != "shares"}
        with np.errstate(divide="ignore"):
            logs = np.log(parameters["shares"])
        values = self._column(family.family, rest, x, continuous, r) + logs[:, -1]
        wide = self.name == "bounded" or not continuous
        for i, atom in enumerate(family.atoms):
            at = abs(x - atom) < r / 2 if wide else x == atom
            others = values[at] if wide else np.full((int(at.sum()), values.shape[1]), -np.inf)
            values[at] = np.logaddexp(others, logs[:, i] - np.log(r))
        return values


def _sums(children: Array, weights: Array) -> Array:
    top = children.max(axis=1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.exp(children - top) @ weights.T) + top)


def default_scores(data: TableSplits, seed: int, **options: Any) -> tuple[dict[str, Array], CircuitDensity]:
    """Both scores of test rows, by `CircuitDensity` of training and validation rows together, and what was learnt."""
    import polars as pl

    density = CircuitDensity(random_state=seed, verbose=False, missing="marginalize", **options)
    density.fit(pl.concat([data.frame("train"), data.frame("valid")]))
    return circuit_scores(density, data), density


def circuit_scores(density: CircuitDensity, data: TableSplits) -> dict[str, Array]:
    """Both scores of test rows."""
    evidence, _ = density._evidence(data.frame("test"))
    continuous, rare = data.n_values == 0, evidence.rare.sum(axis=1)
    return {name: Scorer(density.circuit_, name, continuous, data.resolutions())(evidence.rows) + rare for name in SCORES}
