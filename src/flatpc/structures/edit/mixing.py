"""Several circuits over the same variables as one: a sum at the root."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from flatpc._options import as_float, several, wrong
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.nodes import Input, Node, Product, Sum
from flatpc.circuit.rows import check_circuit
from flatpc.errors import OptionError


def mix(circuits: Sequence[Circuit], weights: Any = None) -> Circuit:
    """A mixture of circuits over the same variables: p(x) = Σ_i w_i p_i(x).

    >>> import numpy as np
    >>> import flatpc as fp
    >>> coins = [fp.Circuit([fp.Input(0, fp.Bernoulli())], {0: {"p": [p]}}) for p in (0.2, 0.6)]
    >>> float(np.exp(fp.structures.mix(coins).log_prob([[1]])[0]))
    0.4

    Parameters
    ----------
    circuits
        One or more circuits.
    weights
        One number per circuit, not negative; divided by their sum. Even by default.

    Returns
    -------
    Circuit
        A sum over the circuits; of a single one, the circuit itself.

    Raises
    ------
    OptionError
        For no circuits, circuits with different numbers of variables, or wrong weights.
    """
    circuits = [check_circuit(circuit) for circuit in several("circuits", circuits, "a list of circuits")]
    if not circuits:
        raise OptionError("There are no circuits to mix; give at least one.", option="circuits")
    n_variables = {circuit.n_variables for circuit in circuits}
    if len(n_variables) > 1:
        raise OptionError(f"The circuits have {sorted(n_variables)} variables; mix circuits over the same variables.")
    allowed = f"a list with one for each of the {len(circuits)} circuits, not negative and not all 0"
    given = [1.0] * len(circuits) if weights is None else several("weights", weights, allowed)
    shares = np.array([as_float(weight) for weight in given])
    if len(shares) != len(circuits) or not (np.isfinite(shares) & (shares >= 0)).all() or shares.sum() == 0:
        raise wrong("weights", weights, f"give {allowed}.")
    shares = shares / shares.max()  # so that their sum is finite
    if len(circuits) == 1:
        return circuits[0]
    nodes: list[Node] = []
    parameters: dict[int, Any] = {}
    roots = []
    for circuit in circuits:
        first = len(nodes)
        nodes.extend(_moved(node, first) for node in circuit.nodes)
        parameters |= {first + i: value for i, value in circuit.parameters.items()}
        roots.append(len(nodes) - 1)
    nodes.append(Sum(tuple(roots)))
    parameters[len(nodes) - 1] = (shares / shares.sum())[None]
    return Circuit(nodes, parameters)


def _moved(node: Node, by: int) -> Node:
    """The node in a longer list, in which all before it have moved as well."""
    if isinstance(node, Product):
        return replace(node, children=tuple(c + by for c in node.children))
    tie = None if node.tie is None else node.tie + by
    if isinstance(node, Input):
        return replace(node, tie=tie)
    return replace(node, children=tuple(c + by for c in node.children), tie=tie)
