"""Folded layers: one group of equal nodes each, evaluated with batched operations.

A layer knows three things:

- `shared`: values as `v · exp(s)` with entries `v [n, B, K]` of at most about 1 and *one* scale `s [n, B]` per node
  and row. It is fast, but entries far below the largest one underflow. `e [n, B]` bounds what may have been lost: every
  entry's true value is within `e` of `v`; where all entries are certainly 0, `e` is -inf. Whether a loss matters is
  decided at the root (`torch_circuit`).
- `separate`: values as `v · exp(s)` with a scale for every unit, `s [n, B, K]`. Nothing is lost; a sum costs one
  exponential per edge.
- `flow`: passes the flow of a group on to its children, after `shared`.

Scales are detached everywhere. A value doesn't depend on how it is split, so derivatives through `v` alone are exact,
to any order, also where a value or a weight is 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from flatpc.circuit.nodes import Input, Sum
from flatpc.engine.torch import inputs as torch_inputs
from flatpc.engine.torch.layout import Gather, Group, Take, Taking
from flatpc.engine.torch.products import multiply
from flatpc.families.base import Family

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

Parameters = Mapping[int, Any]
_LARGEST = {torch.float32: 80.0, torch.float64: 300.0}
_MOST_LOST = 1e200


@dataclass
class State:
    """Values of all groups so far, in the order of the groups."""

    dtype: torch.dtype
    narrow: torch.dtype | None = None
    """Of matrix products, if they are in another precision (`products.py`)."""
    plan: Taking | None = None
    """Which rows groups work on, if not all."""
    v: list[Tensor] = field(default_factory=list)
    s: list[Tensor] = field(default_factory=list)
    e: list[Tensor] = field(default_factory=list)
    inner: dict[int, Tensor] = field(default_factory=dict)
    """What a sum or mixture multiplied with its weights, kept for the flows."""
    use: dict[int, Tensor] = field(default_factory=dict)
    """For `separate`: ones that a group's edges are multiplied by; derivatives in them are the flows of the edges."""
    faint: list[Tensor] = field(default_factory=list)
    """`[B]`, for each product: rows in which it is 0 at a scale far from its children's, where derivatives would be lost."""

    @property
    def tiny(self) -> float:
        return torch.finfo(self.dtype).tiny

    def losses(self, v: Tensor, e: Tensor, n_terms: int = 1) -> Tensor:
        """`e`, and what entries `v`, sums of `n_terms` products, may have lost in addition."""
        # Next to an entry above this bound a term that underflowed is no more than a rounding error.
        low = v.detach().amin(-1) < self.tiny / torch.finfo(self.dtype).eps
        return e + low.double() * (n_terms * self.tiny)

    def takes(self, usual: Sequence[Take], g: int | None = None) -> Sequence[Gather]:
        """How the next layer, or that of group `g`, gathers from its children: the usual way, unless some are shared."""
        return usual if self.plan is None else self.plan.takes[len(self.v) if g is None else g]

    def rows(self, x: Tensor) -> Tensor:
        """Of `[n, B]`, what the next layer works on."""
        return x if self.plan is None else self.plan.rows(len(self.v), x)

    def append(self, v: Tensor, s: Tensor, e: Tensor | None = None) -> None:
        self.v.append(v)
        self.s.append(s)
        if e is not None:
            self.e.append(e)


class Layer(Protocol):
    """One group of nodes."""

    nodes: tuple[int, ...]
    """-1 for a stage of a wide product."""
    width: int
    takes: Sequence[Take]
    """Where the children are, in the order in which flow goes down to them."""

    def stack(self, parameters: Parameters) -> Any:
        """The nodes' parameters side by side, in the form that the other methods take."""

    def shared(self, state: State, X: Tensor, stacked: Any) -> None: ...

    def separate(self, state: State, X: Tensor, stacked: Any) -> None: ...

    def flow(self, state: State, flows: list[Tensor], g: int, stacked: Any) -> Tensor | None:
        """Adds to the children's flows; returns the derivative by the weights, summed over rows, if there are any."""

    def largest(self) -> int:
        """Numbers per row in the largest tensor that `separate` makes."""


def build(circuit: Circuit, group: Group, device: torch.device) -> Layer:
    """The layer for a group."""
    kinds: dict[str, Any] = {"hadamard": Hadamard, "kronecker": Kronecker, "sum": SumLayer, "mixture": MixtureLayer}
    if group.kind == "input":
        return InputLayer(circuit, group, device)
    layer: Layer = kinds[group.kind](circuit, group, device)
    return layer


