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
from scipy.special import xlogy

from flatpc._options import choice, number, put, whole_number
from flatpc._row_weights import weighted_sum
from flatpc._typing import Array, Ints
from flatpc.circuit.nodes import Input
from flatpc.engine.contract import Evaluator, Evidence
from flatpc.engine.flat import input_view
from flatpc.errors import MissingValueError, OptionError
from flatpc.learning.regularizers.base import Regularizer
from flatpc.learning.steps.method import Method
from flatpc.learning.steps.rows import TrainingRows

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit


_STREAM = 0x50F7
"""Keeps draws apart from the order of rows, which is drawn from the same seed."""
TOWARD = ("uniform", "marginals")
SMALLEST = 1e-30
"""Probabilities count as at least this in a logarithm: softening is there to do away with zeros, which it could not leave."""


@dataclass(frozen=True)
class Softening(Regularizer):
    """Keep each value of a Bernoulli or categorical variable with probability `beta`.

    Parameters
    ----------
    beta
        From 0 to 1; 1 leaves the data as they are.
    toward
        What takes the place of a value: `"uniform"`, any other one, or `"marginals"`, one drawn from the column.
    draws
        None for one pass in closed form; otherwise how many softened rows are drawn in place of each row.

    Raises
    ------
    OptionError
        If an option is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> import flatpc as fp
    >>> fp.learning.Softening(beta=0.99)
    Softening(beta=0.99, toward='uniform', draws=None)
    >>> fp.learning.Softening(beta=0.75).transitions(2, np.array([5.0, 5.0]))
    array([[0.75, 0.25],
           [0.25, 0.75]])
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

    def collect(self, evaluator: Evaluator, rows: TrainingRows, seed: int, rank: int) -> Softened | Drawn:
        """Flows over softened rows, expected or drawn."""
        return Softened(self, evaluator, rows) if self.draws is None else Drawn(self, evaluator, rows, seed, rank)

    def objection(self, other: Regularizer, method: Method) -> str:
        """Draws change from one gradient to the next."""
        if self.draws is None or not other.defines("offset"):
            return ""
        return "two gradients are compared, and draws change the objective in between"

    def transitions(self, n: int, counts: Array) -> Array:
        """What values become.

        Parameters
        ----------
        n
            The number of values of a variable.
        counts
            `[n]`: how often each occurs.

        Returns
        -------
        array
            `[n, n]`: W(v | x), the probability that x becomes v, in row x and column v.
        """
        kept: Array = np.eye(n)
        if n == 1:
            return kept
        replaced = (1 - kept) / (n - 1) if self.toward == "uniform" else (counts + 1 / n) / (counts.sum() + 1)
        return self.beta * kept + (1 - self.beta) * replaced


class Softened:
    """Adds up flows over softened rows."""

    def __init__(self, softening: Softening, evaluator: Evaluator, rows: TrainingRows) -> None:
        self.evaluator = evaluator
        self.draws = 0
        circuit = evaluator.circuit
        self.exact = _is_exact(circuit)
        if self.exact and np.isnan(rows.X).any():
            raise MissingValueError("Softening a deterministic circuit needs complete rows; fill in what is missing.")
        self._tables = [
            (i, softening.transitions(len(counts), counts))
            for i in evaluator.program.input_blocks
            if isinstance(node := circuit.nodes[i], Input) and node.family.is_table
            for counts in [_counts(circuit, i, rows)]
        ]

    def statistics(self, evidence: Evidence, rows: Ints, weights: Array | None = None) -> tuple[float, Any, Array]:
        """Expected flows; the log-likelihood of the softened rows, or its bound."""
        return self._exact(evidence, rows, weights) if self.exact else self._bound(evidence, rows, weights)

    def _views(self, flat: Array) -> list[Array]:
        """`[values, width]` of each softened input."""
        e = self.evaluator
        return [input_view(e.circuit, e.program, flat, i)[: len(W)] for i, W in self._tables]

    def _bound(self, evidence: Evidence, rows: Ints, row_weights: Array | None) -> tuple[float, Any, Array]:
        e = self.evaluator
        inputs, soft = e.inputs, e.inputs.copy()
        for view, (_, W) in zip(self._views(soft), self._tables, strict=True):
            view[:] = np.exp(W @ np.log(np.maximum(view, SMALLEST)))
        e.inputs = soft
        try:
            log_prob, gradient, statistics = e.statistics(evidence, rows, row_weights)
        finally:
            e.inputs = inputs
        for view, (_, W) in zip(self._views(statistics), self._tables, strict=True):
            view[:] = W.T @ view
        return weighted_sum(log_prob, rows, row_weights), gradient, statistics

    def _exact(self, evidence: Evidence, rows: Ints, row_weights: Array | None) -> tuple[float, Any, Array]:
        e = self.evaluator
        weights, inputs = e.weights, e.inputs
        soft = inputs.copy()
        supports = [(view > 0).astype(np.float64) for view in self._views(inputs)]
        for view, support, (_, W) in zip(self._views(soft), supports, self._tables, strict=True):
            view[:] = W @ support
        e.weights, e.inputs = (weights > 0).astype(weights.dtype), soft
        try:
            _, flow, statistics = e.statistics(evidence, rows, row_weights)
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

    def __init__(self, softening: Softening, evaluator: Evaluator, rows: TrainingRows, seed: int, rank: int = 0) -> None:
        self.evaluator, self.softening = evaluator, softening
        self.draws = 0
        self._seed = [_STREAM, seed, rank]
        self._cumulative: dict[int, Array] = {}
        for v, family in enumerate(evaluator.circuit.families):
            if family.is_table:
                n = family.n_categories or 0
                counts = _counts_of_column(rows, v, n)
                self._cumulative[v] = np.cumsum(softening.transitions(n, counts), axis=1)[:, :-1]

    def statistics(self, evidence: Evidence, rows: Ints, weights: Array | None = None) -> tuple[float, Any, Array]:
        """Flows of as many draws per row as were asked for, divided by their number."""
        n = self.softening.draws
        assert n is not None
        drawn = self.draw(np.tile(evidence.X[rows], (n, 1)))
        counted = None if weights is None else np.tile(weights[rows], n)
        every = np.arange(len(drawn))
        log_prob, gradient, statistics = self.evaluator.statistics(self.evaluator.evidence(drawn), every, counted)
        return weighted_sum(log_prob, every, counted) / n, gradient / n, statistics / n

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


def _counts(circuit: Circuit, owner: int, rows: TrainingRows) -> Array:
    """How often each value occurs in the columns of the inputs that share the owner's parameters."""
    node = circuit.nodes[owner]
    assert isinstance(node, Input)
    n = node.family.n_categories
    assert n is not None
    out = np.zeros(n)
    for i, other in enumerate(circuit.nodes):
        if isinstance(other, Input) and circuit.owners[i] == owner:
            out += _counts_of_column(rows, other.variable, n)
    return out


def _counts_of_column(rows: TrainingRows, variable: int, n: int) -> Array:
    column = rows.X[:, variable]
    seen = ~np.isnan(column)
    weights = None if rows.weights is None else rows.weights[seen]
    return np.bincount(column[seen].astype(np.int64), weights, minlength=n).astype(np.float64)
