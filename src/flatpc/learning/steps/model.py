"""The circuit that is being learnt: its packed parameters, and back to a `Circuit`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flatpc.engine.contract import Evaluator
from flatpc.engine.flat import unpack_inputs, unpack_weights
from flatpc.learning.steps.inputs import group_inputs

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

Parameters = dict[str, NDArray[Any]]


def packed(evaluator: Evaluator) -> Parameters:
    """A copy of all parameters, bit for bit."""
    return {"weights": evaluator.weights.copy(), "inputs": evaluator.inputs.copy()}


def restore(evaluator: Evaluator, parameters: Parameters) -> None:
    """Take up parameters that `packed` returned."""
    evaluator.weights[:] = parameters["weights"]
    evaluator.inputs[:] = parameters["inputs"]


def to_circuit(evaluator: Evaluator, parameters: Parameters | None = None) -> Circuit:
    """The circuit with the evaluator's parameters, or with these; probabilities are normalised in float64."""
    circuit, program = evaluator.circuit, evaluator.program
    flat = parameters or {"weights": evaluator.weights, "inputs": evaluator.inputs}
    weights = unpack_weights(circuit, program, flat["weights"])
    inputs = flat["inputs"].copy()
    for group in group_inputs(circuit, program):
        if group.is_table:
            # A Bernoulli's p(1) is then exactly 1 where p(0) is 0.
            table = group.view(inputs)
            table /= table.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        # A unit without weights becomes NaN, which the circuit refuses.
        new: dict[int, Any] = {i: w / w.sum(axis=1, keepdims=True) for i, w in weights.items()}
    return circuit.with_parameters({**new, **unpack_inputs(circuit, program, inputs)})