def _rescale(state: State, v: Tensor, s: Tensor, e: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Make the largest entry of each row 1. A row of zeros moves what it may have lost into its scale."""
    top = v.detach().amax(-1)
    dead, lossy = top == 0, e > 0
    state.faint.append((dead & lossy).any(0))
    top = top.masked_fill(dead, 1.0)
    v = v / top[..., None] if torch.is_grad_enabled() else v.div_(top[..., None])
    wide = top.double()
    s = s + torch.where(dead & lossy, e, wide).log()
    e = torch.where(dead, torch.where(lossy, 1.0, -torch.inf), (e / wide).clamp(max=_MOST_LOST))
    return v, s, e


class InputLayer:
    """Inputs of one family and width."""

    takes: Sequence[Take] = ()

    def __init__(self, circuit: Circuit, group: Group, device: torch.device) -> None:
        first = circuit.nodes[group.nodes[0]]
        assert isinstance(first, Input)
        self.nodes = group.nodes
        self.family: Family = first.family
        self.width = first.width
        self.owners = [circuit.owners[i] for i in group.nodes]
        variables = [node.columns for node in (circuit.nodes[i] for i in group.nodes) if isinstance(node, Input)]
        self.variables = torch.tensor(variables, device=device)

    def stack(self, parameters: Parameters) -> dict[str, Tensor]:
        return {name: torch.stack([parameters[o][name].double() for o in self.owners]) for name in self.family.names}

    def rows(self, X: Tensor) -> Tensor:
        """`[n, B]`: each node's column; `[n, B, d]` of a family over several variables."""
        if self.variables.ndim == 1:
            return X.t().index_select(0, self.variables)
        return X[:, self.variables].transpose(0, 1)

    def density(self, x: Tensor, stacked: dict[str, Tensor]) -> torch_inputs.Split:
        """Of the nodes' columns."""
        if self.family.n_variables == 1:
            return torch_inputs.density(self.family, stacked, x)
        return torch_inputs.density_of_rows(self.family, stacked, x)

    def shared(self, state: State, X: Tensor, stacked: dict[str, Tensor]) -> None:
        x = state.rows(self.rows(X))
        if self.family.is_table:
            split = torch_inputs.table(self.family, stacked)
            v, s, e = torch_inputs.lookup(self.family, list(torch_inputs.one_scale(split, state.dtype)), x)
        else:
            v, s, e = torch_inputs.one_scale(self.density(x, stacked), state.dtype)
        state.append(v, s, e)

    def separate(self, state: State, X: Tensor, stacked: dict[str, Tensor]) -> None:
        x = self.rows(X)
        if self.family.is_table:
            v, s = torch_inputs.lookup(self.family, list(torch_inputs.table(self.family, stacked)), x)
        else:
            v, s = self.density(x, stacked)
        state.append(v, s)

    def flow(self, state: State, flows: list[Tensor], g: int, stacked: dict[str, Tensor]) -> None:
        return None

    def largest(self) -> int:
        return len(self.nodes) * self.width


class Hadamard:
    """Entry-wise products. Nodes come with most children first, so the t-th children belong to the first n_t nodes."""

    def __init__(self, circuit: Circuit, group: Group, device: torch.device) -> None:
        self.nodes = group.nodes
        self.width = group.width
        self.counts: list[int] = []
        self.takes: Sequence[Take] = []
        for t in range(len(group.children[0])):
            places = [children[t] for children in group.children if len(children) > t]
            self.counts.append(len(places))
            self.takes.append(Take(places, device))

    def stack(self, parameters: Parameters) -> None:
        return None

    def shared(self, state: State, X: Tensor, stacked: None) -> None:
        takes = state.takes(self.takes)
        v, s, e = (takes[0](part) for part in (state.v, state.s, state.e))
        if not torch.is_grad_enabled():
            if takes[0].gives_views:
                v, s, e = v.clone(), s.clone(), e.clone()
            for n, take in zip(self.counts[1:], takes[1:], strict=True):
                v[:n] *= take(state.v)
                s[:n] += take(state.s)
                e[:n] += take(state.e)
            state.append(*_rescale(state, v, s, state.losses(v, e)))
            return
        done: list[tuple[Tensor, Tensor, Tensor]] = []
        for t in range(1, len(self.takes)):
            n = self.counts[t]
            if n < len(v):
                done.append((v[n:], s[n:], e[n:]))
            a, b, c = (self.takes[t](part) for part in (state.v, state.s, state.e))
            v, s, e = v[:n] * a, s[:n] + b, e[:n] + c
        if done:
            done.append((v, s, e))
            v, s, e = (torch.cat(parts) for parts in zip(*reversed(done), strict=True))
        elif len(self.takes) == 1:
            v = v.clone()
        state.append(*_rescale(state, v, s, state.losses(v, e)))

    def separate(self, state: State, X: Tensor, stacked: None) -> None:
        v, s = self.takes[0](state.v), self.takes[0](state.s)
        for t in range(1, len(self.takes)):
            n = self.counts[t]
            v = torch.cat([v[:n] * self.takes[t](state.v), v[n:]])
            s = torch.cat([s[:n] + self.takes[t](state.s), s[n:]])
        state.append(v, s)

    def flow(self, state: State, flows: list[Tensor], g: int, stacked: None) -> None:
        for n, take in zip(self.counts, state.takes(self.takes, g), strict=True):
            take.add(flows, flows[g][:n])

    def largest(self) -> int:
        return len(self.nodes) * self.width


class Kronecker:
    """All products of one unit from each child; the last child's unit runs fastest."""

    def __init__(self, circuit: Circuit, group: Group, device: torch.device) -> None:
        self.nodes = group.nodes
        self.width = group.width
        self.takes: Sequence[Take] = _takes_by_child(group, device)
        self.widths = _child_widths(circuit, group)

    def stack(self, parameters: Parameters) -> None:
        return None

    def shared(self, state: State, X: Tensor, stacked: None) -> None:
        takes = state.takes(self.takes)
        v, s, e = (takes[0](part) for part in (state.v, state.s, state.e))
        if len(takes) == 1:
            v = v.clone()
        for take in takes[1:]:
            v = (v[..., :, None] * take(state.v)[..., None, :]).flatten(-2)
            s, e = s + take(state.s), e + take(state.e)
        state.append(*_rescale(state, v, s, state.losses(v, e)))

    def separate(self, state: State, X: Tensor, stacked: None) -> None:
        v, s = self.takes[0](state.v), self.takes[0](state.s)
        for take in self.takes[1:]:
            v = (v[..., :, None] * take(state.v)[..., None, :]).flatten(-2)
            s = (s[..., :, None] + take(state.s)[..., None, :]).flatten(-2)
        state.append(v, s)

    def flow(self, state: State, flows: list[Tensor], g: int, stacked: None) -> None:
        grid = flows[g].view(*flows[g].shape[:2], *self.widths)
        axes = range(2, 2 + len(self.widths))
        for axis, take in zip(axes, state.takes(self.takes, g), strict=True):
            others = [a for a in axes if a != axis]
            take.add(flows, grid.sum(others) if others else grid)

    def largest(self) -> int:
        return len(self.nodes) * self.width


class _Weighted:
    """What sums and mixtures share: stacked weights, zero where a mask removes the edge."""

    def __init__(self, circuit: Circuit, group: Group, device: torch.device) -> None:
        self.nodes = group.nodes
        self.width = group.width
        self.takes: Sequence[Take] = _takes_by_child(group, device)
        self.widths = _child_widths(circuit, group)
        self.owners = [circuit.owners[i] for i in group.nodes]
        masks = [node.mask if isinstance(node, Sum) else None for node in (circuit.nodes[i] for i in group.nodes)]
        self.mask: Tensor | None = None
        if any(mask is not None for mask in masks):
            all_edges = torch.ones(circuit.weight_shape(group.nodes[0]), dtype=torch.bool)
            kept = [all_edges if mask is None else torch.tensor(mask) for mask in masks]
            self.mask = torch.stack(kept).to(device)

    def stack(self, parameters: Parameters) -> Tensor:
        return self.masked(torch.stack([parameters[o] for o in self.owners]))

    def masked(self, weights: Tensor) -> Tensor:
        """The weights `[n, units, edges]`, those of edges that there are."""
        return weights if self.mask is None else weights * self.mask

    def align(self, state: State) -> tuple[list[Tensor], Tensor, Tensor]:
        """The children's entries at one scale, that scale, and what they may have lost."""
        takes = state.takes(self.takes)
        if len(takes) == 1:
            take = takes[0]
            return [take(state.v)], take(state.s), take(state.e)
        s = torch.stack([take(state.s) for take in takes])
        e = torch.stack([take(state.e) for take in takes])
        dead = e < 0
        top = torch.where(dead, -torch.inf, s).amax(0)
        top = torch.where(top.isfinite(), top, s.amax(0))
        factor = torch.exp((s - top).clamp(max=_LARGEST[state.dtype]))
        narrow = factor.to(state.dtype)[..., None]
        e = torch.where(dead, -torch.inf, e * factor).amax(0)
        return [take(state.v) * f for take, f in zip(takes, narrow, strict=True)], top, e


class SumLayer(_Weighted):
    """`W · concat(children)` as one batched matrix product."""

    def shared(self, state: State, X: Tensor, stacked: Tensor) -> None:
        parts, s, e = self.align(state)
        inner = parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)
        state.inner[len(state.v)] = inner
        v = multiply(inner, stacked.transpose(1, 2), state.narrow)
        state.append(v, s, state.losses(v, e, inner.shape[-1]))

    def separate(self, state: State, X: Tensor, stacked: Tensor) -> None:
        v = torch.cat([take(state.v) for take in self.takes], dim=-1)
        s = torch.cat([take(state.s) for take in self.takes], dim=-1)
        w, use = stacked[:, None], state.use.get(len(state.v))
        state.append(*_separate_sum(v[:, :, None, :], s[:, :, None, :], w, use))

    def flow(self, state: State, flows: list[Tensor], g: int, stacked: Tensor) -> Tensor:
        inner = state.inner[g]
        ratio = flows[g] / _positive(state, g)
        down = multiply(ratio, stacked, state.narrow).mul_(inner)
        for take, piece in zip(state.takes(self.takes, g), torch.split(down, self.widths, dim=-1), strict=True):
            take.add(flows, piece)
        return multiply(ratio.transpose(1, 2), inner, state.narrow)

    def largest(self) -> int:
        return len(self.nodes) * self.width * sum(self.widths)


