"""Softmax of logits, and the chain rule back to logits, over many simplices that lie in one flat array.

Each row of `places` is `(start, units, distance between units, entries, distance between entries)`.
"""

import math

from flatpc.engine._kernels import FAST, kernel


@kernel
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
                    e = math.exp(Z[at + c * along] - largest)
                    W[at + c * along] = e
                    total += e
            scale = 1.0 / total
            for c in range(n):
                W[at + c * along] *= scale


@kernel(fastmath=FAST)
def _add_row(w, g, factor, are_flows, out):
    total = 0.0
    if are_flows:
        for c in range(len(w)):
            total += g[c]
        for c in range(len(w)):
            out[c] += factor * (g[c] - w[c] * total)
    else:
        for c in range(len(w)):
            total += w[c] * g[c]
        for c in range(len(w)):
            out[c] += factor * w[c] * (g[c] - total)


@kernel
def to_logits(places, W, G, factor, are_flows, OUT):
    """Add `factor` times the gradient in logits, θ (g - Σ θ g), to OUT; if G holds flows θ g already, F - θ Σ F."""
    for i in range(len(places)):
        start, units, across, n, along = places[i, 0], places[i, 1], places[i, 2], places[i, 3], places[i, 4]
        for u in range(units):
            at = start + u * across
            if along == 1:
                _add_row(W[at : at + n], G[at : at + n], factor, are_flows, OUT[at : at + n])
            else:
                end = at + n * along
                _add_row(W[at:end:along], G[at:end:along], factor, are_flows, OUT[at:end:along])
