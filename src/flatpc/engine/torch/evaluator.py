"""A circuit that is learnt by torch: flows on any device, parameters in the flat arrays that all learners share.

Once a step the parameters travel to the device, and summed flows and statistics back: as many numbers as the circuit has
parameters, whatever the number of rows. Rows stay on the device.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flatpc._typing import Array, Ints
from flatpc.circuit.nodes import Input
from flatpc.engine.contract import Dtype, Work
from flatpc.engine.numba import packing, views
from flatpc.engine.numba._kernels.columns import Rule
from flatpc.engine.numba.program import compile_circuit
from flatpc.engine.numba.weight_update import update_weights
from flatpc.engine.precision import wide_enough
from flatpc.engine.torch.devices import find_device
from flatpc.engine.torch.engine import Run, Totals
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

    n_threads = 1
    """Of the M-step, which is native; torch has a setting of its own."""

    def __init__(self, circuit: Circuit, dtype: Dtype = "float64", device: torch.device | str = "cpu") -> None:
        self.circuit = circuit
        self.dtype: Dtype = wide_enough(circuit, dtype)
        self.device = find_device(device)
        self.program = compile_circuit(circuit)
        self.weights: NDArray[Any] = packing.pack_weights(circuit, self.program, self.dtype)
        self.inputs = packing.pack_inputs(circuit, self.program)
        self.work = Work()
        self.run = Run(circuit, self.dtype, self.device)

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
        self._send_parameters()
        totals = Totals(self.run)
        blocks = self.blocks(self.run, evidence, rows, row_weights)
        log_prob = [self.run.pass_flows(block, counts, totals)[0] for block, counts in blocks]
        self._count(len(rows), 2)
        return _numpy(log_prob), *self.flat(totals)

    def blocks(self, run: Run, evidence: TorchEvidence, rows: Ints, row_weights: Array | None) -> Iterator[tuple[Tensor, Tensor]]:
        """Rows in blocks of bounded memory, and how often each row counts."""
        mine = evidence.rows[torch.as_tensor(rows, device=self.device)]
        each = np.ones(len(rows)) if row_weights is None else row_weights[rows]
        counts = torch.as_tensor(each, dtype=torch.float64, device=self.device)
        for at, block in run.blocks(mine):
            yield block, counts[at]

    def flat(self, totals: Totals, *, flows: bool = True) -> tuple[NDArray[Any], Array]:
        """Gradients and statistics as the learners take them; the totals are of `flows` of edges, or of gradients."""
        gradient, statistics = np.zeros_like(self.weights), np.zeros(self.program.n_inputs)
        sums, inputs = totals.by_owner()
        gradients, weights = self.weight_views(gradient), self.weight_views(self.weights)
        for i, found in sums.items():
            # An edge without weight has no flow, and stays so.
            theta = np.where(weights[i] > 0, weights[i], 1.0).astype(np.float64) if flows else 1.0
            gradients[i][...] = np.minimum(found / theta, LARGEST_GRADIENT[self.dtype])
        places = self.input_views(statistics)
        for i, sufficient in inputs.items():
            node = self.circuit.nodes[i]
            assert isinstance(node, Input)
            places[i][...] = family_packing.pack_statistics(node.family, sufficient, node.width)
        return gradient, statistics

    def em_step(self, evidence: TorchEvidence, rows: Ints, rule: Rule, row_weights: Array | None = None) -> tuple[float, Array]:
        """One E-step over the rows and the M-step of all weights; see the contract."""
        log_prob, gradient, statistics = self.statistics(evidence, rows, row_weights)
        program = self.program
        update_weights(program, self.weights, gradient, rule, n_threads=self.n_threads)
        return float(np.average(log_prob, weights=None if row_weights is None else row_weights[rows])), statistics

    def weight_views(self, flat: NDArray[Any]) -> dict[int, NDArray[Any]]:
        """Owner -> `[units, edges]`, a view of a flat array in the layout of the weights."""
        return views.weight_views(self.circuit, self.program, flat)

    def input_views(self, flat: NDArray[Any]) -> dict[int, NDArray[Any]]:
        """Owner -> `[rows, units]`, a view of a flat array in the layout of the inputs."""
        return views.input_views(self.circuit, self.program, flat)

    def _send_parameters(self) -> None:
        """Give the device the parameters as they are now."""
        flat = torch.as_tensor(self.weights).to(self.device, copy=True)
        sent: dict[int, Any] = {i: _view(flat, view, self.weights) for i, view in self.weight_views(self.weights).items()}
        for i, parameters in packing.unpack_inputs(self.circuit, self.program, self.inputs).items():
            sent[i] = {name: torch.as_tensor(value, device=self.device) for name, value in parameters.items()}
        self.run.replace(sent)

    def _count(self, n_rows: int, n_passes: int) -> None:
        self.work.passes += n_passes
        self.work.steps += n_passes * self.program.n_steps
        self.work.multiplications += float(n_passes * n_rows * self.circuit.n_edges)


def _view(flat: Tensor, view: NDArray[Any], base: NDArray[Any]) -> Tensor:
    """The part of `flat` that `view` is of `base`."""
    offset = (view.ctypes.data - base.ctypes.data) // base.itemsize
    return flat.as_strided(view.shape, tuple(step // base.itemsize for step in view.strides), offset)


def _numpy(parts: list[Tensor]) -> Array:
    return torch.cat(parts).double().cpu().numpy() if parts else np.empty(0)
