"""How many nats of log posterior a refit from here would win, over all rows: a certificate of how near an optimum is.

Near an optimum that is what a Newton step wins, ½ sᵀ A⁻¹ s, s being the slope of the log posterior. Far from it the quadratic may
say what is impossible: a weight θ near 0 under a prior that the fit did not have has hardly any curvature in its logit, about
(F + αK) θ, and a slope of α. EM knows better there. With n = f + α of the edges of a unit, N their sum and θ' = n / N, one step
of EM wins N KL(θ' ‖ θ) at least, where its quadratic says N/2 χ²(θ' ‖ θ). So

- each unit's slope is taken less by the root of 2 KL / χ², which is 1 near an optimum;
- what EM's step wins, in closed form, is the least that is said;
- where all values are discrete, so that no log-likelihood is above 0, what is left up to that, and of the prior, is the most.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from flatpc._typing import Array
from flatpc.curvature.log_posterior import LogPosterior

NEAR = 1e-8
"""χ² of a unit below which the quadratic and EM agree, up to a relative 1e-4."""


def to_win(around: LogPosterior, solve: Callable[[Array], Array]) -> float:
    """Nats, over all rows, with `solve` multiplying by A⁻¹."""
    share, by_em = _against_em(around)
    slope = around.slope.copy()
    slope[: around.layout.size] *= np.sqrt(share)
    quadratic = float((slope * solve(slope[None])[0]).sum() / 2)
    return float(min(max(quadratic, by_em, 0.0), _most(around)))


def _against_em(around: LogPosterior) -> tuple[Array, float]:
    """`[P]` of weights: 2 KL / χ² of each entry's unit; and the sum of N KL over all units, which one step of EM wins."""
    layout, theta = around.layout, around.theta
    counts = around.flows + around.alpha * around.moving_weights
    total = layout.row_sums(counts)
    used = around.moving_weights & (total > 0)
    ratio = np.where(used, counts / np.where(used, theta * total, 1.0), 1.0)
    # Σ θ' log(θ'/θ) = Σ θ (u log u - u + 1) with u = θ'/θ: no sum of large terms that cancel.
    safe = np.maximum(ratio, 1e-300)
    divergence = layout.row_sums(np.where(used, theta * (safe * np.log(safe) - safe + 1), 0.0))
    squares = layout.row_sums(np.where(used, theta * np.minimum(ratio - 1, 1e150) ** 2, 0.0))
    far = squares > NEAR
    share = np.where(far, 2 * divergence / np.where(far, squares, 1.0), 1.0)
    won = np.where(used & far, total * divergence / np.maximum(around.edges, 1.0), 0.0)
    return np.clip(share, 0.0, 1.0), float(won.sum())


def _most(around: LogPosterior) -> float:
    """Nats that no parameters could exceed: log-likelihoods up to 0, and the prior of even weights. Densities have no bound."""
    if any(family.n_categories is None for family in around.circuit.families):
        return float("inf")
    some = around.moving_weights & (around.alpha > 0)
    prior = -float((around.alpha[some] * np.log(around.theta[some] * around.edges[some])).sum())
    return max(prior - float(np.sum(around.circuit.log_prob(around.rows, missing="marginalize"))), 0.0)
