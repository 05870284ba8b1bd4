"""The direction in which a row's Hessian is wanted for the gradient of a penalty: made from the row's own gradient.

With g a row's gradient of log p in one sum unit's weights θ, F the unit's flow, and e = g - F:

    WEIGHTS          R = Σ g²                v = 2 g
    SIMPLEX          R = Σ (g - κ)²          v = 2 (g - κ),              κ = mean of g over the unit's edges
    LOGITS           R = Σ d² + 2 Σ θ d      v = 2 θ² (e + 1) - 2 θ κ,   κ = Σ θ² (e + 1),    d = θ e
    LOGIT_GRADIENT   R = Σ d²                v = 2 θ² e - 2 θ κ,         κ = Σ θ² e

and ∂R/∂θ is `H v`, in logits plus what R depends on θ for given g: `2 θ (e² + 2 b e) - 2 g κ`, b being 1 for LOGITS, 0 for
LOGIT_GRADIENT.
"""

from numba import njit

from flatpc.engine.numba._kernels.columns import CATEGORIES, STRIDE, TABLE
from flatpc.engine.numba._kernels.compiling import inner

SHARED_DIRECTION, WEIGHTS, SIMPLEX, LOGITS, LOGIT_GRADIENT = range(5)


@njit(cache=True, inline="always")
def direction(space, theta, g, flow, kappa):
    """The direction v at one edge."""
    if space == WEIGHTS:
        return 2.0 * g
    if space == SIMPLEX:
        return 2.0 * (g - kappa)
    b = 1.0 if space == LOGITS else 0.0
    return 2.0 * theta * (theta * (g - flow + b) - kappa)


@njit(cache=True, inline="always")
def kappa_term(space, theta, g, flow, share):
    """What an edge adds to κ; `share` is 1 over the number of the unit's edges, or 0 if this one doesn't exist."""
    if space == WEIGHTS:
        return 0.0
    if space == SIMPLEX:
        return g * share
    b = 1.0 if space == LOGITS else 0.0
    return theta * theta * (g - flow + b)


@njit(cache=True, inline="always")
def explicit(space, theta, g, flow, kappa):
    """∂R/∂θ at one edge for given g."""
    if space <= SIMPLEX:
        return 0.0
    b = 1.0 if space == LOGITS else 0.0
    e = g - flow
    return 2.0 * theta * (e * e + 2.0 * b * e) - 2.0 * g * kappa


@njit(cache=True, inline="always")
def curvature(space, theta, g, flow, mean):
    """What an edge adds to the negated trace; `mean` is the mean gradient of the unit's edges."""
    if space == WEIGHTS:
        return g * g
    if space == SIMPLEX:
        return (g - mean) * (g - mean)
    d = theta * (g - flow)
    if space == LOGIT_GRADIENT:
        return d * d
    return d * d + 2.0 * theta * d


@njit(cache=True, inline="always")
def diagonal(space, theta, g, flow, mean):
    """The second derivative of log p in one edge's own parameter."""
    if space == LOGITS:
        d = theta * (g - flow)
        return d * (1.0 - 2.0 * theta) - d * d
    return -curvature(space, theta, g, flow, mean)


@inner
def table_kappa(P, T, space, s, x, j, g, flow):
    """κ of an input's unit j, whose gradient is g at the observed value x and 0 at all others."""
    kappa = 0.0
    if space != WEIGHTS:
        n = P.steps[s, CATEGORIES]
        for c in range(n):
            kappa += kappa_term(space, T[P.steps[s, TABLE] + c * P.steps[s, STRIDE] + j], g if c == x else 0.0, flow, 1.0 / n)
    return kappa


@inner
def shares(M, at, step, n, out):
    """For n edges whose weights are `step` apart, 1 over the number of those that exist, or 0 for one that doesn't."""
    edges = 0.0
    for q in range(n):
        out[q] = 1.0 if len(M) == 0 else M[at + q * step]
        edges += out[q]
    for q in range(n):
        out[q] /= edges
