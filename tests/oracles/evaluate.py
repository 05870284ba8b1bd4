"""A circuit's values, written from `circuit.nodes` and `circuit.parameters` alone, in the log domain, one node at a time."""

import itertools

import mpmath
import numpy as np
from scipy.special import logsumexp
from scipy.stats import binom, expon, multivariate_normal, norm, poisson

import flatpc as fp


def log_values(circuit, X):
    """For each node `[N, K]`: the logarithm of every unit's value; NaN in X is a missing value."""
    X = np.asarray(X, dtype=np.float64)
    values = []
    for i, node in enumerate(circuit.nodes):
        with np.errstate(divide="ignore", over="ignore"):
            if isinstance(node, fp.Input):
                value = _log_density(node.family, circuit.parameters[i], X[:, node.columns])
            elif isinstance(node, fp.Product) and node.kind == "hadamard":
                value = sum(values[c] for c in node.children)
            elif isinstance(node, fp.Product):
                value = values[node.children[0]]
                for c in node.children[1:]:
                    value = (value[:, :, None] + values[c][:, None, :]).reshape(len(X), -1)
            elif isinstance(node, fp.Sum):
                below = np.concatenate([values[c] for c in node.children], axis=1)
                value = np.stack([logsumexp(below + np.log(row), axis=1) for row in circuit.parameters[i]], axis=1)
            else:
                below = np.stack([values[c] for c in node.children], axis=2)
                value = logsumexp(below + np.log(circuit.parameters[i]), axis=2)
        values.append(value)
    return values


def log_prob(circuit, X):
    """`[N]`: the logarithm of the root's value."""
    return log_values(circuit, X)[-1][:, 0]


def assignments(circuit):
    """All joint values of a circuit's variables, which are discrete and finite."""
    return np.array(list(itertools.product(*(range(family.n_categories) for family in circuit.families))), dtype=np.float64)


def _moments(parameters):
    return parameters["mean"], parameters["covariance"]


def _log_normal(row, mean, covariance):
    """Of the entries that are known."""
    known = ~np.isnan(row)
    if not known.any():
        return 0.0
    return multivariate_normal.logpdf(row[known], mean[known], covariance[np.ix_(known, known)])


@np.vectorize
def _log_poisson(k, rate):
    """With 50 digits where the count is large: what is left of numbers of 1e16 is a few dozen."""
    if k < 1000:
        return poisson.logpmf(k, rate)
    with mpmath.workdps(50):
        return float(k * mpmath.log(rate) - mpmath.mpf(rate) - mpmath.loggamma(mpmath.mpf(k) + 1))


def _log_density(family, parameters, x):
    if isinstance(family, fp.MultivariateGaussian):
        return np.array([[_log_normal(row, *unit) for unit in zip(*_moments(parameters), strict=True)] for row in x])
    seen = ~np.isnan(x)
    x = np.where(seen, x, 0)[:, None]
    if isinstance(family, fp.Bernoulli):
        value = np.where(x == 1, np.log(parameters["p"]), np.log(1 - parameters["p"]))
    elif isinstance(family, fp.Categorical):
        value = np.log(parameters["p"].T[x[:, 0].astype(int)])
    elif isinstance(family, fp.Indicator):
        value = np.where(x == parameters["value"], 0.0, -np.inf)
    elif isinstance(family, fp.Gaussian):
        value = norm.logpdf(x, parameters["mean"], np.sqrt(parameters["variance"]))
    elif isinstance(family, fp.Binomial):
        value = binom.logpmf(x, family.n, parameters["p"])
    elif isinstance(family, fp.Poisson):
        value = _log_poisson(*np.broadcast_arrays(x, parameters["rate"]))
    elif type(family).__name__ == "Exponential":
        value = expon.logpdf(x, scale=1 / parameters["rate"])
    else:
        q, n = parameters["q"], family.n_categories  # geometric over 0, ..., n-1
        value = x * np.log(q) + np.log((1 - q) / (1 - q**n))
    return np.where(seen[:, None], value, 0.0)
