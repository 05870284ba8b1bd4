"""Hypothesis strategies for random smooth, decomposable circuits, and for rows of them.

Every kind of node and product, masks, ties, shared sub-circuits, several children of a sum, weights and probabilities that
are exactly 0, and inputs of different families over one variable occur.
"""

import numpy as np
from hypothesis import strategies as st

import flatpc as fp

MAX_ASSIGNMENTS = 2048


@st.composite
def circuits(draw, max_variables=6, max_width=4, families="discrete", shared=True, ties=True, masks=True):
    """A random circuit.

    `families` is "discrete" (finitely many assignments: at most 2048) or "all" (with Gaussian and Poisson variables).
    """
    return _Builder(draw, max_variables, max_width, families, shared, ties, masks).circuit()


def scalar_trees(max_variables=6, families="discrete"):
    """Circuits of width 1 in which every unit has at most one parent."""
    return circuits(max_variables, 1, families, shared=False, ties=False, masks=False)


def scalar_dags(max_variables=6, families="discrete"):
    """Circuits of width 1 that share sub-circuits."""
    return circuits(max_variables, 1, families, ties=False, masks=False)


@st.composite
def rows(draw, circuit, max_rows=8, missing=True):
    """Rows in the supports of the circuit's families, with missing entries if asked for."""
    n = draw(st.integers(1, max_rows))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = np.empty((n, circuit.n_variables))
    for v, family in enumerate(circuit.families):
        if isinstance(family, fp.Gaussian):
            X[:, v] = 3 * rng.standard_normal(n)
        elif isinstance(family, fp.Poisson):
            X[:, v] = rng.poisson(3, n)
        else:
            X[:, v] = rng.integers(0, family.n_categories, n)
    if missing:
        X[rng.random(X.shape) < draw(st.sampled_from([0.0, 0.3, 1.0]))] = np.nan
    return X


