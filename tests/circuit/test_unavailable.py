"""What a circuit says that can't be asked of it is refused, and nothing else is."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import flatpc as fp
from flatpc.errors import FamilyError


@dataclass(frozen=True)
class Bare(fp.Family):
    """A density and nothing else."""

    names: ClassVar = ("scale",)
    discrete: ClassVar = False

    def log_density(self, parameters, x):
        return -abs(x)[:, None] / parameters["scale"] - np.log(2 * parameters["scale"])

    def initialize(self, width, rng, spread):
        return {"scale": np.ones(width)}


ASK = {
    "sample": lambda c, X: c.sample(2),
    "mpe": lambda c, X: c.mpe(np.full((1, c.n_variables), np.nan)),
    "expectation": lambda c, X: c.expectation(np.full((1, c.n_variables), np.nan)),
    "variance": lambda c, X: c.variance(np.full((1, c.n_variables), np.nan)),
    "event_log_prob": lambda c, X: fp.queries.event_log_prob(c, events={0: (0.0, 1.0)}),
    "conditional quantile": lambda c, X: fp.queries.conditional(c, np.full((1, c.n_variables), np.nan), variable=0).quantile(0.5),
    "EM": lambda c, X: fp.fit(c, X, epochs=1, progress=False),
    "gradients": lambda c, X: fp.fit(c, X, epochs=1, method=fp.Adam(0.1), progress=False),
    "uncertainty of expectation": lambda c, X: fp.curvature.laplace(c, X).expectation(np.full((1, c.n_variables), np.nan)),
}
FAMILIES = [
    fp.Bernoulli(), fp.Categorical(3), fp.Poisson(), fp.NegativeBinomial(), fp.Geometric(), fp.Binomial(3), fp.Gaussian(),
    fp.StudentT(), fp.Logistic(), fp.LogisticMixture(2), fp.Exponential(), fp.Cyclic(), fp.Histogram((0.0, 1.0, 2.0)),
    fp.PiecewiseLinear((0.0, 1.0, 2.0)), fp.Hurdle((0.0,), fp.Gaussian()), fp.Discretized(fp.Gaussian(), 1.0),
    fp.MultivariateGaussian(2), Bare(),
]  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_what_is_unavailable_is_refused_and_the_rest_is_answered(family):
    d = family.n_variables
    nodes = [fp.Input(family=family, variables=range(d), width=2), fp.Sum((0,))]
    circuit = fp.Circuit(nodes).randomize(0)
    X = np.tile([[0.0], [1.0], [1.0]], (4, d))
    X[:, 1:] += np.random.default_rng(0).normal(size=X[:, 1:].shape)
    assert set(circuit.unavailable) <= set(ASK)
    for question, ask in ASK.items():
        if question in circuit.unavailable:
            assert circuit.unavailable[question] == (family,)
            with pytest.raises(FamilyError):
                ask(circuit, X)
        else:
            ask(circuit, X)
