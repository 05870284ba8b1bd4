"""Derivatives of log p, and of p, in numbers that no row is out of range of (`wide_numbers.py`).

The native passes work in float64, and say where it was too narrow: rows far outside the model, weights of 1e-200, large squared
gradients. Those are done here, node by node, to float64's precision.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from flatpc._typing import Array, Ints
from flatpc.circuit.nodes import Input, Mixture, Product, Sum
from flatpc.curvature import spaces
from flatpc.curvature.layout import Layout
from flatpc.curvature.wide_numbers import Wide, concatenate, stack, zeros
from flatpc.families import asking

if TYPE_CHECKING:
    from flatpc.families.base import Statistics

_NUMBERS = 1 << 20
"""Numbers of the largest array that a block of rows and directions makes."""
_LARGEST_CHANGE = 1e150
"""Of a flow, in statistics of inputs, which are multiplied by squared values of rows and must stay finite."""


@dataclass(frozen=True)
class Dual:
    """Values `[N, ...]` and their tangents `[D, N, ...]`."""

    value: Wide
    tangent: Wide

    def __mul__(self, other: Dual) -> Dual:
        return Dual(self.value * other.value, self.tangent * other.value + self.value * other.tangent)

    def __add__(self, other: Dual) -> Dual:
        return Dual(self.value + other.value, self.tangent + other.tangent)

    def __getitem__(self, where: Any) -> Dual:
        """Of all rows and directions; `where` are the axes after them."""
        where = where if isinstance(where, tuple) else (where,)
        return Dual(self.value[(slice(None), *where)], self.tangent[(slice(None), slice(None), *where)])

    def sum(self, axis: int) -> Dual:
        """Along one of the last axes, counted from the end."""
        return Dual(self.value.sum(axis), self.tangent.sum(axis))


class WidePasses:
    """Derivatives at given parameters, in the order of a layout."""

    def __init__(self, layout: Layout, parameters: Mapping[int, Any] | None = None) -> None:
        """`parameters` of the owning nodes, as the circuit has them; by default the circuit's own."""
        self.layout = layout
        self.circuit = layout.circuit
        self._parameters: Mapping[int, Any] = self.circuit.parameters if parameters is None else parameters
        self._part = dict(zip(layout.shapes, zip(layout.starts[:-1], layout.starts[1:], strict=True), strict=True))
        self._weights = {i: Wide.of(a) for i, a in layout.tables(self._parameters).items()}
        self._exists = Wide.of(layout.exists)
        self.theta = concatenate([w.reshape(-1) for w in self._weights.values()], 0) if self._weights else zeros((0,))

    # ---- what is asked of them ------------------------------------------------------------------------------------------

    def row_gradients(self, X: Array) -> Wide:
        """`[N, P]`: ∂ log p / ∂θ of every row; 0 for a row of probability 0."""
        found = [self._descend(X[rows], self._rise(X[rows], self._still), log=True)[0].value for rows in self._blocks(X, 1)]
        return concatenate(found, 0)

    def gradient(self, X: Array, counts: Array | None = None, *, log: bool = True) -> Wide:
        """`[P]`: Σ ∂ log p / ∂θ, rows counted as often as `counts` says; of p itself if not `log`."""
        out = zeros((self.layout.size,))
        for rows in self._blocks(X, 1):
            found = self._descend(X[rows], self._rise(X[rows], self._still), log=log)[0].value
            out = out + (found * _column(counts, rows)).sum(0)
        return out

    def products(self, X: Array, directions: Wide, counts: Array | None = None, *, log: bool = True) -> Wide:
        """`[D, P]`: Σ H·v for each of `directions [D, P]`."""
        out = []
        n = max(1, _NUMBERS // self._largest)
        for start in range(0, len(directions.mantissa), n):
            some = directions[start : start + n]
            total = zeros(some.shape)
            for rows in self._blocks(X, len(some.mantissa)):
                moved = self._rise(X[rows], some[:, None] * self._exists)
                found = self._descend(X[rows], moved, some[:, None] * self._exists, log=log)[0].tangent
                total = total + (found * _column(counts, rows)).sum(1)
            out.append(total)
        return concatenate(out, 0)

    def products_by_row(self, X: Array, directions: Wide, counts: Array | None = None) -> tuple[Wide, dict[int, Statistics]]:
        """`[P]`: Σ H_x·v_x, a direction `[N, P]` for each row; and how statistics of inputs change (`penalty`)."""
        out = zeros((self.layout.size,))
        statistics: dict[int, Statistics] = {}
        for rows in self._blocks(X, 1):
            direction = directions[rows][None] * self._exists
            found, inputs = self._descend(X[rows], self._rise(X[rows], direction), direction, log=True)
            out = out + (found.tangent[0] * _column(counts, rows)).sum(0)
            for i, change in inputs.items():
                flow = (change * _column(counts, rows)).to_float()
                self._add_statistics(statistics, i, X[rows], np.clip(flow, -_LARGEST_CHANGE, _LARGEST_CHANGE))
        return out, statistics

    def penalty(self, X: Array, space: str, counts: Array | None = None) -> tuple[Wide, Wide, dict[int, Statistics]]:
        """Σ over rows of the trace in `space`; its gradient `[P]` in θ (formulae in `penalty_directions.py`); and in inputs.

        The latter, unless inputs are among the θ, as sufficient statistics of each owner: weighted not by flow, but by what flow
        changes by.
        """
        layout, theta = self.layout, self.theta
        g = self.row_gradients(X)
        squares, times = spaces.squared(space, layout, theta, g), _column(counts, slice(None))
        value = (squares * times).sum(0)
        if space in ("weights", "simplex"):
            direction = (g if space == "weights" else spaces.project(layout, g)) * 2.0
            explicit = zeros(g.shape)
        else:
            b = 1.0 if space == "logits" else 0.0
            e = g - layout.row_sums(theta * g)
            kappa = layout.row_sums(theta * theta * (e + b))
            direction = theta * (theta * (e + b) - kappa) * 2.0
            explicit = (theta * e * (e + 2.0 * b) - g * kappa) * 2.0
        product, statistics = self.products_by_row(X, direction, counts)
        total = value.sum(0) if layout.size else Wide.of(0.0)
        return total, layout.existing(product + (explicit * times).sum(0)), statistics

    # ---- passes -----------------------------------------------------------------------------------------------------------

    @property
    def _still(self) -> Wide:
        return zeros((1, 1, self.layout.size))

    @property
    def _largest(self) -> int:
        blocks = [int(np.prod(self.circuit.weight_shape(i))) for i in self._weights if not self._is_input(i)]
        return max([sum(self.circuit.widths), self.layout.size, *blocks])

    def _blocks(self, X: Array, n_directions: int) -> Iterator[slice]:
        size = max(1, _NUMBERS // (n_directions * self._largest))
        for start in range(0, len(X), size):
            yield slice(start, start + size)

    def _is_input(self, i: int) -> bool:
        return isinstance(self.circuit.nodes[i], Input)

    def _of_node(self, i: int, vectors: Wide) -> Wide:
        """A node's part of vectors `[..., P]`, in the shape of its parameters."""
        owner = self.circuit.owners[i]
        start, end = self._part[owner]
        return vectors[..., start:end].reshape(*vectors.shape[:-1], *self.layout.shapes[owner])

    def _rise(self, X: Array, direction: Wide) -> list[Dual]:
        """Every node's values, and how they change in `direction [D, N or 1, P]`."""
        out: list[Dual] = []
        for i, node in enumerate(self.circuit.nodes):
            if isinstance(node, Input):
                out.append(self._input(i, X, direction))
            elif isinstance(node, Product):
                factors = self._factors(node, out)
                whole = factors[0]
                for factor in factors[1:]:
                    whole = whole * factor
                out.append(whole)
            else:
                out.append((self._below(node, out) * self._moving_weights(i, direction)).sum(-1))
        return out

    def _input(self, i: int, X: Array, direction: Wide) -> Dual:
        node, owner = self.circuit.nodes[i], self.circuit.owners[i]
        assert isinstance(node, Input)
        x = X[:, node.columns]
        if owner not in self._weights:
            value = Wide.exp(asking.log_density(node.family, self._parameters[owner], x))
            return Dual(value, zeros((len(direction.mantissa), *value.shape)))
        seen = ~np.isnan(x)
        column, at = np.where(seen, x, 0.0).astype(np.int64), np.arange(len(x))
        value = self._weights[owner][:, column].swapaxes(0, 1) * seen[:, None] + (~seen[:, None]).astype(np.float64)
        moved = self._of_node(i, direction)  # [D, N or 1, K, categories]
        row = at if moved.shape[1] > 1 else np.zeros_like(at)
        return Dual(value, moved[:, row, :, column].swapaxes(0, 1) * seen[:, None])

    def _moving_weights(self, i: int, direction: Wide) -> Dual:
        """`[1, K, J]` and `[D, N or 1, K, J]`."""
        return Dual(self._weights[self.circuit.owners[i]][None], self._of_node(i, direction))

    def _below(self, node: Sum | Mixture, values: list[Dual]) -> Dual:
        """What a sum's weights multiply: `[N, 1 or K, J]`."""
        children = [values[c] for c in node.children]
        if isinstance(node, Mixture):
            return Dual(stack([c.value for c in children], -1), stack([c.tangent for c in children], -1))
        joined = Dual(concatenate([c.value for c in children], -1), concatenate([c.tangent for c in children], -1))
        return joined[None, :]

    def _places(self, node: Product) -> list[Ints]:
        """For each child which of its units each of the product's has."""
        widths = [self.circuit.widths[c] for c in node.children]
        if node.kind == "hadamard":
            return [np.arange(widths[0])] * len(widths)
        return list(np.unravel_index(np.arange(int(np.prod(widths))), widths))

    def _factors(self, node: Product, values: list[Dual]) -> list[Dual]:
        return [values[c][place] for c, place in zip(node.children, self._places(node), strict=True)]

    def _descend(self, X: Array, values: list[Dual], direction: Wide | None = None, *, log: bool) -> tuple[Dual, dict[int, Wide]]:
        """`[N, P]`, `[D, N, P]`: gradients and their changes; and what the flow of each Input without parameters changes by."""
        direction = self._still if direction is None else direction
        n, d = len(X), len(direction.mantissa)
        parts: dict[int, Dual] = {}
        inputs: dict[int, Wide] = {}
        adjoints: list[Dual | None] = [None] * len(values)
        adjoints[-1] = _of_root(values[-1], log=log)
        for i in range(len(values) - 1, -1, -1):
            node, a, owner = self.circuit.nodes[i], adjoints[i], self.circuit.owners[i]
            if a is None:
                continue
            if isinstance(node, Product):
                self._push_product(node, a, values, adjoints)
            elif isinstance(node, Input):
                if owner in self._weights:
                    _accumulate(parts, owner, self._table_gradient(node, X, a))
                else:
                    inputs[i] = (a.tangent * values[i].value)[0]
            else:
                above = a[:, None]
                _accumulate(parts, owner, above * self._below(node, values))
                self._push_sum(node, above * self._moving_weights(i, direction), adjoints)
        flat = [_flat(parts[i], n, d) if i in parts else _none(n, d, int(np.prod(s))) for i, s in self.layout.shapes.items()]
        if not flat:
            return _none(n, d, 0), inputs
        found = Dual(concatenate([f.value for f in flat], -1), concatenate([f.tangent for f in flat], -1))
        return Dual(found.value * self._exists, found.tangent * self._exists), inputs

    def _push_sum(self, node: Sum | Mixture, each: Dual, adjoints: list[Dual | None]) -> None:
        """`each [N, K, J]`: every edge's weight times the adjoint above it."""
        if isinstance(node, Mixture):
            for j, c in enumerate(node.children):
                _accumulate(adjoints, c, each[:, j])
            return
        total, start = each.sum(-2), 0
        for c in node.children:
            _accumulate(adjoints, c, total[start : start + self.circuit.widths[c]])
            start += self.circuit.widths[c]

    def _push_product(self, node: Product, a: Dual, values: list[Dual], adjoints: list[Dual | None]) -> None:
        factors = self._factors(node, values)
        before = [a]
        for factor in factors[:-1]:
            before.append(before[-1] * factor)
        after: Dual | None = None
        widths = [self.circuit.widths[c] for c in node.children]
        for q in range(len(factors) - 1, -1, -1):
            mine = before[q] if after is None else before[q] * after
            after = factors[q] if after is None else after * factors[q]
            if node.kind == "kronecker":
                mine = _onto_axis(mine, widths, q)
            _accumulate(adjoints, node.children[q], mine)

    def _table_gradient(self, node: Input, X: Array, a: Dual) -> Dual:
        """`[N, K, categories]`: only the entry that was observed has a gradient."""
        n = node.family.n_categories
        assert n is not None
        at = (X[:, node.variable, None] == np.arange(n)).astype(np.float64)[:, None, :]
        return Dual(a.value[..., None] * at, a.tangent[..., None] * at)

    def _add_statistics(self, to: dict[int, Statistics], i: int, X: Array, change: Array) -> None:
        node, owner = self.circuit.nodes[i], self.circuit.owners[i]
        assert isinstance(node, Input)
        found = asking.statistics(node.family, self._parameters[owner], X[:, node.columns], change)
        to[owner] = {name: to[owner][name] + array for name, array in found.items()} if owner in to else found


def _of_root(value: Dual, *, log: bool) -> Dual:
    """The adjoint of the root: 1/p and its change for log p, 1 for p itself; 0 where log p has no derivatives."""
    ones = Wide.of(np.ones(value.value.shape))
    if not log:
        return Dual(ones, zeros(value.tangent.shape))
    possible = (value.value.mantissa != 0).astype(np.float64)
    inverse = ones * possible / (value.value + (1 - possible))
    return Dual(inverse, -(value.tangent * inverse * inverse))


def _onto_axis(a: Dual, widths: list[int], axis: int) -> Dual:
    """Entries of a Kronecker product added up over all factors' units but one's."""
    shape = int(np.prod(widths[:axis])), widths[axis], int(np.prod(widths[axis + 1 :]))
    value, tangent = a.value.reshape(*a.value.shape[:-1], *shape), a.tangent.reshape(*a.tangent.shape[:-1], *shape)
    return Dual(value, tangent).sum(-1).sum(-2)


def _accumulate(to: Any, i: int, more: Dual) -> None:
    there = to.get(i) if isinstance(to, dict) else to[i]
    to[i] = more if there is None else there + more


def _flat(a: Dual, n: int, d: int) -> Dual:
    return Dual(a.value.reshape(n, -1), a.tangent.reshape(d, n, -1))


def _none(n: int, d: int, size: int) -> Dual:
    return Dual(zeros((n, size)), zeros((d, n, size)))


def _column(counts: Array | None, rows: slice) -> Array | float:
    return 1.0 if counts is None else np.asarray(counts, np.float64)[rows, None]
