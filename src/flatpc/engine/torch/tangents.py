"""The sharpness penalty of a batch and its gradient on folded layers, by one more pass up and one down.

The penalty of a row is R = Σ g², g = ∂ log p / ∂θ over all weights, and ∇R = 2 H g: how the gradient changes along itself. With
p_n a node's value and a_n = ∂ log p / ∂p_n, the weight of edge n → c has g = a_n p_c, and along g

    up      ṗ_n = Σ_c θ_nc ṗ_c + a_n Σ_c p_c²        (products by the product rule; inputs don't change)
    down    ȧ_c = Σ_n θ_nc ȧ_n + p_c Σ_n a_n²        (the root's is -ṗ / p²)
    ∇R      2 (ȧ_n p_c + a_n ṗ_c) for a weight, and 2 ȧ_i p_i for the logarithm of an input's unit.

Nothing is kept per edge and row, and no graph is differentiated. Values have one scale per node and row, as in `layers.py`:
p = v · exp(s), a = α · exp(-s), ṗ = τ · exp(s), ȧ = β · exp(-s).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from flatpc.engine.torch.layers import Hadamard, InputLayer, Kronecker, MixtureLayer, State, SumLayer
from flatpc.engine.torch.module import TorchCircuit

Dual = tuple[Tensor, Tensor]
"""A number and its tangent."""


@dataclass
class Penalty:
    """Of a block of rows."""

    values: Tensor
    """`[B]`: R of every row, 0 where it is unsettled."""
    gradients: dict[int, Tensor]
    """Group -> gradient of Σ R in its weights, `[n, units, edges]`."""
    flows: dict[int, Tensor]
    """Group of inputs -> ∂R / ∂ log p of every unit, `[n, B, K]`."""
    settled: Tensor
    """`[B]`: rows that one scale per node is enough for, and that have probability."""


@torch.no_grad()
def penalty(net: TorchCircuit, X: Tensor, counts: Tensor, stacked: list[Any]) -> Penalty:
    """R and its gradients, rows counting as often as `counts [B]` says; in float64."""
    state = net.shared(X, stacked, torch.float64)
    root = state.v[-1][0, :, 0]
    settled = ~net.unsure(state) & (root > 0)
    if state.faint:
        settled &= ~torch.stack(state.faint).any(0)
    passes = _Passes(net, state, stacked)
    passes.down(torch.where(settled, 1.0 / root.clamp(min=state.tiny), 0.0))
    values = passes.up()
    gradients, flows = passes.back(torch.where(settled, counts, 0.0))
    return Penalty(torch.where(settled, values, 0.0), gradients, flows, settled)


class _Passes:
    """The three passes after the values."""

    def __init__(self, net: TorchCircuit, state: State, stacked: list[Any]) -> None:
        self.layers, self.state, self.stacked = net.layers, state, stacked
        self.a = [torch.zeros_like(v) for v in state.v]
        self.t = [torch.zeros_like(v) for v in state.v]
        self.b = [torch.zeros_like(v) for v in state.v]

    def down(self, root: Tensor) -> None:
        """α of every unit; `root [B]` is that of the root."""
        self.a[-1][0, :, 0] = root
        for g in reversed(range(len(self.layers))):
            layer, a = self.layers[g], self.a[g]
            if isinstance(layer, Hadamard | Kronecker):
                self._product_down(layer, g, None)
            elif isinstance(layer, SumLayer):
                self._pass_on(layer, g, self.a, torch.split(torch.bmm(a, self.stacked[g]), layer.widths, dim=-1))
            elif isinstance(layer, MixtureLayer):
                self._pass_on(layer, g, self.a, (a[..., None] * self.stacked[g][:, None]).unbind(-1))

    def up(self) -> Tensor:
        """τ of every unit; R of every row."""
        value = torch.zeros_like(self.a[-1][0, :, 0])
        for g, layer in enumerate(self.layers):
            if isinstance(layer, Hadamard | Kronecker):
                self.t[g] = self._product(layer, g)
            elif isinstance(layer, SumLayer):
                squares = self._squares(layer, g)
                value += (self.a[g] * squares).sum((0, 2))
                self.t[g] = torch.bmm(self._inner(layer, self.t, g), self.stacked[g].transpose(1, 2)) + squares
            elif isinstance(layer, MixtureLayer):
                squares = self._squares(layer, g)
                value += (self.a[g] * squares).sum((0, 2))
                self.t[g] = (self._inner(layer, self.t, g) * self.stacked[g][:, None]).sum(-1) + squares
        return value

    def back(self, counts: Tensor) -> tuple[dict[int, Tensor], dict[int, Tensor]]:
        """β of every unit, and what it makes of weights and inputs."""
        top, last = self.state.v[-1][0, :, 0], self.a[-1][0, :, 0]
        self.b[-1][0, :, 0] = -self.t[-1][0, :, 0] * last / top.clamp(min=self.state.tiny)
        gradients: dict[int, Tensor] = {}
        flows: dict[int, Tensor] = {}
        twice = 2.0 * counts[:, None]
        for g in reversed(range(len(self.layers))):
            layer, a, b = self.layers[g], self.a[g], self.b[g]
            if isinstance(layer, InputLayer):
                flows[g] = twice * b * self.state.v[g]
            elif isinstance(layer, Hadamard | Kronecker):
                self._product_down(layer, g, b)
            elif isinstance(layer, SumLayer):
                inner, tangent = self.state.inner[g], self._inner(layer, self.t, g)
                gradients[g] = torch.bmm((twice * b).transpose(1, 2), inner) + torch.bmm((twice * a).transpose(1, 2), tangent)
                squares = a.square().sum(-1, keepdim=True) if layer.mask is None else torch.bmm(a.square(), layer.mask.double())
                below = torch.bmm(b, self.stacked[g]) + inner * squares
                self._pass_on(layer, g, self.b, torch.split(below, layer.widths, dim=-1))
            elif isinstance(layer, MixtureLayer):
                inner, tangent = self.state.inner[g], self._inner(layer, self.t, g)
                gradients[g] = ((twice * b)[..., None] * inner + (twice * a)[..., None] * tangent).sum(1)
                below = b[..., None] * self.stacked[g][:, None] + a.square()[..., None] * inner
                self._pass_on(layer, g, self.b, below.unbind(-1))
            if g in gradients and isinstance(layer, SumLayer) and layer.mask is not None:
                gradients[g] = gradients[g] * layer.mask
        return gradients, flows

    # ---- sums ------------------------------------------------------------------------------------------------------

    def _factors(self, layer: SumLayer | MixtureLayer, g: int) -> list[Tensor]:
        """For each child `[n, B, 1]`: what its scale is in units of the sum's."""
        if len(layer.takes) == 1:
            return [torch.ones_like(self.state.s[g])[..., None]]
        return [torch.exp((take(self.state.s) - self.state.s[g]).clamp(max=300.0))[..., None] for take in layer.takes]

    def _inner(self, layer: SumLayer | MixtureLayer, of: list[Tensor], g: int) -> Tensor:
        """The children's numbers at the sum's scale, side by side as its weights are."""
        parts = [take(of) * f for take, f in zip(layer.takes, self._factors(layer, g), strict=True)]
        return torch.cat(parts, dim=-1) if isinstance(layer, SumLayer) else torch.stack(parts, dim=-1)

    def _squares(self, layer: SumLayer | MixtureLayer, g: int) -> Tensor:
        """`[n, B, K]`: a_n Σ_c p_c², over the edges that there are."""
        squared = self.state.inner[g].square()
        if isinstance(layer, MixtureLayer):
            return self.a[g] * squared.sum(-1)
        if layer.mask is None:
            return self.a[g] * squared.sum(-1, keepdim=True)
        return self.a[g] * torch.bmm(squared, layer.mask.double().transpose(1, 2))

    def _pass_on(self, layer: SumLayer | MixtureLayer, g: int, to: list[Tensor], parts: tuple[Tensor, ...]) -> None:
        for take, part, factor in zip(layer.takes, parts, self._factors(layer, g), strict=True):
            take.add(to, part * factor)

    # ---- products --------------------------------------------------------------------------------------------------

    def _duals(self, layer: Hadamard | Kronecker) -> list[Dual]:
        return [(take(self.state.v), take(self.t)) for take in layer.takes]

    def _top(self, layer: Hadamard | Kronecker, g: int) -> Tensor:
        """`[n, B, 1]`: what the product of the children's entries was divided by, from the scales."""
        counts = layer.counts if isinstance(layer, Hadamard) else [len(layer.nodes)] * len(layer.takes)
        together = torch.zeros_like(self.state.s[g])
        for n, take in zip(counts, layer.takes, strict=True):
            together[:n] += take(self.state.s)
        return torch.exp(self.state.s[g] - together)[..., None]

    def _product(self, layer: Hadamard | Kronecker, g: int) -> Tensor:
        """τ of products."""
        first, *rest = self._duals(layer)
        total = first
        for place, other in enumerate(rest, start=1):
            total = _times(layer, total, other, place)
        return total[1] / self._top(layer, g)

    def _product_down(self, layer: Hadamard | Kronecker, g: int, b: Tensor | None) -> None:
        """α of the factors of products, or with `b`, their β."""
        duals = self._duals(layer)
        top = self._top(layer, g)
        above = (self.a[g] / top, torch.zeros_like(self.a[g]) if b is None else b / top)
        for place, take in enumerate(layer.takes):
            real, tangent = _others(layer, duals, place, above)
            take.add(self.a if b is None else self.b, real if b is None else tangent)


