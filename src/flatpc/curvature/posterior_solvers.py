"""Inverses of the Hessian of the negative log posterior (`posterior.py`): whole, by blocks, by its diagonal, or without a matrix.

Each gives the damping that it needed, a function that multiplies vectors `[n, P]` by A⁻¹, and one that makes draws of standard
normal vectors, if it can.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from flatpc.curvature.hessians import hessian
from flatpc.curvature.layout import Layout
from flatpc.curvature.operators import operator
from flatpc.curvature.row_flows import blocks, in_logits, row_flows

Array = NDArray[np.float64]
Solve = Callable[[Array], Array]
DAMPINGS = (0.0, 1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Shares of EM's complete-data information, tried in turn."""


class Around:
    """The negative log posterior around a fit, in logits."""

    def __init__(self, layout: Layout, rows: Array, alpha: float) -> None:
        self.layout, self.rows, self.alpha = layout, rows, alpha
        self.theta = layout.values
        self.moves = self.theta > 0
        self.edges = layout.row_sums(self.moves.astype(np.float64))

    @cached_property
    def flows(self) -> Array:
        """`[P]`: over all rows."""
        total = np.zeros(self.layout.size)
        for part in blocks(self.layout, self.rows):
            total += row_flows(self.layout, part).sum(axis=0)
        return total

    @cached_property
    def slope(self) -> Array:
        """`[P]`: the gradient of the log posterior."""
        counts = self.flows + self.alpha * self.moves
        return np.where(self.moves, in_logits(self.layout, counts), 0.0)

    @cached_property
    def complete(self) -> Array:
        """`[P]`: F + α K of each entry's unit."""
        return self.layout.row_sums(self.flows) + self.alpha * self.edges

    def centred(self, vectors: Array) -> Array:
        """Without the direction in which nothing changes, and without entries that stay 0."""
        inside = np.where(self.moves, vectors, 0.0)
        mean = self.layout.row_sums(inside) / np.maximum(self.edges, 1.0)
        return np.where(self.moves, inside - mean, 0.0)

    def simplex(self, vectors: Array, amount: Array) -> Array:
        """(diag θ - θ θᵀ) times vectors, times each unit's `amount`."""
        return np.asarray(amount * self.theta * (vectors - self.layout.row_sums(self.theta * vectors)))


def full(around: Around) -> tuple[float, Solve, Solve | None]:
    layout, theta = around.layout, around.theta
    options: Any = {"include_inputs": layout.include_inputs, "missing": "marginalize", "space": "logits"}
    H = np.asarray(hessian(layout.circuit, around.rows, **options))
    same = layout.row[:, None] == layout.row
    spread_out = np.diag(theta) - np.where(same, np.outer(theta, theta), 0.0)
    A = H + around.alpha * around.edges * spread_out
    C = around.complete * spread_out
    moves = around.moves
    # The directions left out get a number of their own, so that the matrix can be inverted.
    level = max(float(np.trace(C)) / max(int(moves.sum()), 1), 1e-12)
    left_out = np.where(same & moves[:, None] & moves, level / np.maximum(around.edges, 1.0), 0.0) + np.diag(level * ~moves)
    A, C = (np.where(moves[:, None] & moves, (M + M.T) / 2, 0.0) for M in (A, C))
    for damping in DAMPINGS:
        try:
            factor = cho_factor(A + damping * C + left_out, lower=True)
        except np.linalg.LinAlgError:
            continue
        pivots = np.diag(factor[0]) ** 2
        if pivots.min() > 1e-10 * level:
            break
    return (
        damping,
        lambda vectors: around.centred(cho_solve(factor, around.centred(vectors).T).T),
        lambda noise: around.centred(solve_triangular(factor[0], noise.T, lower=True, trans="T").T),
    )


def matrix_free(around: Around) -> tuple[float, Solve, Solve | None]:
    layout = around.layout
    options: Any = {"include_inputs": layout.include_inputs, "missing": "marginalize", "space": "logits"}
    H = operator(layout.circuit, around.rows, **options)

    def times(vectors: Array, damping: float) -> Array:
        found = np.asarray(H @ vectors.T).T + around.simplex(vectors, around.alpha * around.edges)
        return around.centred(found + damping * around.simplex(vectors, around.complete))

    def precondition(vectors: Array) -> Array:
        safe = np.where(around.moves, around.theta * np.maximum(around.complete, 1e-12), 1.0)
        return around.centred(vectors / safe)

    damping, _ = _conjugate_gradients(times, precondition, around.slope[None], DAMPINGS)
    return (
        damping,
        lambda vectors: _conjugate_gradients(times, precondition, around.centred(vectors), (damping, *DAMPINGS))[1],
        None,
    )


