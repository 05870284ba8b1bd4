"""Which rows a fitted circuit's answers are based on.

Adding ε copies of row i to the training rows moves the logits by ε A⁻¹ g_i, A being the Hessian of the negative log posterior and
g_i the row's gradient (`posterior.py`), and an answer with the gradient g by ε gᵀ A⁻¹ g_i. Of a row on itself that is
h_i = g_iᵀ A⁻¹ g_i.

Leaving the whole row out is more than -1 times that, as what is known without it is less. By one step of EM (`one_step.py`) the
cost of leaving it out, c_i, is known to all orders, but for the information that is missing; to first order it is
q_i = g_iᵀ C⁻¹ g_i, C being the complete-data information. So the row's log-likelihood falls by

    c_i h_i / q_i

which is exact for models that are counted, and h_i where rows tell little each. Parameters of an input whose unit has the flow f
of the row, and F of all rows, add q_i / (1 - f/F) to c_i: a row far from all others has scores much larger than what it tells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from flatpc._options import choice, flag
from flatpc._typing import Array
from flatpc.circuit.rows import read_rows
from flatpc.curvature.estimates import Estimate
from flatpc.curvature.layout import Layout
from flatpc.curvature.one_step import costs_of_leaving_out
from flatpc.curvature.posterior import SOLVERS, Posterior, laplace, posterior_of, prior_of_weights
from flatpc.queries.likelihood import log_prob

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

MOST_LEVERAGE = 0.95
"""Of what a unit with tied weights is known by, the most that is taken away with one row; without it nothing may be left."""


def influence(
    circuit: Circuit,
    X: Any,
    *,
    on: Any = None,
    uncertainty: Posterior | None = None,
    prior: float = 0.5,
    pseudocount: float | None = None,
    structure: str = "auto",
    include_inputs: bool = True,
    missing: str = "raise",
) -> Array:
    """How much one more copy of each training row would raise a log-likelihood, to first order.

    Rows of large influence on themselves are those that the fit had to make room for: rare, or wrong.

    >>> import flatpc as fp
    >>> coin = fp.Circuit([fp.Input(0, fp.Bernoulli())], {0: {"p": [0.1]}})
    >>> rows = [[1]] * 10 + [[0]] * 90
    >>> fp.curvature.influence(coin, rows, prior=0.0)[[0, -1]].round(4).tolist()
    [0.09, 0.0011]
    >>> fp.curvature.influence(coin, rows, on=[[1]], prior=0.0)[[0, -1]].round(4).tolist()
    [0.09, -0.01]

    Parameters
    ----------
    circuit
        Fitted to X, best to an optimum; `fp.curvature.laplace` tells whether it is one.
    X
        The rows that it was fitted to.
    on
        Rows whose mean log-likelihood is asked for, or answers of a posterior (an `Estimate`), whose mean is; None: each training
        row's own log-likelihood.
    uncertainty
        The posterior around the circuit, if it is there already; then the options that follow are not looked at.
    prior, pseudocount, structure, include_inputs, missing
        As for `fp.curvature.laplace`.

    Returns
    -------
    array
        `[N]`, one number for each training row: positive where the row helps, negative where it harms.

    Raises
    ------
    OptionError
        For a wrong option.
    DataError
        For rows that are not the circuit's.
    """
    options: Any = {"prior": prior, "pseudocount": pseudocount, "structure": structure, "include_inputs": include_inputs}
    if isinstance(on, Estimate) and on.answer is not None and uncertainty is None:
        uncertainty = on.answer.posterior
    post = posterior_of(circuit, uncertainty) or laplace(circuit, X, missing=missing, **options)
    rows = read_rows(circuit, X, missing)
    if on is None:
        return _on_themselves(post, rows)
    answers = on if isinstance(on, Estimate) else post.log_prob(on, missing=missing)
    pull = post.solve(answers.gradient)[0]
    return np.concatenate([post.gradients(part, missing="marginalize") @ pull for part in post.log_posterior.blocks(rows)])


def leave_one_out(
    circuit: Circuit,
    X: Any,
    *,
    uncertainty: Posterior | None = None,
    prior: float = 0.5,
    pseudocount: float | None = None,
    structure: str = "auto",
    include_inputs: bool = True,
    missing: str = "raise",
) -> Array:
    """Log-likelihood of every training row by a circuit fitted without it, approximately: an honest score without other rows.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> coin = fp.Circuit([fp.Input(0, fp.Bernoulli())], {0: {"p": [0.25]}})
    >>> found = fp.curvature.leave_one_out(coin, [[1]] * 25 + [[0]] * 75, prior=0.0)
    >>> np.exp(found[[0, -1]]).round(3).tolist()                     # 24/99 and 74/99
    [0.242, 0.747]

    Parameters
    ----------
    circuit
        Fitted to X, best to an optimum.
    X
        The rows that it was fitted to.
    uncertainty
        The posterior around the circuit, if it is there already; then the options that follow are not looked at.
    prior, pseudocount
        As for `fp.curvature.laplace`.
    structure
        As for `fp.curvature.laplace`, or `"complete"`: by one step of EM without the row, in closed form for any
        number of weights. It is exact for models that are counted, and too hopeful for others, by the information that is
        missing. Inputs other than Bernoulli and Categorical ones stay as they are.
    include_inputs, missing
        As for `fp.curvature.laplace`.

    Returns
    -------
    array
        `[N]`; its mean estimates the log-likelihood of new rows.

    Raises
    ------
    OptionError
        For a wrong option.
    DataError
        For rows that are not the circuit's.
    TiedParametersError
        For `"complete"`, `"block"` and `"diagonal"` if parameters are tied.
    """
    if uncertainty is None and choice("structure", structure, ("auto", "complete", *SOLVERS)) == "complete":
        layout, rows = Layout(circuit, flag("include_inputs", include_inputs)), read_rows(circuit, X, missing)
        alpha = prior_of_weights(layout, prior, pseudocount)
        return np.asarray(log_prob(circuit, rows, missing="marginalize") - costs_of_leaving_out(layout, rows, alpha))
    options: Any = {"prior": prior, "pseudocount": pseudocount, "structure": structure, "include_inputs": include_inputs}
    post = posterior_of(circuit, uncertainty) or laplace(circuit, X, missing=missing, **options)
    rows = read_rows(circuit, X, missing)
    around, start, costs = post.log_posterior, 0, []
    one_step = None if around.layout.tied is not None else costs_of_leaving_out(around.layout, rows, around.alpha)
    for part in around.blocks(rows):
        costs.append(_costs(post, part, None if one_step is None else one_step[start : start + len(part)]))
        start += len(part)
    return np.asarray(log_prob(circuit, rows, missing="marginalize") - np.concatenate(costs))


def _costs(post: Posterior, rows: Array, one_step: Array | None) -> Array:
    """What leaving each row out costs it, with what one step of EM says of weights, if it can."""
    around, g = post.log_posterior, post.gradients(rows, missing="marginalize")
    h = np.maximum(np.einsum("np,np->n", g, post.solve(g)), 0.0)
    units = around.in_units(g)
    if one_step is None:
        one_step = -np.log1p(-np.minimum(units, MOST_LEVERAGE)).sum(axis=1)
    inputs, without = around.in_inputs(rows, g)
    q = units.sum(axis=1) + inputs
    return np.asarray(h * np.divide(one_step + without, q, out=np.ones_like(q), where=q > 0))


def _on_themselves(post: Posterior, rows: Array) -> Array:
    blocks = post.log_posterior.blocks(rows)
    return np.concatenate([post.errors(post.gradients(part, missing="marginalize")) ** 2 for part in blocks])
