"""Adjoints and tangents over a data set on the numba engine: what trace, H·v and penalty are made of.

`Passes` belongs to one `Evaluator` and works on any `Evidence` for its program, so that a training loop plans nothing twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flatpc.circuit.families import Bernoulli, Categorical
from flatpc.circuit.nodes import Input
from flatpc.curvature._kernels import gather, own, passes, squares
from flatpc.curvature._kernels.rows import COUNTED, DEAD
from flatpc.curvature.layout import FlatIndex, Layout
from flatpc.engine import packing
from flatpc.engine._kernels import columns
from flatpc.engine._kernels.threads import run

if TYPE_CHECKING:
    from flatpc.curvature.autograd import Autograd
    from flatpc.engine.evaluator import Evaluator
    from flatpc.engine.evidence import Evidence, Plan

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

CODES = {
    "weights": own.WEIGHTS,
    "simplex": own.SIMPLEX,
    "logits": own.LOGITS,
    "logit-gradient": own.LOGIT_GRADIENT,
}
_PLAN_BYTES = 1 << 28


@dataclass
class Block:
    """Some rows with their values and adjoints in the work buffers."""

    plan: Plan
    asked: Array
    """How often each distinct row counts."""
    count: Array
    """The same, but 0 for rows that are impossible or left to autograd."""
    flow: Array
    """What enters at the root: `count` if shared, and otherwise 1 where `count` is not 0."""
    ptr: Ints
    item: Ints
    shared: bool
    where: Ints
    """For each row asked for, which of the block's distinct rows it is."""
    unsettled: NDArray[np.bool_]
    """Distinct rows that the linear domain can't hold."""
    X: Array
    """The distinct rows themselves."""


