"""How a family's parameters start, and how EM changes them."""

from __future__ import annotations

from typing import Self

import numpy as np

from flatpc._typing import Array
from flatpc.families.base.arithmetic import Parameters, Statistics
from flatpc.families.base.description import Description


class Learning(Description):
    """Where learning starts, and the steps of EM."""

    def initialize(self, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        """Random parameters.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> fp.Gaussian().initialize(2, np.random.default_rng(0), "uniform")["variance"].tolist()
        [1.0, 1.0]

        Parameters
        ----------
        width
            Number of units.
        rng
            Source of random numbers.
        spread
            Scheme by which points of a simplex are drawn, such as `"exponential"`; see `Circuit.randomize`.

        Returns
        -------
        dict
            Name -> array with the units first.
        """
        raise self.lacks("initialize")

    def initialize_from(self, x: Array, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        """Random parameters for a variable that has the values `x`; here: without looking at them.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> x = np.array([0.0, 0.1, 5.0, 5.1])
        >>> sorted(fp.Gaussian().initialize_from(x, 2, np.random.default_rng(0), "uniform")["mean"].round(2).tolist())
        [0.05, 5.05]

        Parameters
        ----------
        x
            `[N]`: values; NaN where missing.
        width
            Number of units.
        rng
            Source of random numbers.
        spread
            Scheme by which points of a simplex are drawn, such as `"exponential"`; see `Circuit.randomize`.

        Returns
        -------
        dict
            Name -> array with the units first.
        """
        return self.initialize(width, rng, spread)

    def statistics(self, parameters: Parameters, x: Array, flow: Array) -> Statistics:
        """What `update` and `gradient` need to know of weighted values.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> x, flow = np.array([2.0, 4.0]), np.array([[1.0], [0.5]])
        >>> fp.Poisson().statistics({"rate": np.array([1.0])}, x, flow)
        {'count': array([1.5]), 'sum': array([4.])}

        Linear in `flow`, so that they add up over rows, batches and machines. They belong to the `parameters` at which they are
        taken, and may depend on them: a family that is no exponential family gives the expected statistics of one step of an
        inner EM, or sums of derivatives for a Newton step.

        Parameters
        ----------
        parameters
            Name -> array with the units first.
        x
            `[N]`: values; NaN where missing.
        flow
            `[N, K]`: the weight of each value for each unit. It may be negative, in the gradient of a penalty.

        Returns
        -------
        dict
            Name -> array with the units first.
        """
        raise self.lacks("statistics")

    def statistics_between(self, parameters: Parameters, start: Array, end: Array, flow: Array) -> Statistics:
        """The expected `statistics` of values that are only known to lie in intervals.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> units = {"mean": np.array([0.0]), "variance": np.array([1.0])}
        >>> found = fp.Gaussian().statistics_between(units, np.array([0.0]), np.array([np.inf]), np.array([[1.0]]))
        >>> found["deviation"].round(3).tolist()
        [0.798]

        Parameters
        ----------
        parameters
            Name -> array with the units first.
        start, end
            `[N]`: from where to where; may be infinite.
        flow
            `[N, K]`: how much of each interval each unit has to explain.

        Returns
        -------
        dict
            Name -> array with the units first.
        """
        raise self.lacks("statistics_between")

    def update(self, parameters: Parameters, statistics: Statistics, pseudocount: float = 0.0) -> dict[str, Array]:
        """Parameters that maximise, or at least raise, Σ flow · log density; a unit without flow keeps its own.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> units = {"rate": np.array([1.0])}
        >>> fp.Poisson().update(units, {"count": np.array([2.0]), "sum": np.array([6.0])})
        {'rate': array([3.])}

        Parameters
        ----------
        parameters
            Name -> array with the units first.
        statistics
            What `statistics` returns, or a sum of such.
        pseudocount
            Number of additional observations, spread evenly over the values of a family that has finitely many.

        Returns
        -------
        dict
            Name -> array with the units first.
        """
        raise self.lacks("update")

    def in_batch(self, share: float) -> Self:
        """The family as `update` takes it for a batch with this share of all rows: a prior of its own counts for as much less.

        >>> import flatpc as fp
        >>> fp.MultivariateGaussian(2, pooled=30.0).in_batch(0.1).pooled
        3.0

        Parameters
        ----------
        share
            Above 0.

        Returns
        -------
        Self
            The same, unless it has such a prior.
        """
        return self

    def kernels(self, whole: Parameters, found: Statistics, x: Array, share: float) -> dict[str, Array]:
        """One unit for each value, around it; here: fitted to the value and, with the weight `share`, to all values.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> coin, x = {"p": np.array([0.5])}, np.array([1.0, 1.0, 0.0, 0.0])
        >>> found = fp.Bernoulli().statistics(coin, x, np.full((4, 1), 0.25))
        >>> fp.Bernoulli().kernels(coin, found, x, 0.2)["p"].tolist()
        [0.9, 0.9, 0.1, 0.1]

        Parameters
        ----------
        whole
            Parameters of one unit that is fitted to all values.
        found
            Its `statistics` of all values, whose weights add up to 1.
        x
            `[N]`: values; NaN where missing, for which a unit is fitted to all values alone.
        share
            Above 0 and up to 1. Of a family with a location and a variance, the kernel's variance relative to that of all values.

        Returns
        -------
        dict
            Name -> array with the units first.
        """
        units = {name: np.repeat(value, len(x), axis=0) for name, value in whole.items()}
        own = self.statistics(units, x, (1 - share) * np.eye(len(x)))
        return self.update(units, {name: value + share * found[name] for name, value in own.items()})

    def interpolate(self, old: Parameters, new: Parameters, step: float | Array) -> dict[str, Array]:
        """Parameters between `old` (step 0) and `new` (step 1).

        >>> import numpy as np
        >>> import flatpc as fp
        >>> fp.Poisson().interpolate({"rate": np.array([1.0])}, {"rate": np.array([3.0])}, 0.5)
        {'rate': array([2.])}

        Here: their average, which is right for *mean parameters* of an exponential family (probabilities, a mean, a rate): then
        no step lowers the expected log-likelihood.

        Parameters
        ----------
        old, new
            Name -> array with the units first.
        step
            One number, or `[K]`.

        Returns
        -------
        dict
            Name -> array with the units first.
        """
        out = {}
        for name, value in old.items():
            share = np.reshape(step, np.shape(step) + (1,) * (value.ndim - np.ndim(step)))
            out[name] = (1 - share) * value + share * new[name]
        return out

    def restate(self, statistics: Statistics, old: Parameters, new: Parameters) -> Statistics:
        """Statistics taken at `old` as if taken at `new`, for averages over steps; here: unchanged, as sufficient ones are.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> taken = {"count": np.array([2.0]), "sum": np.array([6.0])}
        >>> fp.Poisson().restate(taken, {"rate": np.array([1.0])}, {"rate": np.array([3.0])}) == taken
        True

        Parameters
        ----------
        statistics
            What `statistics` returns, or a sum of such.
        old, new
            Name -> array with the units first.

        Returns
        -------
        dict
            Statistics of the same names and shapes.
        """
        return statistics

    def count(self, statistics: Statistics) -> Array:
        """The flow that has gone into statistics; here: the one called `"count"`.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> fp.Bernoulli().count({"counts": np.array([[2.0, 1.0]])}).tolist()
        [3.0]

        Parameters
        ----------
        statistics
            What `statistics` returns, or a sum of such.

        Returns
        -------
        array
            `[K]`.
        """
        if "count" not in statistics:
            raise self.lacks("count")
        return statistics["count"]
