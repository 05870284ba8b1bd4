"""Continuous columns are learnt in units in which they have mean 0 and variance 1; the circuit then speaks of the user's units.

With z = (x - m)/s, a Gaussian of mean a and variance v over z is one of mean `m + s a` and variance `s² v` over x. The density of
x is `p(x) = p(z)/s`: a row's log-density is lower by `Σ log s` over its continuous columns, those that are missing left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc.circuit.circuit import Circuit
from flatpc.circuit.nodes import Input
from flatpc.errors import DataError

Array = NDArray[np.float64]

LARGEST = 1e120
"""Scales beyond this, or below its inverse, have squares that are no longer numbers."""


@dataclass(frozen=True)
class Scaling:
    """`shift` and `scale` of every column; 0 and 1 for those that are not continuous."""

    shift: Array
    scale: Array

    @staticmethod
    def learn(rows: Array, continuous: NDArray[np.bool_], names: Sequence[str] | None = None) -> Scaling:
        """Mean and standard deviation of the columns marked; a column that never changes keeps its unit."""
        shift, scale = np.zeros(rows.shape[1]), np.ones(rows.shape[1])
        for j in np.flatnonzero(continuous):
            x = rows[~np.isnan(rows[:, j]), j]
            # In units of the largest number, so that no square overflows.
            unit = float(abs(x).max()) or 1.0
            mean, deviation = float((x / unit).mean()), float((x / unit).std())
            shift[j] = unit * mean
            # Below this a deviation is rounding: the numbers are all the same.
            scale[j] = unit * deviation if deviation > 1e-12 else 1.0
            if not 1 / LARGEST < scale[j] < LARGEST or unit > LARGEST:
                name = f"x{j}" if names is None else names[int(j)]
                raise DataError(
                    f"Column {name!r} has numbers around {unit:.0e}; state it in a unit in which they are nearer to 1."
                )
        return Scaling(shift, scale)

    def apply(self, rows: Array) -> Array:
        """Rows in the units of learning."""
        return (rows - self.shift) / self.scale

    def log_volume(self, rows: Array) -> Array:
        """`[N]`: Σ log s over the columns that a row has; what the log-density is lower by in the user's units."""
        return np.asarray(~np.isnan(rows) @ np.log(self.scale))


def in_users_units(circuit: Circuit, scaling: Scaling) -> Circuit:
    """The circuit over x, if the one given is over (x - shift)/scale."""
    nodes = list(circuit.nodes)
    parameters: dict[int, Any] = dict(circuit.parameters)
    for i, node in enumerate(nodes):
        if isinstance(node, Input) and node.family.defines("rescaled"):
            shift, scale = float(scaling.shift[node.variable]), float(scaling.scale[node.variable])
            own: Any = circuit.parameters[i]
            family, parameters[i] = node.family.rescaled(own, shift, scale)
            nodes[i] = replace(node, family=family)
    return Circuit(nodes, parameters)
