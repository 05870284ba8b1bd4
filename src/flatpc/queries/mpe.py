"""Most probable completions by max-product.

Upwards every sum takes the largest `θ_nc · m_c` instead of the sum, inputs over a missing variable take their largest
density; downwards the choices are followed and missing variables take the modes of the inputs that are reached. In a
deterministic circuit at most one term of each sum is positive, so the largest product is the largest probability.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from flatpc._typing import Array
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.nodes import Input, Mixture, Product
from flatpc.circuit.rows import read_rows
from flatpc.engine.contract import Engine
from flatpc.families import asking
from flatpc.queries.answers import Indices, answering, bytes_of_units, give_back, refuse_impossible, row_blocks
from flatpc.queries.induced_trees import chunks, descend, edge_scores


@dataclass(frozen=True)
class Completion:
    """Rows without missing values, as `mpe` completes them."""

    values: Any
    """`[N, D]`: the rows; known entries are as they were."""
    log_prob: Any
    """`[N]`: log p of the completed rows."""
    exact: bool
    """Whether no completion is more probable: True for deterministic circuits. If False, each completion comes from the
    most probable single induced tree (max-product), and another completion may be more probable in sum."""


def mpe(
    circuit: Circuit, X: Any, *, missing: str = "marginalize", engine: str = "auto", dtype: str = "float64", device: Any = None
) -> Completion:
    """Missing entries completed with most probable values given the rest.

    Of several best children the first is taken. A row without NaN comes back as it is.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> pair = [fp.Input(0, fp.Bernoulli()), fp.Input(1, fp.Bernoulli()), fp.Product((0, 1))]
    >>> c = fp.Circuit(pair, {0: {"p": [0.5]}, 1: {"p": [0.25]}})
    >>> done = fp.queries.mpe(c, [[1, np.nan]])
    >>> done.values.tolist(), np.exp(done.log_prob).round(3).tolist(), done.exact
    ([[1.0, 0.0]], [0.375], True)

    Parameters
    ----------
    circuit, X
        As for `log_prob`; NaN is what is asked for.
    missing
        `"marginalize"`, or `"raise"` to refuse NaN.
    engine, dtype, device
        As for `log_prob`. The engine gives densities and the probabilities of the completed rows; largest products are found
        by NumPy, in float64.

    Returns
    -------
    Completion
        The completed rows, their log-likelihoods, and whether no completion is more probable.

    Raises
    ------
    DataError
        As for `log_prob`; and if the known values of a row with NaN have probability zero. It names the row.
    OptionError
        As for `log_prob`.
    FamilyError
        A family has no mode.
    """
    rows = read_rows(circuit, X, missing)
    circuit.check_structure()
    run, precision = answering(X, engine, dtype, device)
    completed = rows.copy()
    incomplete = np.flatnonzero(np.isnan(rows).any(axis=1))
    for block in row_blocks(len(incomplete), bytes_of_units(circuit)):
        which = incomplete[block]
        completed[which] = _complete(circuit, rows[which], which, run)
    log_prob = run.log_prob(circuit, completed, dtype=precision)
    return Completion(give_back(completed, X), give_back(log_prob, X), circuit.is_deterministic)


def _complete(circuit: Circuit, rows: Array, row_numbers: Indices, engine: Engine) -> Array:
    best = _max_product(circuit, rows, engine.log_densities(circuit, rows))
    refuse_impossible(best[circuit.root][:, 0], row_numbers)
    out = rows.copy()

    def choose(i: int, trees: Indices, units: Indices) -> Indices:
        edges = np.empty(len(trees), np.int64)
        weights: Any = circuit.parameters[i]
        for part in chunks(len(trees), weights.shape[1]):
            edges[part] = edge_scores(circuit, best, i, trees[part], units[part]).argmax(axis=1)
        return edges

    def visit(i: int, trees: Indices, units: Indices) -> None:
        node = circuit.nodes[i]
        assert isinstance(node, Input)
        parameters: Any = circuit.parameters[i]
        at = node.place(trees)
        out[at] = asking.at_mode(node.family, parameters, units, out[at])

    descend(circuit, len(rows), choose, visit)
    return out


def _max_product(circuit: Circuit, rows: Array, log_densities: dict[int, Array]) -> list[Array]:
    """For each node `[N, K]`: the logarithm of the largest product of weights and densities below every unit."""
    best: list[Array] = []
    for i, node in enumerate(circuit.nodes):
        parameters: Any = circuit.parameters.get(i)
        if isinstance(node, Input):
            value = asking.log_density_at_mode(node.family, parameters, rows[:, node.columns], log_densities[i])
        elif isinstance(node, Product):
            value = best[node.children[0]]
            for c in node.children[1:]:
                if node.kind == "hadamard":
                    value = value + best[c]
                else:
                    value = (value[:, :, None] + best[c][:, None, :]).reshape(len(rows), -1)
        else:
            with np.errstate(divide="ignore"):
                log_weights = np.log(parameters)
            if isinstance(node, Mixture):
                value = np.max([best[c] + log_weights[:, j] for j, c in enumerate(node.children)], axis=0)
            else:
                value = _largest_term(log_weights, np.concatenate([best[c] for c in node.children], axis=1))
        best.append(value)
    return best


def _largest_term(log_weights: Array, below: Array) -> Array:
    """`[N, K]`: max over c of `log_weights[k, c] + below[n, c]`, in pieces that stay small."""
    out = np.empty((len(below), len(log_weights)))
    for units in chunks(len(log_weights), log_weights.shape[1]):
        piece = log_weights[units]
        for rows in chunks(len(below), piece.size):
            out[rows, units] = (below[rows, None, :] + piece).max(axis=2)
    return out
