"""Inverses of the Hessian of the negative log posterior (`posterior.py`): whole, by blocks, by its diagonal, or without a matrix.

Each gives the damping that it needed, a function that multiplies vectors `[n, P]` by A⁻¹, and one that makes draws of standard
normal vectors, if it can.

Whether the whole Hessian is positive, `full` knows by its Cholesky factor and `matrix_free` by Lanczos (`lowest.py`). Blocks and
the diagonal are damped where they are not positive themselves, and see nothing beyond.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from flatpc._typing import Array
from flatpc.curvature.log_posterior import LogPosterior
from flatpc.curvature.lowest import lowest_curvature, scale_of, units_of
from flatpc.curvature.row_flows import row_flows
from flatpc.engine.contract import get_engine

Solve = Callable[[Array], Array]
DAMPINGS = (0.0, 1e-3, 1e-2, 0.03, 0.1, 0.3, math.inf)
"""Shares of EM's complete-data information, tried in turn; infinite: it alone, in the place of the Hessian, as larger shares on
top of the Hessian would claim to know more than complete data tell."""
PRECISION = 1e-7
"""Of conjugate gradients: what is left of the squared residual. A variance, gᵀ A⁻¹ g, is about as precise."""


def full(around: LogPosterior) -> tuple[float, Solve, Solve | None]:
    # What stays, or nothing is known of, is taken apart.
    scale, unit, identity = scale_of(around), units_of(around), np.eye(around.size)
    known = unit > 0
    both = unit[:, None] * unit
    A = _symmetric(around.hessian_matrix() + around.information(identity, prior=True)) * both
    C = _symmetric(around.information(identity, prior=False)) * both
    # Directions in which nothing changes get a number of their own, so that the matrix can be inverted.
    left_out = np.diag(np.where(known, 0.0, 1.0))
    for entries in around.layout.units():
        still = np.where(known[entries], np.sqrt(scale[entries]), 0.0)
        left_out[entries, entries] += np.outer(still, still) / max(float(still @ still), 1e-300)
    for damping in DAMPINGS:
        try:
            factor = cho_factor(damped(A, C, damping) + left_out, lower=True)
        except np.linalg.LinAlgError:
            continue
        if np.diag(factor[0]).min() > 1e-5:
            break
    return (
        damping,
        lambda vectors: around.centred(unit * cho_solve(factor, (unit * around.centred(vectors)).T).T),
        lambda noise: around.centred(unit * solve_triangular(factor[0], noise.T, lower=True, trans="T").T),
    )


def damped(A: Array, C: Array, damping: float) -> Array:
    """A with a share of C, or C in its place."""
    return A + damping * C if math.isfinite(damping) else C


def _symmetric(M: Array) -> Array:
    return (M + M.T) / 2


def matrix_free(around: LogPosterior) -> tuple[float, Solve, Solve | None]:
    """By conjugate gradients, with one damping for all vectors: the least with which all curvature seen is positive."""
    unit, n = units_of(around), around.layout.size
    inverse, all_known = unit**2, bool((unit > 0)[around.moves].all())
    share = np.where(unit[:n] > 0, around.theta, 0.0)
    share /= np.maximum(around.layout.row_sums(share), 1e-300)
    lowest = lowest_curvature(around)
    least = lowest.residual - lowest.value if lowest.is_negative else 0.0

    def known(vectors: Array) -> Array:
        """Without numbers that nothing is known of; what is left of a unit's adds up to 0, as gradients do."""
        if all_known:
            return vectors
        vectors = np.where(unit > 0, vectors, 0.0)
        vectors[..., :n] -= share * around.layout.row_sums(vectors[..., :n])
        return vectors

    def times(vectors: Array, damping: float) -> Array:
        if not math.isfinite(damping):
            return known(around.centred(around.information(vectors, prior=False)))
        return known(around.products(vectors, damping))

    def precondition(vectors: Array) -> Array:
        return around.centred(vectors * inverse)

    def solved(vectors: Array, damping: float) -> tuple[Array, int]:
        return _solved(lambda p: times(p, damping), lambda p: times(p, math.inf), precondition, known(vectors))

    def solve(vectors: Array) -> Array:
        found, n_flat = solved(around.centred(vectors), damping)
        if n_flat:
            warnings.warn(
                f"{n_flat} of {len(vectors)} answers depend on directions without positive curvature, which Lanczos had missed: "
                f"their errors are guesses. Bring the fit to an optimum (method='newton'), or take structure='full'.",
                UserWarning,
                stacklevel=2,
            )
        return found

    damping = next(d for d in DAMPINGS if d >= least and (not math.isfinite(d) or solved(around.slope[None], d)[1] == 0))
    return damping, solve, None


