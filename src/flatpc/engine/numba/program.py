"""A circuit's structure as flat arrays, the form in which native code walks it.

Nodes become **steps**. Two things differ from nodes: a Sum always has one child (several children, or a child that others
use as well, are first copied side by side by a `JOIN` step), except that a scalar Sum of scalar children keeps them as they
are (`SCALAR_SUM`), which makes irregular scalar circuits cheap. A product that only feeds one dense sum is computed in
the same breath as that sum (`inline`), while its values are in cache.

Widths of eight and more are padded to whole vectors.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from flatpc._typing import Ints
from flatpc.circuit.nodes import Input, Mixture, Product, Sum
from flatpc.engine.numba._kernels import columns
from flatpc.engine.numba._kernels.columns import (
    BINOMIAL,
    DENSE_SUM,
    FORMULA_INPUT,
    GAUSSIAN,
    GENERAL_INPUT,
    HADAMARD,
    JOIN,
    KRONECKER,
    LARGEST,
    MIXTURE,
    POISSON,
    SCALAR_SUM,
    TABLE_INPUT,
    Owners,
    Structure,
)
from flatpc.engine.numba._kernels.simd import LANES
from flatpc.errors import StructureError
from flatpc.families import packing
from flatpc.families.base import Family

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

Blocks = dict[int, tuple[int, tuple[int, ...]]]


def padded(width: int) -> int:
    """The stride of a row of `width` units: whole vectors, and no large power of two, which would crowd one set of the cache."""
    if width < 8:
        return width
    stride = -(-width // LANES) * LANES
    return stride + LANES if stride % 256 == 0 else stride


@dataclass(frozen=True)
class Program:
    """A compiled structure; parameters are packed separately (`packing.py`), so it is shared by all circuits of one structure."""

    structure: Structure
    owners: Owners
    task_ptr: Ints
    """Per level: its range of `task`. Level l uses only steps of lower levels."""
    task: Ints
    """Steps in the order of evaluation, inlined products left out."""
    depth_first: Ints
    """The same steps by number, each shortly after what it needs: the order for one thread, with values still in cache."""
    step_of: Ints
    """Node index -> step."""
    scopes: tuple[tuple[int, ...], ...]
    """Per distinct scope the scopes it is put together from; a single variable v is `(-1 - v,)`. Parts come first."""
    weight_blocks: Blocks
    """Owning node -> (offset, shape in memory) of its weights: `[width, stride of the child]`, a MIXTURE's transposed."""
    input_blocks: Blocks
    """Owning Input -> (offset, shape in memory `[rows, stride]`) of its table and parameters, as `families.packing` lays them
    out; statistics have the same layout."""
    n_weights: int
    n_inputs: int

    @cached_property
    def has_shared_weights(self) -> bool:
        """Whether some weights are tied or don't belong to a dense sum, so that a fused pass leaves them to the end."""
        return not self.structure.steps[self.owners.weight_step, columns.ALONE].all()

    @property
    def root_scope(self) -> int:
        return int(self.structure.steps[-1, columns.SCOPE])

    @property
    def n_steps(self) -> int:
        return len(self.structure.steps)


def compile_circuit(circuit: Circuit) -> Program:
    """The circuit's program, kept with the circuit and with every circuit made from it by replacing parameters."""
    cached = circuit.__dict__.get("_program")
    if cached is None or not cached.structure.steps.flags.writeable:  # read-only where a pickle was mapped into memory
        circuit.check_structure()
        cached = _Compiler(circuit).program()
        circuit.__dict__["_program"] = cached
    return cached


_FORMULAS = {"gaussian": GAUSSIAN, "binomial": BINOMIAL, "poisson": POISSON}


def _kind_of_input(family: Family) -> int:
    """Looked up in a table, computed by a native formula, or asked of the family."""
    if family.is_table:
        return TABLE_INPUT
    return FORMULA_INPUT if family.native_formula in _FORMULAS else GENERAL_INPUT


