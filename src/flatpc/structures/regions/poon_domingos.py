"""Poon-Domingos structures: every way of cutting a grid into rectangles."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from flatpc._options import number, whole_number, wrong
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.nodes import Node, Sum
from flatpc.structures.options import FamilyLike, random_circuit, resolve_families
from flatpc.structures.regions.parts import add_leaf_region, add_partition

# A hyper-rectangle: for each axis the first index and the one after the last.
Rectangle = tuple[tuple[int, int], ...]


def poon_domingos(
    shape: int | Sequence[int],
    delta: float | Sequence[float],
    n_sums: int = 10,
    n_inputs: int = 10,
    *,
    family: FamilyLike = "gaussian",
    seed: int = 0,
) -> Circuit:
    """A circuit over a grid of variables that mixes all cuts of each rectangle into two, with random parameters.

    >>> import flatpc as fp
    >>> circuit = fp.structures.poon_domingos(shape=(4, 4), delta=2)
    >>> circuit.n_variables, circuit.is_structured_decomposable
    (16, False)

    Cuts run along an axis at the multiples of `delta`. Each rectangle is one region, whichever cuts lead to it: a sum of
    `n_sums` units (one at the root) over the products of all pairs of units of the two parts, for every cut. A
    rectangle that no cut crosses is a leaf region: `n_inputs` factorised distributions.

    Parameters
    ----------
    shape
        The grid: a length, or (rows, columns), or more axes. Variables are numbered along the last axis first.
    delta
        Distance between cuts, 1 or more; a fraction is rounded down cut by cut. Of a list, each rectangle is cut by the
        first entry that cuts it: `[8, 2]` cuts coarsely, and finely what the coarse cuts left over.
    n_sums
        Number of units of every inner region below the root.
    n_inputs
        Number of units of every leaf region.
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
    lengths = tuple(whole_number("shape", s, 1) for s in _listed(shape))
    if not lengths:
        raise wrong("shape", shape, "the grid needs at least one axis.")
    deltas = tuple(number("delta", d, 1.0, what="the distance between cuts is a number of at least 1") for d in _listed(delta))
    if not deltas:
        raise wrong("delta", delta, "give the distance between cuts, a number of at least 1, or a list of such numbers.")
    n_sums, n_inputs = whole_number("n_sums", n_sums, 1), whole_number("n_inputs", n_inputs, 1)
    variable = np.arange(math.prod(lengths)).reshape(lengths)
    families = resolve_families(family, variable.size)

    whole: Rectangle = tuple((0, s) for s in lengths)
    cuts = _all_cuts(whole, deltas)
    nodes: list[Node] = []
    region: dict[Rectangle, int] = {}
    for rectangle in sorted(cuts, key=_size):
        if cuts[rectangle]:
            partitions = [add_partition(nodes, region[left], region[right]) for left, right in cuts[rectangle]]
            nodes.append(Sum(tuple(partitions), 1 if rectangle == whole else n_sums))
        else:
            inside = variable[tuple(slice(first, last) for first, last in rectangle)]
            add_leaf_region(nodes, inside.ravel().tolist(), families, n_inputs)
            if rectangle == whole:
                nodes.append(Sum((len(nodes) - 1,)))
        region[rectangle] = len(nodes) - 1
    return random_circuit(nodes, seed)


def _listed(given: Any) -> Iterable[Any]:
    return given if isinstance(given, list | tuple) or (isinstance(given, np.ndarray) and given.ndim == 1) else (given,)


def _all_cuts(whole: Rectangle, deltas: Sequence[float]) -> dict[Rectangle, list[tuple[Rectangle, Rectangle]]]:
    """Each rectangle that cutting can reach, with the pairs of parts it is cut into."""
    out: dict[Rectangle, list[tuple[Rectangle, Rectangle]]] = {}
    waiting = [whole]
    while waiting:
        rectangle = waiting.pop()
        if rectangle not in out:
            out[rectangle] = next((cuts for d in deltas if (cuts := _cuts(rectangle, d))), [])
            waiting.extend(part for cut in out[rectangle] for part in cut)
    return out


def _cuts(rectangle: Rectangle, delta: float) -> list[tuple[Rectangle, Rectangle]]:
    out = []
    for axis, (first, last) in enumerate(rectangle):
        points = (math.floor(i * delta) for i in range(math.ceil(first / delta), math.ceil(last / delta)))
        for point in points:
            if first < point < last:
                left = (*rectangle[:axis], (first, point), *rectangle[axis + 1 :])
                right = (*rectangle[:axis], (point, last), *rectangle[axis + 1 :])
                out.append((left, right))
    return out


def _size(rectangle: Rectangle) -> int:
    return math.prod(last - first for first, last in rectangle)
