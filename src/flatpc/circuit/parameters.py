"""Parameters of a circuit: checked, drawn at random, and made read-only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from flatpc._typing import Array
from flatpc.circuit.nodes import Input, Product, Sum
from flatpc.errors import ParameterError
from flatpc.families.base import SIMPLEX_TOLERANCE
from flatpc.families.initialize import random_simplex

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

NodeParameters = Array | dict[str, Array]


def checked_parameters(circuit: Circuit, parameters: Mapping[int, Any]) -> dict[int, NodeParameters]:
    """Parameters of the owners, as float64 arrays, or an error that says what is wrong with them."""
    check_indices(circuit, parameters)
    out: dict[int, NodeParameters] = {}
    for i, node in enumerate(circuit.nodes):
        if isinstance(node, Product):
            continue
        owner = circuit.owners[i]
        if i not in parameters:
            if owner == i:
                raise ParameterError(f"Node {i} ({type(node).__name__}) has no parameters.")
            continue
        if isinstance(node, Input):
            value: NodeParameters = _checked_input(i, node, parameters[i])
        else:
            value = _checked_weights(circuit, i, parameters[i])
        if owner == i:
            out[i] = value
        elif not _same(value, out[owner]):
            raise ParameterError(f"Node {i} is tied to node {owner} but was given other parameters.")
    return out


def check_indices(circuit: Circuit, parameters: Mapping[int, Any]) -> None:
    """Raise unless parameters are those of nodes that have some."""
    if not isinstance(parameters, Mapping):
        raise ParameterError(f"Parameters are a dict from node index to arrays, not a {type(parameters).__name__}.")
    for i in parameters:
        if not isinstance(i, int | np.integer) or not 0 <= i < len(circuit.nodes) or isinstance(circuit.nodes[i], Product):
            raise ParameterError(f"Parameters were given for node {i!r}, which has none.")


def _checked_weights(circuit: Circuit, i: int, given: Any) -> Array:
    node = circuit.nodes[i]
    where = f"Node {i} ({type(node).__name__})"
    weights = _as_array(given, where)
    shape = circuit.weight_shape(i)
    if weights.shape != shape:
        raise ParameterError(f"{where}: the weights have shape {weights.shape}; they should have {shape}.")
    if not np.isfinite(weights).all() or (weights < 0).any():
        bad = weights[~(np.isfinite(weights) & (weights >= 0))].ravel()[0]
        raise ParameterError(f"{where}: the weights hold {bad:g}; weights are finite and not negative.")
    if isinstance(node, Sum) and node.mask is not None and weights[~node.mask].any():
        raise ParameterError(f"{where}: an edge that the mask removes has a weight; set it to 0.")
    total = weights.sum(axis=1)
    if (abs(total - 1) > SIMPLEX_TOLERANCE).any():
        unit = int(np.argmax(abs(total - 1)))
        raise ParameterError(f"{where}: the weights of unit {unit} sum to {total[unit]:.9g}, not 1; divide each row by its sum.")
    return weights


def _checked_input(i: int, node: Input, given: Any) -> dict[str, Array]:
    over = f"variable {node.variables[0]}" if len(node.variables) == 1 else f"variables {node.variables}"
    where = f"Node {i} (Input over {over}, {node.family})"
    shapes = node.family.parameter_shapes(node.width)
    if not isinstance(given, Mapping) or set(given) != set(shapes):
        raise ParameterError(f"{where}: parameters are a dict with the keys {', '.join(shapes)}.")
    out = {}
    for name, shape in shapes.items():
        out[name] = _as_array(given[name], where)
        if out[name].shape != shape:
            raise ParameterError(f"{where}: {name} has shape {out[name].shape}; it should have {shape}.")
    node.family.check_parameters(out, where)
    return out


def _as_array(given: Any, where: str) -> Array:
    try:
        return np.array(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        raise ParameterError(f"{where}: parameters must be arrays of numbers, not {type(given).__name__}.") from None


def _same(a: NodeParameters, b: NodeParameters) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return all(np.array_equal(a[name], b[name]) for name in a)
    return not isinstance(a, dict) and not isinstance(b, dict) and np.array_equal(a, b)


def random_parameters(circuit: Circuit, rng: np.random.Generator, scheme: str, rows: Array | None) -> dict[int, NodeParameters]:
    """Random parameters of the owners; families that can start from rows do, if there are some."""
    out: dict[int, NodeParameters] = {}
    for i, node in enumerate(circuit.nodes):
        if isinstance(node, Product) or circuit.owners[i] != i:
            continue
        if isinstance(node, Input):
            if rows is None:
                out[i] = node.family.initialize(node.width, rng, scheme)
            else:
                out[i] = node.family.initialize_from(rows[:, node.columns], node.width, rng, scheme)
        else:
            mask = node.mask if isinstance(node, Sum) else None
            out[i] = random_simplex(circuit.weight_shape(i), rng, scheme, mask)
    return out


def freeze(owned: dict[int, NodeParameters], owners: Sequence[int]) -> dict[int, NodeParameters]:
    """Read-only arrays, and for tied nodes the owner's own arrays."""
    for value in owned.values():
        for array in value.values() if isinstance(value, dict) else (value,):
            array.flags.writeable = False
    return {i: owned[owner] for i, owner in enumerate(owners) if owner in owned}
