"""How sure a fitted circuit is of its answers: the posterior of its weights around the fit, to second order (Laplace).

With a Dirichlet prior of α per weight the negative log posterior is  -Σ log p(x) - α Σ log θ.  Its Hessian in logits is

    A = H + α K (diag θ - θ θᵀ)      (the second part for every unit with K edges)

and an answer q with the gradient g in logits has the variance  gᵀ A⁻¹ g  (delta method). At an optimum that is what any other
coordinates would give. A unit's logits may all be moved by one number without changing anything; that direction is left out.

EM's complete-data information  C = (F + α K) (diag θ - θ θᵀ),  F being the unit's flow over all rows, is never below A and always
positive. Where A is not positive, as away from an optimum, `A + δ C` takes its place, with the least δ of a few that works.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flatpc._options import choice, flag, number, seed_number, whole_number
from flatpc.circuit.rows import check_circuit, read_rows
from flatpc.curvature import posterior_solvers
from flatpc.curvature.directions import Coordinates
from flatpc.curvature.layout import Layout
from flatpc.curvature.posterior_solvers import Around, Solve
from flatpc.curvature.row_flows import blocks, in_logits, row_flows
from flatpc.errors import OptionError
from flatpc.queries.likelihood import conditional_log_prob, log_prob, read_given

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

Array = NDArray[np.float64]
SOLVERS = {
    "full": posterior_solvers.full,
    "block": posterior_solvers.block,
    "diagonal": posterior_solvers.diagonal,
    "operator": posterior_solvers.matrix_free,
}
MOST_FULL = 4_000
"""Parameters up to which the whole matrix is taken unless another structure is asked for."""
FAR = 0.5
"""Nats that one Newton step would win over all rows, beyond which a fit is not called an optimum."""


@dataclass(frozen=True)
class Estimate:
    """Answers and how sure they are.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> low, high = fp.curvature.Estimate(np.array([-1.0]), np.array([0.1])).interval(0.95)
    >>> low.round(2).tolist(), high.round(2).tolist()
    ([-1.2], [-0.8])
    """

    value: Array
    """One answer for each row."""
    error: Array
    """Their standard errors: how much they would vary if the circuit were fitted to other rows of the same kind."""

    def interval(self, level: float = 0.9) -> tuple[Array, Array]:
        """Both ends of the interval that holds the answer with probability `level`, by the normal distribution.

        Parameters
        ----------
        level
            Between 0 and 1.

        Returns
        -------
        tuple of arrays
            The lower and the upper ends.

        Raises
        ------
        OptionError
            If `level` is not between 0 and 1.
        """
        from scipy.special import ndtri

        reach = float(ndtri((1 + number("level", level, 0.0, 1.0, above=True, below=True)) / 2))
        return self.value - reach * self.error, self.value + reach * self.error


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
    >>> len(sure.draw(3, seed=0))
    3
    """

    circuit: Circuit
    """The fit."""
    structure: str
    """`"full"`, `"block"`, `"diagonal"` or `"operator"`."""
    prior: float
    """α, the Dirichlet prior of every weight."""
    damping: float
    """δ: how much of EM's complete-data information was added to make the Hessian positive; 0 at an optimum."""
    gap: float
    """Nats of log posterior, over all rows, that one Newton step from the fit would win."""
    layout: Layout = field(repr=False)
    """The order of parameters."""
    _solve: Solve = field(repr=False)
    """A⁻¹ times vectors."""
    _spread: Solve | None = field(repr=False)
    """Standard normal vectors as draws around 0."""

    @property
    def is_optimum(self) -> bool:
        """Whether the fit is close to an optimum of the log posterior, as error bars and influences suppose."""
        return self.damping == 0 and self.gap < FAR

    def solve(self, gradients: Array) -> Array:
        """A⁻¹ times each of the gradients `[n, P]` in logits.

        Parameters
        ----------
        gradients
            `[n, P]`, in the order of `layout`.

        Returns
        -------
        array
            `[n, P]`.
        """
        return self._solve(np.atleast_2d(gradients))

    def errors(self, gradients: Array) -> Array:
        """Standard errors of answers with these gradients `[n, P]` in logits.

        Parameters
        ----------
        gradients
            `[n, P]`, in the order of `layout`.

        Returns
        -------
        array
            `[n]`.
        """
        gradients = np.atleast_2d(gradients)
        return np.asarray(np.sqrt(np.maximum(np.einsum("np,np->n", gradients, self.solve(gradients)), 0.0)))

    def gradients(self, X: Any, *, missing: str = "raise") -> Array:
        """Of every row's log-likelihood in logits.

        Parameters
        ----------
        X
            Rows for the circuit.
        missing
            `"raise"`, or `"marginalize"` to integrate missing values (NaN) out.

        Returns
        -------
        array
            `[N, P]`, in the order of `layout`.

        Raises
        ------
        DataError
            For rows that are not the circuit's.
        """
        rows = read_rows(self.circuit, X, missing)
        return np.concatenate([in_logits(self.layout, row_flows(self.layout, part)) for part in blocks(self.layout, rows)])

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
        error = [self.errors(self.gradients(part, missing="marginalize")) for part in blocks(self.layout, rows)]
        return Estimate(value, np.concatenate(error))

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
        moved = self.gradients(rows, missing="marginalize") - self.gradients(known, missing="marginalize")
        return Estimate(value, self.errors(moved))

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
        coordinates = Coordinates(self.layout, "logits")
        noise = np.random.default_rng(seed_number(seed)).standard_normal((n, self.layout.size))
        return [coordinates.circuit_at(coordinates.point + move) for move in self._spread(noise)]


