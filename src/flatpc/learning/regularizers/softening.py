"""Data softening (Liu and Van den Broeck, 2021): learn from rows that are a little unsure of every value.

A value x of a variable with K values becomes v with probability W(v | x): β for v = x and (1-β)/(K-1) for each other one, or
towards the marginals m, β[v = x] + (1-β) m(v). The softened data set holds every row x' with weight Π W(x'_i | x_i) for each row
x; that is exponentially many, but no more than one pass per row is needed:

- A **deterministic** circuit has one induced tree per x', and values are independent under W. With all weights 1 and an
  input's value replaced by the probability that x' lies in its support, flows are the expected ones: exact.
- With **latent** variables the posterior of z would be another one for each x', and its mean is intractable. One q(z | x) per
  row gives a lower bound on the softened log-likelihood, which is largest for q ∝ exp E log p(x', z): an input's value is
  then Π_v p(v)^W(v|x), again one pass. EM climbs Σ_x log Σ_z exp E log p(x', z). Without sums it is exact.
- `draws` rows x' per row, drawn anew for every batch, give for any circuit flows whose mean is that of the softened data set.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from flatpc._options import choice, number, put, whole_number
from flatpc.circuit.nodes import Input
from flatpc.engine.numba.evaluator import Evaluator
from flatpc.engine.numba.evidence import Evidence
from flatpc.errors import MissingValueError, OptionError

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

_STREAM = 0x50F7
"""Keeps draws apart from the order of rows, which is drawn from the same seed."""
TOWARD = ("uniform", "marginals")
SMALLEST = 1e-30
"""Probabilities count as at least this in a logarithm: softening is there to do away with zeros, which it could not leave."""


@dataclass(frozen=True)
class Softening:
    """Keep each value of a Bernoulli or categorical variable with probability `beta`.

    Parameters
    ----------
    beta
        From 0 to 1; 1 leaves the data as they are.
    toward
        What takes the place of a value: `"uniform"`, any other one, or `"marginals"`, one drawn from the column.
    draws
        None for one pass in closed form; otherwise how many softened rows are drawn in place of each row.
    """

    beta: float = 0.998
    toward: str = "uniform"
    draws: int | None = None

    def __post_init__(self) -> None:
        what = "it is the probability that a value is kept, in (0, 1]"
        put(self, beta=number("Softening: beta", self.beta, 0.0, 1.0, above=True, what=what))
        choice("Softening: toward", self.toward, TOWARD)
        if self.draws is not None:
            put(self, draws=whole_number("Softening: draws", self.draws, 1))

    def transitions(self, n: int, counts: Array) -> Array:
        """`[n, n]`: W(v | x) in row x and column v, for a variable with n values that occur so often."""
        kept: Array = np.eye(n)
        if n == 1:
            return kept
        replaced = (1 - kept) / (n - 1) if self.toward == "uniform" else (counts + 1 / n) / (counts.sum() + 1)
        return self.beta * kept + (1 - self.beta) * replaced


class Softened:
    """Adds up flows over softened rows."""

    def __init__(self, softening: Softening, evaluator: Evaluator, X: Array) -> None:
        self.evaluator = evaluator
        self.draws = 0
        circuit = evaluator.circuit
        self.exact = _is_exact(circuit)
        if self.exact and np.isnan(X).any():
            raise MissingValueError("Softening a deterministic circuit needs complete rows; fill in what is missing.")
        self._tables = [
            (i, softening.transitions(len(counts), counts))
            for i in evaluator.program.input_blocks
            if isinstance(node := circuit.nodes[i], Input) and node.family.is_table
            for counts in [_counts(circuit, i, X)]
        ]

    def statistics(self, evidence: Evidence, rows: Ints) -> tuple[float, Any, Array]:
        """Expected flows; the log-likelihood of the softened rows, or its bound."""
        return self._exact(evidence, rows) if self.exact else self._bound(evidence, rows)

    def _views(self, flat: Array) -> list[Array]:
        """`[values, width]` of each softened input."""
        out = []
        for i, W in self._tables:
            offset, (rows, stride) = self.evaluator.program.input_blocks[i]
            block = flat[offset : offset + rows * stride].reshape(rows, stride)
            out.append(block[: len(W), : self.evaluator.circuit.widths[i]])
        return out

    def _bound(self, evidence: Evidence, rows: Ints) -> tuple[float, Any, Array]:
        e = self.evaluator
        inputs, soft = e.inputs, e.inputs.copy()
        for view, (_, W) in zip(self._views(soft), self._tables, strict=True):
            view[:] = np.exp(W @ np.log(np.maximum(view, SMALLEST)))
        e.inputs = soft
        try:
            log_prob, gradient, statistics = e.statistics(evidence, rows)
        finally:
            e.inputs = inputs
        for view, (_, W) in zip(self._views(statistics), self._tables, strict=True):
            view[:] = W.T @ view
        return float(log_prob.sum()), gradient, statistics

    def _exact(self, evidence: Evidence, rows: Ints) -> tuple[float, Any, Array]:
        e = self.evaluator
        weights, inputs = e.weights, e.inputs
        soft = inputs.copy()
        supports = [(view > 0).astype(np.float64) for view in self._views(inputs)]
        for view, support, (_, W) in zip(self._views(soft), supports, self._tables, strict=True):
            view[:] = W @ support
        e.weights, e.inputs = (weights > 0).astype(weights.dtype), soft
        try:
            _, flow, statistics = e.statistics(evidence, rows)
        finally:
            e.weights, e.inputs = weights, inputs
        flow = flow * (weights > 0)
        total = float(xlogy(flow, np.where(weights > 0, weights, 1.0)).sum())
        for view, support, old, there, (_, W) in zip(
            self._views(statistics), supports, self._views(inputs), self._views(soft), self._tables, strict=True
        ):
            view[:] = support * (W.T @ np.divide(view, there, out=np.zeros_like(view), where=there > 0))
            total += float(xlogy(view, np.where(support > 0, old, 1.0)).sum())
        gradient = np.divide(flow, weights, out=np.zeros_like(weights), where=weights > 0)
        return total, gradient, statistics


class Drawn:
    """Adds up flows over rows drawn from the softened ones."""

    def __init__(self, softening: Softening, evaluator: Evaluator, X: Array, seed: int, rank: int = 0) -> None:
        self.evaluator, self.softening = evaluator, softening
        self.draws = 0
        self._seed = [_STREAM, seed, rank]
        self._cumulative: dict[int, Array] = {}
        for v, family in enumerate(evaluator.circuit.families):
            if family.is_table:
                n, column = family.n_categories or 0, X[:, v]
                counts = np.bincount(column[~np.isnan(column)].astype(np.int64), minlength=n).astype(np.float64)
                self._cumulative[v] = np.cumsum(softening.transitions(n, counts), axis=1)[:, :-1]

    def statistics(self, evidence: Evidence, rows: Ints) -> tuple[float, Any, Array]:
        """Flows of as many draws per row as were asked for, divided by their number."""
        n = self.softening.draws
        assert n is not None
        drawn = self.draw(np.tile(evidence.X[rows], (n, 1)))
        log_prob, gradient, statistics = self.evaluator.statistics(Evidence(evidence.program, drawn), np.arange(len(drawn)))
        return float(log_prob.sum()) / n, gradient / n, statistics / n

    def draw(self, X: Array) -> Array:
        """The rows with values exchanged, in place; missing ones stay missing."""
        rng = np.random.default_rng([*self._seed, self.draws])
        self.draws += 1
        for v, cumulative in self._cumulative.items():
            seen = np.flatnonzero(~np.isnan(X[:, v]))
            limits = cumulative[X[seen, v].astype(np.int64)]
            X[seen, v] = (limits <= rng.random((len(seen), 1))).sum(axis=1)
        return X


def _is_exact(circuit: Circuit) -> bool:
    """Whether expected flows are tractable: indicators tell the children of every sum apart."""
    families = [node.family for node in circuit.nodes if isinstance(node, Input)]
    if all(family.learnable for family in families):
        return False
    if not circuit.is_deterministic or not all(family.is_table for family in families):
        raise OptionError(
            "Softening can't blur indicators in this circuit: it isn't known to be deterministic, or has inputs other than "
            "Bernoulli, categorical and indicator. Use Bernoulli or categorical inputs instead of indicators."
        )
    return True


def _counts(circuit: Circuit, owner: int, X: Array) -> Array:
    """How often each value occurs in the columns of the inputs that share the owner's parameters."""
    node = circuit.nodes[owner]
    assert isinstance(node, Input)
    n = node.family.n_categories
    assert n is not None
    out = np.zeros(n)
    for i, other in enumerate(circuit.nodes):
        if isinstance(other, Input) and circuit.owners[i] == owner:
            column = X[:, other.variable]
            out += np.bincount(column[~np.isnan(column)].astype(np.int64), minlength=n)
    return out
