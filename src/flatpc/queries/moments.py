"""Mean and variance of missing entries given the known ones.

Given the evidence, variable v comes from unit u of its inputs with probability `F_u`, the unit's flow. Hence, with mean and
variance given the known entries of the input's variables where it has several,

    E[x_v]   = Σ_u F_u · mean_u
    Var[x_v] = Σ_u F_u · (variance_u + (mean_u - E[x_v])²)        (law of total variance)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flatpc._typing import Array
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.nodes import Input
from flatpc.circuit.rows import read_rows
from flatpc.engine.contract import Dtype, Engine
from flatpc.queries.answers import answering, around, bytes_of_units, give_back, refuse_impossible, row_blocks


def expectation(
    circuit: Circuit,
    X: Any,
    *,
    missing: str = "marginalize",
    engine: str = "auto",
    dtype: str = "float64",
    device: Any = None,
    uncertainty: Any = None,
) -> Any:
    """Missing entries filled with their means given the row's known entries.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> coin = fp.Input(variable=0, family=fp.Bernoulli(), width=2)
    >>> c = fp.Circuit([coin, fp.Sum(children=(0,))], {0: {"p": np.array([0.2, 0.8])}, 1: np.array([[0.75, 0.25]])})
    >>> fp.queries.expectation(c, [[np.nan], [1]]).round(3).tolist()                        # 0.75 · 0.2 + 0.25 · 0.8
    [[0.35], [1.0]]

    Parameters
    ----------
    circuit, X
        As for `log_prob`; NaN is what is asked for.
    missing
        `"marginalize"`, or `"raise"` to refuse NaN.
    engine, dtype, device, uncertainty
        As for `log_prob`.

    Returns
    -------
    array or tensor
        `[N, D]`: X with every NaN replaced by its mean.

    Raises
    ------
    DataError
        As for `log_prob`; and if the known values of a row with NaN have probability zero. It names the row.
    OptionError
        As for `log_prob`.
    FamilyError
        A family has no mean.
    """
    if uncertainty is not None:
        return around(circuit, uncertainty, engine, dtype, device).expectation(X, missing=missing)
    rows = read_rows(circuit, X, missing)
    mean, _ = _moments(circuit, rows, *answering(X, engine, dtype, device))
    return give_back(np.where(np.isnan(rows), mean, rows), X)


def variance(
    circuit: Circuit, X: Any, *, missing: str = "marginalize", engine: str = "auto", dtype: str = "float64", device: Any = None
) -> Any:
    """Variances of missing entries given the row's known entries.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> coin = fp.Input(variable=0, family=fp.Bernoulli(), width=2)
    >>> c = fp.Circuit([coin, fp.Sum(children=(0,))], {0: {"p": np.array([0.2, 0.8])}, 1: np.array([[0.75, 0.25]])})
    >>> fp.queries.variance(c, [[np.nan], [1]]).round(4).tolist()                           # 0.35 · 0.65
    [[0.2275], [0.0]]

    Parameters
    ----------
    circuit, X, missing, engine, dtype, device
        As for `expectation`.

    Returns
    -------
    array or tensor
        `[N, D]`: the variance of every NaN entry, and 0 where X is known.

    Raises
    ------
    DataError, OptionError, FamilyError
        As for `expectation`.
    """
    rows = read_rows(circuit, X, missing)
    _, spread = _moments(circuit, rows, *answering(X, engine, dtype, device))
    return give_back(np.where(np.isnan(rows), spread, 0.0), X)


def _moments(circuit: Circuit, rows: Array, engine: Engine, dtype: Dtype) -> tuple[Array, Array]:
    """Mean and variance of every variable, right at the missing entries."""
    mean, spread = np.zeros_like(rows), np.zeros_like(rows)
    incomplete = np.flatnonzero(np.isnan(rows).any(axis=1))
    inputs = [(i, node) for i, node in enumerate(circuit.nodes) if isinstance(node, Input)]
    # Values and flows of all units are alive at once inside the engine; then moments of units over several variables.
    several = 16 * sum(node.width * len(node.variables) for _, node in inputs if node.family.n_variables > 1)
    for block in row_blocks(len(incomplete), 2 * bytes_of_units(circuit) + several):
        which = incomplete[block]
        refuse_impossible(engine.log_prob(circuit, rows[which], dtype=dtype), which)
        flow = engine.unit_flows(circuit, rows[which], dtype=dtype)
        given = {i: _given(node, circuit.parameters[i], rows[which]) for i, node in inputs}
        for i, node in inputs:
            mean[node.place(which)] += _average(flow[i], given[i][0])
        for i, node in inputs:
            means, variances = given[i]
            deviation = means - mean[node.place(which)][:, None]
            spread[node.place(which)] += _average(flow[i], variances + deviation**2)
    return mean, spread


def _given(node: Input, parameters: Any, rows: Array) -> tuple[Array, Array]:
    """Means and variances of its units: `[K]`, or, as entries of a row may tell of others, `[N, K, d]` over d variables."""
    if node.family.n_variables == 1:
        return node.family.mean(parameters), node.family.variance(parameters)
    return node.family.moments_given(parameters, rows[:, node.columns])


def _average(flow: Array, units: Array) -> Array:
    """Over units, by their flow: `[N]`, or `[N, d]`."""
    if units.ndim == 3:
        return np.asarray(np.einsum("nk,nkd->nd", flow, units))
    return flow @ units if units.ndim == 1 else (flow * units).sum(axis=1)
