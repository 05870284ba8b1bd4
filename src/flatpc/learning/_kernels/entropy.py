"""The M-step under entropy regularisation, unit by unit: maximise Σ a log θ + b (-Σ θ log θ + Σ θ e) with Σθ = 1.

With φ = log θ and multiplier λ, each edge solves a exp(-φ) - b φ = r, r = λ + b - b e. Hence φ = ω - r/b, where ω + log ω =
log(a/b) + r/b. Each φ is a convex, falling function of λ, and so is log Σ exp φ: Newton's iteration on it can't fail.
"""

import math

import numpy as np
from numba import njit


@njit(cache=True)
def wright_omega(z):
    """The ω > 0 with ω + log ω = z."""
    if z < -50.0:
        return math.exp(z)
    if z < -1.0:
        e = math.exp(z)
        w = e / (1.0 + e)
    elif z < 2.0:
        w = 0.567 + 0.38 * z if z < 1.0 else 0.5 + 0.5 * z
    else:
        w = z - math.log(z)
    for _ in range(4):
        rest = z - w - math.log(w)
        one = w + 1.0
        t = 2.0 * one * (one + 2.0 / 3.0 * rest)
        w *= 1.0 + rest / one * (t - rest) / (t - 2.0 * rest)
        if abs(rest) <= 1e-15 * max(1.0, abs(z)):
            break
    return w


@njit(cache=True)
def _log_share(a, b, r):
    """The φ of one edge, and ω."""
    if a <= 0.0:
        return -r / b, 0.0
    z = math.log(a / b) + r / b
    w = wright_omega(z)
    # Two forms of one number; each loses digits where the other doesn't.
    return (w - r / b if z < 1.0 else math.log(a) - math.log(b * w)), w


@njit(cache=True)
def maximise(a, e, b, exists, out):
    """Put into `out` the θ that maximises the objective of one unit; False if nothing speaks for any θ."""
    total, n = 0.0, 0
    for c in range(len(a)):
        if exists[c]:
            total += a[c]
            n += 1
    if total + b <= 0.0:
        return False
    if b <= 1e-300 or n == 1:
        for c in range(len(a)):
            out[c] = 0.0 if not exists[c] else 1.0 if n == 1 else a[c] / total
        return True
    # The multiplier at shares (a + b/n) / (total + b) is near the solution's.
    lam = total - b
    for c in range(len(a)):
        if exists[c]:
            share = (a[c] + b / n) / (total + b)
            lam += b * share * (e[c] - math.log(share))
    for _ in range(100):
        largest = -math.inf
        for c in range(len(a)):
            if exists[c]:
                out[c], _w = _log_share(a[c], b, lam + b - b * e[c])
                largest = max(largest, out[c])
        mass, slope = 0.0, 0.0
        for c in range(len(a)):
            if exists[c]:
                share = math.exp(out[c] - largest)
                mass += share
                # dφ/dλ = -1 / (a/θ + b)
                odds = a[c] * math.exp(-out[c]) if a[c] > 0 else 0.0
                slope -= share / (odds + b)
        excess = math.log(mass) + largest
        lam -= excess * mass / slope
        if abs(excess) <= 1e-14:
            break
    mass = 0.0
    for c in range(len(a)):
        out[c] = math.exp(out[c]) if exists[c] else 0.0
        mass += out[c]
    for c in range(len(a)):
        out[c] /= mass
    return True


@njit(cache=True, nogil=True)
def maximise_units(flows, entropies, b, exists, weights, alpha):
    """Update `weights [units, edges]` in place: (1-α)θ + αθ̃. `exists` may have no rows: all edges do."""
    n = flows.shape[1]
    out, all_of_them = np.empty(n), np.ones(n, np.bool_)
    for u in range(flows.shape[0]):
        if maximise(flows[u], entropies[u], b[u], exists[u] if len(exists) else all_of_them, out):
            for c in range(n):
                weights[u, c] = (1.0 - alpha) * weights[u, c] + alpha * out[c]
