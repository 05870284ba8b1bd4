"""Softmax of logits, and the chain rule back to logits, over many simplices that lie in one flat array.

Each row of `places` is `(start, units, distance between units, entries, distance between entries)`.
"""

import math

from numba import njit


@njit(cache=True, nogil=True, boundscheck=False)
def softmax(places, exists, Z, W):
    """W = softmax(Z), unit by unit; entries that don't exist stay 0. `exists` may be empty."""
    for i in range(len(places)):
        start, units, across, n, along = places[i, 0], places[i, 1], places[i, 2], places[i, 3], places[i, 4]
        for u in range(units):
            at = start + u * across
            largest = -math.inf
            for c in range(n):
                if not len(exists) or exists[at + c * along]:
                    largest = max(largest, Z[at + c * along])
            total = 0.0
            for c in range(n):
                if not len(exists) or exists[at + c * along]:
                    total += math.exp(Z[at + c * along] - largest)
            for c in range(n):
                if not len(exists) or exists[at + c * along]:
                    W[at + c * along] = math.exp(Z[at + c * along] - largest) / total


@njit(cache=True, nogil=True, boundscheck=False)
def to_logits(places, W, G, factor, are_flows, OUT):
    """Add `factor` times the gradient in logits, θ (g - Σ θ g), to OUT; if G holds flows θ g already, F - θ Σ F."""
    for i in range(len(places)):
        start, units, across, n, along = places[i, 0], places[i, 1], places[i, 2], places[i, 3], places[i, 4]
        for u in range(units):
            at = start + u * across
            total = 0.0
            for c in range(n):
                w = float(W[at + c * along])
                total += G[at + c * along] * (1.0 if are_flows else w)
            for c in range(n):
                w = float(W[at + c * along])
                OUT[at + c * along] += factor * (G[at + c * along] * (1.0 if are_flows else w) - w * total)
