"""How sure a density is of its answers: the posterior around its circuit, from the rows that it was fitted to."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from flatpc.errors import OptionError
from flatpc.search.samples import Sample

if TYPE_CHECKING:
    from flatpc._typing import Array
    from flatpc.curvature.posterior import Posterior
    from flatpc.estimator.density import CircuitDensity

MOST_BYTES = 1 << 28
"""Of training rows that a density keeps to measure its uncertainty with."""


def keep_rows(density: CircuitDensity, rows: Sample) -> None:
    """Rows to measure uncertainty with, unless they are too many; those with weights are drawn, as many as they count as."""
    X = rows.X
    few = rows.weight * 8 * X.shape[1] <= MOST_BYTES
    if rows.weights is not None and few:
        X = X[np.searchsorted(np.cumsum(rows.weights), np.arange(0.5, max(rows.weight, 1.0)), side="right").clip(0, len(X) - 1)]
    density._fitted_to = X if few else None
    density._posterior = None


def keep_more_rows(density: CircuitDensity, new: Sample) -> None:
    """The same with further rows, if those before are known."""
    known: Array | None = getattr(density, "_fitted_to", None)
    density._posterior = None
    if known is not None:
        weights = None if new.weights is None else np.concatenate([np.ones(len(known)), new.weights])
        keep_rows(density, Sample(np.concatenate([known, new.X]), weights))


def answering(density: CircuitDensity) -> Posterior:
    """The posterior that error bars come from, with a warning if they are guesses."""
    found = density.posterior()
    if not math.isfinite(found.damping):
        warnings.warn(
            f"The density is at no optimum of its likelihood (a refit would win about {found.gap:.3g} nats, and the Hessian is "
            f"not positive): its error bars come from EM's complete-data information, and are guesses. See `posterior()`.",
            UserWarning,
            stacklevel=3,
        )
    return found


def posterior(density: CircuitDensity, rows: Array | None, prior: float) -> Posterior:
    """The posterior; measured once for the density's own rows."""
    from flatpc.curvature.posterior import laplace

    known: Any = getattr(density, "_posterior", None)
    if rows is None and known is not None and known.prior == prior:
        found: Posterior = known
        return found
    rows = getattr(density, "_fitted_to", None) if rows is None else rows
    if rows is None:
        raise OptionError(
            "Uncertainty is measured with the rows that the density was fitted to, which a file doesn't hold (nor the density, "
            "if they are many); call posterior(X) with them first."
        )
    measured = laplace(density.circuit_, rows, prior=prior, missing="marginalize")
    density._posterior = measured
    return measured
