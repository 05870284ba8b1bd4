"""Adjoints and tangents over a data set on the numba engine: what trace, H·v and penalty are made of.

`Passes` belongs to one `Evaluator` and works on any `Evidence` for its program, so that a training loop plans nothing twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flatpc._typing import Array, Ints
from flatpc.curvature._kernels import penalty_directions, squares, sums_over_rows, walks
from flatpc.curvature._kernels.penalty_directions import SHARED_DIRECTION
from flatpc.curvature._kernels.rows import COUNTED, MOVED, complete_marks
from flatpc.curvature.layout import FlatIndex, Layout
from flatpc.curvature.spaces import gradient_in
from flatpc.curvature.wide_passes import WidePasses
from flatpc.engine.numba import packing
from flatpc.engine.numba._kernels import columns
from flatpc.engine.numba._kernels.threads import run

if TYPE_CHECKING:
    from flatpc.engine.numba.evaluator import Evaluator
    from flatpc.engine.numba.evidence import Evidence, Plan


CODES = {
    "weights": penalty_directions.WEIGHTS,
    "simplex": penalty_directions.SIMPLEX,
    "logits": penalty_directions.LOGITS,
    "logit-gradient": penalty_directions.LOGIT_GRADIENT,
}
MOST_DIRECTIONS = 16
"""Directions whose tangents are computed in one pass; more share no more of the work."""
MOST_ENTRIES = 1 << 20
"""Of the directions that go through a pass together: beyond, they don't stay in cache, and take longer than one by one."""
_PLAN_BYTES = 1 << 28


@dataclass
class Block:
    """Some rows with their values and adjoints in the work buffers."""

    plan: Plan
    asked: Array
    """How often each distinct row counts."""
    count: Array
    """The same, but 0 for rows that are impossible or unsettled."""
    flow: Array
    """What enters at the root: `count` if shared, and otherwise 1 where `count` is not 0."""
    ptr: Ints
    item: Ints
    shared: bool
    where: Ints
    """For each row asked for, which of the block's distinct rows it is."""
    unsettled: NDArray[np.bool_]
    """Distinct rows that the linear domain can't hold; they are left to `WidePasses`."""
    X: Array
    """The distinct rows themselves."""


class HardRows:
    """Rows of several blocks that are left to `WidePasses`."""

    def __init__(self) -> None:
        self._parts: list[tuple[Array, Array]] = []

    def add(self, block: Block) -> None:
        if block.unsettled.any():
            self._parts.append((block.X[block.unsettled], block.asked[block.unsettled]))

    def __bool__(self) -> bool:
        return bool(self._parts)

    @property
    def X(self) -> Array:
        return np.concatenate([X for X, _ in self._parts])

    @property
    def counts(self) -> Array:
        """How often each counts."""
        return np.concatenate([counts for _, counts in self._parts])


