"""What a circuit does on its own, without evidence: how probable each unit is, and how much entropy is below it.

The *top-down probability* of a unit is the probability that it is in the induced tree that the circuit draws: 1 at the root;
a sum hands it on by weight, a product to all children alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

from flatpc._typing import Array
from flatpc.circuit.nodes import Input, Mixture, Product, Sum
from flatpc.engine.contract import Evaluator
from flatpc.engine.flat import unpack_inputs

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit


def root_probability(circuit: Circuit) -> list[Array]:
    """Top-down probabilities before anything is handed down: 1 at the root."""
    probability = [np.zeros(width) for width in circuit.widths]
    probability[-1][:] = 1.0
    return probability


def hand_down(circuit: Circuit, i: int, weights: NDArray[Any], probability: list[Array]) -> None:
    """Give node i's probability to its children; a node's parents must have done so before."""
    node, mine = circuit.nodes[i], probability[i]
    if isinstance(node, Sum):
        below, start = mine @ weights, 0
        for c in node.children:
            probability[c] += below[start : start + circuit.widths[c]]
            start += circuit.widths[c]
    elif isinstance(node, Mixture):
        for j, c in enumerate(node.children):
            probability[c] += mine * weights[:, j]
    elif isinstance(node, Product) and node.kind == "hadamard":
        for c in node.children:
            probability[c] += mine
    elif isinstance(node, Product):
        grid = mine.reshape([circuit.widths[c] for c in node.children])
        for j, c in enumerate(node.children):
            probability[c] += grid.sum(axis=tuple(axis for axis in range(grid.ndim) if axis != j))


def top_down(evaluator: Evaluator) -> list[Array]:
    """For each node `[units]`: top-down probabilities under the present weights."""
    circuit = evaluator.circuit
    weights = evaluator.weight_views(evaluator.weights)
    probability = root_probability(circuit)
    for i in reversed(range(len(circuit.nodes))):
        hand_down(circuit, i, weights.get(circuit.owners[i], _NONE), probability)
    return probability


_NONE = np.empty((0, 0))


def entropies(evaluator: Evaluator) -> list[Array]:
    """For each node `[units]`: the joint entropy of a unit's variables and the choices of the sums from there down, in nats."""
    circuit = evaluator.circuit
    weights = evaluator.weight_views(evaluator.weights)
    inputs = unpack_inputs(circuit, evaluator.program, evaluator.inputs)
    out: list[Array] = []
    for i, node in enumerate(circuit.nodes):
        if isinstance(node, Input):
            out.append(node.family.entropy(inputs[circuit.owners[i]]))
        elif isinstance(node, Product) and node.kind == "hadamard":
            out.append(np.sum([out[c] for c in node.children], axis=0))
        elif isinstance(node, Product):
            total = out[node.children[0]]
            for c in node.children[1:]:
                total = (total[:, None] + out[c]).ravel()
            out.append(total)
        else:
            w = weights[circuit.owners[i]].astype(np.float64)
            out.append(entr(w).sum(axis=1) + (w * below(circuit, i, out)).sum(axis=1))
    return out


def below(circuit: Circuit, i: int, values: list[Array]) -> Array:
    """`[units, edges]`: for each edge of a sum or mixture the value of the unit at its end."""
    node = circuit.nodes[i]
    assert isinstance(node, Sum | Mixture)
    if isinstance(node, Mixture):
        return np.stack([values[c] for c in node.children], axis=1)
    row = np.concatenate([values[c] for c in node.children])
    return np.broadcast_to(row, (node.width, len(row)))
