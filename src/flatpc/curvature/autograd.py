"""The same derivatives through automatic differentiation on the torch engine.

Any device and any circuit, also with tied parameters; it keeps a graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from flatpc._typing import Array
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.nodes import Input, Node
from flatpc.curvature.layout import Layout, table_of
from flatpc.engine.torch.module import TorchCircuit
from flatpc.families.categorical import Categorical

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROWS_AT_A_TIME = 256


class Autograd:
    """Derivatives of log p in the order of a layout."""

    def __init__(self, layout: Layout, device: torch.device | str = "cpu") -> None:
        self.layout = layout
        self.net = TorchCircuit(_tables_as_categorical(layout.circuit), torch.float64, device)
        self._exists = torch.tensor(layout.exists, device=self.net.device)

    def _leaves(self) -> dict[int, Tensor]:
        arrays = self.layout.arrays(self.layout.values)
        return {i: torch.tensor(a, device=self.net.device, requires_grad=True) for i, a in arrays.items()}

    def _blocks(self, X: Array) -> Iterator[Tensor]:
        for start in range(0, len(X), _ROWS_AT_A_TIME):
            yield torch.tensor(X[start : start + _ROWS_AT_A_TIME], device=self.net.device)

    def _log_prob(self, X: Tensor, leaves: dict[int, Tensor]) -> Tensor:
        log_prob = self.net.log_prob(X, self._by_node(leaves))
        return torch.where(torch.isneginf(log_prob), 0.0, log_prob)

    def _by_node(self, leaves: dict[int, Tensor]) -> dict[int, Any]:
        nodes = self.layout.circuit.nodes
        return {i: {"p": p} if isinstance(nodes[i], Input) else p for i, p in leaves.items()}

    def _gradient(self, total: Tensor, leaves: dict[int, Tensor], *, keep: bool = False) -> Tensor:
        if not total.requires_grad:
            return torch.zeros(self.layout.size, dtype=torch.float64, device=self.net.device)
        found = torch.autograd.grad(
            total,
            list(leaves.values()),
            retain_graph=keep,
            create_graph=keep,
            allow_unused=True,
            materialize_grads=True,
        )
        return torch.cat([g.reshape(-1) for g in found]) * self._exists

    def gradient(self, X: Array, weights: Array | None = None) -> Array:
        """Σ ∂ log p / ∂θ; `weights [N]` count rows more or less than once."""
        return self.product(X, None, weights)

    def product(self, X: Array, vector: Array | None, weights: Array | None = None) -> Array:
        """H·v; without a vector, the gradient."""
        count = torch.tensor(np.ones(len(X)) if weights is None else weights, device=self.net.device)
        out = torch.zeros(self.layout.size, dtype=torch.float64, device=self.net.device)
        start = 0
        for rows in self._blocks(X):
            leaves = self._leaves()
            total = (self._log_prob(rows, leaves) * count[start : start + len(rows)]).sum()
            g = self._gradient(total, leaves, keep=vector is not None)
            if vector is not None:
                g = self._gradient(g @ torch.tensor(vector, device=self.net.device), leaves)
            out += g.detach()
            start += len(rows)
        return _numpy(out)


def _tables_as_categorical(circuit: Circuit) -> Circuit:
    """The same distribution with every free table, such as a Bernoulli's, written as a categorical."""
    nodes: list[Node] = list(circuit.nodes)
    parameters: dict[int, Any] = {i: p for i, p in circuit.parameters.items() if circuit.owners[i] == i}
    for i, node in enumerate(nodes):
        if isinstance(node, Input) and node.family.is_free_table:
            nodes[i] = Input(node.variable, Categorical(node.family.n_categories or 0), node.width, node.tie)
            if i in parameters:
                parameters[i] = {"p": table_of(circuit, i, circuit.parameters[i])}
    return Circuit(nodes, parameters)


def _numpy(t: Tensor) -> Array:
    out: Array = t.detach().cpu().numpy()
    return out