def _solved(times: Solve, complete: Solve, precondition: Solve, b: Array) -> tuple[Array, int]:
    """A⁻¹ b for several right-hand sides, and how many of them met a direction without positive curvature.

    Such a direction is their last, and the complete-data information tells how far to go along it. What has converged takes no
    further products.
    """
    x, r, n_flat = np.zeros_like(b), b.copy(), 0
    z = precondition(r)
    p, rz = z.copy(), np.einsum("np,np->n", r, z)
    goal, open_ = PRECISION * np.maximum(rz, 1e-300), np.arange(len(b))
    for _ in range(max(200, 2 * b.shape[1])):
        left = rz > goal
        if not left.all():
            open_, r, p, rz, goal = open_[left], r[left], p[left], rz[left], goal[left]
        if not len(open_):
            break
        q = times(p)
        curved = np.einsum("np,np->n", p, q)
        flat = curved <= 0
        if flat.any():
            n_flat += int(flat.sum())
            curved[flat] = np.einsum("np,np->n", p[flat], complete(p[flat]))
        step = (rz / np.maximum(curved, 1e-300))[:, None]
        x[open_] += step * p
        r = r - step * q
        z = precondition(r)
        new = np.einsum("np,np->n", r, z)
        p, rz = z + (new / rz)[:, None] * p, np.where(flat, 0.0, new)
    return x, n_flat


def _weight_blocks(around: LogPosterior) -> dict[int, Array]:
    """For every node `[K, C, C]`: the Hessian of the negative log posterior within each unit's logits.

    p is linear in a unit's weights, so that with f the flows of a row's edges, F their sum and g = f - θ F,

        -∇² log p = g gᵀ - (diag f - f θᵀ - θ fᵀ - F diag θ + 2 F θ θᵀ)
    """
    layout = around.layout
    thetas = layout.arrays(around.theta)
    out = {i: np.zeros((k, c, c)) for i, (k, c) in layout.shapes.items()}
    for part in around.blocks(around.rows):
        flows = row_flows(layout, part)
        for i, start, end in zip(layout.shapes, layout.starts[:-1], layout.starts[1:], strict=True):
            f = flows[:, start:end].reshape(len(part), *layout.shapes[i])
            g = f - thetas[i] * f.sum(axis=2, keepdims=True)
            out[i] += np.einsum("nkc,nkd->kcd", g, g)
    prior = layout.arrays(around.alpha * around.edges)
    for i, flow in layout.arrays(around.flows).items():
        theta, total = thetas[i], flow.sum(axis=1)[:, None, None]
        diagonal = np.eye(theta.shape[1]) * theta[:, None, :]
        both = theta[:, :, None] * theta[:, None, :]
        cross = flow[:, :, None] * theta[:, None, :]
        out[i] -= np.eye(theta.shape[1]) * flow[:, None, :] - cross - cross.swapaxes(1, 2) - total * diagonal + 2 * total * both
        out[i] += prior[i][:, :1, None] * (diagonal - both)
    return out


