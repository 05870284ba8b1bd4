"""The lowest curvature around a fit, in units of EM's complete-data information: below 0 at a saddle.

These are the eigenvalues λ of A x = λ C x. The information that is missing, C - A, is never negative, so that none is above 1; at
an optimum none is below 0. In coordinates y = C^½ x, in which C is the identity, a short run of Lanczos finds the lowest of them,
by products with the Hessian, for any number of weights. It starts at random, so that it sees directions in which the slope is 0,
as at a saddle.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flatpc._typing import Array
from flatpc.curvature.log_posterior import LogPosterior

STEPS = 30
"""Products with the Hessian. They may leave unseen what is just below 0, among many directions of next to no curvature."""
NOISE = 1e-6
"""Of an eigenvalue: the rounding errors of products."""
CLOSE = 0.05
"""Of a negative eigenvalue: how precisely it is to be known."""
UNKNOWN = 1e-13
"""Of the largest complete-data information: a number with less is held still."""
NOTHING = 1e-290
"""Of complete-data information: as good as none."""


@dataclass(frozen=True)
class Lowest:
    """An eigenvalue, and how far it may be from a true one."""

    value: float
    residual: float

    @property
    def is_negative(self) -> bool:
        """Whether the fit is at a saddle, or far from any optimum."""
        return self.value < -NOISE


def scale_of(around: LogPosterior) -> Array:
    """`[P]`: of every number, about what the complete data would tell of it."""
    n = around.layout.size
    scale = np.maximum(around.complete, 1e-300)
    scale[:n] *= np.where(around.moving_weights, around.theta, 1.0)
    return scale


def units_of(around: LogPosterior) -> Array:
    """`[P]`: numbers in units of their own complete-data information; 0 for those that stay, or that nothing is known of."""
    scale = scale_of(around)
    return np.where(around.moves & (scale > max(UNKNOWN * scale.max(), NOTHING)), 1 / np.sqrt(scale), 0.0)


def lowest_curvature(around: LogPosterior, n_steps: int = STEPS) -> Lowest:
    """The least eigenvalue of C⁻¹ A that a run of Lanczos finds."""
    layout, unit = around.layout, units_of(around)
    n = layout.size
    # A unit's logits may all be moved by one number: along these directions nothing is to be found.
    still = np.where(unit[:n] > 0, 1 / np.where(unit[:n] > 0, unit[:n], 1.0), 0.0)
    length = np.maximum(layout.row_sums(still**2), 1e-300)

    def inside(y: Array) -> Array:
        y = np.where(unit > 0, y, 0.0)
        y[:n] -= still * layout.row_sums(still * y[:n]) / length
        return y

    def times(y: Array) -> Array:
        return inside(unit * around.products((unit * y)[None], 0.0)[0])

    y = inside(np.random.default_rng(0).standard_normal(around.size))
    if not y.any():
        return Lowest(0.0, 0.0)
    basis, diagonal, beside = [y / np.linalg.norm(y)], [], []
    found = Lowest(0.0, 0.0)
    for _ in range(n_steps):
        w = times(basis[-1])
        diagonal.append(float(w @ basis[-1]))
        for _ in range(2):
            for v in basis:
                w -= (w @ v) * v
        beside.append(float(np.linalg.norm(w)))
        T = np.diag(diagonal) + np.diag(beside[:-1], 1) + np.diag(beside[:-1], -1)
        values, vectors = np.linalg.eigh(T)
        found = Lowest(float(values[0]), abs(beside[-1] * float(vectors[-1, 0])))
        if beside[-1] < 1e-12 or (found.is_negative and found.residual < CLOSE * -found.value):
            break
        basis.append(w / beside[-1])
    return found
