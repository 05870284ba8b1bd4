"""Successes among trials."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, expit, gammaln, logit, xlog1py, xlogy

from flatpc._options import put, whole_number
from flatpc._typing import Array
from flatpc.errors import OptionError
from flatpc.families.base import Family, Parameters, Statistics, check_probability, count_and_sum, masked, ratio
from flatpc.families.counts import entropy_of_counts, quantile_of_counts, torch_count_and_sum


@dataclass(frozen=True)
class Binomial(Family):
    """Number of successes in `n` trials. Parameters of a unit: `p [K]`.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> fp.Binomial(10).mean({"p": np.array([0.25])}).tolist()
    [2.5]

    Parameters
    ----------
    n
        Number of trials.

    Raises
    ------
    OptionError
        Unless `n` is a positive whole number.
    """

    n: int = 1
    names: ClassVar[tuple[str, ...]] = ("p",)
    n_beyond_largest: ClassVar[int | None] = 0
    statistic_names: ClassVar[tuple[str, ...]] = ("count", "sum")
    native: ClassVar[str | None] = "binomial"

    def __post_init__(self) -> None:
        put(self, n=whole_number("Binomial: n", self.n, 1, why="the number of trials"))

    @property
    def n_categories(self) -> int:
        """0 to n."""
        return self.n + 1

    @property
    def trials(self) -> int:
        """The option n."""
        return self.n

    @classmethod
    def for_parameters(cls, values: Sequence[Any]) -> Family:
        """None: a probability doesn't tell the number of trials."""
        raise OptionError("'binomial' leaves open how many trials there are; give fp.Binomial(n=...) instead.")

    def check_parameters(self, parameters: Parameters, where: str) -> None:
        """Probabilities."""
        check_probability(parameters["p"], where)

    def initialize(self, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        """Uniform between 0.1 and 0.9."""
        return {"p": rng.uniform(0.1, 0.9, width)}

    def log_density(self, parameters: Parameters, x: Array) -> Array:
        """Of the binomial distribution; 0 where x is NaN."""
        value, seen = masked(x)
        p, k = parameters["p"], value[:, None]
        log_choose = gammaln(self.n + 1) - gammaln(k + 1) - gammaln(self.n - k + 1)
        return np.where(seen[:, None], log_choose + xlogy(k, p) + xlog1py(self.n - k, -p), 0.0)

    def statistics(self, parameters: Parameters, x: Array, flow: Array) -> Statistics:
        """Flow, and flow times value."""
        return count_and_sum(x, flow)

    def update(self, parameters: Parameters, statistics: Statistics, pseudocount: float = 0.0) -> dict[str, Array]:
        """The share of successes."""
        trials = self.n * statistics["count"] + pseudocount
        return {"p": ratio(statistics["sum"] + pseudocount / 2, trials, parameters["p"])}

    def unconstrain(self, parameters: Parameters) -> dict[str, Array]:
        """Log-odds."""
        return {"p": logit(np.clip(parameters["p"], 1e-12, 1 - 1e-12))}

    def constrain(self, free: Parameters) -> dict[str, Array]:
        """1 / (1 + exp(-z))."""
        return {"p": expit(free["p"])}

    def gradient(self, parameters: Parameters, statistics: Statistics) -> dict[str, Array]:
        """Successes less those expected."""
        return {"p": statistics["sum"] - self.n * statistics["count"] * parameters["p"]}

    def derivatives(self, parameters: Parameters, x: Array) -> tuple[Array, Array]:
        """By the chain rule."""
        p = parameters["p"]
        value, seen = masked(x)
        first = value[:, None] - self.n * p
        second = np.broadcast_to(-self.n * p * (1 - p), first.shape)
        return (first * seen[:, None])[:, :, None], (second * seen[:, None])[:, :, None, None]

    def mode(self, parameters: Parameters) -> Array:
        """(n + 1) p, rounded down."""
        return np.minimum(np.floor((self.n + 1) * parameters["p"]), self.n)

    def mean(self, parameters: Parameters) -> Array:
        """N p."""
        return np.asarray(self.n * parameters["p"])

    def variance(self, parameters: Parameters) -> Array:
        """N p (1 - p)."""
        return np.asarray(self.n * parameters["p"] * (1 - parameters["p"]))

    def entropy(self, parameters: Parameters) -> Array:
        """Summed over all values."""
        return entropy_of_counts(self, parameters, self.n)

    def cdf(self, parameters: Parameters, x: Array) -> Array:
        """By the incomplete beta function."""
        k = np.clip(np.floor(np.asarray(x, np.float64)), -1, self.n)[:, None]
        return np.where(k < 0, 0.0, bdtr(np.maximum(k, 0.0), self.n, parameters["p"]))

    def quantile(self, parameters: Parameters, q: Array) -> Array:
        """By bisection of the cdf."""
        return quantile_of_counts(self, parameters, q)

    def sample(self, parameters: Parameters, units: NDArray[np.int64], rng: np.random.Generator) -> Array:
        """NumPy's."""
        return rng.binomial(self.n, parameters["p"][units]).astype(np.float64)

    def outside(self, x: Array) -> NDArray[np.bool_]:
        """Whatever is not one of the whole numbers."""
        value, seen = masked(x)
        return np.asarray(seen & ((value < 0) | (value > self.n) | (value != np.floor(value))))

    def support(self) -> str:
        """The values in words."""
        return f"the whole numbers 0 to {self.n}"

    def torch_density(self, parameters: Mapping[str, Any], x: Any) -> tuple[Any, Any]:
        """Mantissa and scale: derivatives are right also at p = 0, where the logarithm has none."""
        import torch

        p, rest = parameters["p"], self.n - x
        q = 1 - p
        # Each power is written (p / a)^k · a^k with a = p detached; at p = 0 it is 0^k, whose derivative is right as it is.
        a = torch.where(p > 0, p, 1.0).detach()
        b = torch.where(q > 0, q, 1.0).detach()
        up = torch.where(x > 0, p / a, 1.0) ** x
        down = torch.where(rest > 0, q / b, 1.0) ** rest
        choose = math.lgamma(self.n + 1) - torch.lgamma(x + 1) - torch.lgamma(rest + 1)
        return up * down, choose + x * a.log() + rest * b.log()

    def torch_log_density(self, parameters: Mapping[str, Any], x: Any) -> Any:
        """From `torch_density`."""
        mantissa, scale = self.torch_density(parameters, x)
        return mantissa.log() + scale

    def torch_statistics(self, parameters: Mapping[str, Any], x: Any, flow: Any) -> dict[str, Any]:
        """The same."""
        return torch_count_and_sum(x, flow)
