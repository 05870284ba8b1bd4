"""Inputs of families that the engine has no formula for: it asks the family, by NumPy, once per distinct value of a block.

Before a pass upward the families' log-densities become values and scales, as native formulas leave them; after a pass downward
the flows of the distinct values go to the families' statistics. All that is above the inputs stays native.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flatpc._typing import Array
from flatpc.circuit.nodes import Input
from flatpc.engine.numba._kernels import columns
from flatpc.engine.numba._kernels.underflow import put_rows_of_logs
from flatpc.engine.numba.evidence import Plan
from flatpc.engine.numba.views import InputBlocks, input_block
from flatpc.families import asking, packing
from flatpc.families.base import Family

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit
    from flatpc.engine.numba.program import Program


@dataclass(frozen=True)
class GeneralInput:
    """One step, with its place in the flat arrays of parameters and statistics."""

    step: int
    columns: int | list[int]
    family: Family
    width: int
    stride: int
    """Of values and adjoints, from one row to the next."""
    scope: int
    place: InputBlocks

    def block(self, flat: Array) -> NDArray[Any]:
        """`[rows, width]`: its part of a flat array of parameters or statistics."""
        return np.asarray(self.place.view(flat)[0])

    def put_values(self, plan: Plan, inputs: Array, values: NDArray[Any], scales: Array, losses: Array) -> None:
        """Write values, scales and losses of all distinct values of a block."""
        value, row, n = (int(plan.batch.at[self.step, c]) for c in (columns.VALUE, columns.ROW, columns.ROWS))
        x = self._distinct(plan, n)
        logs = asking.log_density(self.family, self._parameters(inputs), x)
        put_rows_of_logs(values, scales, losses, value, row, self.stride, np.ascontiguousarray(logs), asking.all_missing(x))

    def add_statistics(self, plan: Plan, inputs: Array, flows: NDArray[Any], statistics: Array) -> None:
        """Add the statistics of a block from the flows of its distinct values."""
        at, n = (int(plan.batch.at[self.step, c]) for c in (columns.ADJOINT, columns.ADJOINT_ROWS))
        flow = flows[at : at + n * self.stride].reshape(n, self.stride)[:, : self.width]
        self.add(inputs, self._distinct(plan, n), flow, statistics)

    def add_row_statistics(
        self, plan: Plan, inputs: Array, values: NDArray[Any], adjoints: NDArray[Any], count: Array, statistics: Array
    ) -> None:
        """Add them from adjoints that lie row by row, or from tangents of adjoints; `count` says how often a row counts."""
        at, value = (int(plan.batch.at[self.step, c]) for c in (columns.ADJOINT, columns.VALUE))
        n, n_values = (int(plan.batch.at[self.step, c]) for c in (columns.ADJOINT_ROWS, columns.ROWS))
        v = values[value : value + n_values * self.stride].reshape(n_values, self.stride)[:, : self.width]
        g = adjoints[at : at + n * self.stride].reshape(n, self.stride)[:, : self.width]
        flow = count[:n, None] * g * v[plan.batch.share[0, self.scope, :n]]
        x = self._of_rows(plan, plan.batch.rows[:n])
        self.add(inputs, x, np.where(count[:n, None] == 0, 0.0, flow), statistics)

    def logs_of_rows(self, inputs: Array, x: Array) -> Array:
        """`[N, width]`: log-densities, each distinct value asked once."""
        if x.ndim > 1:  # whole rows are seldom the same
            return asking.log_density(self.family, self._parameters(inputs), x)
        distinct, where = np.unique(x, return_inverse=True)
        return asking.log_density(self.family, self._parameters(inputs), distinct)[where]

    def add(self, inputs: Array, x: Array, flow: NDArray[Any], statistics: Array) -> None:
        """Add the statistics of the values x, weighted by `flow [N, width]`."""
        if self.family.learnable or self.family.defines("statistics"):
            found = asking.statistics(self.family, self._parameters(inputs), x, flow)
            self.block(statistics)[:] += packing.pack_statistics(self.family, found, self.width)

    def _parameters(self, inputs: Array) -> dict[str, Array]:
        return packing.unpack(self.family, self.block(inputs))

    def _distinct(self, plan: Plan, n: int) -> Array:
        return self._of_rows(plan, plan.batch.rows[plan.batch.share[1, self.scope, :n]])

    def _of_rows(self, plan: Plan, rows: NDArray[Any]) -> Array:
        """`[n]`, or `[n, d]` of an input over several variables."""
        at: Any = (rows[:, None], self.columns) if isinstance(self.columns, list) else (rows, self.columns)
        return np.asarray(plan.batch.X[at])


def general_inputs(circuit: Circuit, program: Program) -> list[GeneralInput]:
    """All of a circuit, in the order of its nodes."""
    steps, out = program.structure.steps, []
    for i, node in enumerate(circuit.nodes):
        s = int(program.step_of[i])
        if isinstance(node, Input) and steps[s, columns.KIND] == columns.GENERAL_INPUT:
            stride, scope = int(steps[s, columns.STRIDE]), int(steps[s, columns.SCOPE])
            place = input_block(circuit, program, circuit.owners[i])
            out.append(GeneralInput(s, node.columns, node.family, node.width, stride, scope, place))
    return out
