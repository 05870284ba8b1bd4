"""Σ_k w_k N(y; m_k, C_k) Π_d p_kd(code_d): Gaussians × categories, by EM.

Covariances are full, diagonal or tied; a ridge is added to their diagonals, and to the shares of values `smoothing` times those
of the whole column. Without discrete columns and floors of deviations it is scikit-learn's `GaussianMixture`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

from flatpc._typing import Array
from flatpc.paper.table_rivals.gaussians import log_box, log_normal
from flatpc.paper.table_rivals.rows import Rows

COVARIANCES = ("full", "tied", "diag")
COMPONENTS = (1, 2, 4, 8, 16, 32)
RIDGES = (1e-6, 1e-4, 1e-3, 0.05)
SMOOTHINGS = (0.1, 5.0)
START = {"ridge": 1e-2, "smoothing": 1.0}
ITERATIONS, TOLERANCE = 60, 2e-3


@dataclass(frozen=True)
class Mixture:
    """A mixture that has been learnt."""

    log_weights: Array
    means: Array
    """`[K, C]`."""
    factors: Array
    """`[K, C, C]`: lower Cholesky factors of the covariances."""
    log_shares: tuple[Array, ...]
    """`[K, n]` for each discrete column."""

    def joint(self, rows: Rows) -> Array:
        """`[N, K]`: log of weight, density and probabilities."""
        parts = [log_normal(rows.y, m, f) for m, f in zip(self.means, self.factors, strict=True)]
        return np.stack(parts, axis=1) + self._discrete(rows)

    def _discrete(self, rows: Rows) -> Array:
        out = np.tile(self.log_weights, (len(rows), 1))
        for d, logs in enumerate(self.log_shares):
            known = rows.codes[:, d] >= 0
            out[known] += logs[:, rows.codes[known, d]].T
        return out

    def log_density(self, rows: Rows) -> Array:
        """`[N]`."""
        return np.asarray(logsumexp(self.joint(rows), axis=1))

    def log_cells(self, rows: Rows, r: Array) -> Array:
        """`[N]`."""
        parts = [log_box(rows.y, r, m, f) for m, f in zip(self.means, self.factors, strict=True)]
        return np.asarray(logsumexp(np.stack(parts, axis=1) + self._discrete(rows), axis=1))


def fit_mixture(
    rows: Rows,
    n_values: tuple[int, ...],
    *,
    n_components: int,
    covariance: str,
    ridge: float,
    smoothing: float,
    seed: int,
    floors: Array | float = 0.0,
) -> Mixture:
    """EM from clusters of k-means; a column's ridge is at least the square of its floor."""
    start = _clusters(rows, n_values, n_components, seed)
    ridges = np.maximum(ridge, np.broadcast_to(floors, rows.y.shape[1]) ** 2)
    if not n_values and (ridges == ridge).all():
        return _of_sklearn(rows, n_components, covariance, ridge, seed)
    shares = np.zeros((len(rows), n_components))
    shares[np.arange(len(rows)), start] = 1.0
    priors = tuple(_marginal(rows.codes[:, d], n) for d, n in enumerate(n_values))
    before = -np.inf
    for _ in range(ITERATIONS):
        model = maximise(rows, shares, priors, covariance, ridges, smoothing)
        joint = model.joint(rows)
        total = logsumexp(joint, axis=1)
        shares = np.exp(joint - total[:, None])
        now = float(total.mean())
        if now - before < TOLERANCE:
            break
        before = now
    return model


def maximise(
    rows: Rows, shares: Array, priors: tuple[Array, ...], covariance: str, ridge: Array | float, smoothing: float
) -> Mixture:
    """One M-step: the parameters that the shares of rows in components call for."""
    counts = shares.sum(axis=0) + 1e-9
    means = shares.T @ rows.y / counts[:, None]
    n_components, n_columns = means.shape
    covariances = np.empty((n_components, n_columns, n_columns))
    for k in range(n_components):
        away = rows.y - means[k]
        if covariance == "diag":
            covariances[k] = np.diag(shares[:, k] @ away**2 / counts[k])
        else:
            covariances[k] = (shares[:, k, None] * away).T @ away / counts[k]
    if covariance == "tied":
        covariances[:] = np.einsum("k,kij->ij", counts / counts.sum(), covariances)
    covariances += np.diag(np.broadcast_to(ridge, n_columns))
    log_shares = []
    for d, prior in enumerate(priors):
        known = rows.codes[:, d] >= 0
        one_hot = np.eye(len(prior))[rows.codes[known, d]]
        table = shares[known].T @ one_hot + smoothing * prior
        log_shares.append(np.log(table / table.sum(axis=1, keepdims=True)))
    weights = counts / counts.sum()
    return Mixture(np.log(weights), means, np.linalg.cholesky(covariances), tuple(log_shares))


def search_mixture(judge: Callable[..., tuple[float, float]]) -> None:
    """Try components for each kind of covariance until more are worse, then ridges and smoothings around the best."""
    best: dict[str, Any] = {}
    for covariance in COVARIANCES:
        found: list[tuple[float, float]] = []
        for n in COMPONENTS:
            found.append(judge(n_components=n, covariance=covariance, **START))
            if len(found) > 2 and all(max(f[s] for f in found[:-2]) > max(f[s] for f in found[-2:]) for s in (0, 1)):
                break
        n = COMPONENTS[int(np.argmax([f[1] for f in found]))]
        best[covariance] = (max(f[1] for f in found), n)
    for covariance in sorted(best, key=lambda c: -best[c][0])[:2]:
        n = best[covariance][1]
        for ridge in RIDGES:
            judge(n_components=n, covariance=covariance, ridge=ridge, smoothing=START["smoothing"])
        for smoothing in SMOOTHINGS:
            judge(n_components=n, covariance=covariance, ridge=START["ridge"], smoothing=smoothing)


def _clusters(rows: Rows, n_values: tuple[int, ...], n_components: int, seed: int) -> Any:
    from sklearn.cluster import KMeans

    spread = [np.eye(n)[rows.codes[:, d]] for d, n in enumerate(n_values)]  # a missing code is the last value, for this only
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fewer distinct rows than clusters
        return KMeans(n_components, n_init=1, random_state=seed).fit_predict(np.hstack([rows.y, *spread]))


def _marginal(codes: Any, n: int) -> Array:
    counts = np.bincount(codes[codes >= 0], minlength=n) + 0.5
    return np.asarray(counts / counts.sum())


def _of_sklearn(rows: Rows, n_components: int, covariance: str, ridge: float, seed: int) -> Mixture:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the last iteration is a model like any other
        found = GaussianMixture(
            n_components, covariance_type=covariance, reg_covar=ridge, max_iter=ITERATIONS, random_state=seed
        ).fit(rows.y)
    covariances = found.covariances_
    if covariance == "tied":
        covariances = np.tile(covariances, (n_components, 1, 1))
    elif covariance == "diag":
        covariances = np.stack([np.diag(c) for c in covariances])
    return Mixture(np.log(found.weights_), found.means_, np.linalg.cholesky(covariances), ())
