"""A circuit on the CPU: packed parameters, work buffers, and the passes over batches of evidence.

Work buffers hold the values and adjoints of one block of rows. Blocks are as large as fits into `memory` bytes (and no
larger than the batch): the larger a block, the more of it is shared.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from numpy.typing import NDArray

from flatpc._options import thread_count
from flatpc._typing import Array, Ints
from flatpc.engine.contract import Arithmetic, Dtype, Flows, Work
from flatpc.engine.numba import packing, views
from flatpc.engine.numba._kernels import columns, log_domain, log_flows, passes, work_items
from flatpc.engine.numba._kernels.adjoints import ADJOINTS, FLOWS, FUSED
from flatpc.engine.numba._kernels.collect import add_flows_as_gradients, flow_of_root
from flatpc.engine.numba._kernels.columns import Rule
from flatpc.engine.numba._kernels.order import orders
from flatpc.engine.numba._kernels.threads import run, run_tickets
from flatpc.engine.numba.evidence import Evidence, Plan
from flatpc.engine.numba.general_inputs import general_inputs
from flatpc.engine.numba.program import compile_circuit
from flatpc.engine.numba.weight_update import solvable, update_weights
from flatpc.engine.precision import wide_enough

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

Orders = tuple[tuple[Ints, Ints], tuple[Ints, Ints]]
"""Upward and downward: tasks, and their parts."""
LN2 = float(np.log(2.0))

DEFAULT_MEMORY = 1 << 30
_PLAN_BYTES = 1 << 28
_FEW_ROWS = 256
_CACHE_BYTES = 1 << 22
WORTH_A_THREAD = 2e6
"""Multiplications of a pass for which one more thread saves more time than it takes to wake it."""
_LARGEST_GRADIENT = {"float32": 2.0**120, "float64": 2.0**1000}
"""Of a weight."""
_FORMULA, _FEW_NUMBERS = 40.0, 20
"""Multiplications that take as long as a density by a native formula; numbers of a unit beyond which one by NumPy takes more."""
NO_RULE = Rule(0, np.empty(0), 0.0, 0.0, np.empty(0, np.uint8))


class Evaluator:
    """Evaluates one circuit, and changes its parameters when asked to.

    `dtype` is float64 whatever was asked for where float32 has no number for a weight.

    `n_threads` defaults to numba's own setting; results don't depend on it. `memory` bounds the work buffers in bytes; the few
    rows for which float32 is not enough have a second set of them.
    """

    engine = "numba"

    def __init__(
        self, circuit: Circuit, dtype: Dtype = "float64", n_threads: int | None = None, memory: int = DEFAULT_MEMORY
    ) -> None:
        self.circuit = circuit
        self.dtype = wide_enough(circuit, dtype)
        self.arithmetic: Arithmetic = self.dtype
        self.memory = memory
        self.program = compile_circuit(circuit)
        self.n_threads = thread_count(n_threads) or numba.get_num_threads()
        self.weights = packing.pack_weights(circuit, self.program, self.dtype)
        self.inputs = packing.pack_inputs(circuit, self.program)
        self.general = general_inputs(circuit, self.program)
        """Inputs that their families evaluate."""
        self._steps = self.program.structure.steps
        self._cost = _cost(self.program.structure)
        self._upward, self._downward = passes.upward_loops(self.program.structure), passes.downward_loops(self.program.structure)
        self._downward_cost = self._cost.copy()
        for each in self.general:
            many = each.stride * max(each.place.rows / _FEW_NUMBERS, 1.0)
            self._cost[each.step] = many * each.family.cost.density
            self._downward_cost[each.step] = many * each.family.cost.statistics
        self._most_rows = work_items.most_rows(self._steps)
        task, one_part = self.program.depth_first, np.zeros(len(self.program.depth_first), np.int64)
        self._depth_first: Orders = (task, one_part), (task[::-1].copy(), one_part)
        self._orders: Orders | None = None
        self._unit_ptr = np.concatenate([[0], np.cumsum(self._steps[:, columns.WIDTH])])
        self._double: Evaluator | None = None
        self.work = Work()
        self._empty_buffers()

    def _empty_buffers(self) -> None:
        self._values = np.empty(0, self.dtype)
        self._adjoints = np.empty(0, self.dtype)
        self._scales = np.empty(0)
        self._losses = np.empty(0)
        self._planned: tuple[Evidence | None, list[Plan]] = None, []

    def _in_double(self) -> Evaluator:
        """The same circuit with the same parameters in float64, for rows that float32 can't settle."""
        if self._double is None:
            self._double = copy.copy(self)
            self._double.dtype = "float64"
            self._double.weights = packing.aligned(len(self.weights), "float64")
            self._double._empty_buffers()
        self._double.weights[:] = self.weights
        self._double.inputs = self.inputs
        return self._double

    def evidence(self, X: Array) -> Evidence:
        """Rows as the other methods take them."""
        return Evidence(self.program, X)

    # ---- passes over a block --------------------------------------------------------------------------------------

    def blocks(self, evidence: Evidence, rows: Ints, *, per_row: bool = False) -> Iterator[Plan]:
        """Cut rows into blocks that fit into memory; `per_row` if adjoints will be wanted row by row."""
        if not len(rows):
            return
        plan = self._first_block(evidence, rows)
        start, size = 0, len(plan.batch.rows)
        while start < len(rows):
            if start > 0 or size < len(plan.batch.rows):
                plan = evidence.plan(rows[start : start + size], self.n_threads)
            n = len(plan.batch.rows)
            adjoints = n * int(self._steps[:, columns.STRIDE].sum()) if per_row else plan.n_values
            need = (plan.n_values + adjoints) * self._values.itemsize + 16 * plan.n_rows
            if (need > self.memory or max(plan.n_values, adjoints) > columns.LARGEST) and n > 1:
                size = max(1, min(n - 1, int(0.9 * n * self.memory / need)))
                continue
            yield plan
            start += n

    def _first_block(self, evidence: Evidence, rows: Ints) -> Plan:
        """As many rows as can be planned at once; few, for the sake of the cache, if more of them would share nothing."""
        size = max(1, min(len(rows), _PLAN_BYTES // (8 * len(self.program.scopes))))
        many = evidence.plan(rows[:size], self.n_threads)
        if size > 2 * _FEW_ROWS and many.n_values * self._values.itemsize > _CACHE_BYTES:
            few = evidence.plan(rows[:_FEW_ROWS])
            if many.n_values / size > 0.6 * few.n_values / _FEW_ROWS:
                return few
        return many

    def _team(self, rows_of: NDArray[np.int32], cost_of: Array) -> tuple[int, Orders]:
        """How many threads a pass is worth, and the orders in which they go up and down; its work is counted."""
        cost = work_items.total_cost(rows_of, cost_of)
        self.work.count(len(rows_of), cost, len(self.general))
        n_threads = min(self.n_threads, 1 + int(cost / WORTH_A_THREAD))
        if n_threads == 1:
            return 1, self._depth_first
        if self._orders is None:
            self._orders = orders(self.program.structure, self.program.depth_first, rows_of, self._cost, self.n_threads)
        return n_threads, self._orders

    def up(self, plan: Plan) -> None:
        """Evaluate every step for the block."""
        self._values = _grown(self._values, plan.n_values)
        self._scales, self._losses = _grown(self._scales, plan.n_rows), _grown(self._losses, plan.n_rows)
        self._scales[0] = 0.0  # the scale of all that is not rescaled: `work_items.scale_of`
        for each in self.general:
            each.put_values(plan, self.inputs, self._values, self._scales, self._losses)
        rows_of = plan.batch.at[:, columns.ROWS]
        n_threads, (order, _) = self._team(rows_of, self._cost)
        work = plan.upward.get(n_threads)
        if work is None:
            work = plan.upward[n_threads] = work_items.upward(self._most_rows, *order, rows_of, self._cost)
        run_tickets(
            passes.forward, n_threads, len(work.ptr) - 1,
            self.program.structure, plan.batch, work, passes.UPWARD.table(self._upward, self.dtype),
            self.weights, self.inputs, self._values, self._scales, self._losses,
        )  # fmt: skip

    def root(self, plan: Plan) -> tuple[Array, NDArray[np.bool_]]:
        """Log-likelihood of every distinct row, and which of them the linear domain could not settle."""
        value, row, n = (int(plan.batch.at[-1, c]) for c in (columns.VALUE, columns.ROW, columns.ROWS))
        with np.errstate(divide="ignore"):
            log_prob = np.log(self._values[value : value + n].astype(np.float64)) + LN2 * self._scales[row : row + n]
        return log_prob, self._losses[row : row + n] == np.inf

    def down(self, plan: Plan, root_flow: Array, mode: int, gradient: Any, statistics: Array, rule: Rule = NO_RULE) -> None:
        """Adjoints over distinct sub-rows; `root_flow` is the number of rows, or their weight, of each distinct row."""
        work_items.share_places(plan.batch.at)
        self._backward(plan, plan.n_values, root_flow, True, mode, gradient, statistics, rule)
        if mode != ADJOINTS:
            for each in self.general:
                each.add_statistics(plan, self.inputs, self._adjoints, statistics)

    def down_per_row(self, plan: Plan, root_flow: Array) -> None:
        """Adjoints row by row; `root_flow` has one entry per row."""
        at, n = plan.batch.at, len(plan.batch.rows)
        at[:, columns.ADJOINT_ROWS] = n
        sizes = self._steps[:, columns.STRIDE].astype(np.int64) * n
        at[:, columns.ADJOINT] = np.cumsum(sizes) - sizes
        self._backward(plan, int(sizes.sum()), root_flow, False, ADJOINTS, np.empty(0, self.dtype), np.empty(0), NO_RULE)

    def _backward(
        self, plan: Plan, size: int, root_flow: Array, shared: bool, mode: int, gradient: Any, statistics: Array, rule: Rule
    ) -> None:
        self._adjoints = _grown(self._adjoints, size)
        owners, rows_of = self.program.owners, plan.batch.at[:, columns.ADJOINT_ROWS]
        n_threads, (_, order) = self._team(rows_of, self._downward_cost)
        n_blocks = len(owners.input_ptr) - 1, len(owners.weight_ptr) - 1
        work = work_items.downward(self._steps, self._most_rows, *order, rows_of, self._cost, *n_blocks)
        run_tickets(
            passes.backward, n_threads, len(work.ptr) - 1,
            self.program.structure, plan.batch, work, passes.DOWNWARD.table(self._downward, self.dtype), owners,
            self.weights, self.inputs, self._values, self._scales, self._adjoints,
            root_flow, shared, mode, gradient, statistics, rule,
        )  # fmt: skip

    # ---- whole data sets ------------------------------------------------------------------------------------------

    def log_prob(self, evidence: Evidence) -> Array:
        """`[N]`."""
        return self._log_prob(evidence, self._whole(evidence))

    def _log_prob(self, evidence: Evidence, plans: Iterable[Plan]) -> Array:
        """Log-likelihoods of the plans' rows, one plan's after the other's."""
        out = []
        for plan in plans:
            self.up(plan)
            distinct, unsettled = self.root(plan)
            if unsettled.any():
                distinct[unsettled] = self._log_prob_of_unsettled(evidence, self._representatives(plan, unsettled))
            out.append(distinct[plan.distinct])
        return np.concatenate(out) if out else np.empty(0)

    def _whole(self, evidence: Evidence) -> Iterable[Plan]:
        """Blocks of all rows, kept for the next time if they are small: validation rows are evaluated after every epoch."""
        if self._planned[0] is not evidence:
            plans = self.blocks(evidence, np.arange(len(evidence)))
            if 8 * len(evidence) * len(self.program.scopes) > _PLAN_BYTES:
                return plans
            self._planned = evidence, list(plans)
        return self._planned[1]

    def _log_prob_of_unsettled(self, evidence: Evidence, rows: Ints) -> Array:
        if self.dtype == "float32":
            double = self._in_double()
            return double._log_prob(evidence, double.blocks(evidence, rows))
        return self._log_domain(evidence.X[rows])[0][:, -1]

    def _representatives(self, plan: Plan, distinct: NDArray[np.bool_]) -> Ints:
        which = plan.batch.share[1, self.program.root_scope][: len(distinct)][distinct]
        return np.asarray(plan.batch.rows[which])

    def _log_domain(self, X: Array, *, flows: bool = False, adjoints: bool = False) -> tuple[Array, Array, Array]:
        """`[rows, units]`, for every step's units: logarithms of values; if wanted, flows, and logarithms of adjoints."""
        values = np.empty((len(X), int(self._unit_ptr[-1])))
        for each in self.general:
            start = self._unit_ptr[each.step]
            values[:, start : start + each.width] = each.logs_of_rows(self.inputs, X[:, each.columns])
        flow, down = (np.empty(values.shape if wanted else (0, 0)) for wanted in (flows, adjoints))
        run(
            log_flows.evaluate_rows, self.n_threads,
            self.program.structure, self.weights, self.inputs, X, self._unit_ptr, values, flow, down,
        )  # fmt: skip
        return values, flow, down

    def statistics(self, evidence: Evidence, rows: Ints, row_weights: Array | None = None) -> tuple[Array, Any, Array]:
        """Log-likelihoods of the rows; gradients of all weights and statistics of all inputs, flat and summed over rows."""
        return self._statistics(evidence, self.blocks(evidence, rows), row_weights, apart=None)

    def _statistics(
        self, evidence: Evidence, plans: Iterable[Plan], row_weights: Array | None, apart: Array | None
    ) -> tuple[Array, Any, Array]:
        """The same; rows that the linear domain can't settle add their flows to `apart`, if given, and not to the gradients."""
        gradient = np.zeros(self.program.n_weights, self.dtype)
        statistics = np.zeros(self.program.n_inputs)
        log_prob = []
        for plan in plans:
            self.up(plan)
            distinct, unsettled = self.root(plan)
            flow = _root_flow(plan, len(distinct), row_weights)
            if unsettled.any():
                rows = self._representatives(plan, unsettled)
                distinct[unsettled] = self._add_unsettled(evidence, rows, flow[unsettled], gradient, statistics, apart)
            flow[unsettled | np.isneginf(distinct)] = 0.0
            self.down(plan, flow, FLOWS, gradient, statistics)
            log_prob.append(distinct[plan.distinct])
        return np.concatenate(log_prob) if log_prob else np.empty(0), gradient, statistics

    def _add_unsettled(
        self, evidence: Evidence, rows: Ints, weights: Array, gradient: Any, statistics: Array, apart: Array | None
    ) -> Array:
        """Add what rows contribute that the linear domain of this precision could not settle; return their log-likelihoods."""
        if self.dtype == "float32":
            row_weights = np.zeros(len(evidence))
            row_weights[rows] = weights
            double = self._in_double()
            log_prob, more, more_statistics = double._statistics(evidence, double.blocks(evidence, rows), row_weights, apart)
            if apart is None:
                gradient += np.minimum(more, _LARGEST_GRADIENT["float32"], out=more)
            else:
                apart += np.multiply(more, double.weights, out=more)
            statistics += more_statistics
            return log_prob
        log_prob = np.empty(len(rows))
        structure, at = self.program.structure, self._unit_ptr
        for r, x in enumerate(evidence.X[rows]):
            (values,), flow, down = self._log_domain(x[None], flows=True, adjoints=apart is None)
            log_prob[r] = values[-1]
            if weights[r] == 0 or np.isneginf(log_prob[r]):
                continue
            if apart is None:
                log_domain.add_gradients_of_row(structure, at, values, down[0], weights[r], gradient)
            else:
                log_flows.add_flows_of_row(structure, self.weights, at, values, flow[0], weights[r], apart)
            log_flows.add_statistics_of_row(structure, self.inputs, x, at, flow[0], weights[r], statistics)
            for each in self.general:
                mine = weights[r] * flow[:, at[each.step] : at[each.step] + each.width]
                each.add(self.inputs, x[None][:, each.columns], mine, statistics)
        return log_prob

    def em_step(self, evidence: Evidence, rows: Ints, rule: Rule, row_weights: Array | None = None) -> tuple[float, Array]:
        """One E-step over the rows and the M-step of all weights, fused where possible.

        Returns the mean log-likelihood before the step and the input statistics, from which inputs are updated.
        """
        plans = list(self.blocks(evidence, rows)) if len(rows) else []
        rule = solvable(rule, self.dtype)
        if len(plans) == 1:
            plan = plans[0]
            self.up(plan)
            root_flow, log_prob = np.empty((2, int(plan.batch.at[-1, columns.ROWS])))
            weights = np.empty(0) if row_weights is None else row_weights
            log_likelihood, settled = flow_of_root(
                plan.batch, self._values, self._scales, self._losses, plan.distinct, weights, log_prob, root_flow
            )
            if settled:
                if row_weights is not None:
                    log_likelihood = float(np.average(log_prob[plan.distinct], weights=row_weights[plan.batch.rows]))
                gradient = np.zeros(self.program.n_weights if self.program.has_shared_weights else 0, self.dtype)
                statistics = np.zeros(self.program.n_inputs)
                self.down(plan, root_flow, FUSED, gradient, statistics, rule)
                if self.program.has_shared_weights:
                    update_weights(self.program, self.weights, gradient, rule, n_threads=self.n_threads, everything=False)
                return log_likelihood, statistics
        apart = np.zeros(self.program.n_weights)
        log_prob, gradient, statistics = self._statistics(evidence, plans, row_weights, apart)
        add_flows_as_gradients(apart, self.weights, gradient, _LARGEST_GRADIENT[self.dtype])
        update_weights(self.program, self.weights, gradient, rule, n_threads=self.n_threads)
        return float(np.average(log_prob, weights=None if row_weights is None else row_weights[rows])), statistics

    def flows(self, evidence: Evidence, row_weights: Array | None = None) -> Flows:
        """The contract's flows over all rows."""
        flows, plans = np.zeros(self.program.n_weights), self.blocks(evidence, np.arange(len(evidence)))
        log_prob, gradient, statistics = self._statistics(evidence, plans, row_weights, apart=flows)
        flows += gradient.astype(np.float64) * self.weights
        return Flows(
            log_prob,
            packing.unpack_weights(self.circuit, self.program, flows),
            packing.unpack_statistics(self.circuit, self.program, statistics),
        )

    def unit_values(self, X: Array) -> list[Array]:
        """For each node `[N, K]`: logarithms of values."""
        return self._by_node(self._log_domain(X)[0])

    def weight_views(self, flat: NDArray[Any]) -> dict[int, NDArray[Any]]:
        """Owner -> `[units, edges]`, a view of a flat array in the layout of the weights."""
        return views.weight_views(self.circuit, self.program, flat)

    def input_views(self, flat: NDArray[Any]) -> dict[int, NDArray[Any]]:
        """Owner -> `[rows, units]`, a view of a flat array in the layout of the inputs."""
        return views.input_views(self.circuit, self.program, flat)

    def unit_flows(self, X: Array) -> list[Array]:
        """For each node `[N, K]`: flows, row by row."""
        return self._by_node(self._log_domain(X, flows=True)[1])

    def _by_node(self, units: Array) -> list[Array]:
        starts = self._unit_ptr[self.program.step_of]
        return [units[:, start : start + k] for start, k in zip(starts, self.circuit.widths, strict=True)]


def _root_flow(plan: Plan, n_distinct: int, row_weights: Array | None) -> Array:
    """How often each distinct row occurs, or what its rows weigh together."""
    counts = None if row_weights is None else row_weights[plan.batch.rows]
    return np.bincount(plan.distinct, counts, minlength=n_distinct).astype(np.float64)


def _cost(structure: columns.Structure) -> Array:
    """Rough work per row of each step."""
    steps: Any = structure.steps
    n_children = steps[:, columns.CHILD_END] - steps[:, columns.CHILD]
    cost: Array = (steps[:, columns.STRIDE] * np.maximum(n_children, 1)).astype(np.float64)
    kind = steps[:, columns.KIND]
    cost[kind == columns.FORMULA_INPUT] *= _FORMULA
    dense = kind == columns.DENSE_SUM
    below = structure.child[steps[dense, columns.CHILD]]
    cost[dense] += steps[dense, columns.WIDTH] * steps[below, columns.STRIDE]
    return cost


def _grown(buffer: Any, size: int) -> Any:
    return buffer if len(buffer) >= size else packing.aligned(size + size // 8, buffer.dtype)
