"""From the weights θ to other coordinates.

    logits    θ = softmax(z) for every unit        ∂/∂z = J ∂/∂θ,  J v = θ (v - Σ θ v)
    simplex   directions that keep Σ θ = 1         H -> Π H Π,     Π v = v - mean of v over the unit's edges

The Hessian in z has a second part, from the curvature of softmax itself: with θ̇ = J v and g the gradient in θ,

    H_z v = J H_θ θ̇ + θ̇ (g - Σ θ g) - θ Σ θ̇ g

Vectors are `[..., P]`: one, or several in rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from flatpc.curvature.layout import Layout

Array = NDArray[np.float64]


def through_softmax(layout: Layout, theta: Array, vector: Array) -> Array:
    """J v."""
    return theta * (vector - layout.row_sums(theta * vector))


def project(layout: Layout, vector: Array) -> Array:
    """Π v; entries that a mask removes are 0."""
    inside = np.where(layout.exists, vector, 0.0)
    return np.where(layout.exists, inside - layout.row_sums(inside) / layout.edges, 0.0)


def product_in(
    space: str, layout: Layout, theta: Array, gradient: Callable[[], Array], product: Callable[[Array], Array], vectors: Array
) -> Array:
    """The space's Hessian times each vector, from the gradient and the Hessian-vector products in θ."""
    if space == "weights":
        return product(vectors)
    if space == "simplex":
        return project(layout, product(project(layout, vectors)))
    moved, g = through_softmax(layout, theta, vectors), gradient()
    curved = moved * (g - layout.row_sums(theta * g)) - theta * layout.row_sums(moved * g)
    return through_softmax(layout, theta, product(moved)) + curved


def gradient_in(space: str, layout: Layout, theta: Array, gradient: Array) -> Array:
    """A gradient in θ in the coordinates of the space that a penalty is stated in."""
    if space == "weights":
        return gradient
    return project(layout, gradient) if space == "simplex" else through_softmax(layout, theta, gradient)
