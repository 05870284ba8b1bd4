"""Second and third derivatives by autograd of the plain torch function in `tests/oracles/derivatives.py`.

Parameters are flat vectors in the documented order, built here a second time and without the library's help.
"""

import numpy as np
import torch

import flatpc as fp
from tests.oracles import derivatives


class Oracle:
    """Derivatives of Σ log p(x), in weights θ or in logits z; rows of probability 0 must be left out by the caller."""

    def __init__(self, circuit, X, include_inputs=False):
        self.circuit = circuit if not include_inputs else _with_categoricals(circuit)
        self.X = np.asarray(X, float)
        self.parts, self.exists = [], []
        theta = []
        for i, node in enumerate(self.circuit.nodes):
            if isinstance(node, fp.Product) or self.circuit.owners[i] != i:
                continue
            value = self.circuit.parameters[i]
            if isinstance(node, fp.Input):
                if not (include_inputs and isinstance(node.family, fp.Categorical)):
                    continue
                value = value["p"]
            self.parts.append((i, value.shape))
            theta.append(value.ravel())
            mask = getattr(node, "mask", None)
            self.exists.append(np.ones(value.size, bool) if mask is None else mask.ravel())
        self.theta = torch.tensor(np.concatenate(theta) if theta else np.empty(0))
        self.exists = np.concatenate(self.exists) if theta else np.empty(0, bool)
        self.size = len(self.theta)

    def _parameters(self, theta):
        given = derivatives.tensors(self.circuit)
        start = 0
        for i, shape in self.parts:
            block = theta[start : start + shape[0] * shape[1]].reshape(shape)
            given[i] = {"p": block} if isinstance(self.circuit.nodes[i], fp.Input) else block
            start += shape[0] * shape[1]
        return given

    def softmax(self, z):
        """Unit by unit; an edge of weight 0 has the logit -inf, which contributes nothing."""
        out, start = [], 0
        for _, shape in self.parts:
            block = z[start : start + shape[0] * shape[1]].reshape(shape)
            positive = self.theta[start : start + shape[0] * shape[1]].reshape(shape) > 0
            e = torch.where(positive, torch.exp(torch.where(positive, block, 0.0)), 0.0)
            out.append((e / e.sum(1, keepdim=True)).reshape(-1))
            start += shape[0] * shape[1]
        return torch.cat(out) if out else z

    def logits(self):
        return torch.where(self.theta > 0, torch.log(torch.where(self.theta > 0, self.theta, 1.0)), 0.0)

    def log_prob(self, theta, rows=None):
        X = self.X if rows is None else self.X[rows]
        exists = torch.tensor(self.exists)
        value = derivatives.log_prob(self.circuit, self._parameters(torch.where(exists, theta, 0.0)), X)
        return value + 0 * theta.sum()  # a circuit without weights depends on them too, as far as autograd is concerned

    def hessian(self, logits=False):
        """`[P, P]`, twice backward."""
        if self.size == 0:
            return np.zeros((0, 0))
        if logits:
            return torch.autograd.functional.hessian(lambda z: self.log_prob(self.softmax(z)).sum(), self.logits()).numpy()
        return torch.autograd.functional.hessian(lambda t: self.log_prob(t).sum(), self.theta).numpy()

    def row_gradients(self, logits=False, at=None):
        """`[N, P]`; differentiable in `at`."""
        start = (self.logits() if logits else self.theta) if at is None else at
        out = []
        for r in range(len(self.X)):
            leaf = start if start.requires_grad else start.clone().requires_grad_()
            value = self.log_prob(self.softmax(leaf) if logits else leaf, [r]).sum()
            out.append(torch.autograd.grad(value, leaf, create_graph=True)[0])
        return torch.stack(out)

    def projection(self):
        """`[P, P]`: on directions that keep every unit's weights normalised, built unit by unit."""
        P, start = np.zeros((self.size, self.size)), 0
        for _, (units, columns) in self.parts:
            for unit in range(units):
                at = start + unit * columns + np.flatnonzero(self.exists[start + unit * columns : start + (unit + 1) * columns])
                P[np.ix_(at, at)] = np.eye(len(at)) - 1 / len(at)
            start += units * columns
        return torch.tensor(P)

    def penalty(self, space):
        """The penalty's value and its gradient, in the space's own coordinates.

        On the simplex a point is θ + Π u, so that derivatives are taken in u.
        """
        if space == "simplex":
            u = torch.zeros(self.size, dtype=torch.float64, requires_grad=True)
            P = self.projection()
            g = self.row_gradients(False, self.theta + P @ u)
            total = ((g @ P) ** 2).sum() + 0 * u.sum()
            return float(total.detach()), torch.autograd.grad(total, u)[0].numpy()
        logits = space != "weights"
        leaf = (self.logits() if logits else self.theta).clone().requires_grad_()
        g = self.row_gradients(logits, leaf)
        total = (g**2).sum() + 0 * leaf.sum()
        if space == "logits":
            total = total + 2 * (self.softmax(leaf) * g).sum()
        return float(total.detach()), torch.autograd.grad(total, leaf)[0].numpy()


def _with_categoricals(circuit):
    nodes, parameters = [], {}
    for i, node in enumerate(circuit.nodes):
        if isinstance(node, fp.Product):
            nodes.append(node)
            continue
        value = circuit.parameters[circuit.owners[i]]
        if isinstance(node, fp.Input) and isinstance(node.family, fp.Bernoulli):
            value = {"p": np.stack([1 - value["p"], value["p"]], axis=1)}
            node = fp.Input(node.variable, fp.Categorical(2), node.width, node.tie)
        nodes.append(node)
        if circuit.owners[i] == i:
            parameters[i] = value
    return fp.Circuit(nodes, parameters)