def _times(layer: Hadamard | Kronecker, left: Dual, right: Dual, place: int) -> Dual:
    """Entry by entry, or all pairs; of entry-wise products only the first so many nodes have a factor at this place."""
    if isinstance(layer, Kronecker):
        return (
            (left[0][..., :, None] * right[0][..., None, :]).flatten(-2),
            (left[1][..., :, None] * right[0][..., None, :] + left[0][..., :, None] * right[1][..., None, :]).flatten(-2),
        )
    n = layer.counts[place]
    value = torch.cat([left[0][:n] * right[0], left[0][n:]])
    return value, torch.cat([left[1][:n] * right[0] + left[0][:n] * right[1], left[1][n:]])


def _others(layer: Hadamard | Kronecker, duals: list[Dual], place: int, above: Dual) -> Dual:
    """What comes down to the factor at one place: the product of all others, times what comes from above."""
    if isinstance(layer, Hadamard):
        n = layer.counts[place]
        real, tangent = above[0][:n], above[1][:n]
        for other, (value, change) in enumerate(duals):
            if other != place:
                m = min(n, layer.counts[other])
                tangent = torch.cat([tangent[:m] * value[:m] + real[:m] * change[:m], tangent[m:]])
                real = torch.cat([real[:m] * value[:m], real[m:]])
        return real, tangent
    shape = (*above[0].shape[:2], *layer.widths)
    real, tangent = above[0].reshape(shape), above[1].reshape(shape)
    for other, (value, change) in enumerate(duals):
        if other != place:
            size = [1] * len(layer.widths)
            size[other] = layer.widths[other]
            v, c = (part.reshape(*part.shape[:2], *size) for part in (value, change))
            real, tangent = (real * v).sum(2 + other, keepdim=True), (tangent * v + real * c).sum(2 + other, keepdim=True)
    return real.flatten(2), tangent.flatten(2)
