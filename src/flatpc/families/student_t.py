"""Numbers with outliers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, digamma, stdtr, stdtrit

from flatpc._options import number, put
from flatpc._typing import Array
from flatpc.families.base import Cost, Parameters, Statistics, ratio
from flatpc.families.location_scale import LocationScale
from flatpc.families.solving import shape_of_gamma

LEAST_DOF = 0.1


@dataclass(frozen=True)
class StudentT(LocationScale):
    """Student's t, for columns with outliers. Parameters of a unit: `location [K]`, `scale [K]`, `dof [K]`.

    The fewer the degrees of freedom, the heavier the tails. Where they are too few for a mean (1 or less) or a variance (2 or
    less), these are the location and infinity.

    >>> import flatpc as fp
    >>> import numpy as np
    >>> unit = {"location": np.array([0.0]), "scale": np.array([1.0]), "dof": np.array([1.0])}
    >>> float((np.pi * np.exp(fp.StudentT().log_density(unit, np.array([0.0])))).round(12)[0, 0])
    1.0

    Parameters
    ----------
    min_scale
        Learning keeps every scale at this or more.
    max_dof
        And degrees of freedom at this or less.

    Raises
    ------
    OptionError
        If `min_scale` is not positive, or `max_dof` not above 0.1.
    """

    max_dof: float = 200.0
    names: ClassVar[tuple[str, ...]] = ("location", "scale", "dof")
    statistic_names: ClassVar[tuple[str, ...]] = (*LocationScale.statistic_names, "logs")
    cost: ClassVar[Cost] = Cost(update=2e4)

    def __post_init__(self) -> None:
        super().__post_init__()
        what = f"the most degrees of freedom are finite and above {LEAST_DOF:g}"
        put(self, max_dof=number("StudentT: max_dof", self.max_dof, LEAST_DOF, above=True, what=what))

    def initialize(self, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        """Standard normal locations, scales of 1, 4 degrees of freedom."""
        return {**super().initialize(width, rng, spread), "dof": np.full(width, min(4.0, self.max_dof))}

    def weight(self, parameters: Parameters, z: Array) -> Array:
        """(ν + 1) / (ν + z²): the expected precision of the Gaussian that a value comes from."""
        dof = parameters["dof"]
        return np.asarray((dof + 1) / (dof + z**2))

    def log_density(self, parameters: Parameters, x: Array) -> Array:
        """-(ν+1)/2 log(1 + z²/ν) - log(s √ν B(1/2, ν/2)); 0 where x is NaN."""
        dof, z = parameters["dof"], self.standardized(parameters, x)
        with np.errstate(over="ignore"):
            # log(1 + z²/ν) where the square overflows, too
            log_part = np.where(abs(z) < 1e100, np.log1p(z**2 / dof), 2 * np.log(np.maximum(abs(z), 1.0)) - np.log(dof))
        norm = np.log(parameters["scale"]) + np.log(dof) / 2 + betaln(0.5, dof / 2)
        return np.where(np.isnan(x)[:, None], 0.0, -(dof + 1) / 2 * log_part - norm)

    def statistics(self, parameters: Parameters, x: Array, flow: Array) -> Statistics:
        """And flow times the expected log-precision."""
        flow = np.where(np.isnan(x)[:, None], 0.0, flow)
        dof, z = parameters["dof"], self.standardized(parameters, x)
        logs = digamma((dof + 1) / 2) - np.log((dof + z**2) / 2)
        return {**super().statistics(parameters, x, flow), "logs": (flow * logs).sum(axis=0)}

    def update(self, parameters: Parameters, statistics: Statistics, pseudocount: float = 0.0) -> dict[str, Array]:
        """EM with a free scale of the precisions (Liu, Rubin and Wu, 1998), which needs fewer steps than without."""
        count, weight = statistics["count"], statistics["weight"]
        one = np.ones_like(count)
        gap = np.log(np.maximum(ratio(weight, count, one), 1e-300)) - ratio(statistics["logs"], count, 0 * one)
        dof = np.where(count > 0, 2 * shape_of_gamma(gap, LEAST_DOF / 2, self.max_dof / 2), parameters["dof"])
        return {**self.moved(parameters, statistics, weight), "dof": dof}

    def interpolate(self, old: Parameters, new: Parameters, step: float | Array) -> dict[str, Array]:
        """Degrees of freedom by the average of E[log u]."""
        gap = [np.log(p["dof"] / 2) - digamma(p["dof"] / 2) for p in (old, new)]
        shape = shape_of_gamma((1 - step) * gap[0] + step * gap[1], LEAST_DOF / 2, self.max_dof / 2)
        return {**super().interpolate(old, new, step), "dof": 2 * shape}

    def unconstrain(self, parameters: Parameters) -> dict[str, Array]:
        """And z with dof = LEAST_DOF + exp(z)."""
        above = np.maximum(parameters["dof"] - LEAST_DOF, 0.01 * LEAST_DOF)
        return {**super().unconstrain(parameters), "dof": np.log(above)}

    def constrain(self, free: Parameters) -> dict[str, Array]:
        """Back again."""
        dof = np.minimum(LEAST_DOF + np.exp(np.minimum(free["dof"], 600.0)), self.max_dof)
        return {**super().constrain(free), "dof": dof}

    def gradient(self, parameters: Parameters, statistics: Statistics) -> dict[str, Array]:
        """By the chain rule."""
        dof, count = parameters["dof"], statistics["count"]
        by_dof = count * (np.log(dof / 2) + 1 - digamma(dof / 2)) + statistics["logs"] - statistics["weight"]
        slope = np.where(dof < self.max_dof, dof - LEAST_DOF, 0.0)
        return {**super().gradient(parameters, statistics), "dof": by_dof / 2 * slope}

    def mean(self, parameters: Parameters) -> Array:
        """The location."""
        return np.asarray(parameters["location"])

    def variance(self, parameters: Parameters) -> Array:
        """s² ν / (ν - 2)."""
        dof = parameters["dof"]
        return np.where(dof > 2, parameters["scale"] ** 2 * dof / np.where(dof > 2, dof - 2, 1.0), np.inf)

    def entropy(self, parameters: Parameters) -> Array:
        """(ν+1)/2 (ψ((ν+1)/2) - ψ(ν/2)) + log(s √ν B(1/2, ν/2))."""
        dof = parameters["dof"]
        tails = (dof + 1) / 2 * (digamma((dof + 1) / 2) - digamma(dof / 2))
        return np.asarray(tails + np.log(parameters["scale"]) + np.log(dof) / 2 + betaln(0.5, dof / 2))

    def cdf(self, parameters: Parameters, x: Array) -> Array:
        """SciPy's."""
        z = (np.asarray(x, np.float64)[:, None] - parameters["location"]) / parameters["scale"]
        return np.asarray(stdtr(parameters["dof"], z))

    def quantile(self, parameters: Parameters, q: Array) -> Array:
        """SciPy's, whose quantile of 0 is at the wrong end."""
        q = np.asarray(q, np.float64)[:, None]
        z = np.where(q == 0, -np.inf, stdtrit(parameters["dof"], q))
        return np.asarray(parameters["location"] + parameters["scale"] * z)

    def noise(self, parameters: Parameters, units: NDArray[np.int64], rng: np.random.Generator) -> Array:
        """NumPy's."""
        return rng.standard_t(parameters["dof"][units])

    def torch_log_density(self, parameters: Mapping[str, Any], x: Any) -> Any:
        """The same."""
        import torch

        dof, scale = parameters["dof"], parameters["scale"]
        z = (x - parameters["location"]) / scale
        far = z.detach().abs() >= 1e100
        near = torch.log1p(torch.where(far, 0.0, z) ** 2 / dof)
        log_part = torch.where(far, 2 * torch.log(torch.where(far, z, 1.0).abs()) - torch.log(dof), near)
        norm = torch.lgamma(dof / 2) - torch.lgamma((dof + 1) / 2) + torch.log(scale) + torch.log(dof * torch.pi) / 2
        return -(dof + 1) / 2 * log_part - norm
