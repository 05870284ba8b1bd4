"""The same derivatives through automatic differentiation on the torch engine.

Any device, any circuit, also tied parameters, and rows whose probability the linear domain can't hold; it keeps a graph, and
goes through it once per row where the numba engine needs one pass for all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flatpc.circuit.circuit import Circuit
from flatpc.circuit.nodes import Input
from flatpc.curvature.layout import Layout, table_of
from flatpc.engine import torch_inputs
from flatpc.engine.torch_circuit import TorchCircuit
from flatpc.engine.torch_layers import InputLayer, State
from flatpc.families.base import Statistics
from flatpc.families.bernoulli import Bernoulli
from flatpc.families.categorical import Categorical

if TYPE_CHECKING:
    from collections.abc import Iterator

Array = NDArray[np.float64]
_ROWS_AT_A_TIME = 256


class Autograd:
    """Derivatives of log p in the order of a layout."""

    def __init__(self, layout: Layout, device: torch.device | str = "cpu") -> None:
        self.layout = layout
        self.net = TorchCircuit(_bernoulli_as_categorical(layout.circuit), torch.float64, device)
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

    def _gradient(self, total: Tensor, leaves: dict[int, Tensor], *, keep: bool = False, retain: bool = False) -> Tensor:
        if not total.requires_grad:
            return torch.zeros(self.layout.size, dtype=torch.float64, device=self.net.device)
        found = torch.autograd.grad(
            total,
            list(leaves.values()),
            retain_graph=keep or retain,
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

    def row_gradients(self, X: Array) -> Array:
        """`[N, P]`: the gradient of every row's log p."""
        out = np.empty((len(X), self.layout.size))
        for r in range(len(X)):
            out[r] = self.gradient(X[r : r + 1])
        return out

    def penalty(self, X: Array, space: str, weights: Array | None = None) -> tuple[float, Array, dict[int, Statistics]]:
        """Σ over rows of the negated trace in `space`, and its gradient: in θ, and in the inputs, row by row.

        The latter, unless inputs are among the θ, as sufficient statistics of each owner: weighted not by flow, v · ∂ log p/∂v
        with v an input's value, but by v · ∂R/∂v, what flow changes by.
        """
        value, gradient = 0.0, np.zeros(self.layout.size)
        statistics: dict[int, Statistics] = {}
        for r in range(len(X)):
            leaves, row = self._leaves(), torch.tensor(X[r : r + 1], device=self.net.device)
            log_prob, inputs = self._from_inputs(row, leaves)
            theta = torch.cat([p.reshape(-1) for p in leaves.values()])
            each = self._negated_trace(self._gradient(log_prob, leaves, keep=True), theta, space)
            total = (1.0 if weights is None else float(weights[r])) * each.sum()
            value += float(total.detach())
            gradient += _numpy(self._gradient(total, leaves, retain=True))
            if total.requires_grad and inputs:
                self._add_statistics(statistics, row, total, inputs)
        return value, gradient, statistics

    def _from_inputs(self, row: Tensor, leaves: dict[int, Tensor]) -> tuple[Tensor, dict[int, Tensor]]:
        """Log p of one row with a scale for every unit, and the values of layers of inputs, which it can be differentiated by."""
        inputs: dict[int, Tensor] = {}

        def follow(state: State) -> None:
            at = len(state.v) - 1
            if isinstance(self.net.layers[at], InputLayer) and not self.layout.include_inputs:
                inputs[at] = state.v[at].requires_grad_()

        given = {**self.net.parameters, **self._by_node(leaves)}
        log_prob = self.net.root(self.net.separate(row, self.net.stack(given, torch.float64), follow)).sum()
        return torch.where(torch.isneginf(log_prob), 0.0, log_prob), inputs

    def _add_statistics(self, to: dict[int, Statistics], row: Tensor, total: Tensor, inputs: dict[int, Tensor]) -> None:
        found = torch.autograd.grad(total, list(inputs.values()), allow_unused=True, materialize_grads=True)
        for (at, value), change in zip(inputs.items(), found, strict=True):
            layer = self.net.layers[at]
            assert isinstance(layer, InputLayer)
            with torch.no_grad():
                stacked = layer.stack(self.net.parameters)
                each = torch_inputs.statistics(layer.family, stacked, layer.rows(row), value * change)
            for n, owner in enumerate(layer.owners):
                mine = {name: _numpy(array[n]) for name, array in each.items()}
                to[owner] = {name: to[owner][name] + array for name, array in mine.items()} if owner in to else mine

    def _negated_trace(self, g: Tensor, theta: Tensor, space: str) -> Tensor:
        if space == "weights":
            return g * g
        row = torch.tensor(self.layout.row, device=self.net.device)
        units = int(row.max()) + 1 if len(row) else 0

        def row_sums(vector: Tensor) -> Tensor:
            return torch.zeros(units, dtype=torch.float64, device=g.device).index_add(0, row, vector)[row]

        if space == "simplex":
            mean = row_sums(g) / torch.tensor(self.layout.edges, device=g.device)
            return (self._exists * (g - mean)) ** 2
        d = theta * (g - row_sums(theta * g))
        return d * d + 2 * theta * d if space == "logits" else d * d


def _bernoulli_as_categorical(circuit: Circuit) -> Circuit:
    """The same distribution with every Bernoulli written as a categorical of two values."""
    nodes, parameters = [], {}
    for i, node in enumerate(circuit.nodes):
        bernoulli = isinstance(node, Input) and isinstance(node.family, Bernoulli)
        nodes.append(Input(node.variable, Categorical(2), node.width, node.tie) if bernoulli else node)  # type: ignore[union-attr]
        if i in circuit.parameters and circuit.owners[i] == i:
            parameters[i] = {"p": table_of(circuit, i)} if bernoulli else circuit.parameters[i]
    return Circuit(nodes, parameters)


def _numpy(t: Tensor) -> Array:
    out: Array = t.detach().cpu().numpy()
    return out
