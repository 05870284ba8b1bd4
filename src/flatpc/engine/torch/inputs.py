"""Input densities in torch, split into a part that carries gradients and a logarithm that doesn't.

A density is `mantissa · exp(scale)` with the scale detached: the mantissa is 1 (0 where the density is 0), and its
derivatives are exact, also at a probability of 0, where the logarithm has none. All of it is float64.

A family that says nothing of torch is asked by NumPy: the numbers are the same, and derivatives in its parameters or values
are refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flatpc._typing import Array
from flatpc.errors import FamilyError
from flatpc.families import asking
from flatpc.families.base import Family

Split = tuple[Tensor, Tensor]
_LARGEST = 300.0


def table(family: Family, parameters: Mapping[str, Tensor]) -> Split:
    """`[n, V + 1, K]`: densities of the V values, and 1 for a missing one, from parameters `[n, K, ...]`."""
    if family.follows("torch_table", "table"):
        p = family.torch_table(parameters)
    else:
        p = _asked(family, parameters, lambda own, _: family.table(own))
    p = p.transpose(1, 2)
    p = torch.cat([p, torch.ones_like(p[:, :1])], dim=1)
    size = torch.where(p > 0, p, 1.0).detach()
    return p / size, size.log()


def density(family: Family, parameters: Mapping[str, Tensor], x: Tensor) -> Split:
    """`[n, B, K]`: densities of `x [n, B]`, NaN being 1, from parameters `[n, K, ...]`."""
    seen = ~x.isnan()[..., None]
    if family.follows("torch_log_density", "log_density"):
        outside = _outside(family, x)[..., None]
        # A missing value stands at one that is allowed, so that no family is asked about a value outside its support.
        known = torch.where(seen & ~outside, x[..., None], _some_value(x, outside[..., 0]))
        # A subclass that changes the logarithm alone is asked for that.
        split = type(family).torch_density if family.follows("torch_density", "torch_log_density") else Family.torch_density
        mantissa, scale = split(family, {name: p[:, None] for name, p in parameters.items()}, known)
        mantissa = torch.where(outside, 0.0, mantissa)
        if mantissa.shape != (*x.shape, next(iter(parameters.values())).shape[1]) or mantissa.isnan().any():
            raise FamilyError(
                f"{type(family).__name__}.torch_log_density gave NaN, or an array of shape {tuple(mantissa.shape)}."
            )
    else:
        log = _asked(family, parameters, lambda own, values: _log_density(family, own, values), x)
        mantissa, scale = _split(log)
    return torch.where(seen, mantissa, 1.0), torch.where(seen, scale, 0.0)


def density_of_rows(family: Family, parameters: Mapping[str, Tensor], x: Tensor) -> Split:
    """`[n, B, K]`: densities of the known entries of `x [n, B, d]`, of a family over d variables; 1 where there are none."""
    if not family.follows("torch_log_density", "log_density"):
        log = _asked(family, parameters, lambda own, rows: asking.log_density(family, own, rows), x)
        return _split(log)
    mantissas, scales = [], []
    for n, rows in enumerate(x):
        own = {name: p[n : n + 1, None] for name, p in parameters.items()}
        mantissa = x.new_ones(len(rows), next(iter(parameters.values())).shape[1])
        scale = torch.zeros_like(mantissa)
        known, which = (~rows.detach().isnan()).unique(dim=0, return_inverse=True)
        for pattern, entries in enumerate(known):
            if entries.any():
                at = (which == pattern).nonzero()[:, 0]
                found = family.torch_log_density(own, rows[at][None, :, None])[0]
                m, s = _split(torch.where(_rows_outside(family, rows[at])[:, None], -torch.inf, found))
                mantissa, scale = mantissa.index_put((at,), m), scale.index_put((at,), s)
        mantissas.append(mantissa)
        scales.append(scale)
    return torch.stack(mantissas), torch.stack(scales)


def _split(log: Tensor) -> Split:
    """Densities from their logarithms."""
    possible = log.detach().isfinite()
    log = torch.where(possible, log, 0.0)
    return torch.where(possible, (log - log.detach()).exp(), 0.0), log.detach()


def _outside(family: Family, x: Tensor) -> Tensor:
    """`[n, B]`: values outside the support, which another input over the variable allows; native families have no such."""
    if family.native_formula is not None:
        return torch.zeros_like(x, dtype=torch.bool)
    return torch.from_numpy(family.outside(x.detach().cpu().numpy())).to(x.device)


def _rows_outside(family: Family, rows: Tensor) -> Tensor:
    """`[B]`: rows with a value outside the support."""
    if all(family.marginal_family(j).native_formula is not None for j in range(family.n_variables)):
        return rows.detach().isinf().any(dim=1)  # without NumPy, which transformations by torch.func can't follow
    return torch.from_numpy(asking.outside(family, rows.detach().cpu().numpy())).to(rows.device)


def _some_value(x: Tensor, outside: Tensor) -> Tensor:
    """`[n, 1, 1]`: for each node one of its values that is neither missing nor `outside`; 0 where there is none."""
    fine = ~x.isnan() & ~outside
    first = fine.double().argmax(dim=1, keepdim=True)
    return torch.where(fine.any(1, keepdim=True), x.detach().gather(1, first), 0.0)[..., None]


def _log_density(family: Family, parameters: dict[str, Array], x: Array) -> Array:
    """`[B, K]`; each distinct value asked once."""
    distinct, where = np.unique(x, return_inverse=True)
    return asking.log_density(family, parameters, distinct)[where]


def _asked(family: Family, parameters: Mapping[str, Tensor], ask: Callable[..., Array], x: Tensor | None = None) -> Tensor:
    """What `ask(parameters, values)` says of each of n nodes, `[n, ...]`."""
    asked: Tensor = _Asked.apply(family, ask, tuple(parameters), x, *parameters.values())  # type: ignore[no-untyped-call]
    return asked


class _Asked(torch.autograd.Function):
    """Numbers that NumPy computes, which have no derivatives."""

    @staticmethod
    def forward(ctx: Any, family: Family, ask: Callable[..., Array], names: tuple[str, ...], x: Any, *values: Tensor) -> Tensor:
        ctx.family = family
        arrays = [value.detach().cpu().numpy() for value in values]
        rows = [None] * len(arrays[0]) if x is None else x.detach().cpu().numpy()
        found = [ask({name: a[n] for name, a in zip(names, arrays, strict=True)}, row) for n, row in enumerate(rows)]
        return torch.from_numpy(np.stack(found)).to(values[0].device)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        kind = type(ctx.family).__name__
        raise FamilyError(
            f"{kind} has no derivatives by torch; define `torch_log_density` (or `torch_table`) in class {kind}, or ask for "
            f"derivatives in the weights only."
        )


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
    """Statistics as in `flatpc.families`, for `x [n, B]` (or `[n, B, d]`) and `flow [n, B, K]`; each result is `[n, ...]`."""
    if family.is_table:
        return {"counts": _counts(table_index(family, x), flow, n_values(family))}
    flow = flow.double()
    if family.n_variables == 1 and family.follows("torch_statistics", "statistics"):
        outside = _outside(family, x)
        seen = ~x.isnan() & ~outside
        known = torch.where(seen, x, _some_value(x, outside)[..., 0])
        return family.torch_statistics(parameters, known, torch.where(seen[..., None], flow, 0.0))
    arrays = {name: p.detach().cpu().numpy() for name, p in parameters.items()}
    rows, flows = x.detach().cpu().numpy(), flow.detach().cpu().numpy()
    found: dict[str, list[Array]] = {}
    for n, row in enumerate(rows):
        each = asking.statistics(family, {name: a[n] for name, a in arrays.items()}, row, flows[n])
        for name, value in each.items():
            found.setdefault(name, []).append(value)
    return {name: torch.from_numpy(np.stack(values)).to(x.device) for name, values in found.items()}


def lookup(family: Family, tables: list[Tensor], x: Tensor) -> list[Tensor]:
    """For each of `tables [n, V + 1, ...]` the entries of `x [n, B]`: `[n, B, ...]`."""
    value = table_index(family, x)
    n, size = len(x), tables[0].shape[1]
    flat = (value + size * torch.arange(n, device=x.device)[:, None]).flatten()
    return [t.flatten(0, 1).index_select(0, flat).view(*x.shape, *t.shape[2:]) for t in tables]


def n_values(family: Family) -> int:
    """Of a family that is a table."""
    n = family.n_categories
    assert n is not None
    return n


def table_index(family: Family, x: Tensor) -> Tensor:
    """Row of the table for each value; a missing one has the last row."""
    return torch.where(x.isnan(), float(n_values(family)), x).long()


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