def laplace(
    circuit: Circuit,
    X: Any,
    *,
    prior: float = 0.5,
    structure: str = "auto",
    include_inputs: bool = True,
    missing: str = "raise",
) -> Posterior:
    """The posterior of a fitted circuit's weights, to second order around the fit: error bars on its answers.

    Weights of 0 stay 0. Parameters of inputs other than Bernoulli and Categorical ones are taken as known.

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
        The rows that it was fitted to.
    prior
        α of the Dirichlet prior: log prior = α Σ log θ. EM with `pseudocount` m has α = m / K in a unit of K edges.
    structure
        `"full"`: the whole Hessian. `"block"`: exact within every unit, as if units were independent. `"diagonal"`: its diagonal.
        `"operator"`: the whole Hessian without the matrix, by conjugate gradients, for many weights. `"auto"`: full up to 4,000
        weights, operator beyond.
    include_inputs
        Whether probabilities of Bernoulli and Categorical inputs are weights too.
    missing
        `"raise"`, or `"marginalize"` to integrate missing values (NaN) out.

    Returns
    -------
    Posterior
        With `log_prob`, `conditional_log_prob`, `draw`; `is_optimum` tells whether it can be relied on.

    Raises
    ------
    OptionError
        For a wrong option.
    DataError
        For rows that are not the circuit's.
    TiedParametersError
        For `"block"` and `"diagonal"` if parameters are tied.
    """
    check_circuit(circuit)
    choice("structure", structure, ("auto", *SOLVERS))
    alpha = number("prior", prior, 0.0, what="the Dirichlet prior of a weight is 0 or more")
    flag("include_inputs", include_inputs)
    rows = read_rows(circuit, X, missing)
    layout = Layout(circuit, include_inputs)
    if layout.size == 0:
        raise OptionError("The circuit has no weights that could vary; there is nothing to be unsure of.")
    if structure == "auto":
        structure = "full" if layout.size <= MOST_FULL else "operator"
    around = Around(layout, rows, alpha)
    damping, solve, spread = SOLVERS[structure](around)
    slope = around.slope[None]
    gap = float(max((slope * solve(slope)).sum() / 2, 0.0))
    return Posterior(circuit, structure, alpha, damping, gap, layout, solve, spread)