class Passes:
    """First and second derivatives of log p over blocks of rows; all vectors are in the order of `layout`."""

    def __init__(self, evaluator: Evaluator, include_inputs: bool = False, *, leaves: bool = True) -> None:
        """`leaves`: whether adjoints are wanted below the last parameters that count as well, as those of inputs are."""
        self.evaluator = evaluator
        self.program = evaluator.program
        self.circuit = evaluator.circuit
        self.include_inputs = include_inputs
        self._steps = self.program.structure.steps
        self._mask = packing.pack_masks(self.circuit, self.program).astype(np.float64)
        self._counted = self._mark_steps(leaves)
        self._cost = self._steps[:, columns.STRIDE].astype(np.float64)
        self._none: Any = np.empty(0, evaluator.dtype)
        self._a = self._vt = self._at = self._none
        self.layout = Layout(self.circuit, include_inputs)
        self._index = FlatIndex(self.layout, self.program)

    def _mark_steps(self, leaves: bool) -> NDArray[np.uint8]:
        out = np.where(self._steps[:, columns.WEIGHT] >= 0, COUNTED, 0).astype(np.uint8)
        if self.include_inputs:
            for i, node in enumerate(self.circuit.nodes):
                if isinstance(node, Input) and isinstance(node.family, Bernoulli | Categorical):
                    out[self.program.step_of[i]] = COUNTED
        if not leaves:
            child = self.program.structure.child
            for s, (first, last) in enumerate(self._steps[:, [columns.CHILD, columns.CHILD_END]]):
                if out[s] != COUNTED and (out[child[first:last]] == DEAD).all():
                    out[s] = DEAD
        return out

    @property
    def values(self) -> Array:
        """The parameters that the evaluator has now, which are those of its circuit only until it is trained."""
        return self._index.collect(self.evaluator.weights, self.evaluator.inputs)

    def autograd(self) -> Autograd:
        """Derivatives by torch, for rows that the linear domain can't hold, at the parameters that the evaluator has now."""
        from flatpc.curvature.autograd import Autograd

        weights = packing.unpack_weights(self.circuit, self.program, self.evaluator.weights)
        now: dict[int, Any] = {i: w / w.sum(axis=1, keepdims=True) for i, w in weights.items()}
        now.update(packing.unpack_inputs(self.circuit, self.program, self.evaluator.inputs))
        return Autograd(Layout(self.circuit.with_parameters(now), self.include_inputs))

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
        ptr, item = passes.cut(self.program.task_ptr, self.program.task, rows_of, self._cost, self.evaluator.n_threads)
        block = Block(plan, asked, count, flow, ptr, item, shared, where, unsettled, X)
        self._descend(block, self._none, own.SHARED_DIRECTION, second=False)
        return block

    # ---- walks ----------------------------------------------------------------------------------------------------

    def _descend(self, block: Block, dW: Array, space: int, *, second: bool) -> None:
        e = self.evaluator
        vt, at = (self._vt, self._at) if second else (self._a, self._a)
        run(
            passes.descend, e.n_threads,
            self.program.structure, block.plan.batch, block.ptr, block.item, e.weights, dW, self._mask, self._counted, e._values,
            e._scales, self._a, vt, at, block.flow, block.shared, second, space,
        )  # fmt: skip

    def _move(self, block: Block, dW: Array, dT: Array, space: int) -> None:
        """Fill tangents of values and of adjoints."""
        e, size = self.evaluator, self._place(block.plan, block.shared)
        self._vt, self._at = _grown(self._vt, size), _grown(self._at, size)
        run(
            passes.rise, e.n_threads,
            self.program.structure, block.plan.batch, block.ptr, block.item, e.weights, dW, e.inputs, dT, self._mask,
            self._counted, e._values, e._scales, self._a, self._vt, block.shared, space,
        )  # fmt: skip
        self._descend(block, dW, space, second=True)

    def _gather(self, block: Block, what: int, space: int) -> Array:
        e = self.evaluator
        weights, tables = np.zeros(self.program.n_weights, self.evaluator.dtype), np.zeros(self.program.n_inputs)
        vt, at = (self._vt, self._at) if what == gather.SECOND else (self._a, self._a)
        run(
            passes.gather, e.n_threads,
            self.program.structure, block.plan.batch, self.program.owners, e.weights, e.inputs, self._mask, self._counted,
            e._values, e._scales, self._a, vt, at, block.count, weights, tables, block.shared, what, space,
        )  # fmt: skip
        return self._index.collect(weights, tables)

    # ---- results --------------------------------------------------------------------------------------------------

    def gradient(self, block: Block) -> Array:
        """Σ ∂ log p / ∂θ over a shared block."""
        return self._complete(block, self._gather(block, gather.FIRST, own.SHARED_DIRECTION), None)

    def product(self, block: Block, vector: Array) -> Array:
        """H·v over a shared block."""
        dW, dT = self._index.spread(vector, self.evaluator.dtype)
        self._move(block, dW, dT, own.SHARED_DIRECTION)
        return self._complete(block, self._gather(block, gather.SECOND, own.SHARED_DIRECTION), vector)

    def _complete(self, block: Block, found: Array, vector: Array | None) -> Array:
        """Add, by autograd, what the linear domain can't hold; if numbers left its range altogether, do all rows so."""
        if np.isfinite(found).all():
            left = block.unsettled
            return found + self.autograd().product(block.X[left], vector, block.asked[left]) if left.any() else found
        return self.autograd().product(block.X, vector, block.asked)

    def squares(self, block: Block, space: str) -> Array:
        """`[steps, distinct rows]`: what each step contributes to the negated trace at each row; unshared block."""
        e = self.evaluator
        out = np.empty((self.program.n_steps, len(block.flow)))
        run(
            squares.squares, e.n_threads,
            self.program.structure, block.plan.batch, e.weights, e.inputs, self._mask, self._counted, e._values, e._scales,
            self._a, out, CODES[space],
        )  # fmt: skip
        return out

    def diagonal(self, block: Block, space: str) -> Array:
        """Σ over the rows of an unshared block of the Hessian's diagonal."""
        return self._gather(block, gather.DIAGONAL, CODES[space])

    def penalty(self, block: Block, space: str) -> tuple[float, Array]:
        """Σ of the negated trace over an unshared block, and ∂/∂θ of it.

        That is each row's Hessian times the direction made from its own gradient (`_kernels/own.py`).
        """
        value = float(self.squares(block, space).sum(axis=0) @ block.count)
        self._move(block, self._none, np.empty(0), CODES[space])
        gradient = self._gather(block, gather.SECOND, CODES[space])
        left = block.unsettled
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return self.autograd().penalty(block.X, space, block.asked)
        if left.any():
            more, more_gradient = self.autograd().penalty(block.X[left], space, block.asked[left])
            return value + more, gradient + more_gradient
        return value, gradient


def _grown(buffer: Any, size: int) -> Any:
    return buffer if len(buffer) >= size else np.empty(size + size // 8, buffer.dtype)