def _input_blocks(around: LogPosterior) -> dict[int, Array]:
    """For every free input `[K, Q, Q]`: as p is linear in a density, -∇² log p = (f² - f) s sᵀ - f c."""
    out = {i: np.zeros((*each.shape, each.shape[1])) for i, each in around.free.items()}
    for part in around.blocks(around.rows) if around.free else ():
        flows = get_engine().unit_flows(around.circuit, part)
        for i, each in around.free.items():
            node: Any = around.circuit.nodes[i]
            x = part[:, node.columns]
            s = each.scores(x)
            out[i] += np.einsum("nk,nkq,nkr->kqr", flows[i] ** 2 - flows[i], s, s) - each.bends(x, flows[i])
    for i, found in out.items():
        found += around.input_prior * np.eye(found.shape[1])
        if i in around.input_priors:
            found -= around.input_priors[i][1]
    return out


def _unit_blocks(around: LogPosterior) -> list[tuple[slice, Array]]:
    """Parts of the vector that are `[K, C]`, and the Hessians of their units, `[K, C, C]`."""
    around.refuse_ties("Hessian within a unit")
    starts = zip(around.layout.shapes, around.layout.starts[:-1], around.layout.starts[1:], strict=True)
    weights, inputs = _weight_blocks(around), _input_blocks(around)
    return [(slice(a, b), weights[i]) for i, a, b in starts] + [(around.free[i].part, block) for i, block in inputs.items()]


def block(around: LogPosterior) -> tuple[float, Solve, Solve | None]:
    parts: list[tuple[slice, Array]] = []
    worst = 0.0
    for part, found in _unit_blocks(around):
        k, n = found.shape[:2]
        # Inverses on the directions that move: others have eigenvalue 0, and get none.
        moves = around.moves[part].reshape(k, n)
        centre = np.eye(n) * moves[:, None, :]
        C = np.broadcast_to(np.eye(n), found.shape)
        if part.stop <= around.layout.size:
            theta = around.theta[part].reshape(k, n)
            centre = centre - moves[:, :, None] * moves[:, None, :] / np.maximum(moves.sum(axis=1), 1.0)[:, None, None]
            C = C * theta[:, None, :] - theta[:, :, None] * theta[:, None, :]
        C = around.complete[part].reshape(k, n)[:, :1, None] * C
        level = np.maximum(np.trace(C, axis1=1, axis2=2), 1e-12)[:, None]
        for damping in DAMPINGS:
            values, vectors = np.linalg.eigh(centre @ damped(found, C, damping) @ centre)
            if (values > -1e-10 * level).all():
                break
        small = abs(values) <= 1e-10 * level
        worst = max(worst, damping)
        parts.append((part, vectors * np.where(small, 0.0, 1 / np.sqrt(np.where(small, 1.0, abs(values))))[:, None, :]))

    def half(vectors: Array, back: bool) -> Array:
        out = np.empty_like(vectors)
        for part, root in parts:
            mine = vectors[:, part].reshape(len(vectors), *root.shape[:2])
            out[:, part] = np.einsum("kce,nke->nkc" if back else "kec,nke->nkc", root, mine).reshape(len(vectors), -1)
        return out

    return worst, lambda vectors: half(half(around.centred(vectors), False), True), lambda noise: half(noise, True)


def diagonal(around: LogPosterior) -> tuple[float, Solve, Solve | None]:
    found = np.zeros(around.size)
    for part, blocks in _unit_blocks(around):
        found[part] = np.einsum("kcc->kc", blocks).ravel()
    floor = around.complete.copy()
    floor[: around.layout.size] *= around.theta * (1 - around.theta)
    damping = next(d for d in DAMPINGS if (damped(found, floor, d) >= 0)[around.moves].all())
    total = damped(found, floor, damping)
    varies = around.moves & (total > 1e-12 * np.maximum(around.complete, 1e-300))
    inverse = np.where(varies, 1 / np.where(varies, total, 1.0), 0.0)
    return damping, lambda vectors: around.centred(vectors) * inverse, lambda noise: noise * np.sqrt(inverse)
