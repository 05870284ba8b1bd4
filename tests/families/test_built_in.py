"""Every built-in family keeps what `fp.Family` promises."""

from typing import ClassVar

import numpy as np
import pytest
from scipy import optimize, stats

import flatpc as fp
from flatpc.errors import FamilyError


class TestBernoulli(fp.testing.FamilySuite):
    family = fp.Bernoulli()
    parameters: ClassVar = {"p": [0.2, 0.5, 0.9]}
    wrong_values = (2.0, 0.5, -1.0)

    def maximum_likelihood(self, x):
        return {"p": [x.mean()]}


class TestCategorical(fp.testing.FamilySuite):
    family = fp.Categorical(4)
    parameters: ClassVar = {"p": [[0.1, 0.2, 0.3, 0.4], [0.25, 0.25, 0.25, 0.25], [0.7, 0.1, 0.1, 0.1]]}
    wrong_values = (4.0, 0.5, -1.0)

    def maximum_likelihood(self, x):
        return {"p": [np.bincount(x.astype(int), minlength=4) / len(x)]}


class TestIndicator(fp.testing.FamilySuite):
    family = fp.Indicator(3)
    parameters: ClassVar = {"value": [0.0, 2.0, 1.0]}
    wrong_values = (3.0, 0.5)


class TestGaussian(fp.testing.FamilySuite):
    family = fp.Gaussian()
    parameters: ClassVar = {"mean": [-1.0, 0.5, 4.0], "variance": [0.25, 1.0, 9.0]}

    def maximum_likelihood(self, x):
        mean, scale = stats.norm.fit(x)
        return {"mean": [mean], "variance": [scale**2]}


class TestBinomial(fp.testing.FamilySuite):
    family = fp.Binomial(7)
    parameters: ClassVar = {"p": [0.15, 0.5, 0.9]}
    wrong_values = (8.0, 0.5, -1.0)

    def maximum_likelihood(self, x):
        return {"p": [x.mean() / 7]}


class TestPoisson(fp.testing.FamilySuite):
    family = fp.Poisson()
    parameters: ClassVar = {"rate": [0.4, 4.5, 40.2]}
    wrong_values = (-1.0, 0.5, np.inf)

    def maximum_likelihood(self, x):
        return {"rate": [x.mean()]}


def by_search(family, x, start):
    """The maximum of the likelihood by scipy, in the family's unconstrained parameters."""
    free = family.unconstrain({name: np.atleast_1d(np.asarray(value, float)) for name, value in start.items()})
    names = list(free)

    def parameters(z):
        return family.constrain({name: z[j : j + 1] for j, name in enumerate(names)})

    def loss(z):
        return -family.log_density(parameters(z), x).mean()

    z = np.concatenate([free[name] for name in names])
    for _ in range(3):
        z = optimize.minimize(loss, z, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-14, "maxiter": 20_000}).x
    return parameters(z)


def over_simplex(family, x, n):
    """The maximum of the likelihood in probabilities `p`, by scipy."""

    def loss(p):
        return -family.log_density({"p": np.maximum(p, 1e-12)[None]}, x).mean()

    constraint = {"type": "eq", "fun": lambda p: p.sum() - 1}
    options = {"maxiter": 1000, "ftol": 1e-15}
    found = optimize.minimize(
        loss, np.full(n, 1 / n), method="SLSQP", bounds=[(0, 1)] * n, constraints=[constraint], options=options
    )
    return {"p": found.x[None] / found.x.sum()}


class TestExponential(fp.testing.FamilySuite):
    family = fp.Exponential()
    parameters: ClassVar = {"mean": [0.2, 1.0, 30.0]}
    wrong_values = (-1.0, np.inf)

    def maximum_likelihood(self, x):
        return {"mean": [stats.expon.fit(x, floc=0)[1]]}


class TestGamma(fp.testing.FamilySuite):
    family = fp.Gamma()
    parameters: ClassVar = {"shape": [1.5, 4.0, 30.0], "mean": [0.5, 2.0, 10.0]}
    wrong_values = (-1.0, 0.0, np.inf)

    def maximum_likelihood(self, x):
        shape, _, scale = stats.gamma.fit(x, floc=0)
        return {"shape": [shape], "mean": [shape * scale]}


class TestLogNormal(fp.testing.FamilySuite):
    family = fp.LogNormal()
    parameters: ClassVar = {"mean": [-1.0, 0.0, 2.0], "variance": [0.1, 0.5, 0.2]}
    wrong_values = (-1.0, 0.0, np.inf)

    def maximum_likelihood(self, x):
        sigma, _, scale = stats.lognorm.fit(x, floc=0)
        return {"mean": [np.log(scale)], "variance": [sigma**2]}