class _Builder:
    def __init__(self, draw, max_variables, max_width, families, shared, ties, masks):
        self.draw, self.max_width = draw, max_width
        self.shared, self.ties, self.masks = shared, ties, masks
        n = draw(st.integers(1, max_variables))
        self.kinds = [draw(st.sampled_from(["finite"] if families == "discrete" else ["finite", "gaussian", "poisson"]))]
        self.kinds += [draw(st.sampled_from(sorted({"finite", self.kinds[0]}))) for _ in range(n - 1)]
        self.sizes, total = [], 1
        for left in reversed(range(n)):
            largest = max(2, min(4, MAX_ASSIGNMENTS // (total * 2**left)))
            self.sizes.append(draw(st.integers(2, largest)))
            total *= self.sizes[-1]
        self.nodes, self.widths, self.scopes = [], [], []

    def circuit(self):
        self.region(frozenset(range(len(self.kinds))), 1, depth=0)
        circuit = fp.Circuit(self.nodes)
        rng = np.random.default_rng(self.draw(st.integers(0, 2**32 - 1)))
        zeros = self.draw(st.sampled_from([0.0, 0.0, 0.2, 0.5]))
        return circuit.with_parameters(_random_parameters(circuit, rng, zeros))

    def chance(self, one_in):
        return self.draw(st.integers(1, one_in)) == one_in

    def width(self):
        return self.draw(st.integers(1, self.max_width))

    def add(self, node, width, scope):
        self.nodes.append(node)
        self.widths.append(width)
        self.scopes.append(scope)
        return len(self.nodes) - 1

    def region(self, scope, width, depth):
        """A node over `scope` with `width` units; a new one, or with luck one that is there already."""
        if self.shared and depth > 0:
            there = [i for i, s in enumerate(self.scopes) if s == scope and self.widths[i] == width]
            if there and self.chance(2):
                return self.draw(st.sampled_from(there))
        kinds = ["base"]
        if depth < 4:
            kinds += ["sum", "sum", "mixture"]
        kind = self.draw(st.sampled_from(kinds))
        if kind == "base":
            if len(scope) == 1:
                return self.input(scope, width)
            together = len(scope) < 4 and all(self.kinds[v] == "gaussian" for v in scope) and self.chance(2)
            return self.block(scope, width) if together else self.product(scope, width, depth)
        n = self.draw(st.integers(1, 3))
        if kind == "mixture":
            children = tuple(self.region(scope, width, depth + 1) for _ in range(n))
            return self.add(fp.Mixture(children, tie=self.tie(fp.Mixture, (width, n))), width, scope)
        children = tuple(self.region(scope, self.width(), depth + 1) for _ in range(n))
        shape = (width, sum(self.widths[c] for c in children))
        tie = self.tie(fp.Sum, shape)
        mask = None if tie is None else self.nodes[tie].mask
        if tie is None and self.masks and self.chance(4):
            rng = np.random.default_rng(self.draw(st.integers(0, 2**16)))
            mask = rng.random(shape) < 0.6
            mask[np.arange(width), rng.integers(0, shape[1], width)] = True
        return self.add(fp.Sum(children, width, mask, tie), width, scope)

    def tie(self, kind, shape):
        if not (self.ties and self.chance(3)):
            return None
        fit = [i for i, node in enumerate(self.nodes) if isinstance(node, kind) and self.shape(i) == shape]
        return self.draw(st.sampled_from(fit)) if fit else None

    def shape(self, i):
        children = self.nodes[i].children
        return self.widths[i], len(children) if isinstance(self.nodes[i], fp.Mixture) else sum(self.widths[c] for c in children)

    def product(self, scope, width, depth):
        order = self.draw(st.permutations(sorted(scope)))
        cut = self.draw(st.integers(1, len(order) - 1))
        parts = [order[:cut], order[cut:]]
        if len(parts[1]) > 1 and self.chance(3):
            parts[1:] = [parts[1][:1], parts[1][1:]]
        kind = self.draw(st.sampled_from(["hadamard", "kronecker"]))
        widths = [width] * len(parts)
        if kind == "kronecker":
            first = self.draw(st.sampled_from([k for k in range(1, width + 1) if width % k == 0]))
            widths = [first, width // first] + [1] * (len(parts) - 2)
        children = tuple(self.region(frozenset(p), k, depth + 1) for p, k in zip(parts, widths, strict=True))
        return self.add(fp.Product(children, kind), width, scope)

    def block(self, scope, width):
        variables = tuple(self.draw(st.permutations(sorted(scope))))
        family = fp.MultivariateGaussian(len(variables))
        same = [
            i for i, node in enumerate(self.nodes) if isinstance(node, fp.Input) and (node.family, node.width) == (family, width)
        ]
        tie = self.draw(st.sampled_from(same)) if same and self.ties and self.chance(3) else None
        return self.add(fp.Input(variables=variables, family=family, width=width, tie=tie), width, scope)

    def input(self, scope, width):
        (variable,) = scope
        n = self.sizes[variable]
        if self.kinds[variable] == "gaussian":
            family = fp.Gaussian()
        elif self.kinds[variable] == "poisson":
            family = fp.Poisson()
        else:
            choices = [fp.Categorical(n), fp.Indicator(n), fp.Binomial(n - 1)] + ([fp.Bernoulli()] if n == 2 else [])
            family = self.draw(st.sampled_from(choices))
        same = [
            i for i, node in enumerate(self.nodes) if isinstance(node, fp.Input) and (node.family, node.width) == (family, width)
        ]
        tie = self.draw(st.sampled_from(same)) if same and self.ties and self.chance(3) else None
        return self.add(fp.Input(variable, family, width, tie), width, scope)


def _random_parameters(circuit, rng, zeros):
    """Parameters of the owners, about a share `zeros` of weights and probabilities being exactly 0."""
    out = {}
    for i, node in enumerate(circuit.nodes):
        if isinstance(node, fp.Product) or circuit.owners[i] != i:
            continue
        if not isinstance(node, fp.Input):
            mask = node.mask if isinstance(node, fp.Sum) else None
            out[i] = _simplex(circuit.weight_shape(i), rng, zeros, mask)
        elif isinstance(node.family, fp.Categorical):
            out[i] = {"p": _simplex((node.width, node.family.n), rng, zeros)}
        elif isinstance(node.family, fp.Bernoulli | fp.Binomial):
            p = rng.random(node.width)
            out[i] = {"p": np.where(rng.random(node.width) < zeros, np.round(p), p)}
        elif isinstance(node.family, fp.Indicator):
            out[i] = {"value": rng.integers(0, node.family.n, node.width).astype(float)}
        elif isinstance(node.family, fp.Gaussian):
            out[i] = {"mean": rng.standard_normal(node.width), "variance": rng.uniform(0.1, 2, node.width)}
        elif isinstance(node.family, fp.MultivariateGaussian):
            d = node.family.n_variables
            root = rng.standard_normal((node.width, d, d))
            covariance = root @ root.swapaxes(1, 2) + 0.1 * np.eye(d)
            out[i] = {"mean": rng.standard_normal((node.width, d)), "covariance": covariance}
        else:
            out[i] = {"rate": rng.uniform(0.5, 6, node.width)}
    return out


def _simplex(shape, rng, zeros, mask=None):
    kept = np.ones(shape, bool) if mask is None else mask
    weights = rng.standard_exponential(shape) * kept
    thinned = weights * (rng.random(shape) >= zeros)
    weights = np.where(thinned.any(axis=1, keepdims=True), thinned, weights)
    return weights / weights.sum(axis=1, keepdims=True)
