"""Log p(x) by plain sums and products of probabilities in torch, so that autograd differentiates it without any device.

Nothing guards against underflow here: it is for rows whose probability float64 can hold.
"""

import math

import numpy as np
import torch

import flatpc as fp


def tensors(circuit):
    """The owners' parameters as float64 leaves of a graph."""
    out = {}
    for i, value in circuit.parameters.items():
        if circuit.owners[i] == i:
            leaf = {k: torch.tensor(a, requires_grad=True) for k, a in value.items()} if isinstance(value, dict) else None
            out[i] = leaf if leaf is not None else torch.tensor(value, requires_grad=True)
    return out


def log_prob(circuit, parameters, X):
    """`[N]`, a function of `parameters` (as `tensors` makes them) and of `X`."""
    X = torch.as_tensor(X)
    values = []
    for i, node in enumerate(circuit.nodes):
        p = parameters.get(circuit.owners[i])
        if isinstance(node, fp.Input):
            columns = [_density(node.family, p, X[:, node.columns], k) for k in range(node.width)]
            value = torch.stack(columns, dim=1)
        elif isinstance(node, fp.Sum):
            value = torch.cat([values[c] for c in node.children], dim=1) @ p.T
        elif isinstance(node, fp.Mixture):
            value = sum(values[c] * p[:, j] for j, c in enumerate(node.children))
        else:
            value = values[node.children[0]]
            for c in node.children[1:]:
                if node.kind == "hadamard":
                    value = value * values[c]
                else:
                    value = torch.einsum("na,nb->nab", value, values[c]).reshape(len(X), -1)
        values.append(value)
    return values[-1][:, 0].log()


def flows(circuit, X, weights=None):
    """{owner: θ · ∂ Σ log p / ∂θ} of sums and mixtures, over rows of positive probability."""
    parameters = tensors(circuit)
    chosen = {i: p for i, p in parameters.items() if not isinstance(p, dict)}
    if not chosen:
        return {}
    total = log_prob(circuit, parameters, X)
    total = total.sum() if weights is None else (total * torch.as_tensor(weights)).sum()
    found = torch.autograd.grad(total, list(chosen.values()), allow_unused=True, materialize_grads=True)
    return {i: (p * g).detach().numpy() for (i, p), g in zip(chosen.items(), found, strict=True)}


def _log_normal(x, mean, covariance):
    known = ~x.isnan()
    if not known.any():
        return torch.zeros((), dtype=torch.float64)
    return torch.distributions.MultivariateNormal(mean[known], covariance[known][:, known]).log_prob(x[known])


def _density(family, p, x, k):
    if isinstance(family, fp.MultivariateGaussian):
        return torch.stack([_log_normal(row, p["mean"][k], p["covariance"][k]) for row in x]).exp()
    seen = ~torch.isnan(x)
    x = torch.where(seen, x, 0.0)
    if isinstance(family, fp.Bernoulli):
        value = torch.where(x == 1, p["p"][k], 1 - p["p"][k])
    elif isinstance(family, fp.Categorical):
        value = p["p"][k][x.long()]
    elif isinstance(family, fp.Indicator):
        value = (x == p["value"][k]).double()
    elif isinstance(family, fp.Gaussian):
        mean, variance = p["mean"][k], p["variance"][k]
        value = torch.exp(-((x - mean) ** 2) / (2 * variance)) / torch.sqrt(2 * math.pi * variance)
    elif isinstance(family, fp.Binomial):
        choose = torch.tensor([math.comb(family.n, int(j)) for j in x.tolist()], dtype=torch.float64)
        value = choose * p["p"][k] ** x * (1 - p["p"][k]) ** (family.n - x)
    else:
        factorial = torch.tensor([math.factorial(int(j)) for j in x.tolist()], dtype=torch.float64)
        value = p["rate"][k] ** x * torch.exp(-p["rate"][k]) / factorial
    return torch.where(seen, value, torch.ones((), dtype=torch.float64))


def comfortable(log_probabilities):
    """Rows whose probability is far from underflow."""
    return np.asarray(log_probabilities) > -200
