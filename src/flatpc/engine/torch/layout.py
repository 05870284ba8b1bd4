"""How nodes fold: equal nodes of a level become one group, so that one batched operation evaluates them all.

A group of n nodes of width K has values `[n, B, K]` for B rows. A node's *place* is (its group, its position there).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from flatpc.circuit.nodes import Input, Mixture, Sum, children_of

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

Place = tuple[int, int]
Index = slice | Tensor


# Hadamard products of more children are made in stages, so that values are rescaled on the way.
MOST_FACTORS = 8


@dataclass(frozen=True)
class Group:
    """Nodes that are evaluated together. `children[j]` are the places of the j-th node's children.

    A node of -1 is a stage of a wide product, not a node of the circuit.
    """

    kind: str
    width: int
    nodes: tuple[int, ...]
    children: tuple[tuple[Place, ...], ...]


def fold(circuit: Circuit) -> list[Group]:
    """The groups of a circuit, children before parents; the root is alone in the last one.

    Inputs fold by family and width; sums by width and children's widths; mixtures by width and number of children;
    Kronecker products by children's widths; Hadamard products by width alone, those with most children first.
    """
    levels: list[int] = []  # of items: nodes, and stages of wide products
    buckets: dict[tuple[int, str, int, object], list[tuple[int, int, tuple[int, ...]]]] = defaultdict(list)
    item_of: list[int] = []

    def add(i: int, width: int, kind: str, more: object, children: tuple[int, ...]) -> int:
        level = 1 + max((levels[c] for c in children), default=-1)
        buckets[level, kind, width, more].append((len(levels), i, children))
        levels.append(level)
        return len(levels) - 1

    for i, node in enumerate(circuit.nodes):
        width = circuit.widths[i]
        children = tuple(item_of[c] for c in children_of(node))
        widths = tuple(circuit.widths[c] for c in children_of(node))
        if isinstance(node, Input):
            item_of.append(add(i, width, "input", node.family, ()))
        elif isinstance(node, Sum | Mixture):
            item_of.append(add(i, width, "sum" if isinstance(node, Sum) else "mixture", widths, children))
        elif node.kind == "kronecker":
            item_of.append(add(i, width, "kronecker", widths, children))
        else:
            while len(children) > MOST_FACTORS:
                children = tuple(sorted(children, key=levels.__getitem__))
                first, rest = children[:MOST_FACTORS], children[MOST_FACTORS:]
                children = (*rest, add(-1, width, "hadamard", None, first))
            item_of.append(add(i, width, "hadamard", None, children))

    groups: list[Group] = []
    places: dict[int, Place] = {}
    for key in sorted(buckets, key=lambda key: key[0]):
        _, kind, width, _ = key
        members = []
        for item, i, below in buckets[key]:
            found = tuple(places[c] for c in below)
            if kind == "hadamard":
                found = tuple(sorted(found))
            node = circuit.nodes[i]
            order = node.variables if isinstance(node, Input) else (-len(found),)
            members.append((order, found, item, i))
        members.sort()
        for position, (_, _, item, _) in enumerate(members):
            places[item] = (len(groups), position)
        groups.append(Group(kind, width, tuple(i for *_, i in members), tuple(found for _, found, _, _ in members)))
    return groups


class Gather(Protocol):
    """Gathers nodes from the groups' tensors for a parent, and adds back to them in the other direction."""

    @property
    def gives_views(self) -> bool: ...

    def __call__(self, tensors: Sequence[Tensor]) -> Tensor: ...

    def add(self, tensors: Sequence[Tensor], value: Tensor) -> None: ...


class Taking(Protocol):
    """Which rows each group works on, if not all (`sharing.py`), and how parents gather from it then."""

    takes: list[Sequence[Gather]]

    def rows(self, g: int, x: Tensor) -> Tensor:
        """Of `[n, B]`, what a group works on."""


class Take:
    """Gathers nodes from the groups' tensors, along the first axis, and adds back to them in the other direction."""

    def __init__(self, places: Sequence[Place], device: torch.device) -> None:
        runs: list[tuple[int, list[int], list[int]]] = []  # group, where there, where here
        for here, (group, there) in enumerate(places):
            if not runs or runs[-1][0] != group:
                runs.append((group, [], []))
            runs[-1][1].append(there)
            runs[-1][2].append(here)
        self.order: Tensor | None = None
        sources = {group for group, _ in places}
        if len(runs) > 2 * len(sources):
            # Many short runs: gather source by source and put the result in order at the end.
            runs = []
            for source in sorted(sources):
                found = [(there, here) for here, (group, there) in enumerate(places) if group == source]
                runs.append((source, [there for there, _ in found], [here for _, here in found]))
            back = torch.empty(len(places), dtype=torch.long)
            back[torch.tensor([here for run in runs for here in run[2]])] = torch.arange(len(places))
            self.order = back.to(device)
        self.parts = [(group, _index(there, device)) for group, there, _ in runs]
        self.gives_views = len(self.parts) == 1 and isinstance(self.parts[0][1], slice) and self.order is None
        self.runs = [(group, torch.tensor(there, device=device), _index(here, device)) for group, there, here in runs]
        """Group, where there, where here."""
        self._runs, self._device = runs, device
        self._back = [(group, _index(there, device), _index(here, device), False) for group, there, here in runs]

    def __call__(self, tensors: Sequence[Tensor]) -> Tensor:
        """`[n, ...]`: one entry for each place; a view where one slice will do."""
        found = [tensors[g][at] if isinstance(at, slice) else tensors[g].index_select(0, at) for g, at in self.parts]
        joined = found[0] if len(found) == 1 else torch.cat(found)
        return joined if self.order is None else joined.index_select(0, self.order)

    def mark_first(self, met: Sequence[set[int]]) -> None:
        """Have `add` put, not add, what is the first for its place; `met` has the places in each group that were met before."""
        self._back = []
        for group, there, here in self._runs:
            first: list[tuple[int, int]] = []
            later: list[tuple[int, int]] = []
            for pair in zip(there, here, strict=True):
                (later if pair[0] in met[group] else first).append(pair)
                met[group].add(pair[0])
            for pairs, is_first in ((first, True), (later, False)):
                if pairs:
                    at, mine = ([pair[k] for pair in pairs] for k in (0, 1))
                    self._back.append((group, _index(at, self._device), _index(mine, self._device), is_first))

    def add(self, tensors: Sequence[Tensor], value: Tensor, besides: Collection[int] = ()) -> None:
        """`tensors[place] += value`, entry by entry; places may repeat. What comes first is put in place of what was there.

        Nothing is added to the groups `besides`.
        """
        for g, at, here, first in self._back:
            if g in besides:
                continue
            piece = value[here] if isinstance(here, slice) else value.index_select(0, here)
            if isinstance(at, slice):
                tensors[g][at] = piece if first else tensors[g][at] + piece
            elif first:
                tensors[g].index_copy_(0, at, piece)
            else:
                tensors[g].index_add_(0, at, piece)


def _index(positions: list[int], device: torch.device) -> Index:
    start = positions[0]
    if positions == list(range(start, start + len(positions))):
        return slice(start, start + len(positions))
    return torch.tensor(positions, device=device)
