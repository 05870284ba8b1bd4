"""Circuits that no learner would make: irregular ones, and ones that contradict the rows."""

from __future__ import annotations

from typing import Any

import numpy as np

import flatpc as fp


def random_dag(n_nodes: int, n_variables: int, seed: int = 0) -> fp.Circuit:
    """An irregular scalar circuit: sums of two to five products of random parts, shared at random; the root uses all there is."""
    rng = np.random.default_rng(seed)
    nodes: list[fp.Node] = []
    parameters: dict[int, Any] = {}

    def add(node: fp.Node, value: Any = None) -> int:
        nodes.append(node)
        if value is not None:
            parameters[len(nodes) - 1] = value
        return len(nodes) - 1

    per_region = max(2, n_nodes // (6 * n_variables))
    regions = [
        [add(fp.Input(v, fp.Bernoulli()), {"p": rng.uniform(0.1, 0.9, 1)}) for _ in range(per_region)] for v in range(n_variables)
    ]
    while len(regions) > 1:
        merged = []
        for left, right in zip(regions[::2], regions[1::2], strict=False):
            sizes = rng.integers(2, 6, per_region) if len(regions) > 2 else [per_region]
            # Every part once, and then some again.
            chosen = [np.append(rng.permutation(part), rng.choice(part, sum(sizes) - len(part))) for part in (left, right)]
            products = [add(fp.Product((int(a), int(b)))) for a, b in zip(*chosen, strict=True)]
            sums = []
            for below in np.split(np.array(products), np.cumsum(sizes)[:-1]):
                weights = rng.random((1, len(below)))
                sums.append(add(fp.Sum(tuple(below)), weights / weights.sum()))
            merged.append(sums)
        regions = merged + ([regions[-1]] if len(regions) % 2 else [])
    return fp.Circuit(nodes, parameters)


def sharpened(value: Any) -> Any:
    """Probabilities that all but exclude each other."""
    if isinstance(value, dict):
        return {name: np.where(p > 0.5, 1 - 1e-9, 1e-9) for name, p in value.items()}
    sharp = np.maximum((value / value.max(axis=1, keepdims=True)) ** 200, 1e-30)
    return sharp / sharp.sum(axis=1, keepdims=True)