class TestBeta(fp.testing.FamilySuite):
    family = fp.Beta(-1.0, 3.0)
    parameters: ClassVar = {"a": [1.5, 4.0, 3.0], "b": [2.0, 1.5, 9.0]}
    wrong_values = (-1.0, 3.0, 4.0)

    def maximum_likelihood(self, x):
        return by_search(self.family, x, {"a": 1.5, "b": 2.0})


class TestLogistic(fp.testing.FamilySuite):
    family = fp.Logistic()
    parameters: ClassVar = {"location": [-1.0, 0.5, 4.0], "scale": [0.25, 1.0, 3.0]}

    def maximum_likelihood(self, x):
        return by_search(self.family, x, {"location": -1.0, "scale": 0.25})


class TestOrdinal(fp.testing.FamilySuite):
    family = fp.Ordinal((-1.0, -0.2, 0.5, 2.0))
    parameters: ClassVar = {"location": [0.3, -2.0, 1.0], "scale": [0.8, 1.5, 0.4]}
    wrong_values = (5.0, 0.5, -1.0)

    def maximum_likelihood(self, x):
        return by_search(self.family, x, {"location": 0.0, "scale": 1.0})


class TestLogisticMixture(fp.testing.FamilySuite):
    family = fp.LogisticMixture(2)
    parameters: ClassVar = {
        "shares": [[0.3, 0.7], [0.5, 0.5], [0.9, 0.1]],
        "location": [[-3.0, 2.0], [0.0, 1.0], [4.0, -4.0]],
        "scale": [[0.25, 1.0], [0.5, 0.5], [1.0, 0.1]],
    }


class TestDiscretizedLogistic(fp.testing.FamilySuite):
    """Pixels: numbers beyond the ends are rounded to them."""

    family = fp.Discretized(fp.Logistic(), 1.0, low=0.0, high=7.0)
    parameters: ClassVar = {"location": [-0.5, 3.2, 9.0], "scale": [0.7, 1.5, 0.9]}
    wrong_values = (-1.0, 0.5, 8.0, np.inf)
    values = np.arange(8.0)

    def maximum_likelihood(self, x):
        return by_search(self.family, x, {"location": 0.0, "scale": 1.0})


class TestDiscretizedLogisticMixture(fp.testing.FamilySuite):
    family = fp.Discretized(fp.LogisticMixture(2), 1.0, low=0.0, high=7.0)
    parameters: ClassVar = {
        "shares": [[0.3, 0.7], [0.5, 0.5], [0.9, 0.1]],
        "location": [[-1.0, 2.0], [0.0, 6.0], [4.0, 9.0]],
        "scale": [[0.6, 1.0], [0.5, 0.5], [1.0, 2.0]],
    }
    wrong_values = (-1.0, 0.5, 8.0, np.inf)
    values = np.arange(8.0)


class TestStudentT(fp.testing.FamilySuite):
    family = fp.StudentT()
    parameters: ClassVar = {"location": [-1.0, 0.5, 4.0], "scale": [0.25, 1.0, 3.0], "dof": [5.0, 8.0, 30.0]}
    tolerance = 1e-6

    def maximum_likelihood(self, x):
        return by_search(self.family, x, {"location": -1.0, "scale": 0.25, "dof": 5.0})


class TestGeometric(fp.testing.FamilySuite):
    family = fp.Geometric()
    parameters: ClassVar = {"rate": [0.4, 4.5, 40.2]}
    wrong_values = (-1.0, 0.5, np.inf)

    def maximum_likelihood(self, x):
        return {"rate": [x.mean()]}


class TestNegativeBinomial(fp.testing.FamilySuite):
    family = fp.NegativeBinomial()
    parameters: ClassVar = {"rate": [3.0, 4.5, 20.2], "size": [1.5, 0.8, 6.0]}
    wrong_values = (-1.0, 0.5, np.inf)

    def maximum_likelihood(self, x):
        return by_search(self.family, x, {"rate": 3.0, "size": 1.5})


class TestHistogram(fp.testing.FamilySuite):
    family = fp.Histogram((-1.0, 0.0, 0.5, 4.0))
    parameters: ClassVar = {"p": [[0.2, 0.3, 0.5], [0.7, 0.2, 0.1], [0.1, 0.1, 0.8]]}
    wrong_values = (-1.5, 5.0, np.inf)
    breaks = (0.0, 0.5)

    def maximum_likelihood(self, x):
        return {"p": [np.histogram(x, self.family.edges)[0] / len(x)]}


