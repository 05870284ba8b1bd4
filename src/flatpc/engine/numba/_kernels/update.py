"""The M-step of one sum unit: new weights from the flows of its edges. One family of functions, chosen by number.

With F the flow of an edge, K the number of edges and Σθ = 1:

| update | θ is the solution of | multiplier λ |
|---|---|---|
| `PLAIN` | θ ∝ F + pseudocount / K | |
| `QUADRATIC` | λθ² - Fθ - μF = 0 | 1, then renormalised |
| `CUBIC` | λθ³ - Fθ² - 2μF² = 0 | 1, then renormalised |
| `QUADRATIC_EXACT`, `CUBIC_EXACT` | the same | the one with Σθ = 1 |

The pseudocount is added to F first. Then θ_new = (1 - α) θ_old + α θ.
"""

import math

import numpy as np

from flatpc.engine.numba._kernels.compiling import inner, kernel, loop
from flatpc.engine.numba._kernels.loops import solve
from flatpc.engine.numba._kernels.rows import flows_of_edges, mix_rows, quadratic_of_edges

PLAIN, QUADRATIC, CUBIC, QUADRATIC_EXACT, CUBIC_EXACT = range(5)
_TINY32, _TINY64 = float(np.finfo(np.float32).tiny), float(np.finfo(np.float64).tiny)


@kernel
def cubic_root(f, mu, lam):
    """The one positive root of λθ³ - fθ² - 2μf² = 0.

    Substituting θ = (f/λ)·t gives t³ - t² = 2μλ²/f =: r, whose positive root is at least 1; Newton from above converges
    without overshooting, because the left side is convex and increasing there.
    """
    if f <= 0:
        return 0.0
    r = 2.0 * mu * lam * lam / f
    t = 1.0 + r if r < 1.0 else 1.0 + r ** (1.0 / 3.0)
    for _ in range(60):
        step = (t * t * (t - 1.0) - r) / (t * (3.0 * t - 2.0))
        t -= step
        if abs(step) <= 1e-16 * t:
            break
    return f / lam * t


@inner
def _solve(f, mu, lam, cubic):
    if cubic:
        return cubic_root(f, mu, lam)
    return (f + math.sqrt(f * f + 4.0 * lam * mu * f)) / (2.0 * lam)


@kernel
def exact_multiplier(flow, mu, cubic):
    """The λ with Σ_c θ_c(λ) = 1; θ falls as λ grows, so bisection in log λ is safe and Newton steps make it quick."""
    total = 0.0
    for f in flow:
        total += f
    if total <= 0:
        return 1.0
    # Without penalty λ = ΣF; the penalty only raises it.
    lo, hi = total, total
    while True:
        mass = 0.0
        for f in flow:
            mass += _solve(float(f), mu, hi, cubic)
        if mass <= 1.0:
            break
        lo = hi
        hi *= 2.0 * mass
    for _ in range(200):
        lam = math.sqrt(lo * hi)
        mass, slope = 0.0, 0.0
        for f in flow:
            x = float(f)
            if x <= 0:
                continue
            th = _solve(x, mu, lam, cubic)
            mass += th
            # dθ/dλ from differentiating the equation that θ solves
            if cubic:
                slope -= th * th / (3.0 * lam * th - 2.0 * x)
            else:
                slope -= th * th / (2.0 * lam * th - x)
        if mass > 1.0:
            lo = lam
        else:
            hi = lam
        newton = lam - (mass - 1.0) / slope
        if lo < newton < hi:
            # squeeze the bracket around the Newton point
            mass = 0.0
            for f in flow:
                mass += _solve(float(f), mu, newton, cubic)
            if mass > 1.0:
                lo = newton
            else:
                hi = newton
            if abs(mass - 1.0) <= 1e-15:
                return newton
        if hi - lo <= 4e-16 * hi:
            break
    return hi


@inner
def least_flow(W):
    """The flow below which a unit keeps its weights W: 1 divided by less is infinite, and infinity times 0 no number."""
    return _TINY32 if W.itemsize == 4 else _TINY64


@inner
def _with_pseudocount(F, f_at, allowed, w_at, k, pseudocount):
    n = k
    if len(allowed):
        n = 0
        for c in range(k):
            n += allowed[w_at + c]
    extra = pseudocount / n
    total = F.dtype.type(0)
    for c in range(k):
        if not len(allowed) or allowed[w_at + c]:
            F[f_at + c] += extra
        total += F[f_at + c]
    return total


@loop
def solved(F, f_at, k, kind, mu):
    """Flow to the solution of the update's equation; returns their sum."""
    lam = 1.0
    if kind in (QUADRATIC_EXACT, CUBIC_EXACT):
        lam = exact_multiplier(F[f_at : f_at + k], mu, kind == CUBIC_EXACT)
    total = F.dtype.type(0)
    for c in range(k):
        if F[f_at + c] > 0:
            F[f_at + c] = _solve(float(F[f_at + c]), mu, lam, kind in (CUBIC, CUBIC_EXACT))
        total += F[f_at + c]
    return total


@inner
def update_unit(rule, F, f_at, W, w_at, k, n, mu):
    """New weights W[w_at:w_at+k] of one unit from the gradients F[f_at:f_at+k], which are overwritten; n is k padded."""
    kind = rule.kind if mu > 0 else PLAIN
    if kind == QUADRATIC and rule.pseudocount == 0:
        total = quadratic_of_edges(F, f_at, W, w_at, W.dtype.type(4 * mu), n)
    else:
        total = flows_of_edges(F, f_at, W, w_at, n)
        if rule.pseudocount > 0:
            total = _with_pseudocount(F, f_at, rule.allowed, w_at, k, rule.pseudocount)
        if kind != PLAIN:
            total = solve(rule.solver, F, f_at, k, kind, mu)
    if total >= least_flow(W):
        mix_rows(W, w_at, F, f_at, W.dtype.type(1 - rule.alpha), W.dtype.type(rule.alpha / total), n)
