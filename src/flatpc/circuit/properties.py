"""Structural properties beyond smoothness and decomposability, each computed from the nodes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flatpc.circuit.nodes import Input, Mixture, Node, Product, Sum
from flatpc.circuit.scopes import variables_in

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

Bits = NDArray[np.bool_]
_ENUMERABLE = 1 << 16
_LARGEST_TABLE = 1 << 22
"""Entries of an input's table up to which its support is looked at."""
_MOST_PAIRS = 1 << 20
"""Pairs of units that are compared."""


def is_structured_decomposable(nodes: Sequence[Node], scopes: Sequence[int]) -> bool:
    """Whether one vtree serves every product.

    That is so exactly when the scopes of products and of their children form a laminar family: any two are nested or
    disjoint. Sets are placed from the largest down; each must lie inside one set placed so far.
    """
    family = {scopes[i] for i, node in enumerate(nodes) if isinstance(node, Product)}
    family |= {scopes[c] for node in nodes if isinstance(node, Product) for c in node.children}
    smallest: dict[int, int] = {}
    for scope in sorted(family, key=int.bit_count, reverse=True):
        around = {smallest.get(v, 0) for v in variables_in(scope)}
        if len(around) > 1:
            return False
        for v in variables_in(scope):
            smallest[v] = scope
    return True


def is_tree(nodes: Sequence[Node], widths: Sequence[int]) -> bool:
    """Whether every scalar unit has at most one parent edge."""
    parents = [np.zeros(k, dtype=np.int64) for k in widths]
    for i, node in enumerate(nodes):
        if isinstance(node, Sum):
            mask = node.mask
            start = 0
            for c in node.children:
                k = widths[c]
                parents[c] += node.width if mask is None else mask[:, start : start + k].sum(axis=0)
                start += k
        elif isinstance(node, Mixture):
            for c in node.children:
                parents[c] += 1
        elif isinstance(node, Product):
            for c in node.children:
                parents[c] += widths[i] // widths[c] if node.kind == "kronecker" else 1
    return all((p <= 1).all() for p in parents)


def is_deterministic(circuit: Circuit) -> bool:
    """Whether no two children of a sum unit are positive for the same assignment.

    Children of an edge with zero weight don't count. True is always a proof. Two units whose supports can be told apart
    neither by one variable nor by recursion over a shared decomposition are settled by enumeration while their
    variables have at most 65,536 joint values; past that, with tables of more than four million entries, and after a million
    pairs of units, the answer is False.
    """
    return _Supports(circuit).deterministic()


