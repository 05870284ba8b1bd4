"""Every built-in family keeps what `fp.Family` promises."""

from typing import ClassVar

import numpy as np
from scipy import stats

import flatpc as fp


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
