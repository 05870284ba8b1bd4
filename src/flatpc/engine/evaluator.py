"""A circuit on the CPU: packed parameters, work buffers, and the passes over batches of evidence.

Work buffers hold the values and adjoints of one block of rows. Blocks are as large as fits into `memory` bytes (and no
larger than the batch): the larger a block, the more of it is shared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from numpy.typing import NDArray

from flatpc.engine import packing
from flatpc.engine._kernels import collect, log_domain
from flatpc.engine._kernels.backward import ADJOINTS, FLOWS, FUSED, Rule, backward
from flatpc.engine._kernels.forward import forward
from flatpc.engine._kernels.items import Items, make_blocks, make_items
from flatpc.engine.contract import Dtype, Flows
from flatpc.engine.evidence import Batch, Evidence
from flatpc.engine.program import DENSE_SUM, compile_circuit

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

Array = NDArray[np.float64]
LN2 = float(np.log(2.0))

DEFAULT_MEMORY = 1 << 30
_PLAN_BYTES = 1 << 28


class Evaluator:
    """Evaluates one circuit. `n_threads` defaults to numba's own setting; results don't depend on it."""

    def __init__(
        self, circuit: Circuit, dtype: Dtype = "float64", n_threads: int | None = None, memory: int = DEFAULT_MEMORY
    ) -> None:
        self.circuit = circuit
        self.dtype = dtype
        self.memory = memory
        self.program = compile_circuit(circuit)
        self.n_threads = n_threads or numba.get_num_threads()
        self.weights = packing.pack_weights(circuit, self.program, dtype)
        self.inputs = packing.pack_inputs(circuit, self.program)
        self._cost = _cost(self.program.arrays)
        self._values = np.empty(0, dtype)
        self._adjoints = np.empty(0, dtype)
        self._scales = np.empty(0)
        self._losses = np.empty(0)
        self._unit_ptr = np.concatenate([[0], np.cumsum(self.program.arrays.width)]).astype(np.int64)

    # ---- passes over a block --------------------------------------------------------------------------------------

    def blocks(self, evidence: Evidence, rows: NDArray[np.int64], *, per_row: bool = False) -> Iterator[Batch]:
        """Cut rows into batches that fit into memory."""
        n_scopes = max(1, len(self.program.scopes))
        size = max(1, min(len(rows), _PLAN_BYTES // (8 * n_scopes)))
        width = int(self.program.arrays.stride.sum())
        start = 0
        while start < len(rows):
            batch = evidence.batch(rows[start : start + size])
            n = len(batch.rows)
            units = int(batch.value_ptr[-1]) + (n * width if per_row else int(batch.value_ptr[-1]))
            need = units * self._values.itemsize + 16 * int(batch.row_ptr[-1])
            if need > self.memory and n > 1:
                size = max(1, min(n - 1, int(0.9 * n * self.memory / need) or n // 2))
                continue
            yield batch
            start += n

    def up(self, batch: Batch) -> Items:
        """Evaluate every step for the batch; the work items are those of the shared downward pass as well."""
        arrays = self.program.arrays
        self._values = _grown(self._values, int(batch.value_ptr[-1]))
        n_rows = int(batch.row_ptr[-1])
        self._scales, self._losses = _grown(self._scales, n_rows), _grown(self._losses, n_rows)
        items = self._items(batch.count[arrays.scope])
        forward(
            arrays, batch, items, self.weights, self.inputs, self._values, self._scales, self._losses, self.n_threads
        )  # fmt: skip
        return items

    def root(self, batch: Batch) -> tuple[Array, NDArray[np.bool_]]:
        """Log-likelihood of every distinct row of the batch, and which of them the linear domain could not settle."""
        n = int(batch.count[self.program.arrays.scope[-1]])
        value = self._values[batch.value_ptr[-2] :][:n].astype(np.float64)
        at = batch.row_ptr[-2]
        with np.errstate(divide="ignore"):
            return np.log(value) + LN2 * self._scales[at : at + n], self._losses[at : at + n] == np.inf

    def down(self, batch: Batch, items: Items, root_flow: Array, mode: int, gradient: Any, rule: Rule) -> None:
        """Adjoints over distinct sub-rows, `root_flow` summed over the batch rows that have them."""
        arrays = self.program.arrays
        self._adjoints = _grown(self._adjoints, int(batch.value_ptr[-1]))
        blocks = Items(*make_blocks(arrays, batch.count[arrays.scope], self.n_threads))
        backward(
            arrays, batch, items, blocks, self.weights, self._values, self._scales, self._adjoints, batch.value_ptr,
            root_flow, True, mode, gradient, rule, self.n_threads,
        )  # fmt: skip

    def down_per_row(self, batch: Batch, root_flow: Array) -> NDArray[np.int64]:
        """Adjoints row by row; returns where each step's adjoints `[rows, stride]` start."""
        arrays = self.program.arrays
        n = len(batch.rows)
        pointers = np.concatenate([[0], np.cumsum(arrays.stride * n)]).astype(np.int64)
        self._adjoints = _grown(self._adjoints, int(pointers[-1]))
        items = self._items(np.full(self.program.n_steps, n))
        nothing = np.empty(0, self.dtype)
        no_blocks = Items(np.zeros_like(items.level_ptr), *(np.empty(0, np.int64),) * 4)
        backward(
            arrays, batch, items, no_blocks, self.weights, self._values, self._scales, self._adjoints, pointers,
            root_flow, False, ADJOINTS, nothing, NO_RULE, self.n_threads,
        )  # fmt: skip
        return pointers

    def _items(self, rows_of: NDArray[np.int64]) -> Items:
        arrays = self.program.arrays
        return Items(*make_items(arrays.task_ptr, arrays.task, rows_of, self._cost, self.n_threads))

    # ---- whole data sets ------------------------------------------------------------------------------------------

    def log_prob(self, evidence: Evidence) -> Array:
        """`[N]`."""
        out = np.empty(len(evidence))
        for batch in self.blocks(evidence, np.arange(len(evidence))):
            self.up(batch)
            out[batch.rows], _ = self._log_prob_of(batch)
        return out

    def _log_prob_of(self, batch: Batch) -> tuple[Array, Array]:
        """Log-likelihood of every batch row, and of every distinct row with `-inf` for those left to the log domain."""
        log_prob, unsettled = self.root(batch)
        where = batch.where[self.program.arrays.scope[-1]]
        per_row = log_prob[where]
        if unsettled.any():
            representative = batch.representative[self.program.arrays.scope[-1]]
            for u in np.flatnonzero(unsettled):
                log_values, _ = self._log_domain(batch.X[batch.rows[representative[u]]], adjoints=False)
                per_row[where == u] = log_values[-1]
            log_prob[unsettled] = -np.inf
        return per_row, log_prob

    def _log_domain(self, x: Array, *, adjoints: bool) -> tuple[Array, Array]:
        arrays = self.program.arrays
        values, down = np.empty(int(self._unit_ptr[-1])), np.empty(int(self._unit_ptr[-1]) if adjoints else 0)
        log_domain.values_of_row(arrays, self.weights, self.inputs, x, self._unit_ptr, values)
        if adjoints:
            log_domain.adjoints_of_row(arrays, self.weights, self._unit_ptr, values, down)
        return values, down

    def statistics(
        self, evidence: Evidence, rows: NDArray[np.int64], row_weights: Array | None = None
    ) -> tuple[Array, NDArray[Any], Array]:
        """Log-likelihoods of the rows, gradients of all weights and statistics of all inputs (both flat, summed over rows)."""
        gradient = np.zeros(self.program.n_weights, self.dtype)
        statistics = np.zeros(self.program.n_inputs)
        log_prob = [
            self._step(evidence, batch, row_weights, FLOWS, gradient, statistics, NO_RULE)
            for batch in self.blocks(evidence, rows)
        ]
        return np.concatenate(log_prob), gradient, statistics

    def _step(
        self, evidence: Evidence, batch: Batch, row_weights: Array | None, mode: int, gradient: Any, statistics: Array, rule: Rule
    ) -> Array:
        """Up, down, and everything that is summed over the batch's rows."""
        arrays = self.program.arrays
        items = self.up(batch)
        per_row, per_distinct = self._log_prob_of(batch)
        counts = np.ones(len(batch.rows)) if row_weights is None else row_weights[batch.rows]
        where = batch.where[arrays.scope[-1]]
        root_flow = np.bincount(where, weights=counts, minlength=len(per_distinct))
        unsettled = np.isneginf(per_distinct) & (np.bincount(where, weights=per_row > -np.inf, minlength=len(per_distinct)) > 0)
        root_flow[np.isneginf(per_distinct)] = 0.0
        if unsettled.any():
            self._add_unsettled(batch, np.flatnonzero(unsettled), counts, gradient, statistics)
        self.down(batch, items, root_flow, mode, gradient, rule)
        collect.collect_inputs(arrays, batch, self.inputs, self._adjoints, batch.value_ptr, statistics, self.n_threads)
        collect.collect_weights(
            arrays, batch, self._values, self._scales, self._adjoints, batch.value_ptr, gradient, self.n_threads
        )  # fmt: skip
        return per_row

    def _add_unsettled(
        self, batch: Batch, distinct: NDArray[np.int64], counts: Array, gradient: Any, statistics: Array
    ) -> None:
        arrays = self.program.arrays
        where, representative = batch.where[arrays.scope[-1]], batch.representative[arrays.scope[-1]]
        for u in distinct:
            x = batch.X[batch.rows[representative[u]]]
            values, down = self._log_domain(x, adjoints=True)
            weight = float(counts[where == u].sum())
            log_domain.add_flows_of_row(arrays, self.inputs, x, self._unit_ptr, values, down, weight, gradient, statistics)

    def flows(self, evidence: Evidence, row_weights: Array | None = None) -> Flows:
        """The contract's flows over all rows."""
        log_prob, gradient, statistics = self.statistics(evidence, np.arange(len(evidence)), row_weights)
        flat = gradient.astype(np.float64) * self.weights
        return Flows(
            log_prob,
            packing.unpack_weights(self.circuit, self.program, flat),
            packing.unpack_statistics(self.circuit, self.program, statistics),
        )

    def unit_values(self, evidence: Evidence) -> list[Array]:
        """For each node `[N, K]`: logarithms of values."""
        return self._per_unit(evidence, flows=False)

    def unit_flows(self, evidence: Evidence) -> list[Array]:
        """For each node `[N, K]`: flows, row by row."""
        return self._per_unit(evidence, flows=True)

    def _per_unit(self, evidence: Evidence, *, flows: bool) -> list[Array]:
        widths = self.circuit.widths
        out = [np.zeros((len(evidence), k)) for k in widths]
        steps = self.program.step_of
        for r, x in enumerate(evidence.X):
            values, down = self._log_domain(x, adjoints=flows)
            if flows and values[-1] == -np.inf:
                continue
            numbers = np.exp(values + down) if flows else values
            for i, s in enumerate(steps):
                start = self._unit_ptr[s]
                out[i][r] = numbers[start : start + widths[i]]
        return out


def _cost(arrays: Any) -> Array:
    """Rough work per row of each step."""
    n_children = np.diff(arrays.child_ptr)
    cost = (arrays.stride * np.maximum(n_children, 1)).astype(np.float64)
    dense = np.flatnonzero(arrays.kind == DENSE_SUM)
    cost[dense] += arrays.width[dense] * arrays.stride[arrays.child[arrays.child_ptr[dense]]]
    return cost


def _grown(buffer: Any, size: int) -> Any:
    return buffer if len(buffer) >= size else np.empty(size + size // 8, buffer.dtype)


NO_RULE = Rule(0, np.empty(0), 0.0, 0.0, np.empty(0, np.uint8))
