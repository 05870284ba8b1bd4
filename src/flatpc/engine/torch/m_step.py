"""The M-step of folded layers on their device: new weights from gradients, as `engine/numba/_kernels/update.py` has them.

With F the flow of an edge, θ solves λθ² - Fθ - μF = 0 (quadratic) or λθ³ - Fθ² - 2μF² = 0 (cubic), with λ = 1 and renormalised,
or with the λ for which Σθ = 1.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from flatpc.engine.numba._kernels.columns import Rule
from flatpc.engine.numba._kernels.update import CUBIC, CUBIC_EXACT, PLAIN, QUADRATIC, QUADRATIC_EXACT

_NEWTON, _BISECTIONS = 60, 200


def update_layer(weights: Tensor, gradient: Tensor, rule: Rule, mu: float, mask: Tensor | None) -> None:
    """Put new weights `[n, units, edges]` in the place of the old; the gradient, which may be changed, is of the same shape."""
    flow = gradient.mul_(weights)
    if rule.pseudocount > 0:
        if mask is not None and len(rule.allowed):
            flow.add_(mask * (rule.pseudocount / mask.sum(-1, keepdim=True, dtype=flow.dtype)))
        else:
            flow.add_(rule.pseudocount / flow.shape[-1])
    flow = _solved(flow, rule.kind, mu) if mu > 0 else flow
    total = flow.sum(-1, keepdim=True)
    # Units with less flow keep their weights: 1 divided by it is infinite, and infinity times 0 no number.
    enough = total >= torch.finfo(weights.dtype).tiny
    share = enough.to(total.dtype) * rule.alpha
    weights.mul_((1 - share).to(weights.dtype))
    weights.addcmul_(flow.to(weights.dtype), (share / torch.where(enough, total, 1.0)).to(weights.dtype))


def _solved(flow: Tensor, kind: int, mu: float) -> Tensor:
    """The solutions of the update's equation, up to a factor for each unit."""
    if kind == PLAIN:
        return flow
    if kind == QUADRATIC:
        return flow.add_((flow * flow).add_(flow, alpha=4 * mu).sqrt_())
    wide = flow.double()
    one = wide.new_ones(())
    if kind == CUBIC:
        return _cubic(wide, mu, one)
    solve = _cubic if kind == CUBIC_EXACT else _quadratic
    assert kind in (CUBIC_EXACT, QUADRATIC_EXACT)
    return solve(wide, mu, _exact_multiplier(wide, mu, solve))


def _quadratic(flow: Tensor, mu: float, lam: Tensor) -> Tensor:
    return (flow + (flow * flow + 4.0 * lam * mu * flow).sqrt()) / (2.0 * lam)


def _cubic(flow: Tensor, mu: float, lam: Tensor) -> Tensor:
    """The positive roots: with θ = (F/λ)·t, t³ - t² = 2μλ²/F, by Newton from above, which doesn't overshoot."""
    some = flow > 0
    r = torch.where(some, 2.0 * mu * lam * lam / torch.where(some, flow, 1.0), 0.0)
    t = 1.0 + torch.where(r < 1.0, r, r.pow(1.0 / 3.0))
    for _ in range(_NEWTON):
        step = (t * t * (t - 1.0) - r) / (t * (3.0 * t - 2.0))
        t = t - step
        if (step.abs() <= 1e-16 * t).all():
            break
    return torch.where(some, flow / lam * t, 0.0)


def _exact_multiplier(flow: Tensor, mu: float, solve: Callable[[Tensor, float, Tensor], Tensor]) -> Tensor:
    """`[n, units, 1]`: the λ with Σθ(λ) = 1. θ falls as λ grows: bisection in log λ is safe, and Newton steps make it quick."""
    total = flow.sum(-1, keepdim=True)
    lo = torch.where(total > 0, total, 1.0)
    hi = lo
    while True:  # without penalty λ = ΣF; the penalty only raises it
        mass = solve(flow, mu, hi).sum(-1, keepdim=True)
        short = mass > 1.0
        if not short.any():
            break
        lo, hi = torch.where(short, hi, lo), torch.where(short, 2.0 * mass * hi, hi)
    for _ in range(_BISECTIONS):
        lam = (lo * hi).sqrt()
        theta = solve(flow, mu, lam)
        mass = theta.sum(-1, keepdim=True)
        # dθ/dλ from differentiating the equation that θ solves.
        below = (3.0 * lam * theta - 2.0 * flow) if solve is _cubic else (2.0 * lam * theta - flow)
        slope = -torch.where(flow > 0, theta * theta / torch.where(flow > 0, below, 1.0), 0.0).sum(-1, keepdim=True)
        lo, hi = torch.where(mass > 1.0, lam, lo), torch.where(mass > 1.0, hi, lam)
        newton = lam - (mass - 1.0) / torch.where(slope < 0, slope, -1.0)
        inside = (lo < newton) & (newton < hi)
        newton = torch.where(inside, newton, hi)
        mass = solve(flow, mu, newton).sum(-1, keepdim=True)
        found = inside & ((mass - 1.0).abs() <= 1e-15)
        lo = torch.where(found | (inside & (mass > 1.0)), newton, lo)
        hi = torch.where(found | (inside & (mass <= 1.0)), newton, hi)
        if (hi - lo <= 4e-16 * hi).all():
            break
    return hi
