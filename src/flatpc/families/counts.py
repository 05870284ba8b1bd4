"""What families of whole numbers share."""

from __future__ import annotations

from typing import Any

import numpy as np

from flatpc._typing import Array
from flatpc.families.base import Family, Parameters


def entropy_of_counts(family: Family, parameters: Parameters, largest: float) -> Array:
    """`[K]`: -Σ p log p over 0, 1, ..., `largest`."""
    log_p = family.log_density(parameters, np.arange(largest + 1.0))
    p = np.exp(log_p)
    return np.asarray(-np.where(p > 0, p * np.where(p > 0, log_p, 0.0), 0.0).sum(axis=0))


def quantile_of_counts(family: Family, parameters: Parameters, q: Array) -> Array:
    """`[N, K]`: the smallest whole number whose cdf is at least q, by bisection."""
    q = np.asarray(q, np.float64)
    n_units = len(next(iter(parameters.values())))
    out = np.empty((len(q), n_units))
    for k in range(n_units):
        one = {name: value[k : k + 1] for name, value in parameters.items()}
        high = np.ones(len(q))
        while (short := (family.cdf(one, high)[:, 0] < q) & (high < 2**60)).any():
            high[short] *= 2
        low = np.full(len(q), -1.0)
        while (high - low > 1).any():
            middle = np.floor((low + high) / 2)
            enough = family.cdf(one, middle)[:, 0] >= q
            high, low = np.where(enough, middle, high), np.where(enough, low, middle)
        out[:, k] = high
    return np.clip(out, *family.bounds)


def torch_count_and_sum(x: Any, flow: Any) -> dict[str, Any]:
    """`count_and_sum` by torch, of `x [n, B]` and `flow [n, B, K]`."""
    return {"count": flow.sum(1), "sum": (x[..., None] * flow).sum(1)}
