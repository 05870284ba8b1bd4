"""Directions in parameter space for looking at a loss: random or along eigenvectors, scaled filter by filter.

A filter is one unit's vector of weights. Filter normalisation (Li, Xu, Taylor, Studer and Goldstein, 2018) gives every filter of
a direction the length of the model's own filter, so that a step of 1 means the same for large and small weights, and surfaces of
different models can be compared.

In logits a vector of weights is `z = log θ` minus its mean, which fixes what softmax leaves open; edges of weight 0 stay at 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flatpc._options import wrong
from flatpc._typing import Array
from flatpc.curvature.layout import Layout, check_space, parameters_of
from flatpc.curvature.spectra import eigenvalues

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

DIRECTIONS = ("random", "eigenvectors")
LANDSCAPE_SPACES = ("logits", "weights")


@dataclass(frozen=True)
class Coordinates:
    """A circuit's weights as a point that can be moved in straight lines."""

    layout: Layout
    space: str

    @property
    def moving(self) -> NDArray[np.bool_]:
        """Entries that can change: in logits those that are positive, otherwise all that exist."""
        return self.layout.values > 0 if self.space == "logits" else self.layout.exists

    @property
    def point(self) -> Array:
        """Where the circuit is: θ, or centred logits."""
        if self.space == "weights":
            return self.layout.values
        positive = self.moving
        return self.centre(np.log(np.where(positive, self.layout.values, 1.0)))

    def centre(self, vector: Array) -> Array:
        """Without each unit's mean over the entries that move."""
        moving = self.moving
        inside = np.where(moving, vector, 0.0)
        mean = self.layout.row_sums(inside) / np.maximum(self.layout.row_sums(moving.astype(np.float64)), 1.0)
        return np.where(moving, inside - mean, 0.0)

    def normalise(self, vector: Array) -> Array:
        """Filter normalisation: every unit's part as long as the unit's own coordinates, and without a mean.

        In both spaces a mean would be undone: by softmax, or by dividing weights by their sum.
        """
        vector = self.centre(vector)
        own = np.sqrt(self.layout.row_sums(self.point**2))
        length = np.sqrt(self.layout.row_sums(vector**2))
        return np.where(length > 0, vector * own / np.where(length > 0, length, 1.0), 0.0)

    def circuit_at(self, vector: Array) -> Circuit:
        """The circuit at a point: softmax of logits; weights below 0 are set to 0 and each unit divided by its sum."""
        layout, moving = self.layout, self.moving
        if self.space == "logits":
            top = np.full(int(layout.row.max(initial=-1)) + 1, -np.inf)
            np.maximum.at(top, layout.row, np.where(moving, vector, -np.inf))
            theta = np.where(moving, np.exp(np.where(moving, vector - top[layout.row], 0.0)), 0.0)
        else:
            theta = np.where(moving, np.maximum(vector, 0.0), 0.0)
            # A unit that lost all its weights keeps those it had.
            theta = np.where(layout.row_sums(theta) > 0, theta, layout.values)
        theta = theta / layout.row_sums(theta)
        return layout.circuit.with_parameters(parameters_of(layout.circuit, layout.arrays(theta)))


def find_directions(
    coordinates: Coordinates, X: Any, n: int, kind: str | Array, seed: int, missing: str, progress: bool
) -> Array:
    """`[n, P]`: filter-normalised directions; `kind` may also be the directions themselves, `[n, P]`."""
    layout = coordinates.layout
    check_space(coordinates.space, LANDSCAPE_SPACES)
    if not isinstance(kind, str):
        try:
            found = np.atleast_2d(np.asarray(kind, np.float64))
        except (TypeError, ValueError, OverflowError, RuntimeError):
            found = np.empty(0)
        if found.shape != (n, layout.size) or not np.isfinite(found).all():
            raise wrong("directions", kind, f"they are finite numbers and should have the shape {(n, layout.size)}.")
    elif kind == "random":
        found = np.random.default_rng(seed).standard_normal((n, layout.size))
    elif kind == "eigenvectors":
        space = "logits" if coordinates.space == "logits" else "simplex"
        found = eigenvalues(
            layout.circuit, X, n, space=space, include_inputs=layout.include_inputs, missing=missing, progress=progress
        ).vectors.T
        # Filter normalisation would turn an eigenvector into another direction: it is only scaled, as a whole.
        scale = np.linalg.norm(coordinates.point) / np.linalg.norm(found, axis=1, keepdims=True)
        return np.stack([coordinates.centre(row) for row in found * scale])
    else:
        raise wrong("directions", kind, f"choose 'random' or 'eigenvectors', or give an array [{n}, {layout.size}].")
    return np.stack([coordinates.normalise(row) for row in found])