class Passes:
    """First and second derivatives of log p over blocks of rows; all vectors are in the order of `layout`."""

    def __init__(self, evaluator: Evaluator, include_inputs: bool = False, *, leaves: bool = True) -> None:
        """`leaves`: whether adjoints are wanted below the last parameters that count as well, as those of inputs are."""
        self.evaluator = evaluator
        self.program = evaluator.program
        self.circuit = evaluator.circuit
        self.include_inputs = include_inputs
        self.layout = Layout(self.circuit, include_inputs)
        self._steps = self.program.structure.steps
        self._mask = packing.pack_masks(self.circuit, self.program).astype(np.float64)
        self._owner = self._owners()
        self._marks = self._mark(self._owner >= 0, (self._owner >= 0) | leaves)
        self._cost = self._steps[:, columns.STRIDE].astype(np.float64)
        order = self.program.depth_first
        one_thread = evaluator.n_threads == 1
        self._order = (np.array([0, len(order)]), order) if one_thread else (self.program.task_ptr, self.program.task)
        self._none: Any = np.empty(0, evaluator.dtype)
        self._a = self._tangents = self._none
        self._vt = self._at = self._none[None]

    @cached_property
    def _index(self) -> FlatIndex:
        return FlatIndex(self.layout, self.program)

    def _owners(self) -> Ints:
        """For each step whose parameters its own are, counted in the order of the layout; -1 if it has none that count."""
        number = {i: n for n, i in enumerate(self.layout.shapes)}
        out = np.full(self.program.n_steps, -1)
        for i, owner in enumerate(self.circuit.owners):
            out[self.program.step_of[i]] = number.get(owner, -1)
        return out

    def _mark(self, moved: NDArray[np.bool_], wanted: NDArray[np.bool_]) -> NDArray[np.uint8]:
        marks = (np.where(self._owner >= 0, COUNTED, 0) + np.where(moved, MOVED, 0)).astype(np.uint8)
        complete_marks(self.program.structure, marks, wanted)
        return marks

    @property
    def values(self) -> Array:
        """The parameters that the evaluator has now, which are those of its circuit only until it is trained."""
        return np.ravel(self._index.collect(self.evaluator.weights[None], self.evaluator.inputs[None]))

    def wide(self) -> WidePasses:
        """The same derivatives for rows that float64 is too narrow for, at the parameters that the evaluator has now."""
        now: dict[int, Any] = dict(packing.unpack_weights(self.circuit, self.program, self.evaluator.weights))
        now.update(packing.unpack_inputs(self.circuit, self.program, self.evaluator.inputs))
        return WidePasses(self.layout, now)

    # ---- blocks ---------------------------------------------------------------------------------------------------

    def blocks(self, evidence: Evidence, rows: Ints, row_weights: Array | None, *, shared: bool) -> Iterator[Block]:
        """Blocks of rows that fit into the evaluator's memory, each with its values and adjoints in the work buffers.

        Equal rows are done once. `row_weights [len(rows)]` count rows more or less than once.
        """
        counts = np.ones(len(rows)) if row_weights is None else row_weights
        start, size = 0, max(1, min(len(rows), _PLAN_BYTES // (8 * len(self.program.scopes))))
        while start < len(rows):
            plan = evidence.plan(rows[start : start + size])
            n, where = len(plan.batch.rows), plan.distinct.astype(np.int64)
            n_distinct = int(plan.batch.at[-1, columns.ROWS])
            if not shared and n_distinct < n:
                plan = evidence.plan(plan.batch.rows[plan.batch.share[1, self.program.root_scope][:n_distinct]])
            numbers = self._place(plan, shared)
            need = self._none.itemsize * (plan.n_values + 3 * numbers) + 16 * plan.n_rows
            if (need > self.evaluator.memory or max(plan.n_values, numbers) > columns.LARGEST) and n > 1:
                size = max(1, min(n - 1, int(0.9 * n * self.evaluator.memory / need)))
                continue
            count = np.bincount(where, counts[start : start + n], minlength=n_distinct).astype(np.float64)
            representative = plan.batch.share[1, self.program.root_scope][:n_distinct]
            yield self._evaluate(plan, count, where, plan.batch.X[plan.batch.rows[representative]], shared)
            start += n

    def _place(self, plan: Plan, shared: bool) -> int:
        """Decide where adjoints and tangents lie; how many numbers each of them has."""
        at = plan.batch.at
        if shared:
            at[:, columns.ADJOINT], at[:, columns.ADJOINT_ROWS] = at[:, columns.VALUE], at[:, columns.ROWS]
            return plan.n_values
        sizes = self._steps[:, columns.STRIDE].astype(np.int64) * len(plan.batch.rows)
        at[:, columns.ADJOINT], at[:, columns.ADJOINT_ROWS] = np.cumsum(sizes) - sizes, len(plan.batch.rows)
        return int(sizes.sum())

    def _evaluate(self, plan: Plan, asked: Array, where: Ints, X: Array, shared: bool) -> Block:
        self._a = _grown(self._a, self._place(plan, shared))
        self.evaluator.up(plan)
        log_prob, unsettled = self.evaluator.root(plan)
        count = np.where(np.isneginf(log_prob) | unsettled, 0.0, asked)
        flow = count if shared else (count != 0).astype(np.float64)
        rows_of = plan.batch.at[:, columns.ADJOINT_ROWS]
        ptr, item = walks.cut(self._order[0], self._order[1], rows_of, self._cost, self.evaluator.n_threads)
        block = Block(plan, asked, count, flow, ptr, item, shared, where, unsettled, X)
        nowhere = self._none[None]
        self._descend(block, nowhere, self._a[None], self._a[None], SHARED_DIRECTION, self._marks, second=False)
        return block

    # ---- walks ----------------------------------------------------------------------------------------------------

    def _descend(self, block: Block, dW: Any, vt: Any, at: Any, space: int, marks: Any, *, second: bool) -> None:
        e = self.evaluator
        run(
            walks.descend, e.n_threads,
            self.program.structure, block.plan.batch, block.ptr, block.item, e.weights, dW, self._mask, marks, e._values,
            e._scales, self._a, vt, at, block.flow, block.shared, second, space,
        )  # fmt: skip

    def _move(self, block: Block, dW: Any, dT: Array, space: int, marks: Any) -> None:
        """Fill tangents of values and of adjoints, in all directions."""
        e, size = self.evaluator, self._place(block.plan, block.shared)
        self._tangents = _grown(self._tangents, 2 * len(dW) * size)
        self._vt, self._at = self._tangents[: 2 * len(dW) * size].reshape(2, len(dW), size)
        run(
            walks.rise, e.n_threads,
            self.program.structure, block.plan.batch, block.ptr, block.item, e.weights, dW, e.inputs, dT, self._mask,
            marks, e._values, e._scales, self._a, self._vt, block.shared, space,
        )  # fmt: skip
        self._descend(block, dW, self._vt, self._at, space, marks, second=True)

    def _move_by_row(self, block: Block, space: str) -> None:
        """The same in one direction, which each row makes from its own gradient (`_kernels/penalty_directions.py`)."""
        self._move(block, self._none[None], np.empty((1, 0)), CODES[space], self._marks)

    def _gather(self, block: Block, what: int, space: int, marks: Any, weights: Any, tables: Array) -> None:
        """Add to flat weights and tables `[directions, ...]`."""
        e = self.evaluator
        vt, at = (self._vt, self._at) if what == sums_over_rows.SECOND else (self._a[None], self._a[None])
        run(
            walks.gather, e.n_threads,
            self.program.structure, block.plan.batch, self.program.owners, e.weights, e.inputs, self._mask, marks,
            e._values, e._scales, self._a, vt, at, block.count, weights, tables, block.shared, what, space,
        )  # fmt: skip

    def _gathered(self, block: Block, what: int, space: int, marks: Any, n: int = 1) -> Array:
        """`[n, P]`."""
        weights, tables = np.zeros((n, self.program.n_weights), self.evaluator.dtype), np.zeros((n, self.program.n_inputs))
        self._gather(block, what, space, marks, weights, tables)
        return self._index.collect(weights, tables)

    # ---- results in the order of the layout -------------------------------------------------------------------------

    def gradient(self, block: Block) -> Array:
        """Σ ∂ log p / ∂θ over the settled rows of a shared block."""
        return np.ravel(self._gathered(block, sums_over_rows.FIRST, SHARED_DIRECTION, self._marks))

    def directions_at_once(self, block: Block) -> int:
        """How many directions `products` takes within the evaluator's memory."""
        size = self._none.itemsize
        numbers = self._place(block.plan, block.shared)
        each = size * 2 * (numbers + self.program.n_weights) + 16 * self.program.n_inputs
        left = self.evaluator.memory - size * (block.plan.n_values + numbers)
        return int(max(1, min(MOST_DIRECTIONS, MOST_ENTRIES // max(self.program.n_weights, 1), left // each)))

    def products(self, block: Block, directions: Array, first: int = 0) -> Array:
        """`[D, P]`: H·v over the settled rows of a shared block for each of `directions [D, P]`.

        Right from entry `first` on, if not all is wanted; infinite or NaN where numbers left float64's range.

        One pass up and one down for all of them. Steps that no direction moves, and those below which nothing is wanted, are
        left out, so that columns of the Hessian cost less than products with vectors that have no zeros.
        """
        starts = self.layout.starts
        moves = np.logical_or.reduceat((directions != 0).any(axis=0), starts[:-1])
        # Steps without parameters have the owner -1, which is the entry added at the end.
        marks = self._mark(np.append(moves, False)[self._owner], np.append(starts[1:] > first, False)[self._owner])
        dW, dT = self._index.spread(directions, self.evaluator.dtype)
        self._move(block, dW, dT, SHARED_DIRECTION, marks)
        return self._gathered(block, sums_over_rows.SECOND, SHARED_DIRECTION, marks, len(directions))

    def squares(self, block: Block, space: str) -> Array:
        """`[steps, distinct rows]`: what each step contributes to the trace of the Hessian of -log p; unshared block."""
        e = self.evaluator
        out = np.empty((self.program.n_steps, len(block.flow)))
        run(
            squares.squares, e.n_threads,
            self.program.structure, block.plan.batch, e.weights, e.inputs, self._mask, self._marks, e._values, e._scales,
            self._a, out, CODES[space],
        )  # fmt: skip
        return out

    def diagonal(self, block: Block, space: str) -> Array:
        """Σ over the rows of an unshared block of the diagonal of the Hessian of -log p."""
        return -np.ravel(self._gathered(block, sums_over_rows.DIAGONAL, CODES[space], self._marks))

    def penalty(self, block: Block, space: str) -> tuple[float, Array]:
        """Σ of traces over the settled rows of an unshared block, and its gradient in the coordinates of the space.

        Each row's Hessian is multiplied by a direction of its own.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            value = float(self.squares(block, space).sum(axis=0) @ block.count)
            self._move_by_row(block, space)
            gradient = self._gathered(block, sums_over_rows.SECOND, CODES[space], self._marks)[0]
            return value, gradient_in(space, self.layout, self.values, gradient)

    # ---- results as the evaluator packs parameters, for training --------------------------------------------------------

    def flat_weights(self, vector: Array) -> Any:
        """The weights of a vector in the order of the layout."""
        return self._index.spread(vector[None], self.evaluator.dtype)[0][0]

    def add_gradient(self, block: Block, weights: Any, inputs: Array) -> None:
        """Add ∂ Σ log p / ∂ weights, and the inputs' sufficient statistics, over the settled rows of an unshared block."""
        self._gather(block, sums_over_rows.FIRST, SHARED_DIRECTION, self._marks, weights[None], np.empty((1, 0)))
        self._add_inputs(block, self._a, inputs)

    def add_penalty_gradient(self, block: Block, space: str, weights: Any, inputs: Array) -> None:
        """The same for the penalty, whose statistics are weighted by what flow changes by."""
        self._move_by_row(block, space)
        self._gather(block, sums_over_rows.SECOND, CODES[space], self._marks, weights[None], np.empty((1, 0)))
        self._add_inputs(block, self._at[0], inputs)

    def _add_inputs(self, block: Block, adjoints: Any, to: Array) -> None:
        e = self.evaluator
        run(
            walks.row_statistics, e.n_threads,
            self.program.structure, block.plan.batch, self.program.owners, e.inputs, e._values, adjoints, block.count, to,
        )  # fmt: skip
        for each in e.general:
            each.add_row_statistics(block.plan, e.inputs, e._values, adjoints, block.count, to)


def _grown(buffer: Any, size: int) -> Any:
    return buffer if len(buffer) >= size else np.empty(size + size // 8, buffer.dtype)