class MixtureLayer(_Weighted):
    """`Σ_c w[k, c] · child_c[k]`, entry by entry."""

    def shared(self, state: State, X: Tensor, stacked: Tensor) -> None:
        parts, s, e = self.align(state)
        inner = torch.stack(parts, dim=-1)
        state.inner[len(state.v)] = inner
        v = (inner * stacked[:, None]).sum(-1)
        state.append(v, s, state.losses(v, e, inner.shape[-1]))

    def separate(self, state: State, X: Tensor, stacked: Tensor) -> None:
        v = torch.stack([take(state.v) for take in self.takes], dim=-1)
        s = torch.stack([take(state.s) for take in self.takes], dim=-1)
        state.append(*_separate_sum(v, s, stacked[:, None], state.use.get(len(state.v))))

    def flow(self, state: State, flows: list[Tensor], g: int, stacked: Tensor) -> Tensor:
        ratio = flows[g] / _positive(state, g)
        edges = ratio[..., None] * state.inner[g]
        for c, take in enumerate(state.takes(self.takes, g)):
            take.add(flows, edges[..., c] * stacked[:, None, :, c])
        return edges.sum(1)

    def largest(self) -> int:
        return len(self.nodes) * self.width * len(self.widths)


def _positive(state: State, g: int) -> Tensor:
    """The group's values, for its flow to be divided by. A unit of value 0 has no flow: there, any number will do."""
    # In place: parents, which may look at these values too, have passed on their flow already.
    return state.v[g].clamp_(min=state.tiny)


