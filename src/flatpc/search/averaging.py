"""The average of several models: a mixture of circuits is a circuit, and its weights are found by EM on validation rows."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from flatpc._row_weights import mean
from flatpc._typing import Array, Ints
from flatpc.search.samples import Sample

PRIOR = 1.0
"""Rows added to the validation rows, spread evenly over the models: they keep few rows from deciding too much."""
SMALLEST = 0.01
MARGIN = 1e-4
"""By which a model has to lower the NLL, relative to it, to be averaged."""
STEPS = 100


def mixture_weights(log_prob: Array, judges: Sample | None = None) -> Array:
    """Weights `[models]` that maximise the likelihood of rows with these `log_prob [rows, models]`, a little smoothed.

    `judges`, here as below, are the rows if they don't count once each.

    >>> mixture_weights(np.log([[0.9, 0.1], [0.9, 0.1], [0.9, 0.1]])).round(2).tolist()
    [0.86, 0.14]
    """
    k = log_prob.shape[1]
    largest = log_prob.max(axis=1, keepdims=True)
    # A row that no model allows says nothing about their weights.
    possible = np.isfinite(largest[:, 0])
    likelihood = np.exp(log_prob[possible] - largest[possible])
    counts = np.ones(len(log_prob)) if judges is None or judges.weights is None else judges.weights
    counts, weights = counts[possible], np.full(k, 1 / k)
    n_rows = float(counts.sum())
    for _ in range(STEPS):
        share = weights * (likelihood.T @ (counts / (likelihood @ weights)))
        weights = (share + PRIOR / k) / (n_rows + PRIOR)
    return np.asarray(weights)


def average_nll(log_prob: Array, weights: Array, judges: Sample | None = None) -> float:
    """Mean NLL of the mixture."""
    with np.errstate(divide="ignore"):
        return -mean(logsumexp(log_prob + np.log(weights), axis=1), None if judges is None else judges.weights)


def cross_fitted(log_prob: Array, judges: Sample | None = None) -> Array:
    """Log-probabilities `[rows]` by the mixture, every half of the rows judged with weights from the other half; -inf if there
    are no halves.
    """
    rows = Sample(log_prob) if judges is None else judges
    half, out = rows.halves, np.full(len(log_prob), -np.inf)
    for fold in (half, ~half) if not half.all() else ():
        with np.errstate(divide="ignore"):
            out[~fold] = logsumexp(log_prob[~fold] + np.log(mixture_weights(log_prob[fold], rows.some(fold))), axis=1)
    return out


def cross_fitted_nll(log_prob: Array, judges: Sample | None = None) -> float:
    """The mean NLL of `cross_fitted`."""
    return -mean(cross_fitted(log_prob, judges), None if judges is None else judges.weights)


def members(log_prob: Array, judges: Sample | None = None, margins: Array | None = None) -> tuple[Ints, Array]:
    """Which models to average, best first in `log_prob`, and their weights; only the first if an average is no better.

    Models are added in order for as long as the cross-fitted NLL falls by their margin, relative to it; then those with hardly
    any weight are left out.
    """
    least = np.full(log_prob.shape[1], MARGIN) if margins is None else margins
    chosen, best = [0], -mean(log_prob[:, 0], None if judges is None else judges.weights)
    for i in range(1, log_prob.shape[1]):
        nll = cross_fitted_nll(log_prob[:, [*chosen, i]], judges)
        if nll < best - least[i] * abs(best):
            chosen, best = [*chosen, i], nll
    weights = mixture_weights(log_prob[:, chosen], judges) if len(chosen) > 1 else np.ones(1)
    kept = weights >= SMALLEST
    index = np.array(chosen)[kept]
    return index, mixture_weights(log_prob[:, index], judges) if len(index) > 1 else np.ones(1)