class _Supports:
    """Which values each unit allows.

    `hulls[i]` maps a variable to `[K, n]` booleans: a value is True where the unit may be positive. A variable on which
    no unit of the node puts a limit is left out, so that the hulls of deep circuits stay small.
    """

    def __init__(self, circuit: Circuit) -> None:
        self.circuit = circuit
        self.hulls: list[dict[int, Bits]] = []
        self.memo: dict[tuple[int, int, int, int], bool] = {}
        for i in range(len(circuit.nodes)):
            self.hulls.append(self._hull(i))

    def _hull(self, i: int) -> dict[int, Bits]:
        nodes, widths = self.circuit.nodes, self.circuit.widths
        node = nodes[i]
        if isinstance(node, Input):
            if not node.family.is_table:
                return {}
            if node.width * (node.family.n_categories or 0) > _LARGEST_TABLE:
                return {}
            table = node.family.table(self.circuit.parameters[i]) > 0  # type: ignore[arg-type]
            return {} if table.all() else {node.variable: table}
        if isinstance(node, Product):
            out: dict[int, Bits] = {}
            for position, c in enumerate(node.children):
                for v, bits in self.hulls[c].items():
                    if node.kind == "kronecker":
                        after = int(np.prod([widths[d] for d in node.children[position + 1 :]], dtype=np.int64))
                        bits = np.tile(np.repeat(bits, after, axis=0), (widths[i] // (widths[c] * after), 1))
                    out[v] = bits
            return out
        limited = set.intersection(*(set(self.hulls[c]) for c in node.children))
        edges = self._edges(i)
        out = {}
        for v in limited:
            if isinstance(node, Sum):
                below = np.concatenate([self.hulls[c][v] for c in node.children])
                bits = (edges.astype(np.float32) @ below.astype(np.float32)) > 0
            else:
                below = np.stack([self.hulls[c][v] for c in node.children], axis=1)
                bits = (edges[:, :, None] & below).any(axis=1)
            if not bits.all():
                out[v] = bits
        return out

    def _edges(self, i: int) -> Bits:
        """Edges with positive weight: `[K, Σ child widths]` for a Sum, `[K, children]` for a Mixture."""
        weights: Any = self.circuit.parameters[i]
        return np.asarray(weights > 0)

    def _children(self, i: int, unit: int) -> list[tuple[int, int]]:
        """The (node, unit) pairs that a sum unit mixes."""
        node = self.circuit.nodes[i]
        assert isinstance(node, Sum | Mixture)
        row = self._edges(i)[unit]
        if isinstance(node, Mixture):
            return [(c, unit) for c, on in zip(node.children, row, strict=True) if on]
        pairs = [(c, k) for c in node.children for k in range(self.circuit.widths[c])]
        return [pair for pair, on in zip(pairs, row, strict=True) if on]

    def _factors(self, i: int, unit: int) -> list[tuple[int, int]]:
        """The (node, unit) pairs that a product unit multiplies."""
        node = self.circuit.nodes[i]
        assert isinstance(node, Product)
        if node.kind == "hadamard":
            return [(c, unit) for c in node.children]
        out = []
        for c in reversed(node.children):
            unit, k = divmod(unit, self.circuit.widths[c])
            out.append((c, k))
        return out[::-1]

    def deterministic(self) -> bool:
        for i, node in enumerate(self.circuit.nodes):
            if isinstance(node, Sum | Mixture):
                for unit in range(self.circuit.widths[i]):
                    children = self._children(i, unit)
                    if len(children) > 1 and not self._all_disjoint(children):
                        return False
        return True

    def _all_disjoint(self, units: list[tuple[int, int]]) -> bool:
        # One variable that gives every child values of its own settles the node without looking at pairs.
        shared = set.intersection(*(set(self.hulls[c]) for c, _ in units))
        for v in shared:
            if (sum(self.hulls[c][v][k].astype(np.int64) for c, k in units) <= 1).all():
                return True
        return not any(self._meet(a, b) for a, b in itertools.combinations(units, 2))

    def _meet(self, a: tuple[int, int], b: tuple[int, int]) -> bool:
        """Whether two units with the same scope are both positive somewhere (or can't be shown not to be)."""
        key = (*a, *b) if a <= b else (*b, *a)
        if key not in self.memo:
            if len(self.memo) >= _MOST_PAIRS:
                return True
            self.memo[key] = self._meet_now(a, b)
        return self.memo[key]

    def _meet_now(self, a: tuple[int, int], b: tuple[int, int]) -> bool:
        (i, j), (m, n) = a, b
        for v in self.hulls[i].keys() & self.hulls[m].keys():
            if not (self.hulls[i][v][j] & self.hulls[m][v][n]).any():
                return False
        node, other = self.circuit.nodes[i], self.circuit.nodes[m]
        if isinstance(node, Sum | Mixture):
            return any(self._meet(c, b) for c in self._children(i, j))
        if isinstance(other, Sum | Mixture):
            return any(self._meet(a, c) for c in self._children(m, n))
        if isinstance(node, Input) or isinstance(other, Input):
            return True
        scopes = self.circuit.scopes
        left = {scopes[c]: (c, k) for c, k in self._factors(i, j)}
        right = {scopes[c]: (c, k) for c, k in self._factors(m, n)}
        if left.keys() == right.keys():
            return all(self._meet(left[s], right[s]) for s in left)
        return self._meet_by_enumeration(a, b)

    def _meet_by_enumeration(self, a: tuple[int, int], b: tuple[int, int]) -> bool:
        variables = list(variables_in(self.circuit.scopes[a[0]] | self.circuit.scopes[b[0]]))
        sizes = [self.circuit.families[v].n_categories for v in variables]
        if any(n is None for n in sizes) or math.prod(n or 1 for n in sizes) > _ENUMERABLE:
            return True
        grid = np.array(list(itertools.product(*(range(n or 1) for n in sizes))))
        values = dict(zip(variables, grid.T, strict=True))
        return bool((self._positive(a, values) & self._positive(b, values)).any())

    def _positive(self, unit: tuple[int, int], values: Mapping[int, NDArray[np.int64]]) -> Bits:
        """Where a unit is positive, for each assignment of `values`."""
        i, k = unit
        node = self.circuit.nodes[i]
        if isinstance(node, Input):
            x = values[node.variables[0]]
            bits = self.hulls[i].get(node.variables[0])
            return np.ones(len(x), bool) if bits is None else np.asarray(bits[k][x])
        if isinstance(node, Product):
            return np.asarray(np.logical_and.reduce([self._positive(c, values) for c in self._factors(i, k)]))
        return np.asarray(np.logical_or.reduce([self._positive(c, values) for c in self._children(i, k)]))
