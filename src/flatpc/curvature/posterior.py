"""How sure a fitted circuit is of its answers: the posterior of its weights around the fit, to second order (Laplace).

With a Dirichlet prior of α per weight the negative log posterior is  -Σ log p(x) - α Σ log θ.  Its Hessian in logits is

    A = H + α K (diag θ - θ θᵀ)      (the second part for every unit with K edges)

and an answer q with the gradient g in logits has the variance  gᵀ A⁻¹ g  (delta method). At an optimum that is what any other
coordinates would give. A unit's logits may all be moved by one number without changing anything; that direction is left out.
Parameters of Gaussian and other inputs are coordinates too, in units of their own information (`free_inputs.py`), with a flat
prior or one that is worth `input_prior` rows like those of the unit.

EM's complete-data information  C = (F + α K) (diag θ - θ θᵀ),  F being the unit's flow over all rows, and F for each coordinate
of an input, is always positive. Where A is not, as away from an optimum, `A + δ C` takes its place, with the least δ of a few
that works, and C alone if none does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from flatpc._options import choice, flag, number, seed_number, whole_number, wrong
from flatpc._typing import Array
from flatpc.circuit.rows import check_circuit, read_rows
from flatpc.curvature import posterior_solvers
from flatpc.curvature.certificates import to_win
from flatpc.curvature.estimates import Answer, Estimate, estimate
from flatpc.curvature.layout import Layout
from flatpc.curvature.log_posterior import LogPosterior
from flatpc.curvature.lowest import lowest_curvature, units_of
from flatpc.curvature.over_sources import rows_or_source
from flatpc.curvature.posterior_solvers import Solve
from flatpc.curvature.tilting import tilt
from flatpc.errors import DataError, OptionError
from flatpc.queries.likelihood import conditional_log_prob, log_prob, read_given
from flatpc.queries.moments import expectation

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

SOLVERS = {
    "full": posterior_solvers.full,
    "block": posterior_solvers.block,
    "diagonal": posterior_solvers.diagonal,
    "operator": posterior_solvers.matrix_free,
}
MOST_FULL = 4_000
"""Parameters up to which the whole matrix is taken unless another structure is asked for."""
FAR = 0.5
"""Nats that a refit would win over all rows, beyond which a fit is not called an optimum."""


@dataclass(frozen=True)
class Posterior:
    """What `laplace` returns: the posterior of a circuit's weights around a fit.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> coins = fp.structures.factorized(np.array([[0, 1], [1, 1], [1, 0], [1, 1]] * 25), smoothing=0.0)
    >>> sure = fp.curvature.laplace(coins, [[0, 1], [1, 1], [1, 0], [1, 1]] * 25, prior=0.0)
    >>> sure.is_optimum
    True
    >>> sure.log_prob([[1, 1]]).error.round(3).tolist()
    [0.082]
    >>> sure.conditional_log_prob([[1, 1]], given=[0]).error.round(3).tolist()
    [0.058]
    >>> g = sure.gradients([[1, 1]])
    >>> bool(np.isclose(sure.errors(g)[0] ** 2, (g * sure.solve(g)).sum()))
    True
    >>> sure.conditional_proba([[1, 1]], 1).error.round(3).tolist()
    [[0.043, 0.043]]
    >>> sure.expectation([[1, np.nan]]).error.round(3).tolist()
    [[0.0, 0.043]]
    >>> len(sure.draw(3, seed=0))
    3
    >>> sure.ask(lambda circuit: circuit.log_prob([[1, 1]]), n=500).error.round(2).tolist()
    [0.08]
    """

    circuit: Circuit
    """The fit."""
    structure: str
    """`"full"`, `"block"`, `"diagonal"` or `"operator"`."""
    prior: float
    """α, the Dirichlet prior of every weight."""
    damping: float
    """δ: how much of EM's complete-data information was added to make the Hessian positive; 0 at an optimum. Infinite: it took
    the Hessian's place."""
    gap: float
    """Nats of log posterior, over all rows, that a refit from the fit would win: near an optimum, what a Newton step would. Far
    from one that may be impossible, and no more is said than EM and the likelihood allow (`certificates.py`)."""
    log_posterior: LogPosterior = field(repr=False)
    """The negative log posterior's derivatives, and the order of parameters."""
    _solve: Solve = field(repr=False)
    """A⁻¹ times vectors."""
    _spread: Solve | None = field(repr=False)
    """Standard normal vectors as draws around 0."""

    @property
    def layout(self) -> Layout:
        """The order of weights and tables, which come first in a vector."""
        return self.log_posterior.layout

    @property
    def size(self) -> int:
        """P: how many coordinates there are."""
        return self.log_posterior.size

    @property
    def is_optimum(self) -> bool:
        """Whether the fit is close to an optimum of the log posterior, as error bars and influences suppose."""
        return self.damping == 0 and self.gap < FAR and not self._at_saddle

    @cached_property
    def _at_saddle(self) -> bool:
        """Of blocks and the diagonal, which see no curvature between units; others are damped at a saddle."""
        return self.structure in ("block", "diagonal") and lowest_curvature(self.log_posterior).is_negative

    def solve(self, gradients: Array) -> Array:
        """A⁻¹ times each of the gradients `[n, P]`.

        Parameters
        ----------
        gradients
            `[n, P]`: logits in the order of `layout`, then those of other inputs.

        Returns
        -------
        array
            `[n, P]`.
        """
        return self._solve(np.atleast_2d(gradients))

    def errors(self, gradients: Array) -> Array:
        """Standard errors of answers with these gradients `[n, P]`.

        Parameters
        ----------
        gradients
            `[n, P]`: logits in the order of `layout`, then those of other inputs.

        Returns
        -------
        array
            `[n]`.
        """
        gradients = np.atleast_2d(gradients)
        return np.asarray(np.sqrt(np.maximum(np.einsum("np,np->n", gradients, self.solve(gradients)), 0.0)))

    def gradients(self, X: Any, *, missing: str = "raise") -> Array:
        """Of every row's log-likelihood.

        Parameters
        ----------
        X
            Rows for the circuit.
        missing
            `"raise"`, or `"marginalize"` to integrate missing values (NaN) out.

        Returns
        -------
        array
            `[N, P]`: in logits in the order of `layout`, then in the coordinates of other inputs.

        Raises
        ------
        DataError
            For rows that are not the circuit's.
        """
        rows = read_rows(self.circuit, X, missing)
        return np.concatenate([self.log_posterior.gradients(part) for part in self.log_posterior.blocks(rows)])

    def log_prob(self, X: Any, *, missing: str = "raise") -> Estimate:
        """Log-likelihoods of rows with their standard errors.

        Parameters
        ----------
        X
            Rows for the circuit.
        missing
            `"raise"`, or `"marginalize"` to integrate missing values (NaN) out.

        Returns
        -------
        Estimate
            `value [N]` and `error [N]`.

        Raises
        ------
        DataError
            For rows that are not the circuit's.
        """
        rows = read_rows(self.circuit, X, missing)
        value = np.asarray(log_prob(self.circuit, rows, missing="marginalize"))
        return estimate(value, Answer(self, lambda part: self.log_posterior.gradients(rows[part])), X)

    def conditional_log_prob(self, X: Any, given: Any, *, missing: str = "raise") -> Estimate:
        """Conditional log-likelihoods with their standard errors.

        Parameters
        ----------
        X
            Rows for the circuit.
        given
            What is known: a mask, or a list of variables, as for `fp.queries.conditional_log_prob`.
        missing
            `"raise"`, or `"marginalize"` to integrate missing values (NaN) out.

        Returns
        -------
        Estimate
            `value [N]` and `error [N]`.

        Raises
        ------
        DataError
            For rows that are not the circuit's, or a condition that is impossible.
        """
        rows = read_rows(self.circuit, X, missing)
        value = np.asarray(conditional_log_prob(self.circuit, rows, given, missing="marginalize"))
        known = np.where(read_given(given, rows.shape), rows, np.nan)
        gradients = self.log_posterior.gradients
        return estimate(value, Answer(self, lambda part: gradients(rows[part]) - gradients(known[part])), X)

    def conditional_proba(self, X: Any, variable: int, *, missing: str = "marginalize") -> Estimate:
        """The probability of each value of a variable given the rest of each row.

        Parameters
        ----------
        X
            Rows for the circuit; the variable's own values are not looked at.
        variable
            One that takes finitely many values.
        missing
            `"marginalize"` integrates other missing values (NaN) out; `"raise"` refuses them.

        Returns
        -------
        Estimate
            `value [N, n]` and `error [N, n]`.

        Raises
        ------
        OptionError
            For a variable that is not there or takes infinitely many values.
        DataError
            For rows that are not the circuit's, or a condition that is impossible.
        """
        v = whole_number("variable", variable, 0, self.circuit.n_variables - 1)
        n = self.circuit.families[v].n_categories
        if n is None:
            raise OptionError(f"Variable {v} takes infinitely many values; ask for its `expectation`.")
        rows = read_rows(self.circuit, X, missing).copy()
        rows[:, v] = np.nan
        asked = np.repeat(rows, n, axis=0)
        asked[:, v] = np.tile(np.arange(n), len(rows))
        given = [i for i in range(rows.shape[1]) if i != v]
        value = np.exp(np.asarray(conditional_log_prob(self.circuit, asked, given, missing="marginalize")))

        def pull(part: slice) -> Array:
            p = value[part].reshape(-1, n, 1)
            g = self.log_posterior.gradients(asked[part]).reshape(len(p), n, -1)
            return np.asarray(p * (g - (p * g).sum(axis=1, keepdims=True))).reshape(len(p) * n, -1)

        return estimate(value.reshape(-1, n), Answer(self, pull, n), X)

    def expectation(self, X: Any, *, missing: str = "marginalize") -> Estimate:
        """Missing entries filled with their means given the row's known entries, and the standard errors of these means.

        Parameters
        ----------
        X
            Rows for the circuit; NaN is what is asked for.
        missing
            `"marginalize"`, or `"raise"` to refuse NaN.

        Returns
        -------
        Estimate
            `value [N, D]` and `error [N, D]`, 0 where X is known.

        Raises
        ------
        DataError
            For rows that are not the circuit's, or known values that are impossible.
        FamilyError
            A family has no mean.
        """
        rows = read_rows(self.circuit, X, missing)
        value, around = np.asarray(expectation(self.circuit, rows)), self.log_posterior
        n = rows.shape[1]
        tilted = cache(lambda v: tilt(around, v))

        def pull(part: slice) -> Array:
            mine = rows[part.start // n : part.stop // n]
            out = np.zeros((*mine.shape, self.size))
            incomplete = np.flatnonzero(np.isnan(mine).any(axis=1))
            if len(incomplete):
                known = np.zeros((len(mine), self.size))
                known[incomplete] = around.gradients(mine[incomplete])
                evidence = np.zeros(len(mine))
                evidence[incomplete] = log_prob(self.circuit, mine[incomplete], missing="marginalize")
            for v in range(n):
                asked = np.flatnonzero(np.isnan(mine[:, v]))
                if len(asked):
                    there = tilted(v)
                    moved = there.rows(mine[asked])
                    ratio = np.asarray(log_prob(there.circuit, moved, missing="marginalize")) - evidence[asked]
                    change = around.gradients(moved, there) - known[asked]
                    out[asked, v] = there.shifted(ratio)[:, None] * change
            return out.reshape(-1, self.size)

        return estimate(value, Answer(self, pull, n), X)

    def ask(self, question: Callable[[Circuit], Any], *, n: int = 100, seed: int = 0) -> Estimate:
        """Any answer with its standard error, by circuits drawn from the posterior.

        Parameters
        ----------
        question
            A function of a circuit that returns numbers, always of one shape.
        n
            How many draws.
        seed
            Random seed.

        Returns
        -------
        Estimate
            The fit's answer, and the standard deviation of the draws' answers.

        Raises
        ------
        OptionError
            If `n` is below 2, or the structure is `"operator"`, which has no draws.
        """
        whole_number("n", n, 2)
        answers = [np.asarray(question(each), np.float64) for each in self.draw(n, seed=seed)]
        return Estimate(np.asarray(question(self.circuit), np.float64), np.std(answers, axis=0, ddof=1))

    def draw(self, n: int, *, seed: int = 0) -> list[Circuit]:
        """Circuits drawn from the posterior, for answers of any other kind.

        Parameters
        ----------
        n
            How many.
        seed
            Random seed.

        Returns
        -------
        list of Circuit
            With the fit's structure and other weights.

        Raises
        ------
        OptionError
            If `n` is not 1 or more, or the structure is `"operator"`, which has no draws.
        """
        whole_number("n", n, 1)
        if self._spread is None:
            raise OptionError(
                "structure='operator' solves equations and has no draws; take 'block', or 'full' up to some thousand weights."
            )
        noise = np.random.default_rng(seed_number(seed)).standard_normal((n, self.size))
        return [self.log_posterior.circuit_at(move) for move in self._spread(noise)]


def laplace(
    circuit: Circuit,
    X: Any,
    *,
    prior: float = 0.5,
    pseudocount: float | None = None,
    input_prior: float = 0.0,
    structure: str = "auto",
    include_inputs: bool = True,
    missing: str = "raise",
) -> Posterior:
    """The posterior of a fitted circuit's weights, to second order around the fit: error bars on its answers.

    Weights of 0 stay 0, and a Gaussian's variance at its floor stays there. Parameters of other families of inputs move too, by
    their `unconstrain` and `constrain`.

    >>> import flatpc as fp
    >>> coin = fp.Circuit([fp.Input(0, fp.Bernoulli())], {0: {"p": [0.25]}})
    >>> sure = fp.curvature.laplace(coin, [[1]] * 25 + [[0]] * 75, prior=0.0)
    >>> sure.log_prob([[1]]).error.round(4).tolist()              # sqrt(1/25 - 1/100)
    [0.1732]

    Parameters
    ----------
    circuit
        Fitted to X, best to an optimum: EM over all rows, many epochs.
    X
        The rows that it was fitted to; a source of rows if all inputs are tables (Bernoulli, Categorical), or don't move.
    prior
        α of the Dirichlet prior of weights and tables: log prior = α Σ log θ.
    pseudocount
        In place of `prior`: the one that `fp.learning.Laplace(pseudocount)` fits with, α = pseudocount / K in a unit of K edges.
    input_prior
        Of other inputs' parameters: a conjugate prior that agrees with the fit and is worth so many rows. 0: flat.
    structure
        `"full"`: the whole Hessian. `"block"`: exact within every unit, as if units were independent. `"diagonal"`: its diagonal.
        `"operator"`: the whole Hessian without the matrix, by conjugate gradients and Lanczos, for many weights. `"auto"`: full
        up to 4,000 weights, operator beyond.
    include_inputs
        Whether parameters of inputs move; otherwise they are taken as known.
    missing
        `"raise"`, or `"marginalize"` to integrate missing values (NaN) out.

    Returns
    -------
    Posterior
        With `log_prob`, `conditional_log_prob`, `conditional_proba`, `expectation`, `draw` and `ask`; `is_optimum` tells whether
        it can be relied on.

    Raises
    ------
    OptionError
        For a wrong option.
    DataError
        For rows that are not the circuit's, or that tell nothing of any weight while the prior is 0.
    TiedParametersError
        For `"block"` and `"diagonal"` if parameters are tied.
    FamilyError
        If inputs move, and a family doesn't define how.
    """
    check_circuit(circuit)
    choice("structure", structure, ("auto", *SOLVERS))
    alpha = number("prior", prior, 0.0, what="the Dirichlet prior of a weight is 0 or more")
    flag("include_inputs", include_inputs)
    rows = rows_or_source(circuit, X, missing)
    own = number("input_prior", input_prior, 0.0, what="it is worth 0 rows or more")
    per_weight = prior_of_weights(Layout(circuit, include_inputs), alpha, pseudocount)
    around = LogPosterior(circuit, rows, alpha=per_weight, input_prior=own, include_inputs=include_inputs)
    if not around.moves.any():
        raise OptionError("The circuit has no weights that could vary; there is nothing to be unsure of.")
    if not units_of(around).any():
        raise DataError("The rows tell nothing of the weights, and neither does a prior of 0: give known values, or a prior.")
    if structure == "auto":
        structure = "full" if around.size <= MOST_FULL else "operator"
    damping, solve, spread = SOLVERS[structure](around)
    return Posterior(circuit, structure, alpha, damping, to_win(around, solve), around, solve, spread)


def prior_of_weights(layout: Layout, prior: float, pseudocount: float | None) -> Array | float:
    """α of every weight, from what `laplace` is given."""
    if pseudocount is None:
        return number("prior", prior, 0.0, what="the Dirichlet prior of a weight is 0 or more")
    counts = number("pseudocount", pseudocount, 0.0, what="counts added to a unit are 0 or more")
    return np.asarray(counts / np.maximum(layout.edges, 1.0))


def posterior_of(circuit: Circuit, uncertainty: Any) -> Posterior | None:
    """The posterior that was given, if it is one around this circuit; None if none was."""
    if uncertainty is None:
        return None
    if not isinstance(uncertainty, Posterior) or uncertainty.circuit is not circuit:
        raise wrong("uncertainty", uncertainty, "give what fp.curvature.laplace returns for this very circuit.")
    return uncertainty
