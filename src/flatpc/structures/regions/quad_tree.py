"""Quad-trees and quad-graphs: grids halved along their axes again and again, down to single variables."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from flatpc._options import choice, flag, seed_number, several, whole_number, wrong
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.nodes import Input, Kind, Node, Product, Sum
from flatpc.structures.options import FamilyLike, random_circuit, resolve_families

LAYERS: dict[str, Kind] = {"cp": "hadamard", "tucker": "kronecker"}
"""How the units of two parts are paired."""

# For each axis the first index and the one after the last.
Rectangle = tuple[tuple[int, int], ...]


def quad_tree(
    shape: Sequence[int],
    n_sums: int = 16,
    *,
    layer: str = "cp",
    graph: bool = False,
    family: FamilyLike = "gaussian",
    seed: int = 0,
) -> Circuit:
    """A circuit over a grid of variables, such as an image, that is halved again and again, with random parameters.

    >>> import flatpc as fp
    >>> circuit = fp.structures.quad_tree((4, 4), 3, family=fp.Categorical(256))
    >>> circuit.n_variables, circuit.is_structured_decomposable
    (16, True)
    >>> fp.structures.quad_tree((4, 4), 3, graph=True).is_structured_decomposable
    False

    A rectangle is halved across its longest side, two cuts making a quad-tree of a square. Each rectangle is a region of
    `n_sums` sums (one at the root) over the products of its halves. With n variables a tree has n - 1 regions, so that a
    `"cp"` circuit has about n · n_sums² weights.

    Parameters
    ----------
    shape
        The grid: (rows, columns), or more axes. Variables are numbered along the last axis first.
    n_sums
        Number of units of every region below the root, single variables included.
    layer
        `"cp"` multiplies the units of two halves one by one, `"tucker"` all pairs of them, for `n_sums` times as many weights.
    graph
        Halve every rectangle across each of its sides, not only the longest, and mix the results. Rectangles that several
        cuts lead to are one region.
    family
        A family or its name, for all variables, or a list with one for each.
    seed
        Random seed of the parameters.

    Returns
    -------
    Circuit
        Over as many variables as the grid has places.

    Raises
    ------
    OptionError
        For an option out of its range.
    """
    lengths = tuple(whole_number("shape", s, 1) for s in several("shape", shape, "the lengths of the grid's axes"))
    if not lengths:
        raise wrong("shape", shape, "the grid needs at least one axis.")
    n_sums, seed = whole_number("n_sums", n_sums, 1), seed_number(seed)
    kind = LAYERS[choice("layer", layer, LAYERS)]
    every_side = flag("graph", graph)
    variable = np.arange(math.prod(lengths)).reshape(lengths)
    families = resolve_families(family, variable.size)

    whole: Rectangle = tuple((0, s) for s in lengths)
    nodes: list[Node] = []
    region: dict[Rectangle, int] = {}

    def add(rectangle: Rectangle) -> int:
        """The index of the region's node, which is appended below its parts unless it is there."""
        if rectangle in region:
            return region[rectangle]
        cuts = _cuts(rectangle, every_side)
        if cuts:
            products = []
            for halves in cuts:
                parts = tuple(add(half) for half in halves)
                nodes.append(Product(parts, kind))
                products.append(len(nodes) - 1)
            nodes.append(Sum(tuple(products), 1 if rectangle == whole else n_sums))
        else:
            v = int(variable[tuple(first for first, _ in rectangle)])
            nodes.append(Input(v, families[v], n_sums))
            if rectangle == whole:
                nodes.append(Sum((len(nodes) - 1,)))
        region[rectangle] = len(nodes) - 1
        return region[rectangle]

    add(whole)
    return random_circuit(nodes, seed)


def _cuts(rectangle: Rectangle, every_side: bool) -> list[tuple[Rectangle, Rectangle]]:
    """The two halves across the longest side, or across every side; none of a single place."""
    sides = [last - first for first, last in rectangle]
    longest = max(range(len(sides)), key=lambda axis: sides[axis])
    out = []
    for axis in range(len(sides)) if every_side else [longest]:
        first, last = rectangle[axis]
        if last - first > 1:
            middle = (first + last + 1) // 2
            left, right = ((*rectangle[:axis], part, *rectangle[axis + 1 :]) for part in ((first, middle), (middle, last)))
            out.append((left, right))
    return out