def _conjugate_gradients(
    times: Callable[[Array, float], Array], precondition: Solve, b: Array, dampings: tuple[float, ...]
) -> tuple[float, Array]:
    """Solutions for several right-hand sides at once, to a millionth; with the first damping that shows no negative curvature."""
    for damping in dampings:
        x, r = np.zeros_like(b), b.copy()
        z = precondition(r)
        p, rz = z.copy(), np.einsum("np,np->n", r, z)
        goal, positive = 1e-12 * np.maximum(rz, 1e-300), True
        for _ in range(max(200, 2 * b.shape[1])):
            active = rz > goal
            if not active.any():
                break
            q = times(p, damping)
            curved = np.einsum("np,np->n", p, q)
            if (curved[active] <= 0).any():
                positive = False
                break
            step = np.where(active, rz / np.where(active, curved, 1.0), 0.0)[:, None]
            x, r = x + step * p, r - step * q
            z = precondition(r)
            new = np.einsum("np,np->n", r, z)
            p = z + np.where(active, new / np.where(active, rz, 1.0), 0.0)[:, None] * p
            rz = np.where(active, new, rz)
        if positive:
            return damping, x
    return damping, precondition(b) / dampings[-1]


def _unit_blocks(around: Around) -> dict[int, Array]:
    """For every node `[K, C, C]`: the Hessian of the negative log posterior within each unit.

    p is linear in a unit's weights, so that with f the flows of a row's edges, F their sum and g = f - θ F,

        -∇² log p = g gᵀ - (diag f - f θᵀ - θ fᵀ - F diag θ + 2 F θ θᵀ)
    """
    layout = around.layout
    layout.refuse_ties("Hessian within a unit")
    thetas = layout.arrays(around.theta)
    out = {i: np.zeros((k, c, c)) for i, (k, c) in layout.shapes.items()}
    for part in blocks(layout, around.rows):
        flows = row_flows(layout, part)
        for i, start, end in zip(layout.shapes, layout.starts[:-1], layout.starts[1:], strict=True):
            f = flows[:, start:end].reshape(len(part), *layout.shapes[i])
            g = f - thetas[i] * f.sum(axis=2, keepdims=True)
            out[i] += np.einsum("nkc,nkd->kcd", g, g)
    for i, flow in layout.arrays(around.flows).items():
        theta, total = thetas[i], flow.sum(axis=1)[:, None, None]
        diagonal = np.eye(theta.shape[1]) * theta[:, None, :]
        both = theta[:, :, None] * theta[:, None, :]
        cross = flow[:, :, None] * theta[:, None, :]
        out[i] -= np.eye(theta.shape[1]) * flow[:, None, :] - cross - cross.swapaxes(1, 2) - total * diagonal + 2 * total * both
        edges = layout.arrays(around.edges)[i][:, :1, None]
        out[i] += around.alpha * edges * (diagonal - both)
    return out


def block(around: Around) -> tuple[float, Solve, Solve | None]:
    layout = around.layout
    moves, complete = layout.arrays(around.moves.astype(np.float64)), layout.arrays(around.complete)
    thetas, found = layout.arrays(around.theta), _unit_blocks(around)
    roots: dict[int, Array] = {}
    worst = 0.0
    for i, block in found.items():
        n = block.shape[1]
        inside = moves[i][:, :, None] * moves[i][:, None, :]
        C = complete[i][:, :1, None] * (np.eye(n) * thetas[i][:, None, :] - thetas[i][:, :, None] * thetas[i][:, None, :])
        level = np.maximum(np.trace(C, axis1=1, axis2=2), 1e-12)[:, None, None]
        centre = np.eye(n) * moves[i][:, None, :] - inside / np.maximum(moves[i].sum(axis=1), 1.0)[:, None, None]
        for damping in DAMPINGS:
            # Inverses on the directions that move: others have eigenvalue 0, and get none.
            values, vectors = np.linalg.eigh(centre @ (block + damping * C) @ centre)
            small = abs(values) <= 1e-10 * level[:, :, 0]
            if (values > -1e-10 * level[:, :, 0]).all():
                break
        worst = max(worst, damping)
        roots[i] = vectors * np.where(small, 0.0, 1 / np.sqrt(np.where(small, 1.0, values)))[:, None, :]

    def half(vectors: Array, back: bool) -> Array:
        out = np.empty_like(vectors)
        for i, start, end in zip(layout.shapes, layout.starts[:-1], layout.starts[1:], strict=True):
            mine = vectors[:, start:end].reshape(-1, *layout.shapes[i])
            turned = np.einsum("kce,nke->nkc" if back else "kec,nke->nkc", roots[i], mine)
            out[:, start:end] = turned.reshape(len(vectors), -1)
        return out

    return worst, lambda vectors: half(half(around.centred(vectors), False), True), lambda noise: half(noise, True)


def diagonal(around: Around) -> tuple[float, Solve, Solve | None]:
    found = around.layout.vector({i: np.einsum("kcc->kc", block) for i, block in _unit_blocks(around).items()})
    floor = around.complete * around.theta * (1 - around.theta)
    damping = next((d for d in DAMPINGS if (found + d * floor >= 0)[around.moves].all()), DAMPINGS[-1])
    total = found + damping * floor
    varies = around.moves & (total > 1e-12 * np.maximum(around.complete, 1e-300))
    inverse = np.where(varies, 1 / np.where(varies, total, 1.0), 0.0)
    return damping, lambda vectors: around.centred(vectors) * inverse, lambda noise: noise * np.sqrt(inverse)
