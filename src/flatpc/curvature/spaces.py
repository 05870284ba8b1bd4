"""From the weights θ to other coordinates.

    logits    θ = softmax(z) for every unit        ∂/∂z = J ∂/∂θ,  J v = θ (v - Σ θ v)
    simplex   directions that keep Σ θ = 1         H -> Π H Π,     Π v = v - mean of v over the unit's edges

The Hessian in z has a second part, from the curvature of softmax itself. With w = v - Σ θ v, f = θ g the flow of every edge, and
G = θ H θ, which is a difference of probabilities, however small weights are:

    H_z v = G w - θ Σ G w  +  f w - θ (w Σ f + Σ f w)

Vectors are `[..., P]`: one, or several in rows; arrays, or `Wide` numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from flatpc._typing import Array
from flatpc.curvature.layout import Layout
from flatpc.curvature.wide_numbers import Wide

V = TypeVar("V", Array, Wide)


def through_softmax(layout: Layout, theta: V, vector: V) -> V:
    """J v."""
    return _balanced(layout, theta, theta * vector)


def _balanced(layout: Layout, theta: V, scaled: V) -> V:
    """J v from θ v."""
    return scaled - theta * layout.row_sums(scaled)


def project(layout: Layout, vector: V) -> V:
    """Π v; entries that a mask removes are 0."""
    inside = layout.existing(vector)
    return layout.existing(inside - layout.row_sums(inside) / layout.edges)


def product_in(space: str, layout: Layout, theta: V, flows: Callable[[], V], product: Callable[[V], V], vectors: V) -> V:
    """The space's Hessian times each vector; `product` is that in θ, in logits `v -> θ H (θ v)`, and `flows` are `θ g`."""
    if space == "weights":
        return product(vectors)
    if space == "simplex":
        return project(layout, product(project(layout, vectors)))
    w, f = vectors - layout.row_sums(theta * vectors), flows()
    curved = f * w - theta * (w * layout.row_sums(f) + layout.row_sums(f * w))
    return _balanced(layout, theta, product(w)) + curved


def matrix_in(space: str, layout: Layout, theta: Array, flows: Callable[[], Array], H: Array) -> Array:
    """The space's Hessian from the one in θ, or in logits from `θ H θ`."""
    if space == "weights":
        return H
    # What the change of space makes of H times unit vectors is what it makes of H, from one side.
    one_side = (project(layout, H) if space == "simplex" else _balanced(layout, theta, H)).T
    return product_in(space, layout, theta, flows, lambda _: one_side, np.eye(len(H)))


def gradient_in(space: str, layout: Layout, theta: V, gradient: V) -> V:
    """A gradient in θ in the coordinates of the space that a penalty is stated in."""
    if space == "weights":
        return gradient
    return project(layout, gradient) if space == "simplex" else through_softmax(layout, theta, gradient)


def squared(space: str, layout: Layout, theta: V, gradient: V) -> V:
    """`[..., P]`: what each parameter contributes to the trace of the Hessian of -log p, from row gradients of log p in θ."""
    if space == "weights":
        return gradient * gradient
    if space == "simplex":
        moved = project(layout, gradient)
        return moved * moved
    d = through_softmax(layout, theta, gradient)
    return d * d + theta * d * 2.0 if space == "logits" else d * d


def diagonal(space: str, layout: Layout, theta: V, gradient: V) -> V:
    """`[..., P]`: the diagonal of the Hessian of -log p, from row gradients of log p in θ."""
    if space != "logits":
        return squared(space, layout, theta, gradient)
    d = through_softmax(layout, theta, gradient)
    return d * d + theta * d * 2.0 - d