class TestPiecewiseLinear(fp.testing.FamilySuite):
    family = fp.PiecewiseLinear((-1.0, 0.0, 0.5, 4.0))
    parameters: ClassVar = {"p": [[0.2, 0.3, 0.3, 0.2], [0.7, 0.1, 0.1, 0.1], [0.1, 0.1, 0.2, 0.6]]}
    wrong_values = (-1.5, 5.0, np.inf)
    breaks = (0.0, 0.5)

    def maximum_likelihood(self, x):
        return over_simplex(self.family, x, 4)


class TestDiscretizedHistogram(fp.testing.FamilySuite):
    """Edges inside the intervals that are rounded to a value."""

    family = fp.Discretized(fp.Histogram((0.0, 1.0, 2.6, 4.0)), 0.5)
    parameters: ClassVar = {"p": [[0.2, 0.3, 0.5], [0.5, 0.3, 0.2]]}
    wrong_values = (0.15, -1.0, np.inf)
    values: ClassVar = np.arange(0, 9) / 2

    def maximum_likelihood(self, x):
        return over_simplex(self.family, x, 3)


class TestDiscretizedPiecewiseLinear(fp.testing.FamilySuite):
    family = fp.Discretized(fp.PiecewiseLinear((0.0, 1.0, 2.6, 4.0)), 0.5)
    parameters: ClassVar = {"p": [[0.3, 0.2, 0.3, 0.2], [0.4, 0.3, 0.2, 0.1]]}
    wrong_values = (0.15, -1.0, np.inf)
    values: ClassVar = np.arange(0, 9) / 2

    def maximum_likelihood(self, x):
        return over_simplex(self.family, x, 4)


class TestDiscretizedGaussian(fp.testing.FamilySuite):
    family = fp.Discretized(fp.Gaussian(), 0.5)
    parameters: ClassVar = {"mean": [-1.0, 0.5, 4.1], "variance": [0.25, 0.5, 4.0]}
    wrong_values = (0.25, np.inf)
    values: ClassVar = np.arange(-80, 80) / 2

    def maximum_likelihood(self, x):
        return by_search(self.family, x, {"mean": -1.0, "variance": 0.25})


class TestDiscretizedWithinBounds(fp.testing.FamilySuite):
    family = fp.Discretized(fp.Gaussian(), 1.0, low=0.0, high=6.0)
    parameters: ClassVar = {"mean": [-0.5, 2.0, 5.5], "variance": [1.0, 0.5, 9.0]}
    wrong_values = (0.5, -1.0, 7.0, np.inf)
    values: ClassVar = np.arange(0.0, 7.0)

    def maximum_likelihood(self, x):
        return by_search(self.family, x, {"mean": 2.0, "variance": 1.0})


