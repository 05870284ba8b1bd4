"""The CPU engine, behind the contract that all engines keep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flatpc._typing import Array
from flatpc.circuit.nodes import Input
from flatpc.engine.contract import Dtype, Flows
from flatpc.engine.numba.evaluator import Evaluator
from flatpc.engine.numba.evidence import Evidence
from flatpc.families import asking

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit


class NumbaEngine:
    """Native loops over flat arrays, evaluated once per distinct sub-row (`evidence.py`)."""

    name = "numba"

    def log_prob(self, circuit: Circuit, X: Array, *, dtype: Dtype = "float64") -> Array:
        evaluator = Evaluator(circuit, dtype)
        return evaluator.log_prob(Evidence(evaluator.program, X))

    def flows(self, circuit: Circuit, X: Array, *, weights: Array | None = None, dtype: Dtype = "float64") -> Flows:
        evaluator = Evaluator(circuit, dtype)
        return evaluator.flows(Evidence(evaluator.program, X), weights)

    def unit_values(self, circuit: Circuit, X: Array, *, dtype: Dtype = "float64") -> list[Array]:
        return Evaluator(circuit, dtype).unit_values(X)

    def unit_flows(self, circuit: Circuit, X: Array, *, dtype: Dtype = "float64") -> list[Array]:
        return Evaluator(circuit, dtype).unit_flows(X)

    def log_densities(self, circuit: Circuit, X: Array) -> dict[int, Array]:
        out = {}
        for i, node in enumerate(circuit.nodes):
            if isinstance(node, Input):
                parameters: Any = circuit.parameters[i]
                out[i] = asking.log_density(node.family, parameters, X[:, node.columns])
        return out
