"""Parameters without constraints, for gradient descent: one flat vector z, from which all others are computed.

| parameter | of z |
|---|---|
| weights of a sum, table of a Bernoulli or categorical | softmax of the unit's entries |
| mean of a Gaussian | itself |
| variance of a Gaussian | min_variance + exp(2 z), z being the logarithm of a scale |
| the same, bounded above | min_variance + (max_variance - min_variance) / (1 + exp(-z)) |
| rate of a Poisson | min_rate + exp(z) |
| p of a binomial | 1 / (1 + exp(-z)) |
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from flatpc.circuit.nodes import Mixture
from flatpc.engine import packing
from flatpc.engine.evaluator import Evaluator
from flatpc.families.binomial import Binomial
from flatpc.families.gaussian import Gaussian
from flatpc.families.poisson import Poisson
from flatpc.learning._kernels.simplex import softmax, to_logits
from flatpc.learning.inputs import Group, group_inputs

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

SMALLEST = 1e-30
"""Probabilities start from here at least: the logarithm of 0 can't be moved by a gradient."""
LARGEST = 600.0
"""Exponents stay below, so that even a run that diverges has finite parameters."""
_ALL = np.empty(0, np.uint8)


class Unconstrained:
    """The vector z of one evaluator: its weights' logits, then its inputs', in the order of the packed parameters."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        program = evaluator.program
        self.n_weights, self.size = program.n_weights, program.n_weights + program.n_inputs
        self._weights = _weight_places(evaluator)
        self._exists = packing.pack_masks(evaluator.circuit, program)
        self._groups = group_inputs(evaluator.circuit, program)
        self._tables = _table_places(self._groups)

    def read(self) -> Array:
        """The z of the evaluator's parameters."""
        z = np.zeros(self.size)
        z[: self.n_weights] = np.log(np.maximum(self.evaluator.weights, SMALLEST))
        inputs = self.evaluator.inputs
        for group in self._groups:
            p, u = group.view(inputs), group.view(z[self.n_weights :])
            family = group.family
            if group.is_table:
                u[:] = np.log(np.maximum(p, SMALLEST))
            elif isinstance(family, Gaussian):
                u[:, 0] = p[:, 0]
                u[:, 1] = _from_variance(family, p[:, 1])
            elif isinstance(family, Poisson):
                u[:, 0] = np.log(np.maximum(p[:, 0] - family.min_rate, 0.01 * family.min_rate))
            else:
                assert isinstance(family, Binomial)
                u[:, 0] = logit(np.clip(p[:, 0], 1e-12, 1 - 1e-12))
        return z

    def write(self, z: Array) -> None:
        """Give the evaluator the parameters of z."""
        softmax(self._weights, self._exists, z[: self.n_weights], self.evaluator.weights)
        rest, inputs = z[self.n_weights :], self.evaluator.inputs
        softmax(self._tables, _ALL, rest, inputs)
        for group in self._groups:
            p, u, family = group.view(inputs), group.view(rest), group.family
            if isinstance(family, Gaussian):
                p[:, 0] = u[:, 0]
                p[:, 1] = _to_variance(family, u[:, 1])
            elif isinstance(family, Poisson):
                p[:, 0] = family.min_rate + np.exp(np.minimum(u[:, 0], LARGEST))
            elif isinstance(family, Binomial):
                p[:, 0] = expit(u[:, 0])

    def add_gradient(self, out: Array, factor: float, weights: NDArray[Any], statistics: Array) -> None:
        """Add `factor` times the gradient in z to `out`.

        `weights` is the gradient in all weights, and `statistics` are sufficient statistics of the inputs, weighted by flow:
        the gradient of Σ flow · log p in an input's parameters is linear in them. For the gradient of a penalty the weight
        is what flow changes by, and the formulas are the same.
        """
        to_logits(self._weights, self.evaluator.weights, weights, factor, False, out[: self.n_weights])
        inputs, rest = self.evaluator.inputs, out[self.n_weights :]
        to_logits(self._tables, inputs, statistics, factor, True, rest)
        for group in self._groups:
            p, s, u, family = group.view(inputs), group.view(statistics), group.view(rest), group.family
            if isinstance(family, Gaussian):
                variance = p[:, 1]
                u[:, 0] += factor * s[:, 1] / variance
                u[:, 1] += factor * (s[:, 2] / variance - s[:, 0]) * _slope(family, variance) / (2 * variance)
            elif isinstance(family, Poisson):
                u[:, 0] += factor * (s[:, 1] / p[:, 0] - s[:, 0]) * (p[:, 0] - family.min_rate)
            elif isinstance(family, Binomial):
                u[:, 0] += factor * (s[:, 1] - family.n * s[:, 0] * p[:, 0])


def _from_variance(family: Gaussian, variance: Array) -> Array:
    above = np.maximum(variance - family.min_variance, 0.01 * family.min_variance)
    if family.max_variance is None:
        return np.asarray(np.log(above) / 2)
    share = above / (family.max_variance - family.min_variance)
    return np.asarray(logit(np.clip(share, 1e-12, 1 - 1e-12)))


def _to_variance(family: Gaussian, z: Array) -> Array:
    if family.max_variance is None:
        return np.asarray(family.min_variance + np.exp(np.minimum(2 * z, LARGEST)))
    return np.asarray(family.min_variance + expit(z) * (family.max_variance - family.min_variance))


def _slope(family: Gaussian, variance: Array) -> Array:
    """The derivative of the variance in z."""
    above = variance - family.min_variance
    if family.max_variance is None:
        return np.asarray(2 * above)
    return np.asarray(above * (family.max_variance - variance) / (family.max_variance - family.min_variance))


def _weight_places(evaluator: Evaluator) -> Ints:
    circuit, places = evaluator.circuit, []
    for i, (offset, shape) in evaluator.program.weight_blocks.items():
        units, n = circuit.weight_shape(i)
        if isinstance(circuit.nodes[i], Mixture):
            places.append((offset, units, 1, n, shape[1]))
        else:
            places.append((offset, units, shape[-1], n, 1))
    return np.array(places, np.int64).reshape(-1, 5)


def _table_places(groups: list[Group]) -> Ints:
    places = []
    for group in groups:
        if group.is_table:
            rows, stride = group.shape
            starts = group.start + rows * stride * np.arange(group.n_nodes)
            places += [(int(start), group.width, 1, rows, stride) for start in starts]
    return np.array(places, np.int64).reshape(-1, 5)
