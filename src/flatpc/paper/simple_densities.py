"""What any density estimator should beat on the manifolds: scikit-learn's models, their options chosen by validation NLL.

| name | what |
|---|---|
| `normal` | N(0, I), which learns nothing: rows are standardised |
| `gaussian` | one Gaussian with a full covariance |
| `mixture` | a mixture of Gaussians |
| `kde` | a kernel density |
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from flatpc._typing import Array
from flatpc.datasets.splits import Splits
from flatpc.paper.cells import Metrics

NAMES = ("normal", "gaussian", "mixture", "kde")


@dataclass(frozen=True)
class Grids:
    """What validation chooses from."""

    ridges: tuple[float, ...] = (1e-6, 1e-4, 1e-3, 1e-2, 1e-1)
    """Added to the diagonal of covariances."""
    components: tuple[int, ...] = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
    bandwidths: tuple[float, ...] = tuple(round(float(width), 6) for width in np.geomspace(0.02, 2.0, 25))
    """Rounded, as keys of runs hold them, and the last digits are not the same on all processors."""


GRIDS = Grids()


class Density(Protocol):
    """What scikit-learn's densities have."""

    def score_samples(self, X: Array) -> Array:
        """Log-densities of rows."""


class Normal:
    """N(0, I)."""

    def score_samples(self, X: Array) -> Array:
        """Log-densities of rows."""
        return np.asarray(-0.5 * (X**2 + np.log(2 * np.pi)).sum(axis=1))


def simple_density(name: str, data: Splits, seed: int, grids: Grids = GRIDS) -> Metrics:
    """NLLs of the model that validation likes best."""
    splits = {"train_nll": data.train, "valid_nll": data.valid, "test_nll": data.test}
    judged = [
        {split: -float(density.score_samples(rows).mean()) for split, rows in splits.items()}
        for density in _candidates(name, data.train, seed, grids)
    ]
    return min(judged, key=lambda nlls: nlls["valid_nll"])


def _candidates(name: str, X: Array, seed: int, grids: Grids) -> Iterator[Density]:
    if name == "normal":
        yield Normal()
    elif name == "gaussian":
        for ridge in grids.ridges:
            yield _mixture(X, 1, ridge, "full", seed)
    elif name == "mixture":
        for n in grids.components:
            for ridge in grids.ridges if n <= len(X) else ():
                for kind in ("full", "diag"):
                    yield _mixture(X, n, ridge, kind, seed)
    else:
        from sklearn.neighbors import KernelDensity

        for bandwidth in grids.bandwidths:
            yield KernelDensity(bandwidth=bandwidth).fit(X)


def _mixture(X: Array, n: int, ridge: float, kind: str, seed: int) -> Any:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the last iteration is a model like any other
        return GaussianMixture(n, covariance_type=kind, reg_covar=ridge, random_state=seed).fit(X)
