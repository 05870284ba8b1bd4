"""Continuous columns are learnt in units in which they have mean 0 and variance 1; the circuit then speaks of the user's units.

With z = (x - m)/s, a Gaussian of mean a and variance v over z is one of mean `m + s a` and variance `s² v` over x. The density of
x is `p(x) = p(z)/s`: a row's log-density is lower by `Σ log s` over its continuous columns, those that are missing left out. A
column may be mapped first, z = (t(x) - m)/s with a `Transform` t; then it is lower by `Σ log s - log t'(x)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from flatpc._row_weights import deviation, mean
from flatpc._typing import Array
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.nodes import Input
from flatpc.errors import DataError
from flatpc.families import Family, Transform
from flatpc.search.samples import Sample

LARGEST = 1e120
"""Scales beyond this, or below its inverse, have squares that are no longer numbers."""


@dataclass(frozen=True)
class Scaling:
    """`shift` and `scale` of every column; 0 and 1 for those that are not continuous."""

    shift: Array
    scale: Array
    transforms: Mapping[int, Transform] = field(default_factory=dict)
    """Of the columns that are mapped first."""
    atoms: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    """Values of a column that have probabilities, not densities, which no unit changes."""
    rounded: frozenset[int] = frozenset()
    """Columns all of whose values have."""

    @staticmethod
    def learn(
        rows: Array,
        families: Sequence[Family],
        names: Sequence[str] | None = None,
        transforms: Mapping[int, Transform] | None = None,
        weights: Array | None = None,
    ) -> Scaling:
        """Mean and standard deviation of continuous columns; of one that never changes, its size if that is below 1.

        A column with a bound keeps its zero.
        """
        transforms = transforms or {}
        rows = _mapped(rows, transforms)
        shift, scale = np.zeros(rows.shape[1]), np.ones(rows.shape[1])
        for j, family in enumerate(families):
            if not family.can_rescale:
                continue
            known = ~np.isnan(rows[:, j])
            x, w = rows[known, j], None if weights is None else weights[known]
            # In units of the largest number, so that no square overflows.
            unit = float(abs(x).max()) or 1.0
            middle, spread = mean(x / unit, w), deviation(x / unit, w)
            shift[j] = unit * middle if j in transforms or not np.isfinite(family.bounds).any() else 0.0
            # Below this a deviation is rounding: the numbers are all the same.
            scale[j] = unit * spread if spread > 1e-12 else unit if 1 / LARGEST < unit < 1 else 1.0
            if family.inner is not None:
                # Atoms and steps have to be the same numbers there and back: a power of two moves no digit.
                shift[j], scale[j] = 0.0, 2.0 ** np.round(np.log2(scale[j]))
            if not 1 / LARGEST < scale[j] < LARGEST or unit > LARGEST:
                name = f"x{j}" if names is None else names[j]
                raise DataError(
                    f"Column {name!r} has numbers around {unit:.0e}; state it in a unit in which they are nearer to 1."
                )
        atoms = {j: family.set_apart for j, family in enumerate(families) if family.set_apart}
        return Scaling(shift, scale, transforms, atoms, frozenset(j for j, family in enumerate(families) if family.discrete))

    def apply(self, rows: Array) -> Array:
        """Rows in the units of learning."""
        return (_mapped(rows, self.transforms) - self.shift) / self.scale

    def apply_to(self, sample: Sample) -> Sample:
        """The same rows, of the same weights."""
        return sample.changed(self.apply(sample.X))

    def of(self, node: Input) -> tuple[Any, Any]:
        """Shift and scale of an input's variable; arrays of them where it has several."""
        if node.family.n_variables == 1:
            return float(self.shift[node.variable]), float(self.scale[node.variable])
        return self.shift[node.columns], self.scale[node.columns]

    def log_volume(self, rows: Array) -> Array:
        """`[N]`: what the log-density of rows is lower by in the user's units, in which they are given."""
        known = ~np.isnan(rows)
        dense = known.copy()
        dense[:, list(self.rounded)] = False
        for j, atoms in self.atoms.items():
            dense[:, j] &= ~np.isin(rows[:, j], atoms)
        out = np.asarray(dense @ np.log(self.scale))
        for j, transform in self.transforms.items():
            out -= np.where(known[:, j], transform.log_slope(rows[:, j]), 0.0)
        return out

    def own(self, family: Family, j: int) -> Family:
        """The family of a column in the units of learning, with options such as atoms in them."""
        if j in self.transforms or not family.can_rescale:
            return family
        some = family.initialize(1, np.random.default_rng(0), "uniform")
        return family.rescaled(some, float(-self.shift[j] / self.scale[j]), float(1 / self.scale[j]))[0]


def _mapped(rows: Array, transforms: Mapping[int, Transform]) -> Array:
    if not transforms:
        return rows
    out = rows.copy()
    for j, transform in transforms.items():
        out[:, j] = transform.forward(rows[:, j])
    return out


def in_users_units(circuit: Circuit, scaling: Scaling) -> Circuit:
    """The circuit over x, if the one given is over (x - shift)/scale, or (t(x) - shift)/scale."""
    nodes = list(circuit.nodes)
    parameters: dict[int, Any] = dict(circuit.parameters)
    for i, node in enumerate(nodes):
        if isinstance(node, Input) and node.family.can_rescale:
            own: Any = circuit.parameters[i]
            shift, scale = scaling.of(node)
            family, parameters[i] = node.family.rescaled(own, shift, scale)
            maps = tuple(scaling.transforms.get(v) for v in node.variables)
            nodes[i] = replace(node, family=family.behind(maps) if any(t is not None for t in maps) else family)
    return Circuit(nodes, parameters)
