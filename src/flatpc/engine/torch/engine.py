"""The dense engine: every row through every node, equal nodes of a level in one batched product.

Work is done in blocks of rows so that values and flows together take about half a gigabyte, besides the parameters.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from flatpc._typing import Array
from flatpc.engine.contract import Dtype, Flows, check_dtype
from flatpc.engine.precision import wide_enough
from flatpc.engine.torch import inputs as torch_inputs
from flatpc.engine.torch.devices import compiling, find_device
from flatpc.engine.torch.layers import InputLayer, State
from flatpc.engine.torch.module import TorchCircuit
from flatpc.engine.torch.sharing import Plan, Sharing
from flatpc.families.base import Statistics

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

_BLOCK_BYTES = 1 << 29


class TorchEngine:
    """Keeps the contract of `flatpc.engine.contract` with torch, on any device that has float64."""

    name = "torch"

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self.device = find_device(device)

    def log_prob(self, circuit: Circuit, X: Array, *, dtype: Dtype = "float64") -> Array:
        run = Run(circuit, dtype, self.device)
        return np.concatenate([_numpy(run.log_prob(rows)) for _, rows in run.blocks(X)])

    def flows(self, circuit: Circuit, X: Array, *, weights: Array | None = None, dtype: Dtype = "float64") -> Flows:
        run = Run(circuit, dtype, self.device)
        totals = Totals(run)
        count = torch.ones(len(X)) if weights is None else torch.tensor(weights)
        count = count.to(self.device, torch.float64)
        log_prob = [run.pass_flows(rows, count[at], totals)[0] for at, rows in run.blocks(X)]
        sums, inputs = totals.by_owner()
        return Flows(np.concatenate([_numpy(l) for l in log_prob]), sums, inputs)

    def unit_values(self, circuit: Circuit, X: Array, *, dtype: Dtype = "float64") -> list[Array]:
        run = Run(circuit, dtype, self.device)
        return run.by_node([run.unit_values(rows) for _, rows in run.blocks(X)])

    def unit_flows(self, circuit: Circuit, X: Array, *, dtype: Dtype = "float64") -> list[Array]:
        run = Run(circuit, dtype, self.device)
        ones = torch.ones(len(X), dtype=torch.float64, device=self.device)
        return run.by_node([run.pass_flows(rows, ones[at])[1] for at, rows in run.blocks(X)])

    @torch.no_grad()
    def log_densities(self, circuit: Circuit, X: Array) -> dict[int, Array]:
        run = Run(circuit, "float64", self.device)
        out: dict[int, Array] = {}
        for layer, parameters in zip(run.layers, run.stacked, strict=True):
            if isinstance(layer, InputLayer):
                parts = []
                for _, rows in run.blocks(X):
                    state = State(torch.float64)
                    layer.separate(state, rows, parameters)
                    parts.append(_numpy(state.v[0].log() + state.s[0]))
                out.update(zip(layer.nodes, np.concatenate(parts, axis=1), strict=True))
        return out


class Run:
    """One circuit at one precision, with its parameters stacked once."""

    def __init__(
        self, circuit: Circuit, dtype: Dtype, device: torch.device, *, compiled: bool = True, narrow: torch.dtype | None = None
    ) -> None:
        self.circuit = circuit
        self.narrow = narrow
        """Of the matrix products of `pass_flows`."""
        self.dtype: torch.dtype = getattr(torch, wide_enough(circuit, check_dtype(dtype)))
        self.net = TorchCircuit(circuit, self.dtype, device)
        self.layers = self.net.layers
        self.stacked = self.net.stack(self.net.parameters, self.dtype)
        self.sharing = Sharing(self.layers)
        self._wider: Run | None = None
        self._wider_is_old = False
        self._room: list[Tensor] = []
        backend = compiling() if compiled else None
        self._compiled = backend is not None
        self._up_and_down = self._passes if backend is None else torch.compile(self._passes, backend=backend, dynamic=False)

    @property
    def wider(self) -> Run:
        """The same in float64, for rows that float32 is too narrow for; parameters of the circuit are not rounded."""
        if self.dtype == torch.float64:
            return self
        if self._wider is None:
            self._wider = Run(self.circuit, "float64", self.net.device, compiled=False)  # of few rows, now more, now fewer
        if self._wider_is_old:
            self._wider.stacked = [a.double() if isinstance(a, Tensor) else a for a in self.stacked]
            self._wider_is_old = False
        return self._wider

    def changed(self) -> None:
        """Parameters in `stacked` are others now."""
        self._wider_is_old = True

    def blocks(self, X: Array | Tensor) -> Iterator[tuple[slice, Tensor]]:
        """Rows in blocks of bounded memory."""
        # A row takes each unit's value, its flow, and what sums keep or make on the way; and each node's scale and loss.
        nodes = sum(len(layer.nodes) for layer in self.layers)
        units = sum(len(layer.nodes) * layer.width for layer in self.layers)
        size = max(1, _BLOCK_BYTES // (4 * units * self.dtype.itemsize + 32 * nodes))
        for start in range(0, len(X), size):
            at = slice(start, min(start + size, len(X)))
            rows = X[at] if isinstance(X, Tensor) else X[at].copy()  # torch warns of arrays that are read-only
            yield at, torch.as_tensor(rows, dtype=torch.float64, device=self.net.device)

    def by_node(self, blocks: list[list[Tensor]]) -> list[Array]:
        """Groups' tensors `[n, B, K]`, block by block, as one array `[N, K]` for each node."""
        out: list[Array] = [np.empty(0)] * len(self.circuit.nodes)
        for g, layer in enumerate(self.layers):
            joined = np.concatenate([_numpy(block[g]) for block in blocks], axis=1)
            for j, i in enumerate(layer.nodes):
                if i >= 0:
                    out[i] = joined[j]
        return out

    def _separately(self, unsure: Tensor) -> Iterator[Tensor]:
        """The rows that are unsure, a few at a time."""
        rows = unsure.nonzero().squeeze(-1)
        return iter(torch.split(rows, self.net.separate_rows()) if len(rows) else ())

    @torch.no_grad()
    def log_prob(self, X: Tensor) -> Tensor:
        state = self.net.shared(X, self.stacked, self.dtype)
        out = state.v[-1][0, :, 0].double().log() + state.s[-1][0]
        unsure = self.net.unsure(state)
        if self.dtype != torch.float64 and unsure.any():
            out[unsure] = self.wider.log_prob(X[unsure])
            return out
        for rows in self._separately(unsure):
            out[rows] = self.net.root(self.net.separate(X[rows], self.stacked))
        return out

    @torch.no_grad()
    def unit_values(self, X: Tensor) -> list[Tensor]:
        """Logarithms of all units, group by group."""
        state = self.net.shared(X, self.stacked, self.dtype)
        out = [v.double().log() + s[..., None] for v, s in zip(state.v, state.s, strict=True)]
        unsure = torch.zeros(len(X), dtype=torch.bool, device=X.device)
        for v, e in zip(state.v, state.e, strict=True):
            # A unit far below its node's largest one is lost first.
            unsure |= (e > 1e-12 * v.amin(-1)).any(0)
        if self.dtype != torch.float64 and unsure.any():
            for l, exact in zip(out, self.wider.unit_values(X[unsure]), strict=True):
                l[:, unsure] = exact
            return out
        for rows in self._separately(unsure):
            again = self.net.separate(X[rows], self.stacked)
            for l, v, s in zip(out, again.v, again.s, strict=True):
                l[:, rows] = v.log() + s
        return out

    def pass_flows(self, X: Tensor, weights: Tensor, totals: Totals | None = None) -> tuple[Tensor, list[Tensor]]:
        """Log-likelihoods, and the flow of every unit, group by group; or adds to `totals`, and flows have no meaning."""
        with torch.no_grad():
            # Compiled passes would be compiled anew for each number of sub-rows.
            plan = None if totals is None or self._compiled else self.sharing.plan(X)
            room = [] if totals is None or self._compiled else self._room
            log_prob, unsure, flows, gradients = self._up_and_down(X, weights, self.stacked, room, plan)
            if totals is not None:
                self._room = flows
                for g in reversed(range(len(self.layers))):
                    if g in gradients:
                        totals.add_gradient(g, gradients[g])
                    else:
                        totals.add_inputs(g, X, flows[g], plan)
        if self.dtype != torch.float64 and unsure.any():
            log_prob[unsure], again = self.wider.pass_flows(X[unsure], weights[unsure], totals)
            for flow, exact in zip(flows, again, strict=True) if totals is None else ():
                flow[:, unsure] = exact.to(self.dtype)
            return log_prob, flows
        for rows in self._separately(unsure):
            log_prob[rows], again = self._pass_separately(X[rows], weights[rows], totals)
            for flow, exact in zip(flows, again, strict=True):
                flow[:, rows] = exact
        return log_prob, flows

    def _passes(
        self, X: Tensor, weights: Tensor, stacked: list[Any], room: list[Tensor], plan: Plan | None
    ) -> tuple[Tensor, Tensor, list[Tensor], dict[int, Tensor]]:
        """Both passes with one scale per node and row: log-likelihoods, unsure rows, which have no flow, flows and gradients.

        Flows are written to `room`, if it has the right shape: it is that of the last block. With a plan, those of a group that
        is shared are of sub-rows.
        """
        state = self.net.shared(X, stacked, self.dtype, self.narrow, plan)
        root = state.v[-1][0, :, 0]
        unsure = self.net.unsure(state)
        log_prob = root.double().log() + state.s[-1][0]
        if not room or any(flow.shape != v.shape for flow, v in zip(room, state.v, strict=True)):
            room = [torch.empty_like(v) for v in state.v[:-1]] + [torch.zeros_like(state.v[-1])]
        for g, codes in enumerate(() if plan is None else plan.codes):
            if codes is not None:
                room[g].zero_()
        room[-1][0, :, 0] = torch.where(unsure | (root == 0), 0.0, weights.to(self.dtype))
        gradients: dict[int, Tensor] = {}
        for g in reversed(range(len(self.layers))):
            gradient = self.layers[g].flow(state, room, g, stacked[g])
            if gradient is not None:
                gradients[g] = gradient
        return log_prob, unsure, room, gradients

    def _pass_separately(self, X: Tensor, weights: Tensor, totals: Totals | None) -> tuple[Tensor, list[Tensor]]:
        """The same with a scale for every unit, by automatic differentiation: v · ∂ log p / ∂v is the flow of v."""

        def follow(state: State) -> None:
            if isinstance(self.layers[len(state.v) - 1], InputLayer):
                state.v[-1].requires_grad_()

        use = {g: torch.ones_like(w).requires_grad_() for g, w in enumerate(self.stacked) if isinstance(w, Tensor)}
        state = self.net.separate(X, self.stacked, follow, use)
        log_prob = self.net.root(state)
        total = (torch.where(log_prob.isfinite(), log_prob, 0.0) * weights).sum()
        found = torch.autograd.grad(total, [*state.v, *use.values()], allow_unused=True, materialize_grads=True)
        edges = dict(zip(use, found[len(state.v) :], strict=True))
        with torch.no_grad():
            flows = [v * gradient for v, gradient in zip(state.v, found, strict=False)]
            if totals is not None:
                for g, flow in enumerate(flows):
                    totals.add_inputs(g, X, flow)
                for g, edge in edges.items():
                    totals.add_edges(g, edge)
        return log_prob.detach(), flows


