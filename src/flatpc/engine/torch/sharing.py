"""Evidence sharing level by level: sub-rows that are alike in the scope of a node are worked on once.

A group of n nodes has values for B rows, `[n, B, K]`. If its scopes are small and its variables have few values, most of these
are the same numbers again. Shared, it has them for U sub-rows, `[n, U, K]`, with U the most that any of its nodes has; parents
gather them by the number of each row's sub-row, and flows are added up by it. What a node of few sub-rows has less than U is
filled up with the sub-row of row 0, to which no flow comes.

Inputs number their values; products number the pairs of their children's numbers; sums have those of their children, whose scopes
are the same. A group is shared if all its children are and U is at most half of B, and all of it only if it pays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from flatpc.engine.torch import inputs as torch_inputs
from flatpc.engine.torch.layers import InputLayer, Layer, MixtureLayer, SumLayer
from flatpc.engine.torch.layout import Gather, Take

# What things take, in multiplications of a matrix product, as measured on a CPU (`python -m benchmarks gpu.shared`).
NUMBERING = 500
"""Numbering a row for a node."""
MOVING = 16
"""Gathering a number for a parent that isn't shared, and adding its flow."""
CALLING = 3_000_000
"""The calls of torch that a shared group takes, and a parent of shared ones, whatever their size."""
FEWEST_ROWS = 256
"""With fewer, calls take longer than what they save."""
MOST_SHARE = 0.5
"""Of distinct sub-rows among rows, for a group to be shared."""
_MOST_KEYS = 8
"""Pairs of numbers that products may have, for each row; with more they are hardly alike."""


class Sharing:
    """What a circuit's layers could share; `plan` finds what rows do."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        self.layers = layers
        self._edges = [_edges(layer) for layer in layers]
        self._taken = [[(h, len(there)) for take in layer.takes for h, there, _ in take.runs] for layer in layers]
        """For each layer, the groups that it takes nodes from, and how many."""
        self._sources = [{h for h, _ in taken} for taken in self._taken]
        able: list[bool] = []
        for layer, sources in zip(layers, self._sources, strict=True):
            able.append(layer.family.is_table if isinstance(layer, InputLayer) else all(able[g] for g in sources))
        able[-1] = False  # each row has a probability of its own
        self._able = able
        nodes = sum(len(layer.nodes) for layer, can in zip(layers, able, strict=True) if can)
        saved = sum(edges for edges, can in zip(self._edges, able, strict=True) if can)
        self.may_pay = 3 * saved > 4 * NUMBERING * nodes
        """Whether it would if a quarter of the work were saved."""

    def plan(self, X: Tensor) -> Plan | None:
        """How to share work on these rows; None if it doesn't pay."""
        if not self.may_pay or len(X) < FEWEST_ROWS:
            return None
        n_rows, saved, spent = len(X), 0.0, 0.0
        codes: list[Tensor | None] = []
        sizes: list[int] = []
        for g, layer in enumerate(self.layers):
            found = self._numbers(g, layer, X, codes, sizes) if self._able[g] else None
            if self._able[g]:
                spent += CALLING + NUMBERING * len(layer.nodes) * n_rows
            if found is not None and found[1] > MOST_SHARE * n_rows:
                found = None
            codes.append(None if found is None else found[0])
            sizes.append(n_rows if found is None else found[1])
            saved += 3 * self._edges[g] * (n_rows - sizes[g])
            if found is None:
                moved = [n * self.layers[h].width for h, n in self._taken[g] if codes[h] is not None]
                spent += CALLING * len(moved) + MOVING * n_rows * sum(moved)
        return Plan(self.layers, codes, sizes) if saved > spent else None

    def _numbers(
        self, g: int, layer: Layer, X: Tensor, codes: list[Tensor | None], sizes: list[int]
    ) -> tuple[Tensor, int] | None:
        """`[n, B]`: which sub-row of each node's scope a row has, and the most sub-rows of a node; None if they are too many."""
        if isinstance(layer, InputLayer):
            values = torch_inputs.table_index(layer.family, layer.rows(X))
            return _renumbered(values, torch_inputs.n_values(layer.family) + 1)
        if any(codes[h] is None for h in self._sources[g]):
            return None
        numbers: Any = codes
        keys, size = layer.takes[0](numbers), max(sizes[h] for h, _ in layer.takes[0].parts)
        if isinstance(layer, SumLayer | MixtureLayer):
            return keys, size
        for take in layer.takes[1:]:
            more = max(sizes[h] for h, _ in take.parts)
            if size * more > _MOST_KEYS * len(X):
                return None
            other = take(numbers)
            n = len(other)
            keys, size = _renumbered(torch.cat([keys[:n] * more + other, keys[n:] * more]), size * more)
        return keys, size


