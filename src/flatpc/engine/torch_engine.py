"""The dense engine: every row through every node, equal nodes of a level in one batched product.

Work is done in blocks of rows so that values and flows together take about half a gigabyte, besides the parameters.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flatpc.circuit.families import Statistics
from flatpc.engine import torch_inputs
from flatpc.engine.contract import Dtype, Flows, check_dtype
from flatpc.engine.torch_circuit import TorchCircuit
from flatpc.engine.torch_layers import InputLayer, Layer, State

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

Array = NDArray[np.float64]
_BLOCK_BYTES = 1 << 29


class TorchEngine:
    """Keeps the contract of `flatpc.engine.contract` with torch, on any device that has float64."""

    name = "torch"

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self.device = torch.device(device)

    def log_prob(self, circuit: Circuit, X: Array, *, dtype: Dtype = "float64") -> Array:
        run = _Run(circuit, dtype, self.device)
        with torch.no_grad():
            return np.concatenate([_numpy(run.net.log_prob(rows)) for _, rows in run.blocks(X)])

    def flows(self, circuit: Circuit, X: Array, *, weights: Array | None = None, dtype: Dtype = "float64") -> Flows:
        run = _Run(circuit, dtype, self.device)
        totals = _Totals(run)
        count = torch.ones(len(X), dtype=torch.float64) if weights is None else torch.tensor(weights, dtype=torch.float64)
        log_prob = [run.pass_flows(rows, count[at].to(self.device), totals)[0] for at, rows in run.blocks(X)]
        sums, inputs = totals.by_owner()
        return Flows(np.concatenate([_numpy(l) for l in log_prob]), sums, inputs)

    def unit_values(self, circuit: Circuit, X: Array, *, dtype: Dtype = "float64") -> list[Array]:
        run = _Run(circuit, dtype, self.device)
        with torch.no_grad():
            return run.by_node([run.unit_values(rows) for _, rows in run.blocks(X)])

    def unit_flows(self, circuit: Circuit, X: Array, *, dtype: Dtype = "float64") -> list[Array]:
        run = _Run(circuit, dtype, self.device)
        return run.by_node([run.pass_flows(rows, torch.ones(len(rows), device=self.device))[1] for _, rows in run.blocks(X)])


class _Run:
    """One circuit at one precision, with its parameters stacked once."""

    def __init__(self, circuit: Circuit, dtype: Dtype, device: torch.device) -> None:
        self.net = TorchCircuit(circuit, getattr(torch, check_dtype(dtype)), device)
        self.circuit = circuit
        self.stacked = self.net.stack(self.net.parameters)
        self._wide: list[Any] | None = None

    @property
    def layers(self) -> list[Layer]:
        return self.net.layers

    @property
    def wide(self) -> list[Any]:
        """Parameters for rows that are evaluated unit by unit: the circuit's own, not rounded to float32."""
        if self._wide is None:
            exact = TorchCircuit(self.circuit, torch.float64, self.net.device)
            self._wide = exact.stack(exact.parameters)
        return self._wide

    def blocks(self, X: Array) -> Iterator[tuple[slice, Tensor]]:
        """Rows in blocks of bounded memory."""
        # A row takes its values, its flows, and what sums keep or make on the way.
        units = sum(len(layer.nodes) * layer.width for layer in self.layers)
        size = max(1, _BLOCK_BYTES // (4 * units * self.net.dtype.itemsize))
        for start in range(0, len(X), size):
            at = slice(start, min(start + size, len(X)))
            yield at, torch.tensor(X[at], dtype=torch.float64, device=self.net.device)

    def by_node(self, blocks: list[list[Tensor]]) -> list[Array]:
        """Groups' tensors `[n, B, K]`, block by block, as one array `[N, K]` for each node."""
        out: list[Array] = [np.empty(0)] * len(self.circuit.nodes)
        for g, layer in enumerate(self.layers):
            joined = np.concatenate([_numpy(block[g]) for block in blocks], axis=1)
            for j, i in enumerate(layer.nodes):
                out[i] = joined[j]
        return out

    def unit_values(self, X: Tensor) -> list[Tensor]:
        """Logarithms of all units, group by group."""
        state = self.net.shared(X, self.stacked)
        out = [v.double().log() + s[..., None] for v, s in zip(state.v, state.s, strict=True)]
        unsure = torch.zeros(len(X), dtype=torch.bool, device=X.device)
        for v, e in zip(state.v, state.e, strict=True):
            # A unit far below its node's largest one is lost first; rows with such a unit are evaluated unit by unit.
            unsure |= (e > 1e-12 * v.amin(-1)).any(0)
        for rows in torch.split(unsure.nonzero().squeeze(-1), self.net.separate_rows()):
            exact = self.net.separate(X[rows], self.wide)
            for l, v, s in zip(out, exact.v, exact.s, strict=True):
                l[:, rows] = v.log() + s
        return out

    def pass_flows(self, X: Tensor, weights: Tensor, totals: _Totals | None = None) -> tuple[Tensor, list[Tensor]]:
        """Log-likelihoods, and the flow of every unit, group by group; adds to `totals`."""
        net = self.net
        with torch.no_grad():
            state = net.shared(X, self.stacked)
            root = state.v[-1][0, :, 0]
            unsure = net.unsure(state)
            log_prob = root.double().log() + state.s[-1][0]
            flows = [torch.zeros_like(v) for v in state.v]
            flows[-1][0, :, 0] = torch.where(unsure | (root == 0), 0.0, weights.to(net.dtype))
            for g in reversed(range(len(self.layers))):
                gradient = self.layers[g].flow(state, flows, g, self.stacked[g])
                if totals is not None:
                    totals.add(g, X, flows[g], gradient)
        for rows in torch.split(unsure.nonzero().squeeze(-1), net.separate_rows()):
            if len(rows):
                log_prob[rows] = self._pass_separately(X, rows, weights, flows, totals)
        return log_prob, flows

    def _pass_separately(self, X: Tensor, rows: Tensor, weights: Tensor, flows: list[Tensor], totals: _Totals | None) -> Tensor:
        """Flows of rows that need a scale for every unit, by automatic differentiation: v · ∂ log p / ∂v and θ · ∂ log p / ∂θ."""
        inputs: list[Tensor] = []

        def follow(state: State) -> None:
            if isinstance(self.layers[len(state.v) - 1], InputLayer):
                state.v[-1].requires_grad_()

        stacked = [w.clone().requires_grad_() if isinstance(w, Tensor) else w for w in self.wide]
        inputs = [w for w in stacked if isinstance(w, Tensor)]
        state = self.net.separate(X[rows], stacked, follow)
        log_prob = self.net.root(state)
        possible = torch.where(log_prob.isfinite(), log_prob, 0.0)
        found = torch.autograd.grad(
            (possible * weights[rows]).sum(), [*state.v, *inputs], allow_unused=True, materialize_grads=True
        )
        gradients = iter(found[len(state.v) :])
        with torch.no_grad():
            for g, w in enumerate(stacked):
                flow = state.v[g] * found[g]
                flows[g][:, rows] = flow.to(flows[g].dtype)
                if totals is not None:
                    totals.add(g, X[rows], flow, next(gradients) if isinstance(w, Tensor) else None)
        return log_prob.detach()


class _Totals:
    """Derivatives by weights and statistics of inputs, summed over blocks of rows in float64."""

    def __init__(self, run: _Run) -> None:
        self.run = run
        self.gradients: dict[int, Tensor] = {}
        self.statistics: dict[int, dict[str, Tensor]] = {}

    def add(self, g: int, X: Tensor, flow: Tensor, gradient: Tensor | None) -> None:
        layer = self.run.layers[g]
        if gradient is not None:
            gradient = gradient.double()
            self.gradients[g] = self.gradients[g] + gradient if g in self.gradients else gradient
        elif isinstance(layer, InputLayer):
            found = torch_inputs.statistics(layer.family, self.run.stacked[g], layer.rows(X), flow)
            wide = {name: value.double() for name, value in found.items()}
            old = self.statistics.get(g)
            self.statistics[g] = wide if old is None else {name: old[name] + wide[name] for name in wide}

    def by_owner(self) -> tuple[dict[int, Array], dict[int, Statistics]]:
        """Flows of edges and statistics of inputs at the nodes that own the parameters."""
        owners = self.run.circuit.owners
        sums: dict[int, Array] = {}
        inputs: dict[int, Statistics] = {}
        for g, layer in enumerate(self.run.layers):
            if g in self.gradients:
                edges = _numpy(self.gradients[g] * self.run.stacked[g])
                for i, flow in zip(layer.nodes, edges, strict=True):
                    sums[owners[i]] = sums[owners[i]] + flow if owners[i] in sums else flow
            if g in self.statistics:
                arrays = {name: _numpy(value) for name, value in self.statistics[g].items()}
                for j, i in enumerate(layer.nodes):
                    mine = {name: array[j] for name, array in arrays.items()}
                    old = inputs.get(owners[i])
                    inputs[owners[i]] = mine if old is None else {name: old[name] + mine[name] for name in mine}
        return dict(sorted(sums.items())), dict(sorted(inputs.items()))


def _numpy(t: Tensor) -> Array:
    return t.detach().double().cpu().numpy()
