"""Which rows a fitted circuit's answers are based on.

Adding ε copies of row i to the training rows moves the logits by ε A⁻¹ g_i, A being the Hessian of the negative log posterior and
g_i the row's gradient (`posterior.py`), and an answer with the gradient g by ε gᵀ A⁻¹ g_i. Of a row on itself that is
h_i = g_iᵀ A⁻¹ g_i; without the row, its own log-likelihood falls by about h_i / (1 - h_i), as its own share of A goes with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flatpc.circuit.rows import read_rows
from flatpc.curvature.posterior import laplace
from flatpc.curvature.row_flows import blocks
from flatpc.queries.likelihood import log_prob

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit
    from flatpc.curvature.posterior import Posterior

Array = NDArray[np.float64]
MOST_LEVERAGE = 0.95
"""Of a row's own influence: beyond, a quadratic says little about what leaving it out would do."""


def influence(
    circuit: Circuit,
    X: Any,
    *,
    on: Any = None,
    prior: float = 0.5,
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
        Rows whose mean log-likelihood is asked for; None: each training row's own.
    prior, structure, include_inputs, missing
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
    around = laplace(circuit, X, prior=prior, structure=structure, include_inputs=include_inputs, missing=missing)
    if on is None:
        return _on_themselves(around, read_rows(circuit, X, missing))
    asked = around.gradients(on, missing=missing).mean(axis=0)
    pull = around.solve(asked)[0]
    rows = read_rows(circuit, X, missing)
    return np.concatenate([around.gradients(part, missing="marginalize") @ pull for part in blocks(around.layout, rows)])


def leave_one_out(
    circuit: Circuit, X: Any, *, prior: float = 0.5, structure: str = "auto", include_inputs: bool = True, missing: str = "raise"
) -> Array:
    """Log-likelihood of every training row by a circuit fitted without it, approximately: an honest score without other rows.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> coin = fp.Circuit([fp.Input(0, fp.Bernoulli())], {0: {"p": [0.25]}})
    >>> found = fp.curvature.leave_one_out(coin, [[1]] * 25 + [[0]] * 75, prior=0.0)
    >>> np.exp(found[[0, -1]]).round(3).tolist()                     # 24/99 and 74/99, all but
    [0.242, 0.747]

    Parameters
    ----------
    circuit
        Fitted to X, best to an optimum.
    X
        The rows that it was fitted to.
    prior, structure, include_inputs, missing
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
    """
    around = laplace(circuit, X, prior=prior, structure=structure, include_inputs=include_inputs, missing=missing)
    rows = read_rows(circuit, X, missing)
    h = np.minimum(_on_themselves(around, rows), MOST_LEVERAGE)
    return np.asarray(log_prob(circuit, rows, missing="marginalize") - h / (1 - h))


def _on_themselves(around: Posterior, rows: Array) -> Array:
    parts = [around.gradients(part, missing="marginalize") for part in blocks(around.layout, rows)]
    return np.concatenate([around.errors(part) ** 2 for part in parts])
