"""Parameters without constraints, for gradient descent: one flat vector z, from which all others are computed.

| parameter | of z |
|---|---|
| weights of a sum, table of a Bernoulli or categorical | softmax of the unit's entries |
| parameters of other inputs | the family's `constrain` |
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc._typing import Array, Ints
from flatpc.engine.contract import Evaluator
from flatpc.engine.flat import pack_masks, weight_places
from flatpc.families import packing as family_packing
from flatpc.learning._kernels.simplex import softmax, to_logits
from flatpc.learning.steps.inputs import Group, group_inputs

SMALLEST = 1e-30
"""Probabilities start from here at least: the logarithm of 0 can't be moved by a gradient."""
_ALL = np.empty(0, np.uint8)


class Unconstrained:
    """The vector z of one evaluator: its weights' logits, then its inputs', in the order of the packed parameters."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        program = evaluator.program
        self.n_weights, self.size = program.n_weights, program.n_weights + program.n_inputs
        self._weights = weight_places(evaluator.circuit, evaluator.program)
        self._exists = pack_masks(evaluator.circuit, program)
        groups = group_inputs(evaluator.circuit, program)
        self._tables = _table_places(groups)
        self._tabular = [group for group in groups if group.is_table]
        self._others = [group for group in groups if not group.is_table]
        for group in self._others:
            group.family.require("Learning by gradients", "statistics", "unconstrain", "constrain", "gradient")

    def read(self) -> Array:
        """The z of the evaluator's parameters."""
        z = np.zeros(self.size)
        z[: self.n_weights] = np.log(np.maximum(self.evaluator.weights, SMALLEST))
        inputs, rest = self.evaluator.inputs, z[self.n_weights :]
        for group in self._tabular:
            group.view(rest)[:] = np.log(np.maximum(group.view(inputs), SMALLEST))
        for group in self._others:
            self._put(rest, group, group.family.unconstrain(group.parameters(inputs)))
        return z

    def _put(self, rest: Array, group: Group, free: dict[str, Array]) -> None:
        """Write a group's unconstrained numbers, or gradients in them."""
        group.put(rest, family_packing.pack_free(group.family, free, group.n_units))

    def write(self, z: Array) -> None:
        """Give the evaluator the parameters of z."""
        softmax(self._weights, self._exists, z[: self.n_weights], self.evaluator.weights)
        rest, inputs = z[self.n_weights :], self.evaluator.inputs
        softmax(self._tables, _ALL, rest, inputs)
        for group in self._others:
            group.write(inputs, group.family.constrain(family_packing.unpack_free(group.family, group.units(rest))))

    def add_gradient(self, out: Array, factor: float, weights: NDArray[Any], statistics: Array) -> None:
        """Add `factor` times the gradient in z to `out`.

        `weights` is the gradient in all weights, and `statistics` are sufficient statistics of the inputs, weighted by flow:
        the gradient of Σ flow · log p in an input's parameters is linear in them. For the gradient of a penalty the weight
        is what flow changes by, and the formulas are the same.
        """
        to_logits(self._weights, self.evaluator.weights, weights, factor, False, out[: self.n_weights])
        inputs, rest = self.evaluator.inputs, out[self.n_weights :]
        to_logits(self._tables, inputs, statistics, factor, True, rest)
        for group in self._others:
            found = group.family.gradient(group.parameters(inputs), group.statistics(statistics))
            free = family_packing.pack_free(group.family, found, group.n_units)
            group.put(rest, group.units(rest) + factor * free)


def _table_places(groups: list[Group]) -> Ints:
    places = []
    for group in groups:
        if group.is_table:
            places += group.place.places()
    return np.array(places, np.int64).reshape(-1, 5)
