"""How nodes fold: equal nodes of a level become one group, so that one batched operation evaluates them all.

A group of n nodes of width K has values `[n, B, K]` for B rows. A node's *place* is (its group, its position there).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from flatpc.circuit.nodes import Input, Mixture, Product, Sum, children_of

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

Place = tuple[int, int]
Index = slice | Tensor


@dataclass(frozen=True)
class Group:
    """Nodes that are evaluated together. `children[j]` are the places of the j-th node's children."""

    kind: str
    nodes: tuple[int, ...]
    children: tuple[tuple[Place, ...], ...]


def fold(circuit: Circuit) -> list[Group]:
    """The groups of a circuit, children before parents.

    Inputs fold by family and width; sums by width and children's widths; mixtures by width and number of children;
    Kronecker products by children's widths; Hadamard products by width alone, those with most children first.
    """
    nodes, widths = circuit.nodes, circuit.widths
    levels: list[int] = []
    buckets: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for i, node in enumerate(nodes):
        level = 1 + max((levels[c] for c in children_of(node)), default=-1)
        levels.append(level)
        child_widths = tuple(widths[c] for c in children_of(node))
        if isinstance(node, Input):
            key: tuple[object, ...] = (level, "input", node.family, node.width)
        elif isinstance(node, Sum):
            key = (level, "sum", node.width, child_widths)
        elif isinstance(node, Mixture):
            key = (level, "mixture", child_widths)
        elif node.kind == "kronecker":
            key = (level, "kronecker", child_widths)
        else:
            key = (level, "hadamard", widths[i])
        buckets[key].append(i)

    groups: list[Group] = []
    places: dict[int, Place] = {}
    for key in sorted(buckets, key=lambda k: k[0]):  # type: ignore[arg-type, return-value]
        kind = str(key[1])
        members = []
        for i in buckets[key]:
            node = nodes[i]
            children = tuple(places[c] for c in children_of(node))
            if isinstance(node, Product) and node.kind == "hadamard":
                children = tuple(sorted(children))
            first = node.variable if isinstance(node, Input) else -len(children)
            members.append((first, children, i))
        members.sort()
        for position, (_, _, i) in enumerate(members):
            places[i] = (len(groups), position)
        groups.append(Group(kind, tuple(i for _, _, i in members), tuple(children for _, children, _ in members)))
    return groups


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
        self.parts = [(group, _index(there, device), _index(here, device)) for group, there, here in runs]

    def __call__(self, tensors: Sequence[Tensor]) -> Tensor:
        """`[n, ...]`: one entry for each place; a view where one slice will do."""
        found = [tensors[g][at] if isinstance(at, slice) else tensors[g].index_select(0, at) for g, at, _ in self.parts]
        joined = found[0] if len(found) == 1 else torch.cat(found)
        return joined if self.order is None else joined.index_select(0, self.order)

    def add(self, tensors: Sequence[Tensor], value: Tensor) -> None:
        """`tensors[place] += value`, entry by entry; places may repeat."""
        for g, at, here in self.parts:
            piece = value[here] if isinstance(here, slice) else value.index_select(0, here)
            if isinstance(at, slice):
                tensors[g][at] += piece
            else:
                tensors[g].index_add_(0, at, piece)


def _index(positions: list[int], device: torch.device) -> Index:
    start = positions[0]
    if positions == list(range(start, start + len(positions))):
        return slice(start, start + len(positions))
    return torch.tensor(positions, device=device)
