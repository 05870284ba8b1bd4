"""A circuit over its training rows, with a table in the place of every input that is none: p is linear in each of its entries.

An input over one variable is a table over the variable's values. One over several variables is a table over the first of them,
times 1 for each of the others; the values of that first variable are then numbers of distinct rows. Entries are divided by one
number for each value, so that the table of every unit adds up to less than 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from flatpc._typing import Array
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.nodes import Input, Node, Product
from flatpc.errors import FamilyError
from flatpc.families import asking
from flatpc.families.categorical import Categorical

LEAST = 1e-290
"""Of a density next to the best unit's at the same value: smaller ones count as this."""


@dataclass(frozen=True)
class Tabulated:
    """Log-likelihoods differ from the circuit's by a number for each row, and derivatives don't."""

    circuit: Circuit
    rows: Array
    values: dict[int, Array]
    """Node of the original -> the values, or rows of values, that the first entries of its table stand for."""
    place: list[int]
    """Node of the original -> the node with its weights, its table, or its product."""


def tabulated(circuit: Circuit, rows: Array) -> Tabulated:
    """Tables over the values that occur in the rows."""
    inputs = {i: node for i, node in enumerate(circuit.nodes) if isinstance(node, Input)}
    coded, values = rows.copy(), {}
    tables: dict[int, Array] = {}
    ones: dict[int, Array] = {}
    for v in range(circuit.n_variables):
        mine = {i: node for i, node in inputs.items() if node.variables[0] == v}
        elsewhere = [node for node in inputs.values() if v in node.variables[1:]]
        kept = {i for i, n in mine.items() if n.family.is_free_table or (n.family.is_table and not n.family.learnable)}
        several = bool(elsewhere) or any(node.family.n_variables > 1 for node in mine.values())
        if several and kept:
            raise FamilyError(f"Variable {v} has a table, {mine[min(kept)].family}, beside an input over several variables.")
        if not mine:
            coded[:, v] = np.nan  # whatever it is, the inputs here are 1
            ones[v] = np.ones(1)
        elif several:
            together = sorted({each for node in mine.values() for each in node.variables})
            some, coded[:, v] = _distinct(rows[:, together])
            whole = np.full((len(some), circuit.n_variables), np.nan)
            whole[:, together] = some
            values.update({i: whole[:, node.columns] for i, node in mine.items()})
            logs = {i: _apart(circuit, i, whole) for i in mine}
            if elsewhere:
                logs[-1] = _level(circuit, v, whole)[:, None]
            tables.update(_scaled(logs))
            if elsewhere:
                ones[v] = tables.pop(-1)[:, 0]
        elif len(kept) < len(mine):
            # Tables of one variable are over the same values.
            if kept:
                found = np.arange(mine[min(kept)].family.n_categories or 0, dtype=np.float64)
            else:
                known = ~np.isnan(rows[:, v])
                found, coded[known, v] = np.unique(rows[known, v], return_inverse=True)
            values.update(dict.fromkeys(mine.keys() - kept, found))
            logs = {i: _log_density(circuit, i, found) for i in mine.keys() - kept}
            tables.update({i: _entries(log) for i, log in logs.items()} if kept else _scaled(logs))
    return _built(circuit, coded, values, tables, ones)


def _distinct(rows: Array) -> tuple[Array, Array]:
    """Different rows, of which NaN is a value like others, and for each row which of them it is."""
    bits = np.ascontiguousarray(np.where(np.isnan(rows), np.nan, rows + 0.0)).view(np.int64)
    _, first, which = np.unique(bits, axis=0, return_index=True, return_inverse=True)
    return rows[first], which.ravel().astype(np.float64)


def _log_density(circuit: Circuit, i: int, x: Array) -> Array:
    node, own = circuit.nodes[i], circuit.parameters[i]
    assert isinstance(node, Input)
    assert isinstance(own, dict)
    return asking.log_density(node.family, own, x)


def _level(circuit: Circuit, variable: int, rows: Array) -> Array:
    """`[N]`: the largest log-density of inputs over this variable alone; 0 where there are none."""
    alone = [i for i, node in enumerate(circuit.nodes) if isinstance(node, Input) and node.variables == (variable,)]
    if not alone:
        return np.zeros(len(rows))
    top = np.max([_log_density(circuit, i, rows[:, variable]).max(axis=1) for i in alone], axis=0)
    return np.where(np.isfinite(top), top, 0.0)


def _apart(circuit: Circuit, i: int, rows: Array) -> Array:
    """Log-densities of an input, less what the 1 in the place of its other variables stands for."""
    node = circuit.nodes[i]
    assert isinstance(node, Input)
    found = _log_density(circuit, i, rows[:, node.columns])
    return found - sum((_level(circuit, v, rows) for v in node.variables[1:]), np.zeros(len(rows)))[:, None]


def _scaled(logs: dict[int, Array]) -> dict[int, Array]:
    """`[M + 1, K]`: entries next to the largest of all at the same value, and what is left to 1."""
    top = np.max([log.max(axis=1, initial=-np.inf) for log in logs.values()], axis=0)
    scale = np.where(np.isfinite(top), top, 0.0) + np.log(len(top) + 1)
    found = {i: _entries(log - scale[:, None]) for i, log in logs.items()}
    return {i: np.concatenate([t, 1 - t.sum(axis=0, keepdims=True)]) for i, t in found.items()}


def _entries(log: Array) -> Array:
    return np.where(np.isneginf(log), 0.0, np.maximum(np.exp(log), LEAST))


def _built(
    circuit: Circuit, rows: Array, values: dict[int, Array], tables: dict[int, Array], ones: dict[int, Array]
) -> Tabulated:
    nodes: list[Node] = []
    parameters: dict[int, Any] = {}
    place: list[int] = []
    top: list[int] = []

    def add_table(variable: int, table: Array) -> int:
        parameters[len(nodes)] = {"p": table.T}
        nodes.append(Input(variable, Categorical(len(table)), table.shape[1]))
        return len(nodes) - 1

    for i, node in enumerate(circuit.nodes):
        if i in tables:
            assert isinstance(node, Input)
            place.append(add_table(node.variables[0], tables[i]))
            others = []
            for v in node.variables[1:]:
                others.append(add_table(v, np.repeat(ones[v][:, None], node.width, axis=1)))
            if others:
                nodes.append(Product((place[i], *others)))
            top.append(len(nodes) - 1)
            continue
        if circuit.owners[i] == i and i in circuit.parameters:
            parameters[len(nodes)] = circuit.parameters[i]
        place.append(len(nodes))
        top.append(len(nodes))
        if isinstance(node, Input):
            nodes.append(Input(node.variable, node.family, node.width, None if node.tie is None else place[node.tie]))
            continue
        moved = replace(node, children=tuple(top[c] for c in node.children))
        if not isinstance(moved, Product) and moved.tie is not None:
            moved = replace(moved, tie=place[moved.tie])
        nodes.append(moved)
    return Tabulated(Circuit(nodes, parameters), rows, values, place)
