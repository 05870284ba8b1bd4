"""Mean and variance of missing entries given the known ones.

Given the evidence, variable v comes from unit u of its inputs with probability `F_u`, the unit's flow. Hence

    E[x_v]   = Σ_u F_u · mean_u
    Var[x_v] = Σ_u F_u · (variance_u + (mean_u - E[x_v])²)        (law of total variance)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flatpc.circuit.circuit import Circuit
from flatpc.circuit.nodes import Input
from flatpc.circuit.rows import read_rows
from flatpc.engine.contract import Dtype, Engine
from flatpc.queries.answers import Array, answering, bytes_of_units, give_back, refuse_impossible, row_blocks


def expectation(
    circuit: Circuit, X: Any, *, missing: str = "marginalize", engine: str = "auto", dtype: str = "float64", device: Any = None
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
    engine, dtype, device
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
    # Values and flows of all units are alive at once inside the engine.
    for block in row_blocks(len(incomplete), 2 * bytes_of_units(circuit)):
        which = incomplete[block]
        refuse_impossible(engine.log_prob(circuit, rows[which], dtype=dtype), which)
        flow = engine.unit_flows(circuit, rows[which], dtype=dtype)
        for i, node in inputs:
            parameters: Any = circuit.parameters[i]
            mean[which, node.variable] += flow[i] @ node.family.mean(parameters)
        for i, node in inputs:
            parameters = circuit.parameters[i]
            deviation = node.family.mean(parameters) - mean[which, node.variable, None]
            spread[which, node.variable] += (flow[i] * (node.family.variance(parameters) + deviation**2)).sum(axis=1)
    return mean, spread
