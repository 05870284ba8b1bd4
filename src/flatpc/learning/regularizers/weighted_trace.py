"""The weighted trace as a penalty of EM: smoothing by μ counts on every edge that is in use.

The weighted trace (`fp.curvature.weighted_trace`) of a unit with flow N is  Σ_x (Σ_c f_c² / θ_c - F²) / N. An M-step takes flows
f as given, and 0 ≤ f ≤ 1 bounds f² by f, tightly where responsibilities are certain. With n the flows of all rows, each unit
maximises

    Σ_c n_c log θ_c - (μ/N) Σ_c n_c / θ_c        so that        λ θ² - n θ - (μ/N) n = 0

which is the quadratic equation of `fp.Sharpness` with μ/N in place of μ. To first order in μ its solution is
(n_c + μ) / (N + K μ)  over the K edges with flow: Laplace smoothing. That is all there is to it as a penalty. At an optimum of
EM n = N θ, and for certain responsibilities the weighted trace over all rows is the number of free parameters, whatever the
weights are: it tells how many of them are in use, not how large they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flatpc._options import number, put
from flatpc._typing import Array
from flatpc.learning.regularizers.em_update import EMUpdate

STEPS = 60
"""Of Newton's method for λ, which comes from below."""


@dataclass(frozen=True)
class WeightedTrace(EMUpdate):
    """Penalise the weighted trace, the measure of sharpness that goes with overfitting best (`fp.curvature.weighted_trace`).

    Its update is close to `fp.learning.Laplace` with μ counts for each edge that has flow; inputs are updated as usual.

    Parameters
    ----------
    mu
        Weight of the penalty, in counts over the training data.

    Raises
    ------
    OptionError
        If an option is of the wrong type or out of range.

    Examples
    --------
    >>> import numpy as np
    >>> import flatpc as fp
    >>> penalty = fp.learning.WeightedTrace(mu=0.5)
    >>> penalty.solve(np.array([[10.0, 30.0, 0.0]]), np.ones((1, 3)) / 3, 1.0).round(3).tolist()
    [[0.256, 0.744, 0.0]]
    """

    mu: float = 1.0

    def __post_init__(self) -> None:
        put(self, mu=number("WeightedTrace: mu", self.mu, 0.0))

    def solve(self, flows: Array, old: Array, share: float) -> Array:
        """New weights of one sum or mixture; see `fp.learning.EMUpdate`."""
        n = flows / share
        total = n.sum(axis=1, keepdims=True)
        safe = np.where(total > 0, total, 1.0)
        pull = self.mu * n / safe
        # Σ θ(λ) falls and is convex, and is 1 or more at λ = N: from there Newton's method never goes too far.
        level = safe.copy()
        for _ in range(STEPS):
            root = np.sqrt(n**2 + 4 * level * pull)
            theta = (n + root) / (2 * level)
            slope = (-(n + root) / (2 * level**2) + pull / (level * np.where(root > 0, root, 1.0))).sum(axis=1, keepdims=True)
            step = np.where(slope < 0, (1 - theta.sum(axis=1, keepdims=True)) / np.where(slope < 0, slope, -1.0), 0.0)
            level = np.where(total > 0, level + np.maximum(step, 0.0), level)
            if (step <= 1e-15 * level).all():
                break
        root = np.sqrt(n**2 + 4 * level * pull)
        return np.asarray(np.where(total > 0, (n + root) / (2 * level), 0.0))