class Plan:
    """Which groups are shared by the rows of a block, and where parents find what."""

    def __init__(self, layers: Sequence[Layer], codes: list[Tensor | None], sizes: list[int]) -> None:
        self.codes, self.sizes = codes, sizes
        self.first = [None if c is None else _first(c, size) for c, size in zip(codes, sizes, strict=True)]
        """`[n, U]` for groups that are shared: a row that has the sub-row."""
        self.takes: list[Sequence[Gather]] = []
        for g, layer in enumerate(layers):
            same_numbers = isinstance(layer, SumLayer | MixtureLayer) and codes[g] is not None
            self.takes.append([self._gather(g, take, same_numbers and t == 0) for t, take in enumerate(layer.takes)])

    def _gather(self, g: int, take: Take, same_numbers: bool) -> Gather:
        if all(self.codes[h] is None for h, _ in take.parts) or (same_numbers and len(take.parts) == 1):
            return take
        return SharedTake(self, g, take)

    def rows(self, g: int, x: Tensor) -> Tensor:
        """Of `[n, B]`, what a group works on: all rows, or one for each sub-row."""
        first = self.first[g]
        return x if first is None else x.gather(1, first)


class SharedTake:
    """Gathers nodes from groups of which some are shared, as `Take` does from others."""

    gives_views = False

    def __init__(self, plan: Plan, g: int, take: Take) -> None:
        self.take = take
        self.flat: list[Tensor | None] = []
        """For each run of places in one group: which of its sub-rows, all nodes' one after the other, goes where."""
        for h, there, here in take.runs:
            codes = plan.codes[h]
            if codes is None:
                self.flat.append(None)
                continue
            number, first = codes.index_select(0, there), plan.first[g]
            if first is not None:
                number = number.gather(1, first[here])
            self.flat.append((number + plan.sizes[h] * there[:, None]).flatten())

    def __call__(self, tensors: Sequence[Tensor]) -> Tensor:
        """`[n, rows, ...]`: one entry for each place."""
        found = []
        for flat, (h, at), (_, there, _) in zip(self.flat, self.take.parts, self.take.runs, strict=True):
            if flat is None:
                found.append(tensors[h][at])
            else:
                taken = tensors[h].flatten(0, 1).index_select(0, flat)
                found.append(taken.view(len(there), -1, *taken.shape[1:]))
        joined = found[0] if len(found) == 1 else torch.cat(found)
        return joined if self.take.order is None else joined.index_select(0, self.take.order)

    def add(self, tensors: Sequence[Tensor], value: Tensor) -> None:
        """`tensors[place] += value`, rows of one sub-row added up; what is shared must have been zero at first."""
        shared = {h for flat, (h, _) in zip(self.flat, self.take.parts, strict=True) if flat is not None}
        self.take.add(tensors, value, besides=shared)
        for flat, (h, _, here) in zip(self.flat, self.take.runs, strict=True):
            if flat is not None:
                tensors[h].flatten(0, 1).index_add_(0, flat, value[here].flatten(0, 1))


def _edges(layer: Layer) -> int:
    """Multiplications of a row in a product with the weights."""
    return len(layer.nodes) * layer.width * sum(layer.widths) if isinstance(layer, SumLayer) else 0


def _renumbered(keys: Tensor, space: int) -> tuple[Tensor, int]:
    """Keys `[n, B]` below `space` as numbers without gaps, in the order of keys, for each node; and the most of them."""
    seen = torch.zeros(len(keys), space, dtype=torch.bool, device=keys.device).scatter_(1, keys, True)
    number = seen.cumsum(1) - 1
    return number.gather(1, keys), int(number[:, -1].max()) + 1


def _first(codes: Tensor, size: int) -> Tensor:
    """`[n, U]`: for each number a row that has it."""
    rows = torch.arange(codes.shape[1], device=codes.device).expand(len(codes), -1)
    return torch.zeros(len(codes), size, dtype=torch.long, device=codes.device).scatter_(1, codes, rows)
