"""A circuit that is learnt by torch: passes on any device, parameters in the flat arrays that all learners share.

Rows and weights stay on the device: EM changes weights there (`m_step.py`), and they come back when they are asked for. Inputs'
parameters travel to the device once a step, their statistics back. Where a learner changes weights itself, or weights are tied,
all parameters travel: as many numbers as the circuit has, whatever the number of rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flatpc._typing import Array, Ints
from flatpc.engine.contract import Arithmetic, Dtype, Work
from flatpc.engine.numba import packing, views
from flatpc.engine.numba._kernels.columns import Rule
from flatpc.engine.numba.program import compile_circuit
from flatpc.engine.numba.weight_update import update_weights
from flatpc.engine.precision import wide_enough
from flatpc.engine.torch.devices import find_device
from flatpc.engine.torch.engine import Run, Totals
from flatpc.engine.torch.layers import InputLayer, MixtureLayer, SumLayer
from flatpc.engine.torch.m_step import update_layer
from flatpc.engine.torch.products import is_safe
from flatpc.families import packing as family_packing

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

LARGEST_GRADIENT = {"float32": 2.0**120, "float64": 2.0**1000}
"""Of a weight."""


class TorchEvidence:
    """Rows on a device."""

    def __init__(self, X: Array, device: torch.device) -> None:
        self.X = np.ascontiguousarray(X, np.float64).view()
        self.X.flags.writeable = False
        self.rows = torch.tensor(self.X, device=device)

    def __len__(self) -> int:
        return len(self.X)


class TorchEvaluator:
    """Keeps the contract of `flatpc.engine.contract.Evaluator` with torch."""

    engine = "torch"
    n_threads = 1
    """Of the M-step, which is native; torch has a setting of its own."""

    def __init__(self, circuit: Circuit, dtype: Arithmetic = "float64", device: torch.device | str = "cpu") -> None:
        self.circuit = circuit
        self.dtype: Dtype = wide_enough(circuit, "float32" if dtype == "bfloat16" else dtype)
        narrow = dtype == "bfloat16" and self.dtype == "float32" and is_safe(circuit)
        self.arithmetic: Arithmetic = "bfloat16" if narrow else self.dtype
        self.device = find_device(device)
        self.program = compile_circuit(circuit)
        self.inputs = packing.pack_inputs(circuit, self.program)
        self.work = Work()
        self.run = Run(circuit, self.dtype, self.device, narrow=torch.bfloat16 if narrow else None)
        self._host: NDArray[Any] = packing.pack_weights(circuit, self.program, self.dtype)
        self._host_is_old = False
        self._device_is_old = True
        self._repeats = all(layer.family.is_table for layer in self.run.layers if isinstance(layer, InputLayer))
        """Whether rows are likely to repeat: all variables have finitely many values."""
        self._sums: dict[int, SumLayer | MixtureLayer] = {}
        for g, layer in enumerate(self.run.layers):
            if isinstance(layer, SumLayer | MixtureLayer):
                self._sums[g] = layer

    @property
    def weights(self) -> NDArray[Any]:
        """All weights of sums and mixtures, flat. Who asks may change them: they go to the device again with the next pass."""
        if self._host_is_old:
            views = self.weight_views(self._host)
            for g, layer in self._sums.items():
                for i, found in zip(layer.owners, self.run.stacked[g].cpu().numpy(), strict=True):
                    views[i][...] = found
        self._host_is_old, self._device_is_old = False, True
        return self._host

    @weights.setter
    def weights(self, flat: NDArray[Any]) -> None:
        self._host, self._host_is_old, self._device_is_old = flat, False, True

    def evidence(self, X: Array) -> TorchEvidence:
        """Rows on the device."""
        return TorchEvidence(X, self.device)

    def log_prob(self, evidence: TorchEvidence) -> Array:
        """`[N]`: log-likelihoods at the present parameters."""
        self._send_parameters()
        parts = [self.run.log_prob(rows) for _, rows in self.run.blocks(evidence.rows)]
        self._count(len(evidence), 1)
        return _numpy(parts)

    def statistics(self, evidence: TorchEvidence, rows: Ints, row_weights: Array | None = None) -> tuple[Array, Any, Array]:
        """Log-likelihoods of the rows; gradients of all weights and statistics of all inputs, flat and summed over rows."""
        log_prob, totals = self._totals(evidence, rows, row_weights)
        return log_prob, *self.flat(totals)

    def _totals(self, evidence: TorchEvidence, rows: Ints, row_weights: Array | None) -> tuple[Array, Totals]:
        """Log-likelihoods of the rows, and sums over them."""
        self._send_parameters()
        totals = Totals(self.run)
        mine, counts = self._chosen(evidence, rows, row_weights)
        which = torch.arange(len(mine), device=self.device)
        if self._repeats:
            mine, which = torch.unique(mine, dim=0, return_inverse=True)
            counts = counts.new_zeros(len(mine)).index_add_(0, which, counts)
        log_prob = [self.run.pass_flows(block, counts[at], totals)[0] for at, block in self.run.blocks(mine)]
        self._count(len(mine), 2)
        return _numpy(log_prob)[which.cpu().numpy()], totals

    def blocks(self, run: Run, evidence: TorchEvidence, rows: Ints, row_weights: Array | None) -> Iterator[tuple[Tensor, Tensor]]:
        """Rows in blocks of bounded memory, and how often each row counts."""
        mine, counts = self._chosen(evidence, rows, row_weights)
        for at, block in run.blocks(mine):
            yield block, counts[at]

    def _chosen(self, evidence: TorchEvidence, rows: Ints, row_weights: Array | None) -> tuple[Tensor, Tensor]:
        """Rows, and how often each counts."""
        each = np.ones(len(rows)) if row_weights is None else row_weights[rows]
        return evidence.rows[torch.as_tensor(rows, device=self.device)], torch.as_tensor(each, device=self.device).double()

    def flat(self, totals: Totals) -> tuple[NDArray[Any], Array]:
        """Gradients of weights and statistics of inputs as the learners take them."""
        gradient = np.zeros(self.program.n_weights, self.dtype)
        gradients = self.weight_views(gradient)
        for g, layer in self._sums.items():
            for i, found in zip(layer.owners, self._gradient(totals, g).cpu().numpy(), strict=True):
                gradients[i] += found
        np.minimum(gradient, LARGEST_GRADIENT[self.dtype], out=gradient)
        return gradient, self._statistics(totals)

    def _gradient(self, totals: Totals, g: int) -> Tensor:
        """Of a group's weights, with bounds."""
        weights, gradient = self.run.stacked[g], totals.gradients.get(g)
        if g in totals.edges:
            # An edge without weight has no flow, and stays so.
            more = totals.edges[g] / torch.where(weights > 0, weights, 1.0)
            gradient = more if gradient is None else gradient + more
        if gradient is None:
            return torch.zeros_like(weights)
        return gradient.clamp_(max=LARGEST_GRADIENT[self.dtype]).to(weights.dtype)

    def _statistics(self, totals: Totals) -> Array:
        """Of all inputs, flat."""
        statistics = np.zeros(self.program.n_inputs)
        places = self.input_views(statistics)
        for g, found in totals.statistics.items():
            layer = self.run.layers[g]
            assert isinstance(layer, InputLayer)
            n, width = len(layer.nodes), layer.width
            units = {name: value.flatten(0, 1).cpu().numpy() for name, value in found.items()}
            block = family_packing.pack_statistics(layer.family, units, n * width)
            for i, mine in zip(layer.owners, np.moveaxis(block.reshape(-1, n, width), 1, 0), strict=True):
                places[i] += mine
        return statistics

    def em_step(self, evidence: TorchEvidence, rows: Ints, rule: Rule, row_weights: Array | None = None) -> tuple[float, Array]:
        """One E-step over the rows and the M-step of all weights; see the contract."""
        if self.circuit.has_tied_parameters or np.ptp(rule.mu) > 0:
            log_prob, gradient, statistics = self.statistics(evidence, rows, row_weights)
            update_weights(self.program, self.weights, gradient, rule, n_threads=self.n_threads)
        else:
            log_prob, totals = self._totals(evidence, rows, row_weights)
            statistics = self._statistics(totals)
            for g, layer in self._sums.items():
                update_layer(self.run.stacked[g], self._gradient(totals, g), rule, float(rule.mu[0]), layer.mask)
            self.run.changed()
            self._host_is_old = True
        return float(np.average(log_prob, weights=None if row_weights is None else row_weights[rows])), statistics

    def weight_views(self, flat: NDArray[Any]) -> dict[int, NDArray[Any]]:
        """Owner -> `[units, edges]`, a view of a flat array in the layout of the weights."""
        return views.weight_views(self.circuit, self.program, flat)

    def input_views(self, flat: NDArray[Any]) -> dict[int, NDArray[Any]]:
        """Owner -> `[rows, units]`, a view of a flat array in the layout of the inputs."""
        return views.input_views(self.circuit, self.program, flat)

    def _send_parameters(self) -> None:
        """Give the device the parameters as they are now."""
        if self._device_is_old:
            views = self.weight_views(self._host)
            for g, layer in self._sums.items():
                stacked = torch.from_numpy(np.stack([views[i] for i in layer.owners]))
                self.run.stacked[g] = layer.masked(stacked.to(self.device))
            self._device_is_old = False
        views = self.input_views(self.inputs)
        for g, inputs in enumerate(self.run.layers):
            if isinstance(inputs, InputLayer) and inputs.family.learnable:
                n, width = len(inputs.nodes), inputs.width
                units = np.stack([views[i] for i in inputs.owners], axis=1).reshape(-1, n * width)
                self.run.stacked[g] = {
                    name: torch.as_tensor(value.reshape(n, width, *value.shape[1:]), device=self.device)
                    for name, value in family_packing.unpack(inputs.family, units).items()
                }
        self.run.changed()

    def _count(self, n_rows: int, n_passes: int) -> None:
        self.work.passes += n_passes
        self.work.steps += n_passes * self.program.n_steps
        self.work.multiplications += float(n_passes * n_rows * self.circuit.n_edges)


def _numpy(parts: list[Tensor]) -> Array:
    return torch.cat(parts).double().cpu().numpy() if parts else np.empty(0)
