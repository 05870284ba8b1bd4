"""Small discrete circuits with every kind of node, and their joint distributions by enumeration."""

import functools

import numpy as np
from scipy.stats import chisquare

import flatpc as fp
from tests.oracles.evaluate import assignments, log_prob


def every_kind():
    """Three variables through a kronecker product, a masked Sum of two children, a Mixture, and an impossible value."""
    nodes = [
        fp.Input(0, fp.Categorical(3), 2),
        fp.Input(1, fp.Bernoulli(), 3),
        fp.Product((0, 1), "kronecker"),
        fp.Input(0, fp.Binomial(2), 2),
        fp.Input(1, fp.Indicator(2), 2),
        fp.Product((3, 4)),
        fp.Sum((2, 5), 3, mask=np.arange(24).reshape(3, 8) % 3 != 1),
        fp.Sum((5, 2), 3),
        fp.Mixture((6, 7)),
        fp.Input(2, fp.Categorical(2), 3),
        fp.Product((8, 9)),
        fp.Sum((10,)),
    ]
    circuit = fp.Circuit(nodes).randomize(seed=5)
    return circuit.with_parameters({9: {"p": [[0.2, 0.8], [1.0, 0.0], [0.6, 0.4]]}})


def shared_children():
    """A node with two parents of the same scope, and a Sum that lists a child twice."""
    nodes = [
        fp.Input(0, fp.Bernoulli(), 2),
        fp.Input(1, fp.Categorical(3), 2),
        fp.Sum((0,), 2),
        fp.Product((2, 1)),
        fp.Product((0, 1)),
        fp.Sum((3, 4, 3)),
    ]
    return fp.Circuit(nodes).randomize(seed=1)


def decision_tree():
    """Deterministic without being a Chow-Liu tree: variable 0 says which of two orders explains the others."""
    nodes = {
        "root": "sum",
        "low": "product",
        "high": "product",
        "0=0": ("indicator", 0, 0),
        "0=1": ("indicator", 0, 1),
        "rest": "sum",
        "1=0,2": "product",
        "1=1,2": "product",
        "1=0": ("indicator", 1, 0),
        "1=1": ("indicator", 1, 1),
        "2|0": ("bernoulli", 2, 0.9),
        "2|1": ("bernoulli", 2, 0.35),
        "1": ("bernoulli", 1, 0.4),
        "2": ("bernoulli", 2, 0.6),
    }
    edges = [
        ("root", "low", 0.45),
        ("root", "high", 0.55),
        ("low", "0=0"),
        ("low", "rest"),
        ("rest", "1=0,2", 0.3),
        ("rest", "1=1,2", 0.7),
        ("1=0,2", "1=0"),
        ("1=0,2", "2|0"),
        ("1=1,2", "1=1"),
        ("1=1,2", "2|1"),
        ("high", "0=1"),
        ("high", "1"),
        ("high", "2"),
    ]
    return fp.structures.from_edges(nodes, edges)


def rows(n_variables, n_values, n=60):
    return np.random.default_rng(0).integers(0, n_values, (n, n_variables)).astype(float)


BUILD = {
    "every kind": every_kind,
    "shared children": shared_children,
    "decision tree": decision_tree,
    "factorized": lambda: fp.structures.factorized(rows(4, 2)),
    "chow_liu": lambda: fp.structures.chow_liu(rows(5, 3)),
    "hclt": lambda: fp.structures.hclt(rows(6, 2), n_latents=4),
    "tied hmm": lambda: fp.structures.hmm(4, n_latents=3, family=fp.Categorical(3), homogeneous=True),
    "rat_spn": lambda: fp.structures.rat_spn(5, depth=2, n_repetitions=2, n_sums=3, n_inputs=2, family="bernoulli"),
    "poon_domingos": lambda: fp.structures.poon_domingos((2, 2), 1, n_sums=2, n_inputs=2, family="bernoulli"),
}
DETERMINISTIC = ("decision tree", "factorized", "chow_liu")


@functools.cache
def case(name):
    return BUILD[name]()


class Joint:
    """All assignments of a circuit and their probabilities."""

    def __init__(self, circuit):
        self.X = assignments(circuit)
        self.X.flags.writeable = False
        self.p = np.exp(log_prob(circuit, self.X))

    def given(self, row):
        """Probabilities of all assignments given the entries of `row` that are not NaN, and the probability of those."""
        p = np.where(((row == self.X) | np.isnan(row)).all(axis=1), self.p, 0.0)
        return (p / p.sum() if p.sum() > 0 else p), p.sum()


@functools.cache
def joint(name):
    return Joint(case(name))


def evidence(circuit, n=12, seed=0):
    """Rows drawn from the circuit's assignments with about half of the entries missing, possible ones only."""
    rng = np.random.default_rng(seed)
    full = Joint(circuit)
    X = full.X[rng.choice(len(full.X), n, p=full.p / full.p.sum())]
    X[rng.random(X.shape) < 0.5] = np.nan
    X[0] = np.nan
    return X


def assert_distributed(samples, X, p, level=1e-4):
    """Chi-square of counts of the assignments X against p; the rarest are pooled."""
    code = {tuple(row): j for j, row in enumerate(X)}
    counts = np.bincount([code[tuple(row)] for row in samples], minlength=len(X))
    assert counts[p == 0].sum() == 0, "an impossible assignment was drawn"
    counts, p = counts[p > 0], p[p > 0]
    if len(p) == 1:
        return
    order = np.argsort(p)
    expected, counts = (p * len(samples))[order], counts[order]
    # The rarest ones together, as many as it takes to expect 5.
    first = int(np.searchsorted(np.cumsum(expected), 5))
    groups = np.maximum(np.arange(len(p)) - first, 0)
    assert chisquare(np.bincount(groups, counts), np.bincount(groups, expected)).pvalue > level
