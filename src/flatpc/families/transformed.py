"""Numbers that are simple after a monotone map."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from flatpc._options import instance
from flatpc._typing import Array
from flatpc.errors import OptionError
from flatpc.families.base import Family, Parameters, Statistics
from flatpc.families.transforms import Log, Transform
from flatpc.families.wrapping import Wrapping, refuse_unsuited

_REACH = np.pi / 2 * np.sinh(np.linspace(-3.15, 3.15, 101))
NODES: Array = expit(2 * _REACH)
"""Points of [0, 1] with which integrals between two corners of a map are exact to nine digits."""
NODE_WEIGHTS: Array = np.cosh(np.linspace(-3.15, 3.15, 101)) / np.cosh(_REACH) ** 2
NODE_WEIGHTS /= NODE_WEIGHTS.sum()
GOLDEN = (np.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class Transformed(Wrapping):
    """Numbers that have a simple distribution after a monotone map: t(x) has that of a family.

    The density of x is the family's at t(x), times t'(x). Parameters of a unit are the family's own; the map is an option, the
    same for all units. EM, Adam and sampling are the family's at t(x).

    >>> import flatpc as fp
    >>> import numpy as np
    >>> unit = {"mean": np.array([0.0]), "variance": np.array([1.0])}
    >>> log_normal = fp.Transformed(fp.Gaussian(), fp.families.Log())
    >>> np.exp(log_normal.log_density(unit, np.array([1.0, 2.0])))[:, 0].round(3).tolist()
    [0.399, 0.157]

    Parameters
    ----------
    family
        A continuous family of all numbers.
    transform
        `fp.families.Log`, `YeoJohnson` or `Quantiles`.

    Raises
    ------
    OptionError
        If the family is discrete, has atoms, is over several variables, or has bounds: values of the map would fall outside.
    """

    transform: Transform = field(default_factory=Log)

    def __post_init__(self) -> None:
        instance("Transformed: family", self.family, Family, "a continuous family, such as fp.Gaussian()")
        refuse_unsuited("Transformed", self.family)
        instance("Transformed: transform", self.transform, Transform, "a map, such as fp.families.Log()")
        if self.family.discrete or np.isfinite(self.family.bounds).any():
            raise OptionError(
                f"Transformed: family is {self.family}; give a continuous one of all numbers, such as fp.Gaussian()."
            )

    discrete = False

    def outside(self, x: Array) -> NDArray[np.bool_]:
        """Values that the map doesn't take."""
        return np.asarray(np.isinf(x) | (x <= self.transform.low))

    def support(self) -> str:
        """The values in words."""
        low = self.transform.low
        return "finite numbers" if low == -np.inf else f"numbers above {low:g}"

    @property
    def bounds(self) -> tuple[float, float]:
        """The map's own."""
        return self.transform.low, np.inf

    # ---- the family's own at t(x) ---------------------------------------------------------------------------------------

    def initialize_from(self, x: Array, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        """The family's own."""
        return self.family.initialize_from(self.transform.forward(x), width, rng, spread)

    def log_density(self, parameters: Parameters, x: Array) -> Array:
        """`log q(t(x)) + log t'(x)`; 0 where x is NaN."""
        possible = ~self.outside(x)
        inside = np.where(possible & ~np.isnan(x), x, self.transform.inverse(np.zeros(1))[0])
        logs = self.family.log_density(parameters, self.transform.forward(inside)) + self.transform.log_slope(inside)[:, None]
        return np.where(np.isnan(x)[:, None], 0.0, np.where(possible[:, None], logs, -np.inf))

    def statistics(self, parameters: Parameters, x: Array, flow: Array) -> Statistics:
        """The family's own."""
        return self.family.statistics(parameters, self.transform.forward(x), flow)

    # ---- answers ----------------------------------------------------------------------------------------------------------

    def cdf(self, parameters: Parameters, x: Array) -> Array:
        """The family's own at t(x)."""
        x = np.asarray(x, np.float64)
        below = x <= self.transform.low
        inside = self.transform.forward(np.where(below | np.isinf(x), self.transform.inverse(np.zeros(1))[0], x))
        found = self.family.cdf(parameters, np.where(np.isposinf(x), np.inf, np.where(below, -np.inf, inside)))
        return np.asarray(found)

    def quantile(self, parameters: Parameters, q: Array) -> Array:
        """The x whose t(x) is the family's."""
        return self.transform.inverse(self.family.quantile(parameters, q))

    def sample(self, parameters: Parameters, units: NDArray[np.int64], rng: np.random.Generator) -> Array:
        """The x whose t(x) are the family's."""
        return self.transform.inverse(self.family.sample(parameters, units, rng))

    def mode(self, parameters: Parameters) -> Array:
        """By golden section between quantiles: around the most probable of them."""
        grid = self.quantile(parameters, np.linspace(0.0005, 0.9995, 1000))
        units = [{name: value[k : k + 1] for name, value in parameters.items()} for k in range(grid.shape[1])]
        out = []
        for k, one in enumerate(units):
            best = int(np.argmax(self.log_density(one, grid[:, k])[:, 0]))
            low, high = grid[max(best - 1, 0), k], grid[min(best + 1, len(grid) - 1), k]
            for _ in range(60):
                inner = np.array([high - GOLDEN * (high - low), low + GOLDEN * (high - low)])
                left, right = self.log_density(one, inner)[:, 0]
                low, high = (low, inner[1]) if left >= right else (inner[0], high)
            out.append((low + high) / 2)
        return np.array(out)

    def _expected(self, parameters: Parameters, f: Callable[[Array, int], Array]) -> Array:
        """`[K]`: the mean of f(x, unit), by quadrature over probabilities between the corners of the map."""
        corners = self.cdf(parameters, np.array(self.transform.corners)) if self.transform.corners else np.empty((0, 1))
        out = []
        for k in range(len(next(iter(parameters.values())))):
            one = {name: value[k : k + 1] for name, value in parameters.items()}
            edges = np.concatenate([[0.0], corners[:, k] if len(corners) else [], [1.0]])
            width = np.diff(edges)
            # Beyond the last number below 1 there is no tail worth counting.
            q = np.clip(edges[:-1, None] + width[:, None] * NODES, 1e-300, 1 - 1e-16)
            out.append((width[:, None] * NODE_WEIGHTS).ravel() @ f(self.quantile(one, q.ravel())[:, 0], k))
        return np.array(out)

    def mean(self, parameters: Parameters) -> Array:
        """By quadrature."""
        return self._expected(parameters, lambda x, _: x)

    def variance(self, parameters: Parameters) -> Array:
        """By quadrature."""
        mean = self.mean(parameters)
        return self._expected(parameters, lambda x, k: (x - mean[k]) ** 2)

    def entropy(self, parameters: Parameters) -> Array:
        """The family's own, less the mean of log t'(x), by quadrature."""
        return self.family.entropy(parameters) - self._expected(parameters, lambda x, _: self.transform.log_slope(x))

    def rescaled(self, parameters: Parameters, shift: float, scale: float) -> tuple[Transformed, dict[str, Array]]:
        """Another map; the same parameters."""
        return replace(self, transform=self.transform.rescaled(shift, scale)), dict(parameters)