class _Compiler:
    def __init__(self, circuit: Circuit) -> None:
        self.circuit = circuit
        self.kind: list[int] = []
        self.width: list[int] = []
        self.children: list[tuple[int, ...]] = []
        self.scope: list[int] = []
        self.node: list[int] = []
        """Step -> node that it computes; -1 for a step in between."""
        self.scope_index: dict[int, int] = {}
        self.scope_parts: list[tuple[int, ...]] = []
        self.scope_bits: list[int] = []

    def program(self) -> Program:
        c = self.circuit
        uses = [0] * len(c.nodes)
        for node in c.nodes:
            if not isinstance(node, Input):
                for child in node.children:
                    uses[child] += 1
        step_of = np.empty(len(c.nodes), np.int64)
        for i in range(len(c.nodes)):
            step_of[i] = self._add_node(i, step_of, uses)
        step_of = self._reorder()[step_of]
        weight_blocks, n_weights = self._weight_blocks(step_of)
        input_blocks, n_inputs = self._input_blocks(step_of)
        if max(n_weights, n_inputs) > LARGEST:
            raise StructureError(f"The circuit has {n_weights:,} weights; the numba engine takes up to {LARGEST:,}.")
        structure, owners, task_ptr, task = self._flat(weight_blocks, input_blocks)
        return Program(
            structure, owners, task_ptr, task, np.sort(task), step_of, tuple(self.scope_parts), weight_blocks, input_blocks,
            n_weights, n_inputs,
        )  # fmt: skip

    # ---- steps ----------------------------------------------------------------------------------------------------

    def _add_node(self, i: int, step_of: Ints, uses: list[int]) -> int:
        c = self.circuit
        node, width = c.nodes[i], c.widths[i]
        if isinstance(node, Input):
            return self._add(_kind_of_input(node.family), width, (), self._over(node.variables), i)
        children = tuple(int(step_of[child]) for child in node.children)
        if isinstance(node, Product):
            if node.kind == "hadamard" or len(children) == 1:
                return self._add(HADAMARD, width, children, self._union(children), i)
            # Two factors at a time, from the left, as numpy.kron nests.
            left = children[0]
            for right in children[1:]:
                pair = (left, right)
                left = self._add(KRONECKER, self.width[left] * self.width[right], pair, self._union(pair), -1)
            self.node[left] = i
            return left
        scope = self.scope[children[0]]
        if isinstance(node, Mixture):
            return self._add(MIXTURE, width, children, scope, i)
        if width == 1 and all(self.width[s] == 1 for s in children):
            return self._add(SCALAR_SUM, 1, children, scope, i)
        if len(children) > 1 or uses[node.children[0]] > 1:
            total = sum(self.width[s] for s in children)
            children = (self._add(JOIN, total, children, scope, -1),)
        return self._add(DENSE_SUM, width, children, scope, i)

    def _add(self, kind: int, width: int, children: tuple[int, ...], scope: int, node: int) -> int:
        self.kind.append(kind)
        self.width.append(width)
        self.children.append(children)
        self.scope.append(scope)
        self.node.append(node)
        return len(self.kind) - 1

    def _over(self, variables: tuple[int, ...]) -> int:
        single = [self._scope(1 << v, (-1 - v,)) for v in variables]
        return single[0] if len(single) == 1 else self._scope(sum(1 << v for v in variables), tuple(single))

    def _union(self, steps: tuple[int, ...]) -> int:
        bits = 0
        for s in steps:
            bits |= self.scope_bits[self.scope[s]]
        return self._scope(bits, tuple(self.scope[s] for s in steps))

    def _scope(self, bits: int, parts: tuple[int, ...]) -> int:
        if bits not in self.scope_index:
            self.scope_index[bits] = len(self.scope_parts)
            self.scope_parts.append(parts)
            self.scope_bits.append(bits)
        return self.scope_index[bits]

    def _reorder(self) -> Ints:
        """Number steps depth first, so that what a step needs lies near it in memory; returns old number -> new number."""
        order = self._depth_first()
        new = np.empty_like(order)
        new[order] = np.arange(len(order))
        self.kind, self.width, self.scope, self.node = (
            [column[s] for s in order] for column in (self.kind, self.width, self.scope, self.node)
        )
        self.children = [tuple(int(new[c]) for c in self.children[s]) for s in order]
        return new

    # ---- where parameters lie -------------------------------------------------------------------------------------

    def _weight_blocks(self, step_of: Ints) -> tuple[Blocks, int]:
        blocks: Blocks = {}
        offset = 0
        for i, node in enumerate(self.circuit.nodes):
            if not isinstance(node, Sum | Mixture) or self.circuit.owners[i] != i:
                continue
            s = int(step_of[i])
            if self.kind[s] == DENSE_SUM:
                shape: tuple[int, ...] = (self.width[s], padded(self.width[self.children[s][0]]))
            elif self.kind[s] == SCALAR_SUM:
                shape = (len(self.children[s]),)
            else:
                shape = (len(self.children[s]), padded(self.width[s]))
            blocks[i] = offset, shape
            offset += int(np.prod(shape))
        return blocks, offset

    def _input_blocks(self, step_of: Ints) -> tuple[Blocks, int]:
        blocks: Blocks = {}
        offset = 0
        for i, node in enumerate(self.circuit.nodes):
            if not isinstance(node, Input) or self.circuit.owners[i] != i:
                continue
            rows = packing.n_rows(node.family)
            blocks[i] = offset, (rows, padded(node.width))
            offset += rows * padded(node.width)
        return blocks, offset

    # ---- order ----------------------------------------------------------------------------------------------------

    def _flat(self, weight_blocks: Blocks, input_blocks: Blocks) -> tuple[Structure, Owners, Ints, Ints]:
        n = len(self.kind)
        owners, nodes = self.circuit.owners, self.circuit.nodes
        parents: list[list[tuple[int, int]]] = [[] for _ in range(n)]
        for s, children in enumerate(self.children):
            for position, child in enumerate(children):
                parents[child].append((s, position))
        steps = np.full((n, columns.N_COLUMNS), -1, np.int64)
        steps[:, columns.KIND] = self.kind
        steps[:, columns.WIDTH] = self.width
        steps[:, columns.STRIDE] = [padded(k) for k in self.width]
        steps[:, columns.SCOPE] = self.scope
        child_ptr, parent_ptr = _pointers([len(x) for x in self.children]), _pointers([len(x) for x in parents])
        steps[:, columns.CHILD], steps[:, columns.CHILD_END] = child_ptr[:-1], child_ptr[1:]
        steps[:, columns.PARENT], steps[:, columns.PARENT_END] = parent_ptr[:-1], parent_ptr[1:]
        users: dict[int, list[int]] = defaultdict(list)
        for s, i in enumerate(self.node):
            if i < 0 or isinstance(nodes[i], Product):
                continue
            users[owners[i]].append(s)
            node = nodes[i]
            if not isinstance(node, Input):
                steps[s, columns.WEIGHT] = weight_blocks[owners[i]][0]
                continue
            steps[s, columns.TABLE] = input_blocks[owners[i]][0]
            steps[s, columns.VARIABLE] = node.variables[0]  # native inputs have one
            table = self.kind[s] == TABLE_INPUT
            steps[s, columns.CATEGORIES] = (node.family.n_categories or 0) if table else node.family.trials
            if self.kind[s] == FORMULA_INPUT:
                steps[s, columns.FORMULA] = _FORMULAS[node.family.native_formula or ""]
        for i in weight_blocks:
            for s in users[i]:
                steps[s, columns.ALONE] = self.kind[s] == DENSE_SUM and len(users[i]) == 1
        steps[:, columns.ALONE] = steps[:, columns.ALONE] == 1
        for s, kind in enumerate(self.kind):
            if kind == DENSE_SUM and self.kind[self.children[s][0]] == HADAMARD:
                steps[s, columns.INLINED] = self.children[s][0]
        steps[:, columns.BARE] = self._bare(parents)
        structure = Structure(
            steps.astype(np.int32),
            np.array([x for xs in self.children for x in xs], np.int32),
            np.array([x for xs in parents for x in xs], np.int32).reshape(-1, 2),
        )
        by_block = Owners(
            _pointers([len(users[i]) for i in weight_blocks]),
            np.array([s for i in weight_blocks for s in users[i]], np.int64),
            _pointers([len(users[i]) for i in input_blocks]),
            np.array([s for i in input_blocks for s in users[i]], np.int64),
        )
        return structure, by_block, *self._order(steps[:, columns.INLINED])

    def _bare(self, parents: list[list[tuple[int, int]]]) -> list[bool]:
        """Which steps are scalar and used by nothing but scalar sums and products, the root's user being the caller."""
        scalar = [k == 1 and kind in (TABLE_INPUT, HADAMARD, SCALAR_SUM) for k, kind in zip(self.width, self.kind, strict=True)]
        return [*(scalar[s] and all(scalar[p] for p, _ in above) for s, above in enumerate(parents[:-1])), False]

    def _order(self, inlined: Ints) -> tuple[Ints, Ints]:
        level = np.zeros(len(self.kind), np.int64)
        for s, children in enumerate(self.children):
            if children:
                below = max(level[child] for child in children)
                level[s] = below if inlined[s] >= 0 else below + 1
        shown = np.ones(len(self.kind), bool)
        shown[inlined[inlined >= 0]] = False
        task = np.flatnonzero(shown)
        task = task[np.argsort(level[task], kind="stable")]
        return _pointers(np.bincount(level[task])), task

    def _depth_first(self) -> Ints:
        """Steps in the order in which a walk from the root leaves them."""
        entered, left = np.zeros(len(self.kind), bool), np.zeros(len(self.kind), bool)
        order: list[int] = []
        stack = [len(self.kind) - 1]
        while stack:
            s = stack[-1]
            if entered[s]:
                stack.pop()
                if not left[s]:
                    left[s] = True
                    order.append(s)
                continue
            entered[s] = True
            stack.extend(c for c in reversed(self.children[s]) if not entered[c])
        return np.array(order, np.int64)


def _pointers(counts: list[int] | Ints) -> Ints:
    return np.concatenate([[0], np.cumsum(np.asarray(counts, np.int64))]).astype(np.int64)