def _separate_sum(v: Tensor, s: Tensor, w: Tensor, use: Tensor | None) -> tuple[Tensor, Tensor]:
    """`Σ w · v · exp(s)` over the last axis, split again so that what is positive is 1 times a scale."""
    counts = (v.detach() > 0) & (w.detach() > 0)
    top = _largest(counts, s)
    s = s - top[..., None]
    if not w.requires_grad:
        # Weights go into the scale: products with the smallest ones would lose digits, and quotients be infinite.
        s, w = s + torch.where(w > 0, w, 1.0).log(), (w > 0).double()
        more = _largest(counts, s)
        s, top = s - more[..., None], top + more
    if use is not None:
        w = w * use[:, None]
    y = (w * v * torch.exp(s.clamp(max=_LARGEST[torch.float64]))).sum(-1)
    size = torch.where(y > 0, y, 1.0).detach()
    return y / size, top + size.log()


def _largest(counts: Tensor, s: Tensor) -> Tensor:
    """The largest scale of a unit's terms. One that is 0 still has derivatives; they are taken at the largest of all."""
    top = torch.where(counts, s, -torch.inf).amax(-1)
    return torch.where(top.isfinite(), top, s.amax(-1))


def _takes_by_child(group: Group, device: torch.device) -> list[Take]:
    return [Take(places, device) for places in zip(*group.children, strict=True)]


def _child_widths(circuit: Circuit, group: Group) -> list[int]:
    node = circuit.nodes[group.nodes[0]]
    assert not isinstance(node, Input)
    return [circuit.widths[c] for c in node.children]
