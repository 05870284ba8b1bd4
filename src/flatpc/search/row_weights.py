"""What leaving rows out would cost them, from one more run in which every row weighs a little more or less.

Training, whatever it is (a tree, a start, mini-batches, a regulariser, an early end), makes of row weights w the log-likelihoods
ℓ_i(w) of the rows. Leaving row i out costs it about ∂ℓ_i/∂w_i, and the mean over all rows is what train NLL is short of the NLL
of new rows. With random signs ε, as `fp.curvature.takeuchi` has them,

    E  1/N Σ_i ε_i (ℓ_i(1 + η ε) - ℓ_i(1)) / η  =  1/N Σ_i ∂ℓ_i/∂w_i  +  O(η²)

so that a second run of the same training with weights 1 ± η tells, for every epoch of it, and the derivatives are followed along
the training instead of being solved for at an optimum that early stopping never reaches.
"""

from __future__ import annotations

import numpy as np

from flatpc._typing import Array

SHARE = 0.3
"""η: small enough for a difference to be a derivative, large enough to be seen beside rounding and to change a tree's edges."""


def perturbed(n_rows: int, seed: int) -> Array:
    """`[N]`: weights 1 ± η, as many of one kind as of the other, in random order.

    >>> sorted(perturbed(4, 0).tolist())
    [0.7, 0.7, 1.3, 1.3]
    """
    signs = np.where(np.arange(n_rows) % 2 == 0, 1.0, -1.0)
    return 1 + SHARE * np.random.default_rng([seed, n_rows]).permutation(signs)


def leave_one_out_cost(log_prob: Array, moved: Array, weights: Array) -> Array:
    """`[...]`: nats per row, from log-likelihoods `[..., N]` of the rows by a model and by the one learnt with these weights."""
    signs = np.sign(weights - 1)
    return np.asarray(((moved - log_prob) * signs).mean(axis=-1) / SHARE)
