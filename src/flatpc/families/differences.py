"""First and second derivatives of any family's log-density in its unconstrained numbers, by differences.

Steps are a thousandth of each unit's own scale, which its scores tell. Differences of two steps are combined so that their errors
of second order cancel (Richardson): what is left is about 1e-9 of the derivatives' own size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from flatpc._typing import Array

if TYPE_CHECKING:
    from flatpc.families.base import Family, Parameters

STEP = 2e-3
"""In units of one over a typical score."""
_FIRST = 1e-6


def flat(free: Parameters) -> Array:
    """`[K, Q]`: all numbers of each unit, by name and then in the order of their own axes."""
    return np.concatenate([np.reshape(value, (len(value), -1)) for value in free.values()], axis=1)


def named(vector: Array, like: Parameters) -> dict[str, Array]:
    """What `flat` takes, from `[K, Q]`."""
    out, start = {}, 0
    for name, value in like.items():
        size = int(np.prod(np.shape(value)[1:]))
        out[name] = vector[:, start : start + size].reshape(np.shape(value))
        start += size
    return out


def derivatives(family: Family, parameters: Parameters, x: Array) -> tuple[Array, Array]:
    """`[N, K, Q]` and `[N, K, Q, Q]`; 0 where the density is 0."""
    free = family.unconstrain(parameters)
    z = flat(free)
    n, (k, q) = len(x), z.shape

    def at(moves: Array) -> Array:
        value = family.log_density(family.constrain(named(z + moves, free)), x)
        return np.where(np.isfinite(value), value, 0.0)

    first, second = np.zeros((n, k, q)), np.zeros((n, k, q, q))
    if n == 0:
        return first, second
    # A small score is no sign of a scale wider than the numbers themselves and, for locations, the values.
    steps, widest = np.empty((k, q)), max(1.0, float(np.nanstd(x)))
    for j in range(q):
        move = np.zeros((k, q))
        move[:, j] = _FIRST * np.maximum(1.0, abs(z[:, j]))
        size = abs(at(move) - at(-move)) / (2 * move[:, j])
        # Values far from a unit, which hardly count, would make its scale too small.
        typical = [np.quantile(each[each > 0], 0.05) if (each > 0).any() else 1.0 for each in size.T]
        steps[:, j] = STEP / np.maximum(typical, 1 / np.maximum(widest, abs(z[:, j])))
    middle = at(np.zeros((k, q)))

    def along(a: int, b: int, reach: float) -> tuple[Array, Array]:
        """At both ends of the diagonal a + b and of a - b, summed."""
        one, other = np.zeros((k, q)), np.zeros((k, q))
        one[:, a], other[:, b] = reach * steps[:, a], reach * steps[:, b]
        return at(one + other) + at(-one - other), at(one - other) + at(other - one)

    for a in range(q):
        ends = []
        for reach in (1.0, 2.0):
            move = np.zeros((k, q))
            move[:, a] = reach * steps[:, a]
            up, down = at(move), at(-move)
            ends.append(((up - down) / (2 * move[:, a]), (up + down - 2 * middle) / move[:, a] ** 2))
        first[:, :, a] = (4 * ends[0][0] - ends[1][0]) / 3
        second[:, :, a, a] = (4 * ends[0][1] - ends[1][1]) / 3
        for b in range(a):
            mixed = []
            for reach in (1.0, 2.0):
                same, opposite = along(a, b, reach)
                mixed.append((same - opposite) / (4 * reach**2 * steps[:, a] * steps[:, b]))
            second[:, :, a, b] = second[:, :, b, a] = (4 * mixed[0] - mixed[1]) / 3
    return first, second
