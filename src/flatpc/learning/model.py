"""The circuit that is being learnt: its packed parameters, and back to a `Circuit`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flatpc.circuit.nodes import Input
from flatpc.engine import packing
from flatpc.engine.evaluator import Evaluator

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

Array = NDArray[np.float64]
Parameters = dict[str, NDArray[Any]]


def packed(evaluator: Evaluator) -> Parameters:
    """A copy of all parameters, bit for bit."""
    return {"weights": evaluator.weights.copy(), "inputs": evaluator.inputs.copy()}


def restore(evaluator: Evaluator, parameters: Parameters) -> None:
    """Take up parameters that `packed` returned."""
    evaluator.weights[:] = parameters["weights"]
    evaluator.inputs[:] = parameters["inputs"]


def to_circuit(evaluator: Evaluator, parameters: Parameters | None = None) -> Circuit:
    """The circuit with the evaluator's parameters, or with these; rows are normalised in float64."""
    circuit, program = evaluator.circuit, evaluator.program
    flat = parameters or {"weights": evaluator.weights, "inputs": evaluator.inputs}
    new: dict[int, Any] = {}
    for i, weights in packing.unpack_weights(circuit, program, flat["weights"]).items():
        new[i] = weights / weights.sum(axis=1, keepdims=True)
    for i, values in packing.unpack_inputs(circuit, program, flat["inputs"]).items():
        node = circuit.nodes[i]
        assert isinstance(node, Input)
        if "p" in values:
            p = values["p"]
            values = {"p": p / p.sum(axis=1, keepdims=True) if p.ndim == 2 else np.clip(p, 0.0, 1.0)}
        new[i] = values
    return circuit.with_parameters(new)
