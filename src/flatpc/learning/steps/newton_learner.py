"""Truncated Newton and natural-gradient steps in logits.

With θ = softmax(z) for every unit, g the gradient of the log posterior in z, A the Hessian of its negative (or the Fisher
information) and C = (F + m)(diag θ - θ θᵀ) EM's complete-data information, m being the unit's pseudocount:

    (A + δ C) x = g by conjugate gradients, preconditioned with C, up to a tolerance that shrinks with g, a number of products or
                    a direction without positive curvature, which is gone along as far as C would (Steihaug, 1983)
    z ← z + t x     with the first t of 1, 1/2, 1/4, ... that raises the log posterior enough (Armijo, 1966), or with 2, 4, ...
                    for as long as it goes on rising

The damping δ is a third of what it was after a step of full length, and four times as much after a shorter one or one that met
negative curvature (Levenberg and Marquardt), so that the last steps are Newton's own. If there is no such t,
θ ← (f + m/K) / (F + m), a step of EM. The first direction of conjugate gradients is C⁻¹ g, in which EM moves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from flatpc._typing import Array, Ints
from flatpc.curvature.layout import FlatIndex, Layout
from flatpc.curvature.operators import weighted_operator
from flatpc.curvature.row_flows import BLOCK_BYTES, blocks, in_logits, row_flows
from flatpc.engine.contract import Evaluator
from flatpc.errors import DataError
from flatpc.learning.regularizers.together import Regularizers
from flatpc.learning.run.schedules import as_schedule
from flatpc.learning.steps import model
from flatpc.learning.steps.inputs import group_inputs, update_inputs
from flatpc.learning.steps.newton import Newton
from flatpc.learning.steps.unconstrained import Unconstrained

Times = Callable[[Array], Array]
HALVINGS = 8
"""Of the length of a step, before one of EM is made instead."""
FARTHEST = 3.0
"""That a logit may move in a step: beyond, a quadratic says nothing about softmax."""
ENOUGH = 1e-4
"""Of the rise that the slope promises, which a step must bring."""
MOST_DAMPING = 10.0
TOLERANCE = 0.1
"""Of the residual of conjugate gradients at most; less where the gradient is small, so that the last steps are exact."""
NOTHING = 1e-14
"""Nats per row that one step of EM promises, below which there is nothing left to learn."""


class NewtonLearner:
    """Learns by Newton steps over all rows; what the Hessian doesn't cover, by EM."""

    mu = 0.0

    def __init__(self, evaluator: Evaluator, method: Newton, regularizers: Regularizers | None = None) -> None:
        self.evaluator, self.method = evaluator, method
        self.step_size = as_schedule("step_size", method.step_size)
        self.pseudocount, self.input_pseudocount = (regularizers or Regularizers()).counts
        self.unconstrained = Unconstrained(evaluator)
        self.unconstrained.write(self.unconstrained.read())
        self._others = [group for group in group_inputs(evaluator.circuit, evaluator.program) if not group.is_table]
        for group in self._others:
            group.family.require("Newton's method, which learns such inputs by EM,", "statistics", "update")
        layout = Layout(evaluator.circuit, True)
        self._index = FlatIndex(layout, evaluator.program)
        edges = layout.row_sums(layout.exists.astype(np.float64))
        is_input = layout.vector(
            {i: np.full(shape, float(i in evaluator.program.input_blocks)) for i, shape in layout.shapes.items()}
        )
        counts = np.where(is_input > 0, self.input_pseudocount, self.pseudocount)
        self._damping = method.damping
        self._prior = np.where(layout.exists, counts / np.maximum(edges, 1.0), 0.0)
        """`[P]`: what is added to every edge's flow."""

    def step(self, evidence: Any, rows: Ints, progress: float, weights: Array | None = None) -> float:
        """One step; the mean log-likelihood of the rows before it."""
        counts = None if weights is None else weights[rows]
        log_prob, gradient, statistics = self.evaluator.statistics(evidence, rows, weights)
        total = float(log_prob.sum() if counts is None else log_prob @ counts)
        size = float(len(rows) if counts is None else counts.sum())
        if not np.isfinite(total):
            raise DataError(
                "Some rows have probability 0, so there is no gradient to follow; change the structure, the starting parameters "
                "or the rows, or learn with method='em' first."
            )
        layout = Layout(model.to_circuit(self.evaluator), True)
        if layout.size:
            self._move(layout, evidence, rows, weights, gradient, statistics, total, size, progress)
        if self._others:
            # Statistics are those before the step: taken anew, EM can't make the likelihood of the rows worse.
            statistics = self.evaluator.statistics(evidence, rows, weights)[2] if layout.size else statistics
            options: Any = {"kind": 0, "mu": 0.0, "unit": None, "pseudocount": self.input_pseudocount, "alpha": 1.0}
            update_inputs(self._others, statistics, self.evaluator.inputs, **options)
        return total / size

    def _move(
        self, layout: Layout, evidence: Any, rows: Ints, weights: Array | None, gradient: Any, statistics: Array,
        total: float, size: float, progress: float,
    ) -> None:  # fmt: skip
        """Change weights and tables."""
        theta = layout.values
        flat = self._index.collect(np.asarray(gradient, np.float64)[None], statistics[None])[0]
        # Gradients of weights, but counts of tables.
        tables = (
            layout.vector({i: np.full(s, float(i in self.evaluator.program.input_blocks)) for i, s in layout.shapes.items()}) > 0
        )
        flows = np.where(tables, flat, flat * theta) + self._prior
        complete = layout.row_sums(flows)
        slope = in_logits(layout, flows)
        amount = theta * complete
        inverse = np.where(amount > 1e-200, 1 / np.where(amount > 1e-200, amount, 1.0), 0.0)
        promised = float(slope @ (slope * inverse))
        if promised <= NOTHING * size:
            return
        times = self._information(layout, evidence.X[rows], None if weights is None else weights[rows], theta, complete)
        direction, positive = self._solve(times, slope, inverse, lambda v: _simplex(layout, theta, complete, v), promised / size)
        z = self.unconstrained.read()
        moved = np.concatenate([part[0] for part in self._index.spread(direction[None])])
        here, rise = total + self._log_prior(theta), float(slope @ direction)
        longest = FARTHEST / max(float(abs(direction).max()), 1e-300)
        t = first = min(self.step_size(progress), longest)
        for _ in range(HALVINGS):
            self.unconstrained.write(z + t * moved)
            found = self._objective(evidence, rows, weights)
            if found >= here + ENOUGH * t * rise:
                while t == first and 2 * t <= longest:
                    self.unconstrained.write(z + 2 * t * moved)
                    farther = self._objective(evidence, rows, weights)
                    if farther <= found:
                        self.unconstrained.write(z + t * moved)
                        break
                    first = t = 2 * t
                    found = farther
                self._damping = self._damping / 3 if positive and t >= first else _more(self._damping)
                return
            t /= 2
        self._damping = _more(self._damping)
        step = np.where(complete > 0, flows / np.where(complete > 0, complete, 1.0), theta)
        change = np.where(theta > 0, np.log(np.maximum(step, 1e-300)) - np.log(np.where(theta > 0, theta, 1.0)), 0.0)
        self.unconstrained.write(z + np.concatenate([part[0] for part in self._index.spread(change[None])]))
        if self._objective(evidence, rows, weights) < here:
            # Nothing but rounding is left to win.
            self.unconstrained.write(z)

    def _information(self, layout: Layout, X: Array, counts: Array | None, theta: Array, complete: Array) -> Times:
        """The information times a vector: of the rows, of the prior, and of damping."""
        prior = layout.row_sums(self._prior) + self._damping * complete

        def of_simplex(v: Array) -> Array:
            return _simplex(layout, theta, prior, v)

        if self.method.information == "hessian":
            H = weighted_operator(layout, X, counts)
            return lambda v: np.asarray(H @ v) + of_simplex(v)
        parts: list[Array] | None = None
        if 8 * len(X) * layout.size <= 4 * BLOCK_BYTES:
            parts = [in_logits(layout, row_flows(layout, X))]

        def times(v: Array) -> Array:
            out, start = of_simplex(v), 0
            for part in parts or (in_logits(layout, row_flows(layout, some)) for some in blocks(layout, X)):
                along = part @ v
                out += part.T @ (along if counts is None else along * counts[start : start + len(part)])
                start += len(part)
            return out

        return times

    def _solve(self, times: Times, b: Array, inverse: Array, complete: Times, promised: float) -> tuple[Array, bool]:
        """A⁻¹ b, roughly, and whether all curvature was positive."""
        x, r = np.zeros_like(b), b.copy()
        z = r * inverse
        p, rz = z, float(r @ z)
        goal = min(TOLERANCE, promised) ** 2 * rz
        for _ in range(self.method.n_products):
            q = times(p)
            curved = float(p @ q)
            if curved <= 0:
                return x + rz / float(p @ complete(p)) * p, False
            x, r = x + rz / curved * p, r - rz / curved * q
            z = r * inverse
            new = float(r @ z)
            if new <= goal:
                break
            p, rz = z + new / rz * p, new
        return x, True

    def _objective(self, evidence: Any, rows: Ints, weights: Array | None) -> float:
        """The log posterior at the evaluator's parameters."""
        log_prob = self.evaluator.log_prob(evidence)[rows]
        theta = self._index.collect(self.evaluator.weights[None].astype(np.float64), self.evaluator.inputs[None])[0]
        return float(log_prob.sum() if weights is None else log_prob @ weights[rows]) + self._log_prior(theta)

    def _log_prior(self, theta: Array) -> float:
        used = self._prior > 0
        return float(self._prior[used] @ np.log(np.maximum(theta[used], 1e-300))) if used.any() else 0.0

    def end_epoch(self, train_nll: float, valid_nll: float) -> None:
        """Nothing is done between epochs."""

    def check(self, mean_log_prob: Callable[[Any], float]) -> None:
        """No step makes the likelihood of the rows worse."""

    def step_over(self, pieces: Any, progress: float) -> float:
        """Rows that come in pieces are refused before learning starts."""
        raise NotImplementedError

    @property
    def resumes_anywhere(self) -> bool:
        """An epoch is one step."""
        return True

    def state(self) -> model.Parameters:
        """All that a later run needs to go on from here."""
        return {**model.packed(self.evaluator), "damping": np.array([self._damping])}

    def restore(self, state: model.Parameters) -> None:
        """Go on from a state."""
        model.restore(self.evaluator, state)
        self._damping = float(state["damping"][0])


def _simplex(layout: Layout, theta: Array, amount: Array, v: Array) -> Array:
    """(diag θ - θ θᵀ) v for every unit, times its amount."""
    return np.asarray(amount * theta * (v - layout.row_sums(theta * v)))


def _more(damping: float) -> float:
    return min(max(4 * damping, 1e-3), MOST_DAMPING)
