"""Input densities in torch, split into a part that carries gradients and a logarithm that doesn't.

A density is `mantissa · exp(scale)` with the scale detached: the mantissa is 1 (0 where the density is 0), and its
derivatives are exact, also at a probability of 0, where the logarithm has none. All of it is float64.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from flatpc.families.base import Family
from flatpc.families.bernoulli import Bernoulli
from flatpc.families.binomial import Binomial
from flatpc.families.categorical import Categorical
from flatpc.families.gaussian import Gaussian
from flatpc.families.indicator import Indicator
from flatpc.families.poisson import Poisson

Split = tuple[Tensor, Tensor]
_LARGEST = 300.0


def has_table(family: Family) -> bool:
    """Whether densities are best looked up: a table over the values is no larger than the parameters."""
    return isinstance(family, Bernoulli | Categorical | Indicator)


def table(family: Family, parameters: Mapping[str, Tensor]) -> Split:
    """`[n, V + 1, K]`: densities of the V values, and 1 for a missing one, from parameters `[n, K, ...]`."""
    if isinstance(family, Bernoulli):
        p = torch.stack([1 - parameters["p"], parameters["p"]], dim=1)
    elif isinstance(family, Categorical):
        p = parameters["p"].transpose(1, 2)
    else:
        assert isinstance(family, Indicator)
        values = torch.arange(family.n, device=parameters["value"].device)
        p = (parameters["value"][:, None, :] == values[:, None]).double()
    p = torch.cat([p, torch.ones_like(p[:, :1])], dim=1)
    size = torch.where(p > 0, p, 1.0).detach()
    return p / size, size.log()


def density(family: Family, parameters: Mapping[str, Tensor], x: Tensor) -> Split:
    """`[n, B, K]`: densities of `x [n, B]`, NaN being 1, from parameters `[n, K]`."""
    seen = ~x.isnan()[..., None]
    x = torch.where(seen, x[..., None], 0.0)
    p = {name: value[:, None, :] for name, value in parameters.items()}
    if isinstance(family, Binomial):
        mantissa, scale = _binomial(family.n, p["p"], x)
        return torch.where(seen, mantissa, 1.0), torch.where(seen, scale, 0.0)
    if isinstance(family, Gaussian):
        z = (x - p["mean"]) ** 2 / p["variance"]
        far = z.detach().isinf()
        # The square of a huge deviation overflows: its density is 0, and its derivative must not be inf · 0.
        z = torch.where(far, 0.0, torch.where(far, 0.0, x - p["mean"]) ** 2 / p["variance"])
        log = torch.where(seen, -0.5 * (z + torch.log(2 * math.pi * p["variance"])), 0.0)
        possible = ~(far & seen)
    else:
        assert isinstance(family, Poisson)
        log = torch.where(seen, torch.xlogy(x, p["rate"]) - p["rate"] - torch.lgamma(x + 1), 0.0)
        possible = log.detach().isfinite()
        log = torch.where(possible, log, 0.0)
    scale = log.detach()
    return torch.where(possible, (log - scale).exp(), 0.0), torch.where(possible, scale, 0.0)


def _binomial(n: int, p: Tensor, k: Tensor) -> Split:
    q, rest = 1 - p, n - k
    # Each power is written (p / a)^k · a^k with a = p detached; at p = 0 it is 0^k, whose derivative is right as it is.
    a = torch.where(p > 0, p, 1.0).detach()
    b = torch.where(q > 0, q, 1.0).detach()
    up = torch.where(k > 0, p / a, 1.0) ** k
    down = torch.where(rest > 0, q / b, 1.0) ** rest
    choose = math.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma(rest + 1)
    return up * down, choose + k * a.log() + rest * b.log()


def one_scale(split: Split, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """The same densities with one scale for all units: entries `[..., K]` of at most 1 in `dtype`, scales, and losses.

    Scales and losses are `[...]` and mean what they mean in `torch_layers`.
    """
    mantissa, scale = split
    positive = mantissa.detach() > 0
    top = torch.where(positive, scale, -torch.inf).amax(-1)
    possible = top.isfinite()
    top = torch.where(possible, top, 0.0)
    below = scale - top[..., None]
    tiny = torch.finfo(dtype).tiny
    lost = (positive & (below < math.log(tiny))).any(-1)
    entries = mantissa * torch.exp(below.clamp(max=_LARGEST))
    return entries.to(dtype), top, torch.where(possible, lost.double() * tiny, -torch.inf)


def statistics(family: Family, parameters: Mapping[str, Tensor], x: Tensor, flow: Tensor) -> dict[str, Tensor]:
    """Statistics as in `flatpc.families`, for `x [n, B]` and `flow [n, B, K]`; each result is `[n, ...]`."""
    seen = ~x.isnan()
    if has_table(family):
        return {"counts": _counts(_table_index(family, x), flow, _n_values(family))}
    flow = flow.double() * seen[..., None]
    x = torch.where(seen, x, 0.0)
    if isinstance(family, Gaussian):
        deviation = x[..., None] - parameters["mean"][:, None, :]
        once = flow * deviation
        return {"count": flow.sum(1), "deviation": once.sum(1), "squares": (once * deviation).sum(1)}
    return {"count": flow.sum(1), "sum": (x[..., None] * flow).sum(1)}


def lookup(family: Family, tables: list[Tensor], x: Tensor) -> list[Tensor]:
    """For each of `tables [n, V + 1, ...]` the entries of `x [n, B]`: `[n, B, ...]`."""
    value = _table_index(family, x)
    n, size = len(x), tables[0].shape[1]
    flat = (value + size * torch.arange(n, device=x.device)[:, None]).flatten()
    return [t.flatten(0, 1).index_select(0, flat).view(*x.shape, *t.shape[2:]) for t in tables]


def _n_values(family: Family) -> int:
    n = family.n_categories
    assert n is not None
    return n


def _table_index(family: Family, x: Tensor) -> Tensor:
    """Row of the table for each value; a missing one has the last row."""
    return torch.where(x.isnan(), float(_n_values(family)), x).long()


def _counts(value: Tensor, flow: Tensor, n_values: int) -> Tensor:
    """`[n, K, V]`: flow summed over the rows that have each value."""
    if n_values <= 16:
        chosen = (value[:, None, :] == torch.arange(n_values, device=value.device)[:, None]).to(flow.dtype)
        return torch.bmm(chosen, flow).transpose(1, 2)
    n, _, width = flow.shape
    out = flow.new_zeros(n * (n_values + 1), width)
    flat = value + (n_values + 1) * torch.arange(n, device=value.device)[:, None]
    out.index_add_(0, flat.flatten(), flow.flatten(0, 1))
    return out.view(n, n_values + 1, width)[:, :n_values].transpose(1, 2)
