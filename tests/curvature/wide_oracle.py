"""Values, gradients and Hessians in mpmath's numbers, whose exponents have no limits, by forward differentiation alone.

Every unit is a number, its gradient and its Hessian in all parameters, carried up through sums and products by the product rule.
Slow, and without an idea that the library has: no adjoints, no flows, no logarithms, no scales.
"""

import mpmath
import numpy as np

import flatpc as fp

mpmath.mp.dps = 50


class WideOracle:
    """Of one circuit; `rows()` has (p, gradient of p, Hessian of p) in θ of each row."""

    def __init__(self, circuit, X, include_inputs=False):
        self.circuit, self.X, self.inputs = circuit, np.asarray(X, float), include_inputs
        self.places, theta, exists, units = {}, [], [], []
        for i, node in enumerate(circuit.nodes):
            if isinstance(node, fp.Product) or circuit.owners[i] != i:
                continue
            table = circuit.parameters[i]
            if isinstance(node, fp.Input):
                if not (include_inputs and isinstance(node.family, fp.Bernoulli | fp.Categorical)):
                    continue
                table = node.family.table(table)
            self.places[i] = len(theta), table.shape
            mask = getattr(node, "mask", None)
            exists += list(np.ones(table.size, bool) if mask is None else mask.ravel())
            for row in table:
                units.append(range(len(theta), len(theta) + len(row)))
                theta += [mpmath.mpf(float(t)) for t in row]
        self.theta, self.exists, self.units, self.size = theta, exists, units, len(theta)

    def rows(self):
        return [self._row(x) for x in self.X]

    # ---- jets ------------------------------------------------------------------------------------------------------------

    def _constant(self, value):
        return mpmath.mpf(value), {}, {}

    def _parameter(self, n):
        return self.theta[n], ({n: mpmath.mpf(1)} if self.exists[n] else {}), {}

    @staticmethod
    def _add(a, b):
        g, h = dict(a[1]), dict(a[2])
        for k, v in b[1].items():
            g[k] = g.get(k, 0) + v
        for k, v in b[2].items():
            h[k] = h.get(k, 0) + v
        return a[0] + b[0], g, h

    @staticmethod
    def _multiply(a, b):
        g, h = {k: v * b[0] for k, v in a[1].items()}, {k: v * b[0] for k, v in a[2].items()}
        for k, v in b[1].items():
            g[k] = g.get(k, 0) + a[0] * v
        for k, v in b[2].items():
            h[k] = h.get(k, 0) + a[0] * v
        for i, x in a[1].items():
            for j, y in b[1].items():
                h[i, j] = h.get((i, j), 0) + x * y
                h[j, i] = h.get((j, i), 0) + x * y
        return a[0] * b[0], g, h

    def _row(self, x):
        values = []
        for i, node in enumerate(self.circuit.nodes):
            owner = self.circuit.owners[i]
            if isinstance(node, fp.Input):
                values.append([self._density(node, owner, k, x[node.variable]) for k in range(node.width)])
            elif isinstance(node, fp.Product):
                parts = values[node.children[0]]
                for c in node.children[1:]:
                    if node.kind == "hadamard":
                        parts = [self._multiply(a, b) for a, b in zip(parts, values[c], strict=True)]
                    else:
                        parts = [self._multiply(a, b) for a in parts for b in values[c]]
                values.append(parts)
            else:
                start, (units, edges) = self.places[owner]
                mine = []
                for k in range(units):
                    if isinstance(node, fp.Mixture):
                        below = [values[c][k] for c in node.children]
                    else:
                        below = [unit for c in node.children for unit in values[c]]
                    total = self._constant(0)
                    for j in range(edges):
                        total = self._add(total, self._multiply(self._parameter(start + k * edges + j), below[j]))
                    mine.append(total)
                values.append(mine)
        p, g, h = values[-1][0]
        gradient, hessian = np.full(self.size, mpmath.mpf(0)), np.full((self.size, self.size), mpmath.mpf(0))
        for k, v in g.items():
            gradient[k] = v
        for k, v in h.items():
            hessian[k] = v
        return p, gradient, hessian

    def _density(self, node, owner, k, x):
        if np.isnan(x):
            return self._constant(1)
        if owner in self.places:
            start, (_, n) = self.places[owner]
            return self._parameter(start + k * n + int(x))
        parameters = self.circuit.parameters[owner]
        if isinstance(node.family, fp.Gaussian):
            mean, variance = (mpmath.mpf(float(parameters[name][k])) for name in ("mean", "variance"))
            return self._constant(
                mpmath.exp(-((mpmath.mpf(x) - mean) ** 2) / (2 * variance)) / mpmath.sqrt(2 * mpmath.pi * variance)
            )
        return self._constant(float(node.family.table(parameters)[k, int(x)]))

    # ---- what is compared ----------------------------------------------------------------------------------------------------

    def in_space(self, space, g, h):
        """A gradient and a Hessian in θ in the space's coordinates, by the chain rule."""
        if space == "weights":
            return g, h
        J = np.full((self.size, self.size), mpmath.mpf(0))
        curved = np.full((self.size, self.size), mpmath.mpf(0))
        t = self.theta
        for unit in self.units:
            there = [i for i in unit if self.exists[i]]
            for i in there:
                for j in there:
                    if space == "simplex":
                        J[i, j] = (i == j) - mpmath.mpf(1) / len(there)
                        continue
                    J[i, j] = t[i] * ((i == j) - t[j])
                    for k in there:  # ∂²θ_k/∂z_i∂z_j
                        second = t[k] * (((k == i) - t[i]) * ((k == j) - t[j]) - t[i] * ((i == j) - t[j]))
                        curved[i, j] += g[k] * second
        return J.T.dot(g), J.T.dot(h).dot(J) + curved
