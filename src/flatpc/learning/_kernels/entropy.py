"""The M-step under entropy regularisation, unit by unit: maximise Σ a log θ + b (-Σ θ log θ + Σ θ e) with Σθ = 1.

With φ = log θ and multiplier λ, each edge solves a exp(-φ) - b φ = r, r = λ + b - b e. Hence φ = ω - r/b, where ω + log ω =
log(a/b) + r/b. Each φ is a convex, falling function of λ, and so is log Σ exp φ: Newton's iteration on it can't fail.
"""

import math

import numpy as np

from flatpc.engine._kernels import kernel


@kernel
def wright_omega(z, w):
    """The ω > 0 with ω + log ω = z, from a guess `w`, which may be 0 for none."""
    if z < -50.0:
        return math.exp(z)
    rest = z - w - math.log(w) if w > 0 else math.inf
    if abs(rest) > 0.5 * (1.0 + w):
        if z < -1.0:
            e = math.exp(z)
            w = e / (1.0 + e)
        elif z < 1.0:
            w = 0.567 + 0.38 * z
        else:
            w = 0.5 + 0.5 * z if z < 2.0 else z - math.log(z)
        rest = z - w - math.log(w)
    for _ in range(8):
        # Fritsch, Shafer and Crowley's step; its error is of the order of rest⁴.
        one = w + 1.0
        t = 2.0 * one * (one + 2.0 / 3.0 * rest)
        w *= 1.0 + rest / one * (t - rest) / (t - 2.0 * rest)
        if abs(rest) <= 1e-4:
            break
        rest = z - w - math.log(w)
    return w


@kernel
def maximise(a, e, b, exists, out, w):
    """Put into `out` the θ that maximises the objective of one unit; False if nothing speaks for any θ. `w` is scratch."""
    total, n = 0.0, 0
    for c in range(len(a)):
        w[c] = 0.0
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
        mass, slope = 0.0, 0.0
        for c in range(len(a)):
            if not exists[c]:
                continue
            r = (lam + b) / b - e[c]
            phi = -r
            if a[c] > 0:
                odds = math.log(a[c] / b)
                w[c] = wright_omega(odds + r, w[c])
                # Two forms of one number; each loses digits where the other doesn't.
                phi = w[c] - r if odds + r < 1.0 else odds - math.log(w[c])
            out[c] = math.exp(min(phi, 600.0))
            mass += out[c]
            slope += out[c] / (b * (w[c] + 1.0))  # -dφ/dλ = 1 / (a/θ + b), and a/θ = bω
        excess = math.log(mass)
        lam += excess * mass / slope
        if abs(excess) <= 1e-14:
            break
    for c in range(len(a)):
        out[c] = out[c] / mass if exists[c] else 0.0
    return True


@kernel
def maximise_units(flows, entropies, b, exists, weights, alpha):
    """Update `weights [units, edges]` in place: (1-α)θ + αθ̃. `exists` may have no rows: all edges do."""
    n = flows.shape[1]
    out, scratch, all_of_them = np.empty(n), np.empty(n), np.ones(n, np.bool_)
    for u in range(flows.shape[0]):
        if maximise(flows[u], entropies[u], b[u], exists[u] if len(exists) else all_of_them, out, scratch):
            for c in range(n):
                weights[u, c] = (1.0 - alpha) * weights[u, c] + alpha * out[c]
