"""A fitted circuit after some of its rows are gone or new ones have come, without learning it from the start.

Each step is one of EM over all rows, and then one of Newton, with the Hessian of the negative log posterior, as far as it raises
the log posterior. Counted models, whose sums tell their parts apart, are there after the first step; others after a few.

The certificate is what a refit from here would win: to second order, how far below the nearest optimum the circuit is. Where that
is far, it is no more than EM and the likelihood allow (`flatpc.curvature.certificates`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from flatpc._options import number, whole_number, wrong
from flatpc._typing import Array
from flatpc.circuit.nodes import Input
from flatpc.circuit.rows import read_rows
from flatpc.curvature.layout import Layout, parameters_of
from flatpc.curvature.posterior import Posterior, laplace
from flatpc.engine.contract import get_engine
from flatpc.tables.reading import from_torch, is_torch

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

HALVINGS = 10


@dataclass(frozen=True)
class Update:
    """What `forget` and `learn` return."""

    circuit: Circuit
    """With the structure of the circuit given, and other parameters."""
    gap: float
    """Nats of log posterior, over all rows, that a refit from here would still win: to second order, if that is near."""
    start: float
    """The same of the circuit given."""
    won: float
    """Nats of log posterior, over all rows, that were won."""
    steps: int
    """How many steps it took."""


def forget(
    circuit: Circuit,
    X: Any,
    rows: Any,
    *,
    prior: float = 0.5,
    pseudocount: float | None = None,
    missing: str = "raise",
    steps: int = 20,
    tolerance: float = 1e-8,
) -> Update:
    """The circuit as if some of its training rows had never been there.

    >>> import flatpc as fp
    >>> coin = fp.Circuit([fp.Input(0, fp.Bernoulli())], {0: {"p": [0.5]}})
    >>> without = fp.learning.forget(coin, [[1], [1], [0], [0]], [0], prior=0.0)
    >>> without.circuit.parameters[0]["p"].round(6).tolist(), without.gap < 1e-12
    ([0.333333], True)

    Parameters
    ----------
    circuit
        Fitted to X.
    X
        The rows that it was fitted to.
    rows
        Which of them to forget: their numbers, or a mask.
    prior, pseudocount, missing
        As for `fp.curvature.laplace`: what the circuit was fitted with.
    steps
        The most that are taken.
    tolerance
        Nats: the gap at which it is done.

    Returns
    -------
    Update
        With `circuit`, and `gap`, which certifies how far a refit would be.

    Raises
    ------
    OptionError
        For rows that aren't there, or if none is left; for a wrong option.
    DataError
        For rows that are not the circuit's.
    """
    table = read_rows(circuit, X, missing)
    gone = _chosen(rows, len(table))
    if gone.all():
        raise wrong("rows", rows, "some rows have to be left to be known.")
    return _update(circuit, table[~gone], prior, pseudocount, steps, tolerance)


def learn(
    circuit: Circuit,
    X: Any,
    rows: Any,
    *,
    prior: float = 0.5,
    pseudocount: float | None = None,
    missing: str = "raise",
    steps: int = 20,
    tolerance: float = 1e-8,
) -> Update:
    """The circuit as if new rows had been among its training rows.

    >>> import flatpc as fp
    >>> coin = fp.Circuit([fp.Input(0, fp.Bernoulli())], {0: {"p": [0.5]}})
    >>> more = fp.learning.learn(coin, [[1], [1], [0], [0]], [[1]], prior=0.0)
    >>> more.circuit.parameters[0]["p"].round(6).tolist(), more.gap < 1e-12
    ([0.6], True)

    Parameters
    ----------
    circuit
        Fitted to X.
    X
        The rows that it was fitted to.
    rows
        New rows to learn.
    prior, pseudocount, missing
        As for `fp.curvature.laplace`: what the circuit was fitted with.
    steps
        The most that are taken.
    tolerance
        Nats: the gap at which it is done.

    Returns
    -------
    Update
        With `circuit`, and `gap`, which certifies how far a refit would be.

    Raises
    ------
    OptionError
        For a wrong option.
    DataError
        For rows that are not the circuit's.
    """
    both = np.concatenate([read_rows(circuit, X, missing), read_rows(circuit, rows, missing)])
    return _update(circuit, both, prior, pseudocount, steps, tolerance)


def _update(circuit: Circuit, rows: Array, prior: float, pseudocount: float | None, steps: int, tolerance: float) -> Update:
    whole_number("steps", steps, 1)
    number("tolerance", tolerance, 0.0)
    options: Any = {"prior": prior, "pseudocount": pseudocount, "missing": "marginalize"}
    post = laplace(circuit, rows, **options)
    alpha = post.log_posterior.alpha
    start, before = post.gap, _log_posterior(circuit, rows, alpha)
    value, taken = before, 0
    while taken < steps and (post.gap > tolerance or post.damping > 0):
        taken += 1
        found, reached = _newton(post, rows, value)
        stepped = _em(post)
        by_em = _log_posterior(stepped, rows, alpha)
        if by_em > reached:
            found, reached = stepped, by_em
        if not reached > value:
            break
        won, value = reached - value, reached
        post = laplace(found, rows, **options)
        if won < tolerance and post.damping > 0:
            break
    return Update(post.circuit, post.gap, start, value - before, taken)


def _log_posterior(circuit: Circuit, rows: Array, alpha: Array) -> float:
    theta = Layout(circuit, True).values
    some = (alpha > 0) & (theta > 0)
    return float(get_engine().log_prob(circuit, rows).sum() + (alpha[some] * np.log(theta[some])).sum())


def _newton(post: Posterior, rows: Array, value: float) -> tuple[Circuit, float]:
    """The circuit a Newton step away, or half a step and so on, where the log posterior is above `value`."""
    around = post.log_posterior
    move = post.solve(around.slope)[0]
    for halving in range(HALVINGS):
        found = around.circuit_at(move / 2**halving)
        reached = _log_posterior(found, rows, around.alpha)
        if reached > value:
            return found, reached
    return post.circuit, value


def _em(post: Posterior) -> Circuit:
    """The circuit one step of EM away."""
    around, circuit = post.log_posterior, post.circuit
    counts = around.flows + around.alpha * around.moving_weights
    total = around.layout.row_sums(counts)
    theta = np.where(total > 0, counts / np.where(total > 0, total, 1.0), around.theta)
    parameters = parameters_of(circuit, around.layout.arrays(theta))
    statistics = get_engine().flows(circuit, around.rows).inputs if around.free else {}
    for i in around.free:
        node, own = circuit.nodes[i], circuit.parameters[i]
        assert isinstance(node, Input)
        assert isinstance(own, dict)
        if node.family.defines("update"):
            parameters[i] = node.family.update(own, statistics[i])
    return circuit.with_parameters(parameters)


def _chosen(rows: Any, n: int) -> Any:
    """Row numbers, or a mask, as a mask."""
    try:
        named = from_torch(rows) if is_torch(rows) else np.asarray(rows)
    except (TypeError, ValueError):
        named = np.array(None)
    if named.dtype == np.bool_ and named.shape == (n,):
        return named
    if named.ndim != 1 or named.dtype.kind not in "iu" or ((named < 0) | (named >= n)).any():
        raise wrong("rows", rows, f"give numbers of rows from 0 to {n - 1}, or a mask of {n} entries.")
    return np.isin(np.arange(n), named)