class TestCyclic(fp.testing.FamilySuite):
    family = fp.Cyclic(fp.Gaussian(), (3, 2), 0.5, -0.25)
    parameters: ClassVar = {
        "parts0": [[0.2, 0.3, 0.5], [0.6, 0.3, 0.1], [0.3, 0.4, 0.3]], "parts1": [[0.5, 0.5], [0.1, 0.9], [0.8, 0.2]],
        "mean": [-1.0, 0.5, 14.1], "variance": [16.0, 9.0, 25.0],
    }  # fmt: skip
    breaks: ClassVar = tuple(-0.25 + 0.5 * np.arange(-120, 160))

    def maximum_likelihood(self, x):
        part = np.floor((x + 0.25) / 0.5).astype(int) % 6
        middle = -0.25 + 3 * np.floor((x + 0.25) / 3) + 1.5
        own = by_search(fp.Discretized(fp.Gaussian(), 3.0, 1.25), middle, {"mean": 0.0, "variance": 1.0})
        shares = {"parts0": [np.bincount(part // 2, minlength=3) / len(x)], "parts1": [np.bincount(part % 2) / len(x)]}
        return {**shares, **own}


class TestCyclicGamma(fp.testing.FamilySuite):
    family = fp.Cyclic(fp.Gamma(), (4,), 0.25)
    parameters: ClassVar = {
        "parts0": [[0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1]], "shape": [4.0, 30.0], "mean": [2.0, 5.0]
    }  # fmt: skip
    breaks: ClassVar = tuple(np.arange(0, 120) / 4)
    wrong_values = (-0.25, np.inf)


class TestDiscretizedGamma(fp.testing.FamilySuite):
    family = fp.Discretized(fp.Gamma(), 0.25)
    parameters: ClassVar = {"shape": [1.5, 4.0, 30.0], "mean": [0.5, 2.0, 5.0]}
    wrong_values = (0.1, -0.25, np.inf)
    values: ClassVar = np.arange(0, 400) / 4

    def maximum_likelihood(self, x):
        return by_search(self.family, x, {"shape": 1.5, "mean": 0.5})


class TestLog(fp.testing.FamilySuite):
    family = fp.Transformed(fp.Gaussian(), fp.families.Log(shift=-2.0, scale=3.0))
    parameters: ClassVar = {"mean": [-1.0, 0.0, 1.0], "variance": [0.1, 0.5, 0.2]}
    wrong_values = (-2.0, -3.0, np.inf)

    def maximum_likelihood(self, x):
        shape, _, scale = stats.lognorm.fit((x + 2) / 3, floc=0)
        return {"mean": [np.log(scale)], "variance": [shape**2]}


class TestYeoJohnson(fp.testing.FamilySuite):
    family = fp.Transformed(fp.Gaussian(), fp.families.YeoJohnson(0.3, shift=1.0, scale=2.0))
    parameters: ClassVar = {"mean": [-1.0, 0.5, 2.0], "variance": [0.25, 0.5, 1.0]}
    breaks = (1.0,)

    def maximum_likelihood(self, x):
        z = stats.yeojohnson((x - 1) / 2, 0.3)
        return {"mean": [z.mean()], "variance": [z.var()]}


class TestQuantiles(fp.testing.FamilySuite):
    family = fp.Transformed(fp.Logistic(), fp.families.Quantiles((-1.0, 0.0, 0.5, 4.0), (-2.0, 0.0, 1.5, 2.0)))
    parameters: ClassVar = {"location": [-1.0, 0.5, 1.0], "scale": [0.3, 0.5, 0.2]}
    breaks = (-1.0, 0.0, 0.5, 4.0)


class TestHurdle(fp.testing.FamilySuite):
    family = fp.Hurdle((0.0, 3.0), fp.LogNormal())
    parameters: ClassVar = {
        "shares": [[0.3, 0.1, 0.6], [0.05, 0.05, 0.9], [0.8, 0.1, 0.1]], "mean": [-1.0, 0.0, 1.0], "variance": [0.1, 0.5, 0.2]
    }  # fmt: skip
    wrong_values = (-1.0, np.inf)
    atoms = (0.0, 3.0)

    def maximum_likelihood(self, x):
        rest = np.log(x[(x != 0) & (x != 3)])
        shares = [np.mean(x == 0), np.mean(x == 3), len(rest) / len(x)]
        return {"shares": [shares], "mean": [rest.mean()], "variance": [rest.var()]}


class TestHurdleOfCounts(fp.testing.FamilySuite):
    """A hurdle below as well as above what the Poisson says of its atoms."""

    family = fp.Hurdle((0.0, 2.0), fp.Poisson())
    parameters: ClassVar = {"shares": [[0.6, 0.1, 0.3], [0.02, 0.2, 0.78], [0.3, 0.3, 0.4]], "rate": [2.5, 4.0, 9.0]}
    wrong_values = (-1.0, 0.5, np.inf)

    def maximum_likelihood(self, x):
        rest = x[(x != 0) & (x != 2)]

        def surplus(rate):  # of the mean of the rest over that of a Poisson without its atoms
            left = 1 - stats.poisson.pmf([0, 2], rate).sum()
            return rest.mean() - (rate - 2 * stats.poisson.pmf(2, rate)) / left

        shares = [np.mean(x == 0), np.mean(x == 2), len(rest) / len(x)]
        return {"shares": [shares], "rate": [optimize.brentq(surplus, 1e-3, 50.0, xtol=1e-12)]}


class TestHurdleOfMixtures(fp.testing.FamilySuite):
    """Shares of atoms, and shares of the components."""

    family = fp.Hurdle((0.0, 3.0), fp.LogisticMixture(2))
    parameters: ClassVar = {
        "shares": [[0.3, 0.1, 0.6], [0.05, 0.05, 0.9], [0.8, 0.1, 0.1]],
        "own_shares": [[0.3, 0.7], [0.5, 0.5], [0.9, 0.1]],
        "location": [[-3.0, 2.0], [0.0, 1.0], [4.0, -4.0]],
        "scale": [[0.25, 1.0], [0.5, 0.5], [1.0, 0.1]],
    }
    atoms = (0.0, 3.0)

    def test_entropy(self):
        with pytest.raises(FamilyError, match="LogisticMixture has no entropy"):
            self.family.entropy(self._p)
