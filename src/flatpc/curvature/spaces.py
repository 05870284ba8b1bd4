"""From the weights θ to other coordinates.

    logits    θ = softmax(z) for every unit        ∂/∂z = J ∂/∂θ,  J v = θ (v - Σ θ v)
    simplex   directions that keep Σ θ = 1         H -> Π H Π,     Π v = v - mean of v over the unit's edges

The Hessian in z has a second part, from the curvature of softmax itself: with θ̇ = J v and g the gradient in θ,

    H_z v = J H_θ θ̇ + θ̇ (g - Σ θ g) - θ Σ θ̇ g
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
    count = layout.row_sums(layout.exists.astype(np.float64))
    inside = np.where(layout.exists, vector, 0.0)
    return np.where(layout.exists, inside - layout.row_sums(inside) / count, 0.0)


def product_in_logits(layout: Layout, theta: Array, gradient: Array, product: Callable[[Array], Array], vector: Array) -> Array:
    """H_z v, from the gradient and the Hessian-vector product in θ."""
    moved = through_softmax(layout, theta, vector)
    curved = moved * (gradient - layout.row_sums(theta * gradient)) - theta * layout.row_sums(moved * gradient)
    return through_softmax(layout, theta, product(moved)) + curved