class Totals:
    """Gradients of weights and statistics of inputs, summed over blocks of rows, from the second block on in float64."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.gradients: dict[int, Tensor] = {}
        """Group of sums or mixtures -> ∂ Σ log p / ∂θ, `[n, units, edges]`."""
        self.edges: dict[int, Tensor] = {}
        """The same -> θ · ∂ Σ log p / ∂θ of the rows whose derivatives may be beyond all bounds."""
        self.statistics: dict[int, dict[str, Tensor]] = {}

    def add_gradient(self, g: int, gradient: Tensor) -> None:
        """Of the weights of a group."""
        _add(self.gradients, g, gradient)

    def add_edges(self, g: int, edges: Tensor) -> None:
        """Flows of the edges of a group."""
        _add(self.edges, g, edges)

    def add_inputs(self, g: int, X: Tensor, flow: Tensor, plan: Plan | None = None) -> None:
        """The statistics of a group, if it is one of inputs."""
        layer = self.run.layers[g]
        if isinstance(layer, InputLayer):
            rows = layer.rows(X) if plan is None else plan.rows(g, layer.rows(X))
            found = torch_inputs.statistics(layer.family, self.run.stacked[g], rows, flow)
            wide = {name: value.double() for name, value in found.items()}
            old = self.statistics.get(g)
            self.statistics[g] = wide if old is None else {name: old[name] + wide[name] for name in wide}

    def flow(self, g: int) -> Tensor:
        """Flows of the edges of a group, in float64; none where the weight is 0, whatever the derivative."""
        weights, flow = self.run.stacked[g], self.edges.get(g)
        if g in self.gradients:
            settled = torch.where(weights > 0, self.gradients[g].double() * weights.double(), 0.0)
            flow = settled if flow is None else flow + settled
        assert flow is not None
        return flow

    def by_owner(self) -> tuple[dict[int, Array], dict[int, Statistics]]:
        """Flows of edges and statistics of inputs at the nodes that own the parameters."""
        owners = self.run.circuit.owners
        sums: dict[int, Array] = {}
        inputs: dict[int, Statistics] = {}
        for g, layer in enumerate(self.run.layers):
            if g in self.gradients or g in self.edges:
                for i, flow in zip(layer.nodes, _numpy(self.flow(g)), strict=True):
                    sums[owners[i]] = sums[owners[i]] + flow if owners[i] in sums else flow
            if g in self.statistics:
                arrays = {name: _numpy(value) for name, value in self.statistics[g].items()}
                for j, i in enumerate(layer.nodes):
                    mine = {name: array[j] for name, array in arrays.items()}
                    old = inputs.get(owners[i])
                    inputs[owners[i]] = mine if old is None else {name: old[name] + mine[name] for name in mine}
        return dict(sorted(sums.items())), dict(sorted(inputs.items()))


def _add(totals: dict[int, Tensor], g: int, more: Tensor) -> None:
    totals[g] = totals[g].double() + more if g in totals else more


def _numpy(t: Tensor) -> Array:
    return t.detach().double().cpu().numpy()
