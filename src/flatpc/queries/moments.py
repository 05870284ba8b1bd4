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
from flatpc.engine.contract import get_engine
from flatpc.queries.answers import Array, bytes_of_units, give_back, refuse_impossible, row_blocks


def expectation(circuit: Circuit, X: Any) -> Any:
    """`[N, D]`: X with every NaN replaced by its mean given the row's known entries.

    Known values of probability zero in a row with NaN raise `DataError`.
    """
    rows = read_rows(circuit, X, missing="marginalize")
    mean, _ = _moments(circuit, rows)
    return give_back(np.where(np.isnan(rows), mean, rows), X)


def variance(circuit: Circuit, X: Any) -> Any:
    """`[N, D]`: the variance of every NaN entry given the row's known entries; 0 where X is known.

    Known values of probability zero in a row with NaN raise `DataError`.
    """
    rows = read_rows(circuit, X, missing="marginalize")
    _, spread = _moments(circuit, rows)
    return give_back(np.where(np.isnan(rows), spread, 0.0), X)


def _moments(circuit: Circuit, rows: Array) -> tuple[Array, Array]:
    """Mean and variance of every variable, right at the missing entries."""
    engine = get_engine()
    mean, spread = np.zeros_like(rows), np.zeros_like(rows)
    incomplete = np.flatnonzero(np.isnan(rows).any(axis=1))
    inputs = [(i, node) for i, node in enumerate(circuit.nodes) if isinstance(node, Input)]
    # Values and flows of all units are alive at once inside the engine.
    for block in row_blocks(len(incomplete), 2 * bytes_of_units(circuit)):
        which = incomplete[block]
        refuse_impossible(engine.log_prob(circuit, rows[which]), which)
        flow = engine.unit_flows(circuit, rows[which])
        for i, node in inputs:
            parameters: Any = circuit.parameters[i]
            mean[which, node.variable] += flow[i] @ node.family.mean(parameters)
        for i, node in inputs:
            parameters = circuit.parameters[i]
            deviation = node.family.mean(parameters) - mean[which, node.variable, None]
            spread[which, node.variable] += (flow[i] * (node.family.variance(parameters) + deviation**2)).sum(axis=1)
    return mean, spread
