"""Flows by their definition, in the log domain, from the values that `evaluate` gives: edge by edge, row by row summed."""

import numpy as np

import flatpc as fp
from tests.oracles.evaluate import log_values


def unit_flows(circuit, X):
    """For each node `[N, K]`: every unit's flow; 0 throughout a row whose probability is 0."""
    return _pass_down(circuit, X)[0]


def flows(circuit, X, weights=None):
    """Flows of all edges {owner: array} and statistics of inputs {owner: dict}, rows counted `weights` times."""
    weights = np.ones(len(X)) if weights is None else weights
    units, edges = _pass_down(circuit, X)
    sums, inputs = {}, {}
    for i, node in enumerate(circuit.nodes):
        owner = circuit.owners[i]
        if isinstance(node, fp.Input):
            found = node.family.statistics(circuit.parameters[i], X[:, node.columns], units[i] * weights[:, None])
            inputs[owner] = {name: found[name] + inputs[owner][name] if owner in inputs else found[name] for name in found}
        elif not isinstance(node, fp.Product):
            sums[owner] = sums.get(owner, 0) + np.einsum("n,nkc->kc", weights, edges[i])
    return sums, inputs


def _pass_down(circuit, X):
    """Flows of units {[N, K]} and, for sums and mixtures, of edges {[N, K, children]}."""
    X = np.asarray(X, dtype=np.float64)
    values = log_values(circuit, X)
    units = [np.zeros_like(v) for v in values]
    units[-1][:, 0] = np.isfinite(values[-1][:, 0])
    edges = {}
    for i in reversed(range(len(circuit.nodes))):
        node = circuit.nodes[i]
        if isinstance(node, fp.Sum):
            below = np.concatenate([values[c] for c in node.children], axis=1)
            edges[i] = _share(circuit.parameters[i], below[:, None, :]) * units[i][:, :, None]
            start = 0
            for c in node.children:
                units[c] += edges[i][:, :, start : start + circuit.widths[c]].sum(axis=1)
                start += circuit.widths[c]
        elif isinstance(node, fp.Mixture):
            below = np.stack([values[c] for c in node.children], axis=2)
            edges[i] = _share(circuit.parameters[i], below) * units[i][:, :, None]
            for j, c in enumerate(node.children):
                units[c] += edges[i][:, :, j]
        elif isinstance(node, fp.Product) and node.kind == "hadamard":
            for c in node.children:
                units[c] += units[i]
        elif isinstance(node, fp.Product):
            grid = units[i].reshape(len(X), *(circuit.widths[c] for c in node.children))
            for j, c in enumerate(node.children):
                units[c] += grid.sum(axis=tuple(a for a in range(1, grid.ndim) if a != j + 1))
    return units, edges


def _share(weights, below):
    """Θ · p_c / p_n `[N, K, children]`, and 0 where p_n is 0."""
    with np.errstate(divide="ignore"):
        terms = np.log(weights) + below
    top = terms.max(axis=2, keepdims=True)
    terms = np.exp(terms - np.where(np.isneginf(top), 0.0, top))
    return terms / np.where(np.isneginf(top), 1.0, terms.sum(axis=2, keepdims=True))
