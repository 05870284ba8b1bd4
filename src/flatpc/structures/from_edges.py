"""Circuits written down as scalar nodes and edges."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from flatpc._messages import some_of
from flatpc._options import instance, several, shown
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.nodes import Input, Node, Product, Sum
from flatpc.errors import FlatpcError, OptionError, ParameterError, StructureError
from flatpc.families.base import Family
from flatpc.families.registry import kind_by_name

Spec = str | tuple[Any, ...]
Edge = tuple[Hashable, Hashable] | tuple[Hashable, Hashable, float]

# Where the messages of a circuit's errors speak of nodes: "Node 3", "Nodes 3 and 5", "child 3".
_INDEX = re.compile(r"((?<=[Nn]ode )|(?<=Nodes )|(?<=\d and )|(?<=child ))\d+")


def from_edges(nodes: Mapping[Any, Spec], edges: Iterable[Edge]) -> Circuit:
    """Any smooth and decomposable circuit of scalar nodes: arithmetic circuits, SPNs, PSDDs, cutset networks.

    >>> import flatpc as fp
    >>> circuit = fp.structures.from_edges(
    ...     nodes={
    ...         "weather": "sum",
    ...         "wet": "product",
    ...         "dry": "product",
    ...         "rain": ("indicator", 0, 1),
    ...         "sun": ("indicator", 0, 0),
    ...         "umbrellas": ("poisson", 1, 20.0),
    ...         "parasols": ("poisson", 1, 2.0),
    ...     },
    ...     edges=[
    ...         ("weather", "wet", 0.3),
    ...         ("weather", "dry", 0.7),
    ...         ("wet", "rain"),
    ...         ("wet", "umbrellas"),
    ...         ("dry", "sun"),
    ...         ("dry", "parasols"),
    ...     ],
    ... )
    >>> circuit.n_variables, circuit.is_deterministic
    (2, True)

    The one node without a parent is the root. Nodes may be given in any order; `circuit.nodes` has children before parents.

    Parameters
    ----------
    nodes
        Name -> `"sum"`, `"product"`, or an input `(family, variable, parameters...)` with the parameters in the order of
        the family's names: `("bernoulli", 0, 0.9)`, `("indicator", 0, 1)`, `("categorical", 0, [0.2, 0.3, 0.5])`,
        `("gaussian", 0, mean, variance)`, `("poisson", 0, rate)`. A family object says more than its name:
        `(Indicator(n=3), 0, 2)`, `(Binomial(n=5), 0, 0.4)`.
    edges
        `(sum, child, weight)` and `(product, child)`, in any order. The weights of each sum add up to 1.

    Returns
    -------
    Circuit
        With one unit per node.

    Raises
    ------
    StructureError
        For an unknown node, a cycle, more than one root, or nodes that make no smooth and decomposable circuit.
    ParameterError
        For missing, additional or wrong weights and parameters.
    OptionError
        For nodes or edges of the wrong type, or an unknown family.
    """
    instance("nodes", nodes, Mapping, "a dict from names to 'sum', 'product' or inputs")
    edges = several("edges", edges, "a list of edges: (sum, child, weight) or (product, child)")
    names = list(nodes)
    index = {name: i for i, name in enumerate(names)}
    children, weights = _read_edges(nodes, edges, index)
    order = _children_first(names, children)
    position = {i: place for place, i in enumerate(order)}
    built: list[Node] = []
    parameters: dict[int, Any] = {}
    for place, i in enumerate(order):
        spec = nodes[names[i]]
        below = tuple(position[c] for c in children[i])
        if _kind(spec) == "sum":
            built.append(Sum(below))
            parameters[place] = [weights[i]]
        elif _kind(spec) == "product":
            built.append(Product(below))
        else:
            node, parameters[place] = _read_input(names[i], spec)
            built.append(node)
    try:
        return Circuit(built, parameters)
    except FlatpcError as error:
        # The circuit knows its nodes by number only; the user knows them by name.
        named = _INDEX.sub(lambda match: f"{match[0]} ({names[order[int(match[0])]]!r})", str(error))
        raise type(error)(named) from None


def _kind(spec: Any) -> str:
    return spec if isinstance(spec, str) and spec in ("sum", "product") else "input"


def _read_edges(
    nodes: Mapping[Any, Spec], edges: Iterable[Edge], index: Mapping[Any, int]
) -> tuple[list[list[int]], list[list[float]]]:
    """For each node its children, and the weights of those edges if it is a sum."""
    children: list[list[int]] = [[] for _ in nodes]
    weights: list[list[float]] = [[] for _ in nodes]
    seen = set()
    for edge in edges:
        if not isinstance(edge, Sequence) or isinstance(edge, str) or len(edge) not in (2, 3):
            raise StructureError(f"Edge {edge!r}: write (sum, child, weight) or (product, child).")
        parent, child = edge[0], edge[1]
        for name in (parent, child):
            if name not in index:
                raise StructureError(f"Edge {edge!r}: there is no node {name!r}; add it to the nodes or correct its name.")
        kind = _kind(nodes[parent])
        if kind == "input":
            raise StructureError(f"Edge {edge!r}: {parent!r} is an input, which has no children.")
        if (parent, child) in seen:
            raise StructureError(f"The edge from {parent!r} to {child!r} is given twice; of a sum, add up the two weights.")
        seen.add((parent, child))
        if kind == "sum":
            if len(edge) == 2:
                raise ParameterError(f"Edge {edge!r}: {parent!r} is a sum, so its edges have weights: (sum, child, weight).")
            weights[index[parent]].append(edge[2])
        elif len(edge) == 3:
            raise ParameterError(f"Edge {edge!r}: {parent!r} is a product, whose edges have no weights.")
        children[index[parent]].append(index[child])
    for name, i in index.items():
        if _kind(nodes[name]) != "input" and not children[i]:
            raise StructureError(f"Node {name!r} is a {nodes[name]} without children; give it edges or leave it out.")
    return children, weights


def _children_first(names: Sequence[Any], children: Sequence[Sequence[int]]) -> list[int]:
    """All nodes, each after its children and the root last; raises for cycles and for more than one root."""
    if not names:
        raise StructureError("There are no nodes; give at least one.")
    n_parents = [0] * len(names)
    for below in children:
        for c in below:
            n_parents[c] += 1
    roots = [i for i, count in enumerate(n_parents) if count == 0]
    if len(roots) > 1:
        listed = some_of([repr(names[i]) for i in roots])
        raise StructureError(
            f"{len(roots)} nodes have no parent: {listed}. A circuit has one root; connect the others or leave them out."
        )
    # From the root down, each node once all its parents have been taken.
    order = list(roots)
    for i in order:
        for c in children[i]:
            n_parents[c] -= 1
            if n_parents[c] == 0:
                order.append(c)
    if len(order) < len(names):
        taken = set(order)
        raise StructureError(f"The edges make a cycle: {_cycle(names, children, taken)}.")
    return order[::-1]


def _cycle(names: Sequence[Any], children: Sequence[Sequence[int]], taken: set[int]) -> str:
    """A cycle among the nodes that are not `taken`; every one of them has a parent that is not taken either."""
    parent = {c: i for i, below in enumerate(children) if i not in taken for c in below}
    walk = [next(i for i in range(len(names)) if i not in taken)]
    place: dict[int, int] = {}
    while walk[-1] not in place:
        place[walk[-1]] = len(walk) - 1
        walk.append(parent[walk[-1]])
    return " -> ".join(repr(names[i]) for i in reversed(walk[place[walk[-1]] :]))


def _read_input(name: Any, spec: Spec) -> tuple[Input, dict[str, Any]]:
    if isinstance(spec, str) or not isinstance(spec, Sequence) or len(spec) < 2:
        raise StructureError(
            f"Node {name!r} is {spec!r}; write 'sum', 'product' or (family, variable, parameters...): ('bernoulli', 0, 0.9)."
        )
    kind, variable, *values = spec
    if not isinstance(kind, str | Family):
        raise StructureError(f"Node {name!r}: {kind!r} is not a family; give one or its name.")
    try:
        family = kind_by_name(kind).for_parameters(values) if isinstance(kind, str) else kind
    except OptionError as error:
        raise OptionError(f"Node {name!r}: {error}") from None
    if len(values) != len(family.names):
        raise ParameterError(
            f"Node {name!r}: {family} takes {len(family.names)} parameters ({', '.join(family.names)}), not {len(values)}."
        )
    if isinstance(variable, bool) or not isinstance(variable, int | np.integer) or variable < 0:
        raise StructureError(f"Node {name!r}: the variable is {shown(variable)}; variables are numbered 0, 1, 2, ...")
    return Input(int(variable), family), {key: [value] for key, value in zip(family.names, values, strict=True)}
