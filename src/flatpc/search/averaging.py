"""The average of several models: a mixture of circuits is a circuit, and its weights are found by EM on validation rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

PRIOR = 1.0
"""Rows added to the validation rows, spread evenly over the models: they keep few rows from deciding too much."""
SMALLEST = 0.01
STEPS = 100


def mixture_weights(log_prob: Array) -> Array:
    """Weights `[models]` that maximise the likelihood of rows with these `log_prob [rows, models]`, a little smoothed.

    >>> mixture_weights(np.log([[0.9, 0.1], [0.9, 0.1], [0.9, 0.1]])).round(2).tolist()
    [0.86, 0.14]
    """
    k = log_prob.shape[1]
    largest = log_prob.max(axis=1, keepdims=True)
    # A row that no model allows says nothing about their weights.
    possible = np.isfinite(largest[:, 0])
    likelihood = np.exp(log_prob[possible] - largest[possible])
    weights = np.full(k, 1 / k)
    for _ in range(STEPS):
        share = weights * (likelihood.T @ (1 / (likelihood @ weights)))
        weights = (share + PRIOR / k) / (len(likelihood) + PRIOR)
    return np.asarray(weights)


def average_nll(log_prob: Array, weights: Array) -> float:
    """Mean NLL of the mixture."""
    with np.errstate(divide="ignore"):
        return -float(np.mean(logsumexp(log_prob + np.log(weights), axis=1)))


def cross_fitted_nll(log_prob: Array) -> float:
    """Mean NLL of the mixture, every half of the rows judged with weights from the other half."""
    half = np.arange(len(log_prob)) % 2 == 0
    if len(log_prob) < 2:
        return np.inf
    parts = [average_nll(log_prob[~fold], mixture_weights(log_prob[fold])) * np.mean(~fold) for fold in (half, ~half)]
    return float(np.sum(parts))


def members(log_prob: Array) -> tuple[Ints, Array]:
    """Which models to average, best first in `log_prob`, and their weights; only the first if an average is no better.

    Models are added in order for as long as the cross-fitted NLL falls; then those with hardly any weight are left out.
    """
    chosen, best = [0], -float(log_prob[:, 0].mean())
    for i in range(1, log_prob.shape[1]):
        nll = cross_fitted_nll(log_prob[:, [*chosen, i]])
        if nll < best - 1e-4 * abs(best):
            chosen, best = [*chosen, i], nll
    weights = mixture_weights(log_prob[:, chosen]) if len(chosen) > 1 else np.ones(1)
    kept = weights >= SMALLEST
    index = np.array(chosen)[kept]
    return index, mixture_weights(log_prob[:, index]) if len(index) > 1 else np.ones(1)
